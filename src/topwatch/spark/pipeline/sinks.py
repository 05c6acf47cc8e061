"""Where changes and answers go, and how often a row can turn up there.

``parquet`` and ``jdbc`` have every row once, whatever crashes. ``kafka`` has every row at least once, with what a
reader needs to drop repeats. ``console`` and ``memory`` are for looking at.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from topwatch.query.errors import QueryError
from topwatch.spark.pipeline.config.jars import driver_of
from topwatch.spark.pipeline.config.sink_models import Console, Jdbc, KafkaTopic, Memory, Parquet, SinkPart
from topwatch.spark.pipeline.jdbc import Table, numbered
from topwatch.spark.pipeline.sources import check_connector
from topwatch.spark.pipeline.text_rows import PROBLEM, RAW
from topwatch.spark.session import quoted

ONCE = "once"
QUERY_HEADER = "topwatch-query-id"
BATCH_HEADER = "topwatch-batch"
ROW_HEADER = "topwatch-row"

_POSITION, _ROW = "_position", "_row"  # of a row in its task's result, and among the batch's rows by their values
_QUERY_ID = "sql.streaming.queryId"  # what Spark calls it in the thread of a running query


def start(
    frame: DataFrame, part: SinkPart, checkpoint: str | None, name: str, trigger: str | None = None
) -> StreamingQuery:
    """Start a streaming query that writes a frame to a sink.

    Parameters
    ----------
    frame : DataFrame
        Streaming, of changes or answers.
    part : SinkPart
        The sink as the pipeline's file describes it.
    checkpoint : str or None
        Folder from which a later run continues. ``memory`` does without: its rows end with the run.
    name : str
        Of the query, in Spark's own reports and as the key of Kafka records that name no query themselves.
    trigger : str, optional
        ``"once"``: what there is now, then stop. A duration such as ``"10 seconds"``: how often. None: as fast as
        possible.

    Notes
    -----
    ``parquet`` is Spark's own file sink: exactly once for readers that heed its ``_spark_metadata``, as Spark does.

    ``kafka``: at least once. A record's value is the row as JSON, its key the name of the row's query. Headers
    ``topwatch-query-id``, ``topwatch-batch`` and ``topwatch-row`` name the run of the pipeline, the micro-batch and the
    row in it: a batch that is tried again writes the same rows with the same headers, so a reader drops repeats by
    these three, and not by the value, since two changes may be equal. One query's records of a group stay in order.

    ``jdbc``: exactly once, see :mod:`topwatch.spark.pipeline.jdbc`. It also needs the tables ``<table>_staging`` and
    ``<table>_batches``, and makes those that are missing.
    """
    writer = _WRITERS[type(part)](frame, part, name)
    if not isinstance(part, Memory):
        writer = writer.queryName(name)
        if checkpoint is not None:
            writer = writer.option("checkpointLocation", checkpoint)
    return _triggered(writer.outputMode("append"), trigger).start()


def start_quarantine(frame: DataFrame, path: str, checkpoint: str, trigger: str | None = None) -> StreamingQuery:
    """Start writing the rows of a source that cannot be used to Parquet files.

    Parameters
    ----------
    frame : DataFrame
        A source's frame: rows with a ``_problem``.
    path, checkpoint, trigger
        Folder of the files; as of :func:`start`.

    Notes
    -----
    Columns are ``reason``, ``raw``, the row as it came or else as JSON, and ``batch_time``, when it was met.
    """
    columns = [quoted(column) for column in frame.columns if column != PROBLEM]
    raw = sf.col(RAW) if RAW in frame.columns else sf.to_json(sf.struct(*columns))
    bad = frame.where(sf.col(PROBLEM).isNotNull()).select(
        sf.col(PROBLEM).alias("reason"), raw.alias("raw"), sf.current_timestamp().alias("batch_time")
    )
    writer = bad.writeStream.format("parquet").option("path", path).option("checkpointLocation", checkpoint)
    return _triggered(writer.outputMode("append"), trigger).start()


def _parquet(frame: DataFrame, part: Parquet, name: str) -> DataStreamWriter:
    return frame.writeStream.format("parquet").options(**part.options).option("path", part.path)


def _console(frame: DataFrame, part: Console, name: str) -> DataStreamWriter:
    return frame.writeStream.format("console").options(**{"truncate": "false", **part.options})


def _memory(frame: DataFrame, part: Memory, name: str) -> DataStreamWriter:
    return frame.writeStream.format("memory").queryName(part.table)


def _kafka(frame: DataFrame, part: KafkaTopic, name: str) -> DataStreamWriter:
    check_connector(frame.sparkSession, "sink.kafka")
    options = {**part.options, "kafka.bootstrap.servers": part.servers, "topic": part.topic}
    key = sf.col("query") if "query" in frame.columns else sf.lit(name)
    value = sf.to_json(sf.struct(*[quoted(column) for column in frame.columns]), {"ignoreNullFields": "false"})

    def write(rows: DataFrame, batch: int) -> None:
        known = {QUERY_HEADER: sf.lit(_query_id(rows)), BATCH_HEADER: sf.lit(str(batch)), ROW_HEADER: sf.col(_ROW)}
        headers = sf.array(*[_header(name, text) for name, text in known.items()])
        rows = numbered(rows.withColumn(_POSITION, sf.monotonically_increasing_id()), _ROW)
        records = rows.sortWithinPartitions(_POSITION).select(
            key.alias("key"), value.alias("value"), headers.alias("headers")
        )
        records.write.format("kafka").options(**options).save()

    return frame.writeStream.foreachBatch(write)


def _jdbc(frame: DataFrame, part: Jdbc, name: str) -> DataStreamWriter:
    options = {**part.options, "url": part.url}
    if part.user is not None:
        options["user"] = part.user
    if part.password_env is not None:
        if part.password_env not in os.environ:
            raise QueryError(f"sink.jdbc.password_env: the environment has no variable {part.password_env!r}")
        options["password"] = os.environ[part.password_env]
    if "driver" not in options:
        options["driver"] = driver_of(part.url)
    table = Table(frame.sparkSession, part.table, options)
    return frame.writeStream.foreachBatch(lambda rows, batch: table.write(rows, _query_id(rows), batch))


_WRITERS: dict[type[SinkPart], Callable[[DataFrame, Any, str], DataStreamWriter]] = {
    Parquet: _parquet,
    Console: _console,
    Memory: _memory,
    KafkaTopic: _kafka,
    Jdbc: _jdbc,
}


def _triggered(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    if trigger is None:
        return writer
    return writer.trigger(availableNow=True) if trigger == ONCE else writer.trigger(processingTime=trigger)


def _header(name: str, value: Column) -> Column:
    return sf.struct(sf.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def _query_id(frame: DataFrame) -> str:
    """Return the id in the query's checkpoint: the same after a restart, another one for a new start."""
    query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if query is None:
        raise RuntimeError("not in the thread of a streaming query; set PYSPARK_PIN_THREAD=true")
    return str(query)
