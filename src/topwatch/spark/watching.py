"""``watch``: standing queries over a Spark DataFrame, streaming or static."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topwatch.query.errors import DataError, QueryError, nearest_name
from topwatch.query.queries import IncompleteTopK, Query
from topwatch.query.windows import Window
from topwatch.spark.operator.bucket_numbers import bucket_keys
from topwatch.spark.planner import NO_FOLDER, STREAM, Emit, Spec, monitor_of, stream_plan, table_plan
from topwatch.spark.session import PROVIDER, ROCKSDB, is_nested, quoted
from topwatch.spark.source_frames import FILE_POSITIONS, file_positions, positions_in, reads_files, union, with_instants
from topwatch.spark.state.folder import open_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from topwatch.monitor.monitor import Monitor

POSITION = "_position"  # position of a row in a static frame
WATERMARK = "spark.watermarkDelayMs"  # in the metadata of a column that Spark watches


def watch(
    df: DataFrame | Mapping[Any, DataFrame],
    queries: Query | Sequence[Query],
    window: Window,
    time: str | None = None,
    id: str = "id",
    by: str | Sequence[str] | None = None,
    every: int | str | datetime.timedelta = 1,
    algorithm: str = "auto",
    emit: Emit = "changes",
    segments: str | None = None,
    order: str | Sequence[str] | None = None,
    quarantine: str | None = None,
    **options: Any,
) -> DataFrame:
    """Watch a stream or a table with standing queries.

    Parameters
    ----------
    df : DataFrame, or mapping of source to DataFrame
        Streaming or static. Several frames are the sources of ``IncompleteTopK`` queries: they have the same columns,
        and that of the sources is made from their names.
    queries, window, every, algorithm, id, time, **options
        As of :class:`topwatch.Monitor`. A time of type TIMESTAMP_NTZ, without a zone, is read as a local time in the
        session's time zone (``spark.sql.session.timeZone``).
    by : str or list of str, optional
        Columns; each of their values has its own window and answers.
    emit : "changes", "answers" or "first"
        Rows that entered and left, the whole answer each time it has changed, or each row once, when it first becomes
        an answer.
    segments : str, optional
        Folder for window segments that all executors reach. Without it they lie below Spark's default checkpoint
        location; without that, or where Arrow cannot open it, in the state store: slower, as right.
    order : str or list of str, optional
        Columns that order rows. Rows are taken in by time, then by these, then as they lie in
        their partition. Rows of files come in the order of the files' times and names when it is left out.
    quarantine : str, optional
        Folder for rows of a stream that cannot be used (no id, no usable time, too late), as Parquet with the reason.

    Returns
    -------
    DataFrame
        The ``by`` columns, then ``at, query, op, id, score`` for changes or ``at, query, rank, id, score`` for answers.
    """
    request = Request(queries, window, time, id, by, every, algorithm, emit, segments, order, quarantine, options)
    frame, spec = _specified(df, request)
    return _stream(frame, spec) if spec.plan.operator == STREAM else _table(frame, spec)


def explain(
    df: DataFrame | Mapping[Any, DataFrame],
    queries: Query | Sequence[Query],
    window: Window,
    time: str | None = None,
    id: str = "id",
    by: str | Sequence[str] | None = None,
    every: int | str | datetime.timedelta = 1,
    algorithm: str = "auto",
    emit: Emit = "changes",
    segments: str | None = None,
    order: str | Sequence[str] | None = None,
    quarantine: str | None = None,
    **options: Any,
) -> str:
    """Return the plan that :func:`watch` executes, in words; nothing is run.

    Parameters
    ----------
    df, queries, window, time, id, by, every, algorithm, emit, segments, order, quarantine, **options
        Those of :func:`watch`.
    """
    request = Request(queries, window, time, id, by, every, algorithm, emit, segments, order, quarantine, options)
    return str(_specified(df, request)[1].plan)


@dataclass(frozen=True)
class Request:
    """What a user wants of a frame: the arguments of :func:`watch`."""

    queries: Query | Sequence[Query]
    window: Window
    time: str | None
    id: str
    by: str | Sequence[str] | None
    every: int | str | datetime.timedelta
    algorithm: str
    emit: Emit
    segments: str | None
    order: str | Sequence[str] | None
    quarantine: str | None
    options: Mapping[str, Any]

    def check(self, streaming: bool) -> None:
        """Refuse what a watched frame cannot have."""
        if "lateness" in self.options:
            raise QueryError(
                "lateness: on Spark rows wait for the watermark; give the DataFrame one with withWatermark"
            )
        if "max_lag" in self.options:
            raise QueryError(
                "max_lag: on Spark a micro-batch that is tried again must give the same; it serves Monitor only"
            )
        if self.id is None:
            raise QueryError("id: a watched DataFrame needs id=, the name of the id column")
        if self.quarantine is not None and not streaming:
            raise QueryError("quarantine: rows of a stream are kept there; of a static frame, select them yourself")
        reason = _not_opened(self.quarantine) if self.quarantine is not None else ""
        if reason:
            raise QueryError(f"quarantine: {reason}")

    def listed(self) -> list[Query]:
        """Return the queries as a list."""
        return list(self.queries) if isinstance(self.queries, Sequence) else [self.queries]

    def monitor(self, **more: Any) -> Monitor:
        """Make the monitor of what is watched."""
        return monitor_of(
            self.listed(),
            self.emit,
            window=self.window,
            every=self.every,
            algorithm=self.algorithm,
            options=self.options,
            id=self.id,
            time=self.time,
            by=self.by or None,
            **more,
        )


def _specified(df: DataFrame | Mapping[Any, DataFrame], request: Request) -> tuple[DataFrame, Spec]:
    """Check the arguments; return the frame with the columns that are needed, and what is watched with its plan."""
    from pyspark.sql.pandas.types import to_arrow_schema

    order, time = _names("order", request.order), [request.time] if request.time else []
    if isinstance(df, Mapping):
        df = union(df, request.listed())
        order = order or positions_in(df)
    df = with_instants(df, request.time)
    schema = df.schema
    request.check(df.isStreaming)
    if not order:
        df, order = _as_in_files(df)
    kinds = [schema[name] for name in time if name in schema.fieldNames()]
    watermark = df.isStreaming and any(WATERMARK in field.metadata for field in kinds)
    stamped = any(field.dataType.typeName().startswith("timestamp") for field in kinds)
    monitor = request.monitor(only_rows=stamped, watermark=watermark, order=order if watermark else ())
    gathered = [query for query in monitor.queries if isinstance(query, IncompleteTopK)]
    for query in gathered:
        _check_sources(schema, query)
    made, by = {query.coded for query in gathered}, list(monitor.settings.by)
    plain = [column for column in monitor.columns if column not in made]
    named = {"id": [request.id], "time": time, "by": by, "order": _names("order", request.order)}
    _check_columns(schema, plain, named)
    df, spark = _with_codes(df, gathered), df.sparkSession
    interleaved = request.order is not None and tuple(order) != FILE_POSITIONS
    segments, why = _folder(spark, request.segments) if df.isStreaming else (None, "")
    spec = Spec(
        queries=tuple(monitor.queries),
        settings=monitor.settings,
        emit=request.emit,
        plan=stream_plan(monitor, interleaved, segments, why) if df.isStreaming else table_plan(monitor),
        columns=tuple(monitor.columns),
        order=tuple(order),
        types=tuple(df.schema[name].dataType.simpleString() for name in (*by, request.id, *time, *order)),
        buckets=_buckets(spark, bool(by)),
        segments=segments,
        quarantine=request.quarantine,
        retain=int(spark.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or 100),
        schema=to_arrow_schema(_result(schema, by, request.id, request.emit)),
        run=uuid.uuid4().hex,
    )
    return df, spec


def _with_codes(df: DataFrame, queries: list[IncompleteTopK]) -> DataFrame:
    """Add, for each list of sources, the column of their numbers: strings are not shuffled."""
    from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

    for query in queries:
        sources = F.array(*[F.lit(source) for source in query.sources])
        word = F.col("`" + query.source.replace("`", "``") + "`")
        df = df.withColumn(query.coded, (F.array_position(sources, word) - 1).cast("double"))
    return df


def _check_sources(schema: StructType, query: IncompleteTopK) -> None:
    named = {field.name: field.dataType.typeName() for field in schema.fields}
    if query.source not in named:
        have = ", ".join(named) + nearest_name(query.source, list(named))
        raise DataError(f"source: column {query.source!r} is missing; columns are {have}")
    by_name = isinstance(query.sources[0], str)
    kinds = ("string", "varchar", "char") if by_name else ("byte", "short", "integer", "long")
    if named[query.source] not in kinds:
        expected = "strings" if by_name else "whole numbers"
        got = named[query.source]
        raise DataError(f"source: column {query.source!r} is {got}; the query names its sources by {expected}")


def _stream(df: DataFrame, spec: Spec) -> DataFrame:
    from topwatch.spark.operator.partition_writer import PartitionWriter
    from topwatch.spark.operator.processor import Processor
    from topwatch.spark.operator.references import DDL

    spark = df.sparkSession
    # Columns are called by their indices: mapInArrow does not take a name with a dot. One select for all, since Spark
    # goes over the plan in every micro-batch.
    named = [column.alias(str(index)) for index, column in enumerate(_carried(df, spec))]
    references = df.select(*named).mapInArrow(PartitionWriter(spec), DDL)
    provider = spark.conf.get(PROVIDER, "")
    if provider != ROCKSDB:
        raise QueryError(
            f"spark: a watched stream keeps its state in RocksDB; set {PROVIDER} to {ROCKSDB}, or give the session"
            " all of topwatch.spark.SETTINGS"
        )
    return references.groupBy("bucket").transformWithStateInPandas(
        Processor(spec),
        outputStructType=_result(df.schema, spec.by, spec.id, spec.emit),
        outputMode="Append",
        timeMode="EventTime" if spec.watermark else "None",
    )


def _table(df: DataFrame, spec: Spec) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

    from topwatch.spark.static.groups import WatchedPartition

    schema = _result(df.schema, spec.by, spec.id, spec.emit)
    rows = df.select(*_carried(df, spec), F.monotonically_increasing_id().alias(POSITION))
    keys = [F.col(quoted(name)) for name in (*spec.by, *([spec.time] if spec.time else []), *spec.order, POSITION)]
    spread = rows.repartition(*keys[: len(spec.by)]) if spec.by else rows.coalesce(1)
    sorted_rows = spread.sortWithinPartitions(*keys)
    by_index = sorted_rows.toDF(*map(str, range(len(rows.columns))))  # mapInArrow does not take a name with a dot
    return by_index.mapInArrow(WatchedPartition(spec), schema)


def _as_in_files(df: DataFrame) -> tuple[DataFrame, list[str]]:
    return (df.select("*", *file_positions()), list(FILE_POSITIONS)) if reads_files(df) else (df, [])


def _carried(df: DataFrame, spec: Spec) -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

    ready = {*spec.by, spec.id, spec.time, *spec.order}
    ready |= {field.name for field in df.schema.fields if field.dataType.typeName() == "double"}
    return [
        F.col(quoted(name)) if name in ready else F.col(quoted(name)).cast("double").alias(name)
        for name in spec.carried
    ]


def _result(schema: StructType, by: Sequence[str], id: str, emit: Emit) -> StructType:
    from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

    # Marked as never null where it is: otherwise Spark would check every value of every change.
    reported: dict[str, DataType] = {"at": LongType(), "query": StringType()}
    reported |= {"rank": LongType()} if emit == "answers" else {"op": StringType()}
    reported |= {"id": schema[id].dataType, "score": DoubleType()}
    fields = [StructField(name, schema[name].dataType) for name in by]
    return StructType([*fields, *(StructField(name, kind, nullable=False) for name, kind in reported.items())])


def _check_columns(schema: StructType, numeric: Sequence[str], named: dict[str, list[str]]) -> None:
    from pyspark.sql.types import DecimalType, NumericType, TimestampNTZType, TimestampType

    have = schema.fieldNames()
    for field, columns in {"queries": list(numeric), **named}.items():
        for column in columns:
            if column not in have:
                raise DataError(
                    f"{field}: column {column!r} is missing; columns are {', '.join(have)}{nearest_name(column, have)}"
                )
            kind, expected = schema[column].dataType, ""
            number = isinstance(kind, NumericType)
            if field == "queries" and not number:
                expected = "numbers"
            elif field == "time" and (
                isinstance(kind, DecimalType) or not (number or isinstance(kind, TimestampType | TimestampNTZType))
            ):
                expected = "timestamps or numbers"
            elif field != "queries" and is_nested(kind):
                expected = "single values"
            if expected:
                raise DataError(f"{field}: column {column!r} is {kind.simpleString()}; expected {expected}")


def _names(field: str, value: str | Sequence[str] | None) -> list[str]:
    names = [] if value is None else [value] if isinstance(value, str) else list(value)
    for name in names:
        if not isinstance(name, str) or not name:
            raise QueryError(f"{field}: expected names of columns, got {name!r}")
    return names


def _folder(spark: SparkSession, segments: str | None) -> tuple[str | None, str]:
    """Return the folder for segments, or why there is none."""
    default = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
    if segments is None and not default:
        return None, NO_FOLDER
    folder = segments.rstrip("/") if segments is not None else f"{str(default).rstrip('/')}/topwatch-segments"
    reason = _not_opened(folder)
    if reason and segments is not None:
        raise QueryError(f"segments: {reason}")
    return (None, reason) if reason else (folder, "")


def _not_opened(folder: str) -> str:
    """Return why Arrow cannot open a folder, as executors would; empty where it can."""
    try:
        open_folder(folder)
    except (OSError, pa.ArrowException) as error:
        return f"Arrow cannot open {folder}: {(str(error).splitlines() or [type(error).__name__])[0]}"
    return ""


def _buckets(spark: SparkSession, grouped: bool) -> tuple[int, ...]:
    """Choose numbers for the buckets so that each falls into a shuffle partition of its own."""
    if not grouped:
        return (0,)
    return bucket_keys(int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200))
