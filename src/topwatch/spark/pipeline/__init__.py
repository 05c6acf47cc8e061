"""Pipelines: from a YAML file to a running query."""
