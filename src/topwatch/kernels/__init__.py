"""Compiled functions over arrays. They see numbers and slots, never ids, names or Python objects."""
