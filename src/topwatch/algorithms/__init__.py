"""One algorithm, one file, by the paper's name. ``monitor/planner.py`` chooses among them."""
