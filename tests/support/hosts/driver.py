"""The driver of a run on several hosts: watches streams one after the other, as a job file lists them.

Rows pass a *gate* before and after the operator, a filter that keeps all of them, notes down which task runs where, and
holds a task up for as long as the job wants: so a test knows that a micro-batch is under way when it does its harm.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SIDES = ("before", "after")  # the operator: in the stage that packs rows, and in that which keeps windows
HELD = "held"  # the file that names the task
SLOW = "Python worker failed to connect back"  # Spark gives Python 10 s to start, which can be short on a busy machine
TRIES = 3  # after that error
LIMIT = 1200.0  # seconds for which a task is held at most


def gate(folder: str, side: str, holds: list[dict[str, Any]]) -> Callable[..., Any]:
    """Return the filter.

    Parameters
    ----------
    folder : str
        Each task leaves an empty file there, whose name says what it is (:func:`task_of`). The first task that can be
        held leaves its name in one called ``held``, and waits until there is one called ``go``.
    side : str
        Of the operator.
    holds : list of dict
        Tasks that can be held: values of :func:`task_of` that they have.
    """
    import pandas as pd
    from pyspark import TaskContext
    from pyspark.sql.functions import pandas_udf

    def keep(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
        context = TaskContext.get()
        assert context is not None
        mark = {
            "side": side,
            "batch": int(context.getLocalProperty("streaming.sql.batchId") or 0),
            "partition": context.partitionId(),
            "attempt": context.attemptNumber(),
            "pid": os.getpid(),
            "host": os.environ["SPARK_LOCAL_IP"],
        }
        name = ",".join(f"{name}={value}" for name, value in mark.items())
        Path(folder, name).touch()
        for part in parts:
            if any(hold.items() <= mark.items() for hold in holds) and first(folder, name):
                wait_for_file(folder, "go")
            yield pd.Series(True, index=part.index)

    # An annotation would be looked up in this module, where pandas is not.
    keep.__annotations__ = {"parts": Iterator[pd.Series], "return": Iterator[pd.Series]}
    # Spark would move a deterministic filter to where it likes it better.
    return pandas_udf(keep, "boolean").asNondeterministic()  # type: ignore[call-overload, no-any-return]


def first(folder: str, name: str) -> bool:
    """Tell whether this task is the first one that could be held: the others find its file."""
    try:
        with Path(folder, HELD).open("x") as file:
            file.write(name)
    except FileExistsError:
        return False
    return True


def wait_for_file(folder: str, name: str) -> None:
    """Return when there is a file, or after a while without."""
    end = time.monotonic() + LIMIT
    while not Path(folder, name).exists() and time.monotonic() < end:
        time.sleep(0.02)


def task_of(mark: str) -> dict[str, Any]:
    """Read the name of a task's file: side, batch, partition, attempt, pid and host."""
    parts = dict(part.split("=") for part in mark.split(","))
    return {name: int(value) if value.isdecimal() else value for name, value in parts.items()}


def watch(spark: Any, run: dict[str, Any]) -> str:
    """Watch one stream to its end; return what went wrong, or nothing."""
    from pyspark.errors import StreamingQueryException

    import topwatch as tw
    from tests.support.hosts.streams import FILES, STREAMS

    stream, folder = STREAMS[run["stream"]], run["folder"]
    spark.conf.set("spark.sql.shuffle.partitions", str(run["partitions"]))
    schema = spark.read.parquet(f"{folder}/rows").schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES).parquet(f"{folder}/rows")
    before, after = (gate(f"{folder}/tasks", side, run["holds"]) for side in SIDES)
    changes = tw.spark.watch(
        source.where(before("id")),
        list(stream.queries),
        by=stream.by,
        segments=f"{folder}/segments" if run["backend"] == "files" else None,
        **stream.settings,
    )
    writer = changes.where(after("at")).writeStream.format("parquet").option("path", f"{folder}/out")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    for _ in range(TRIES):
        try:
            writer.start().awaitTermination()
            return ""
        except StreamingQueryException as raised:
            error = str(raised)
        if SLOW not in error:
            break
    return error


def main(file: str) -> None:
    """Do a job: its runs, each with a file ``ended`` at the end that has the error, if there was one."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    import topwatch as tw

    job = json.loads(Path(file).read_text())
    conf = SparkConf().setAll(list({**tw.spark.SETTINGS, **job["conf"]}.items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        for run in job["runs"]:
            if run["begins"] is not None:
                wait_for_file(run["folder"], run["begins"])
            try:
                error = watch(spark, run)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
            ended = Path(run["folder"], run["ended"])
            ended.with_suffix(".new").write_text(error)
            ended.with_suffix(".new").rename(ended)
    finally:
        spark.stop()


if __name__ == "__main__":
    from tests.support.hosts import driver  # executors import it by this name

    driver.main(sys.argv[1])
