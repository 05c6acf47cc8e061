"""Compiled functions of the algorithms that count dominated rows."""
