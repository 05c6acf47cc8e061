"""Queries that count dominated rows: one algorithm, one file."""
