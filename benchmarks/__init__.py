"""Generated data, the papers' experiments and the peers."""
