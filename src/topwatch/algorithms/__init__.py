"""Algorithms by family, named as their papers name them; ``registry.py`` has the entries of all."""
