"""Compiled functions of the top-k algorithms."""
