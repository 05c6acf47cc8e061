"""Runs of pipelines that are killed at bad moments, and what they should have written: ``make kills``."""
