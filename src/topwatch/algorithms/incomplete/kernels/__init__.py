"""Compiled functions of the algorithms for objects whose parts come in rows of their own."""
