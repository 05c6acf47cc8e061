"""``python -m topwatch``, and what ``spark-submit`` is given: the command line."""

from topwatch.cli import main

if __name__ == "__main__":
    main()
