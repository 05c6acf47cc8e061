"""Skylines: one algorithm, one file."""
