"""The best rows of a table that is there all at once: no window, and nothing to keep up to date."""
