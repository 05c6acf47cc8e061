"""Spark's Python workers, found among the processes of this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pyspark.sql import SparkSession


def kill_workers(spark: SparkSession) -> int:
    """Kill Spark's Python workers, so that nothing they held is left; return how many processes that were."""
    jvm = spark._jvm
    assert jvm is not None
    root = int(jvm.java.lang.ProcessHandle.current().pid())
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    killed = 0
    for process, parent in parents.items():
        if parents.get(parent) == root:  # the parent itself starts the workers, and is not one
            os.kill(process, signal.SIGKILL)
            killed += 1
    return killed
