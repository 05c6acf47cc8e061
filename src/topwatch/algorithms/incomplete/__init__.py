"""Queries over objects whose parts come in rows of their own: one algorithm, one file."""
