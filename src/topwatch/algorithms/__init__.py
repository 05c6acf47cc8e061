"""Algorithms by family: one algorithm, one file, by the paper's name. ``registry.py`` knows them all."""
