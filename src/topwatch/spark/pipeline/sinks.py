"""Where changes and answers go, and how often a row can turn up there.

``parquet`` and ``jdbc`` have every row once, whatever crashes. ``kafka`` has every row at least once, with what a
reader needs to drop repeats. ``console`` and ``memory`` are for looking at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from topwatch.query.errors import QueryError, nearest_name
from topwatch.spark.column_names import quoted
from topwatch.spark.pipeline.jdbc import Table, driver_of
from topwatch.spark.pipeline.settings import check_connector, needed, text_options
from topwatch.spark.pipeline.text_rows import PROBLEM, RAW

ONCE = "once"
QUERY_HEADER = "topwatch-query-id"
BATCH_HEADER = "topwatch-batch"

_QUERY_ID = "sql.streaming.queryId"  # what Spark calls it in the thread of a running query


def start(
    frame: DataFrame,
    kind: str,
    settings: Mapping[str, Any],
    checkpoint: str | None,
    name: str,
    trigger: str | None = None,
) -> StreamingQuery:
    """Start a streaming query that writes a frame to a sink.

    Parameters
    ----------
    frame : DataFrame
        Streaming, of changes or answers.
    kind : str
        ``parquet``, ``console``, ``memory``, ``kafka`` or ``jdbc``.
    settings : mapping
        ``parquet``: path, options. ``console``: options. ``memory``: table. ``kafka``: servers, topic, options.
        ``jdbc``: url, table, user, password_env, options. A setting that is None counts as left out.
    checkpoint : str or None
        Folder that a later run goes on from. ``memory`` does without: its rows end with the run.
    name : str
        Of the query, in Spark's own reports and as the key of Kafka records that name no query themselves.
    trigger : str, optional
        ``"once"``: what there is now, then stop. A duration such as ``"10 seconds"``: how often. None: as fast as
        possible.

    Notes
    -----
    ``parquet`` is Spark's own file sink: exactly once for readers that heed its ``_spark_metadata``, as Spark does.

    ``kafka``: at least once. A record's value is the row as JSON, its key the name of the row's query. Headers
    ``topwatch-query-id`` and ``topwatch-batch`` say which run of the pipeline and which micro-batch wrote it: a batch
    that is tried again writes the same values with the same headers, so a reader drops repeats by these three. One
    query's records of a group stay in order.

    ``jdbc``: exactly once, see :mod:`topwatch.spark.pipeline.jdbc`. It also needs the tables ``<table>_staging`` and
    ``<table>_batches``, and makes those that are missing.
    """
    if kind not in _KINDS:
        raise QueryError(f"sink: accepted are {', '.join(_KINDS)}, got {kind!r}{nearest_name(kind, _KINDS)}")
    given = {setting: value for setting, value in settings.items() if value is not None}
    writer = _KINDS[kind](frame, given, name)
    if kind != "memory":
        writer = _kept(writer, checkpoint, f"sink.{kind}").queryName(name)
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


def _parquet(frame: DataFrame, settings: Mapping[str, Any], name: str) -> DataStreamWriter:
    path = str(needed(settings, "sink.parquet", "path"))
    return frame.writeStream.format("parquet").options(**text_options(settings)).option("path", path)


def _console(frame: DataFrame, settings: Mapping[str, Any], name: str) -> DataStreamWriter:
    return frame.writeStream.format("console").options(**{"truncate": "false", **text_options(settings)})


def _memory(frame: DataFrame, settings: Mapping[str, Any], name: str) -> DataStreamWriter:
    return frame.writeStream.format("memory").queryName(str(settings.get("table", name)))


def _kafka(frame: DataFrame, settings: Mapping[str, Any], name: str) -> DataStreamWriter:
    options = {
        **text_options(settings),
        "kafka.bootstrap.servers": str(needed(settings, "sink.kafka", "servers")),
        "topic": str(needed(settings, "sink.kafka", "topic")),
    }
    check_connector(frame.sparkSession, "sink.kafka")
    key = sf.col("query") if "query" in frame.columns else sf.lit(name)
    value = sf.to_json(sf.struct("*"), {"ignoreNullFields": "false"})

    def write(rows: DataFrame, batch: int) -> None:
        origin = [_header(QUERY_HEADER, _query_id(rows)), _header(BATCH_HEADER, str(batch))]
        records = rows.select(key.alias("key"), value.alias("value"), sf.array(*origin).alias("headers"))
        records.write.format("kafka").options(**options).save()

    return frame.writeStream.foreachBatch(write)


def _jdbc(frame: DataFrame, settings: Mapping[str, Any], name: str) -> DataStreamWriter:
    options = text_options(settings)
    options["url"] = str(needed(settings, "sink.jdbc", "url"))
    if "user" in settings:
        options["user"] = str(settings["user"])
    if "password_env" in settings:
        variable = str(settings["password_env"])
        if variable not in os.environ:
            raise QueryError(f"sink.jdbc.password_env: the environment has no variable {variable!r}")
        options["password"] = os.environ[variable]
    if "driver" not in options:
        options["driver"] = driver_of(options["url"])
    table = Table(frame.sparkSession, str(needed(settings, "sink.jdbc", "table")), options)
    return frame.writeStream.foreachBatch(lambda rows, batch: table.write(rows, _query_id(rows), batch))


_KINDS: dict[str, Callable[[DataFrame, Mapping[str, Any], str], DataStreamWriter]] = {
    "parquet": _parquet,
    "console": _console,
    "memory": _memory,
    "kafka": _kafka,
    "jdbc": _jdbc,
}


def _kept(writer: DataStreamWriter, checkpoint: str | None, field: str) -> DataStreamWriter:
    if checkpoint is not None:
        return writer.option("checkpointLocation", checkpoint)
    if field == "sink.console":
        return writer
    raise QueryError(f"checkpoint: is missing; {field} needs one to write every row once")


def _triggered(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    if trigger is None:
        return writer
    return writer.trigger(availableNow=True) if trigger == ONCE else writer.trigger(processingTime=trigger)


def _header(name: str, value: str) -> Any:
    return sf.struct(sf.lit(name).alias("key"), sf.lit(value).cast("binary").alias("value"))


def _query_id(frame: DataFrame) -> str:
    """Return the id in the query's checkpoint: the same after a restart, another one for a new start."""
    result = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if result is None:
        raise RuntimeError("not in the thread of a streaming query; set PYSPARK_PIN_THREAD=true")
    return str(result)
