"""Static frames: the best rows of a table on Spark."""
