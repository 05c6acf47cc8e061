"""Compiled functions over the rows of a table."""
