"""``topwatch run``: a pipeline on Spark, from its source to its sink, until it is stopped or has read all there is."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from topwatch.errors import TopwatchError
from topwatch.spark.generated import RowsOf
from topwatch.spark.pipeline import building
from topwatch.spark.pipeline.model import Pipeline
from topwatch.spark.sinks import ONCE, start, start_quarantine
from topwatch.spark.sources import open_source
from topwatch.spark.text_rows import PROBLEM, RAW
from topwatch.spark.watching import PROVIDER, ROCKSDB, watch
from topwatch.windows import duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOCAL = "local[*, 4]"  # a task is tried four times, as on a cluster
LOG = os.path.join(tempfile.gettempdir(), f"topwatch-spark-{os.getpid()}.log")  # what Spark says itself
SETTINGS = {
    "spark.app.name": "topwatch",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    PROVIDER: ROCKSDB,
}


class RunError(TopwatchError):
    """A pipeline that stopped because of an error; the message is its cause in one line."""


def session(pipeline: Pipeline, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start Spark for a pipeline; the settings of the file and of the command line come on top of ours."""
    settings = {} if pipeline.by else {"spark.sql.shuffle.partitions": "1"}  # one window, one task
    return start_spark(master, settings, {**pipeline.spark, **conf})


def start_spark(
    master: str | None, settings: Mapping[str, str] | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark with the settings that matter, and some more; those of spark-submit, then ``conf``, come on top."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given, asked = _submitted(), dict(conf or {})
    # What spark-submit was told about where to run is not a file's to change.
    chosen = master or given.get("spark.master") or asked.get("spark.master") or LOCAL
    ours = dict(SETTINGS)
    if chosen.startswith("local"):
        ours["spark.driver.host"] = ours["spark.driver.bindAddress"] = "127.0.0.1"
        ours["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    builder = SparkSession.builder
    for name, value in {**ours, **(settings or {}), **given, **asked, "spark.master": chosen}.items():
        builder = builder.config(name, value)
    with _written_to(LOG):
        return builder.getOrCreate()


def _submitted() -> dict[str, str]:
    """Return the settings that spark-submit was started with; none where it was not."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the Java that spark-submit has started
    found = dict(SparkConf().getAll())
    if found.get("spark.app.name", "").endswith(".py"):
        del found["spark.app.name"]  # nobody chose it: it is the name of the script
    return found


@contextmanager
def _written_to(path: str) -> Iterator[None]:
    """Let what a process started here writes go to a file: Spark's own words are not for the user's screen."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        yield
    finally:
        for number, old in enumerate(kept, 1):
            os.dup2(old, number)
            os.close(old)


def begin(
    spark: SparkSession, pipeline: Pipeline, once: bool, rows_of: RowsOf | None = None
) -> tuple[StreamingQuery, StreamingQuery | None]:
    """Start a pipeline; return its query, and the one that writes rows that could not be read."""
    source = open_source(spark, pipeline.source.kind, pipeline.source.chosen.settings(), rows_of)
    rows = source.frame.where(f"{PROBLEM} IS NULL").drop(PROBLEM, RAW)
    if pipeline.lateness is not None and pipeline.time is not None:
        # In Spark's words: it does not know all of ours.
        rows = rows.withWatermark(pipeline.time, f"{duration('lateness', pipeline.lateness) // 1_000_000} milliseconds")
    bad = pipeline.quarantine
    found = watch(
        rows,
        building.queries(pipeline),
        building.window(pipeline),
        time=pipeline.time,
        id=pipeline.id,
        by=pipeline.by or None,
        every=pipeline.every,
        algorithm=pipeline.algorithm,
        emit=pipeline.emit,
        segments=f"{pipeline.checkpoint}/segments" if pipeline.checkpoint is not None else None,
        order=source.order,
        quarantine=f"{bad}/refused" if bad is not None else None,
        **pipeline.options,
    )
    trigger = ONCE if once else _trigger(pipeline)
    checkpoint = f"{pipeline.checkpoint}/changes" if pipeline.checkpoint is not None else None
    query = start(found, pipeline.sink.kind, pipeline.sink.chosen.settings(), checkpoint, "topwatch", trigger)
    unread = None
    if bad is not None and checkpoint is not None:
        unread = start_quarantine(source.frame, f"{bad}/unread", f"{pipeline.checkpoint}/unread", trigger)
    return query, unread


def follow(query: StreamingQuery, say: Callable[[dict[str, Any]], None], pause: float = 0.2) -> None:
    """Tell the progress of each micro-batch until the query ends; an error becomes one line."""
    last = -1
    while True:
        ended = not query.isActive
        for progress in query.recentProgress:
            if progress["batchId"] > last and progress["numInputRows"] > 0:
                last = progress["batchId"]
                say(dict(progress))
        if ended:
            break
        time.sleep(pause)
    error = query.exception()
    if error is not None:
        raise RunError(f"run: {cause(str(error))}")


def cause(text: str) -> str:
    r"""Find the line that says what went wrong in what Spark says about it.

    >>> cause("[STREAM_FAILED] Query terminated: Traceback\n  File x\ntopwatch.errors.DataError: time went back\n")
    'time went back'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line.partition("Error: ")[2] for line in lines if line.startswith("topwatch.errors.")]
    theirs = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (ours or theirs or lines or ["unknown"])[0]


def _trigger(pipeline: Pipeline) -> str | None:
    if pipeline.trigger is None:
        return None
    return f"{duration('trigger', pipeline.trigger) // 1_000_000} milliseconds"
