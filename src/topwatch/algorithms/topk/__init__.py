"""Top-k queries: the best rows by a score."""
