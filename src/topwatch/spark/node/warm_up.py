"""Python workers are made ready while Spark plans a stream's first micro-batch.

A worker loads Arrow, Numba and this package before its first rows, which takes a second, and until then Spark
is busy on one core only. So a job that does nothing else is started as soon as a stream is watched. The workers that it
leaves behind are those that the stream gets.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SHORT = "SPARK_SIMPLIFIED_TRACEBACK"
NEEDED = (
    "topwatch.spark.operator.partition_writer",
    "topwatch.spark.operator.processor",
    "topwatch.spark.operator.stateful",
    "topwatch.spark.node.peers",
)

_warmed: set[str] = set()  # ids of Spark applications


def warm_up(spark: SparkSession) -> None:
    """Let Python workers load their code, once in an application; returns at once."""
    context = spark.sparkContext
    # Spark tells only some of the processes to shorten tracebacks, and would start others for the rest.
    context.environment.setdefault(SHORT, "1")
    if context.applicationId is None or context.applicationId in _warmed:
        return
    _warmed.add(context.applicationId)
    threading.Thread(target=_run, args=(context,), name="topwatch-warm-up", daemon=True).start()


def _run(context: SparkContext) -> None:
    with suppress(Exception):  # nothing depends on it, and Spark may be stopped meanwhile
        context.setLocalProperty("spark.job.description", "topwatch: Python workers load their code")
        tasks = context.defaultParallelism
        context.parallelize(range(tasks), tasks).foreachPartition(_load)


def _load(rows: Iterable[Any]) -> None:
    for name in NEEDED:
        importlib.import_module(name)
