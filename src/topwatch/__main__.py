"""``python -m topwatch``, and what ``spark-submit`` is given: the command line."""

from topwatch.cli.main import main

if __name__ == "__main__":
    main()
