"""Compiled functions of skylines."""
