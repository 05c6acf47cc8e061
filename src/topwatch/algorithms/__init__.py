"""One algorithm, one file, by the paper's name. ``plan.py`` chooses among them."""
