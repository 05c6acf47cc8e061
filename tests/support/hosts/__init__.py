"""Spark on several hosts, which are namespaces of this machine: ``make hosts``."""
