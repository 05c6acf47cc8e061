"""Rows to test with: generated, and the same for the same seed."""
