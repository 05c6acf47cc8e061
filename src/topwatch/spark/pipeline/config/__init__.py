"""A pipeline in YAML: read, checked and described in words, without starting Spark."""
