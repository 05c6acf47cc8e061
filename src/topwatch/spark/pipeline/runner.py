"""``topwatch run``: a pipeline on Spark, from its source to its sink, until it is stopped or has read all there is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from topwatch.spark.node import class_data
from topwatch.spark.pipeline.checkpoint import changes_of, check_begun, partitions_of, record
from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.launch import ANYWHERE, FILES, LOG, start_spark
from topwatch.spark.pipeline.progress import UNREAD, Interrupts, RunError, View, cause, follow
from topwatch.spark.pipeline.sinks import ONCE, start, start_quarantine
from topwatch.spark.pipeline.sources import open_source
from topwatch.spark.pipeline.text_rows import PROBLEM, RAW
from topwatch.spark.source_frames import chunks, spark_interval, with_instants
from topwatch.spark.state.folder import files_in
from topwatch.spark.state.manifest import PARTITIONS
from topwatch.spark.watching import watch


def run(
    pipeline: Pipeline,
    view: View,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    once: bool = False,
) -> None:
    """Run a pipeline until it ends, and show its progress in a view; Ctrl-C stops it cleanly, an error is one line.

    Parameters
    ----------
    pipeline : Pipeline
        What to run.
    view : View
        What shows the run.
    master, conf
        Where Spark runs, and its settings, before those of the file.
    once : bool
        Read what there is now, then stop.
    """
    _check_folders(pipeline)
    check_begun(pipeline)
    failed = False
    try:
        with Interrupts() as interrupts:
            view.phase("starting Spark")
            spark = session(pipeline, master, conf or {})
            interrupts.hold()
            try:
                _watch(spark, pipeline, view, once, interrupts)
            finally:
                view.phase("stopping Spark")
                spark.stop()
    except (RunError, PySparkException, Py4JError, ConnectionError) as error:
        failed = True
        if isinstance(error, RunError):
            message = str(error)
        elif isinstance(error, ConnectionError | Py4JNetworkError):
            message = "run: Spark's process has ended"
        else:
            message = f"run: {cause(str(error))}"
        raise RunError(f"{message}; Spark's own log is {LOG}") from None
    finally:
        if not failed:
            with suppress(FileNotFoundError):
                os.remove(LOG)


def _check_folders(pipeline: Pipeline) -> None:
    """Refuse folders that Spark may open but Arrow, which the state and refused rows are written with, does not."""
    for field in ("checkpoint", "quarantine"):
        folder = getattr(pipeline, field)
        try:
            if folder is not None:
                files_in(folder)
        except (pa.ArrowException, OSError) as error:
            raise RunError(f"{field}: {folder!r} cannot be opened: {str(error).splitlines()[0]}") from None


def _watch(spark: SparkSession, pipeline: Pipeline, view: View, once: bool, interrupts: Interrupts) -> None:
    view.phase("starting the query")
    query, unread = begin(spark, pipeline, once)
    try:
        follow(query, view, pipeline.segments, unread, lambda: interrupts.received)
        if query.recentProgress:
            class_data.keep()
    finally:
        view.phase("stopping")
        for active in (query, unread):
            if active is not None and active.isActive:
                active.stop()


def session(pipeline: Pipeline, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start Spark for a pipeline; the settings of the file and of the command line come on top of ours."""
    settings = {} if pipeline.by else {PARTITIONS: "1"}  # one window, one task
    if pipeline.checkpoint is not None and "://" in pipeline.checkpoint:
        settings[FILES] = ANYWHERE
    return start_spark(master, settings, {**pipeline.spark, **conf}, console=pipeline.sink.kind == "console")


def begin(spark: SparkSession, pipeline: Pipeline, once: bool) -> tuple[StreamingQuery, StreamingQuery | None]:
    """Start a pipeline; return its query, and the one that writes rows that could not be read."""
    source = open_source(spark, pipeline.source.chosen)
    rows = source.frame
    if RAW in rows.columns:
        rows = rows.observe(UNREAD, sf.count(PROBLEM).alias("rows"))
    rows = rows.where(f"{PROBLEM} IS NULL").drop(PROBLEM, RAW)
    rows = with_instants(rows, pipeline.time)
    if pipeline.lateness is not None and pipeline.time is not None:
        rows = rows.withWatermark(pipeline.time, spark_interval("lateness", pipeline.lateness, "millisecond"))
    order = source.order
    if pipeline.chunks is not None and pipeline.time is not None:
        parts = {part: getattr(pipeline.chunks, part) for part in ("every", "source", "value", "combine")}
        rows = chunks(rows, time=pipeline.time, id=pipeline.id, by=pipeline.by, **parts)
        order = (pipeline.id, pipeline.chunks.source)
    bad = pipeline.quarantine
    checkpoint = changes_of(pipeline)
    kept = partitions_of(checkpoint) if checkpoint is not None else None
    if kept is not None:
        spark.conf.set(PARTITIONS, kept)  # groups stay in the buckets that have their windows
    result = watch(
        rows,
        pipeline.standing_queries(),
        pipeline.window.build(),
        time=pipeline.time,
        id=pipeline.id,
        by=pipeline.by or None,
        every=pipeline.every,
        algorithm=pipeline.algorithm,
        emit=pipeline.emit,
        segments=pipeline.segments,
        order=order or None,
        quarantine=f"{bad}/refused" if bad is not None else None,
        **pipeline.options,
    )
    record(pipeline)
    trigger = ONCE if once else _trigger(pipeline)
    query = start(result, pipeline.sink.chosen, checkpoint, "topwatch", trigger)
    unread = None
    if bad is not None and checkpoint is not None:
        unread = start_quarantine(source.frame, f"{bad}/unread", f"{pipeline.checkpoint}/unread", trigger)
    return query, unread


def _trigger(pipeline: Pipeline) -> str | None:
    return None if pipeline.trigger is None else spark_interval("trigger", pipeline.trigger, "millisecond")
