"""``watch``: standing queries over a Spark DataFrame, streaming or static."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from topwatch.monitor.monitor import Monitor
from topwatch.query.errors import DataError, QueryError, nearest_name
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Query
from topwatch.query.windows import Window
from topwatch.spark.column_names import quoted
from topwatch.spark.node.warm_up import warm_up
from topwatch.spark.operator.file_order import PLACES, file_places, reads_files
from topwatch.spark.operator.pruning import worthwhile
from topwatch.spark.sources_union import places_of, union
from topwatch.spark.stream_spec import Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
POSITION = "_position"  # place of a row in a static frame
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
    emit: Literal["changes", "answers", "first"] = "changes",
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
        As of :class:`topwatch.Monitor`.
    by : str or list of str, optional
        Columns; each of their values has its own window and answers.
    emit : "changes", "answers" or "first"
        Rows that entered and left, the whole answer each time it has changed, or each row once, when it first becomes
        an answer.
    segments : str, optional
        Folder for window segments that all executors reach. Without it, and without Spark's default checkpoint
        location, windows lie in the state store: slower, as right.
    order : str or list of str, optional
        Columns that say in which order rows came. Rows are taken in by time, then by these, then as they lie in
        their partition. Rows of files come in the order of the files' times and names when it is left out.
    quarantine : str, optional
        Folder for rows that cannot be used (no id, no time, too late), as Parquet with the reason.

    Returns
    -------
    DataFrame
        The ``by`` columns, then ``at, query, op, id, score`` for changes or ``at, query, rank, id, score`` for answers.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    first = next(iter(df.values()), None) if isinstance(df, Mapping) else df
    if first is not None and first.isStreaming:
        warm_up(first.sparkSession)
    listed = [queries] if not isinstance(queries, Sequence) else list(queries)
    if emit not in ("changes", "answers", "first"):
        raise QueryError(f"emit: expected 'changes', 'answers' or 'first', got {emit!r}")
    if "lateness" in options:
        raise QueryError("lateness: on Spark rows wait for the watermark; give the DataFrame one with withWatermark")
    if "max_lag" in options:
        raise QueryError(
            "max_lag: on Spark a micro-batch that is tried again must give the same; it serves Monitor only"
        )
    by_names, order_names = _names("by", by), _names("order", order)
    if id is None:
        raise QueryError("id: a watched DataFrame needs id=, the name of the id column")
    # Everything that a monitor refuses is refused here, on the driver, before anything runs.
    reported = "first" if emit == "first" else "changes"
    trial = Monitor(listed, window, every=every, algorithm=algorithm, id=id, time=time, emit=reported, **options)
    restless = Dominating | FrequentSkyline | IncompleteTopK
    moving = [type(query).__name__ for query in trial.queries if isinstance(query, restless)]
    if emit == "answers" and moving:
        # Answers are put together from changes, and a score that moves is no change.
        raise QueryError(
            f"emit: 'answers' does not serve {moving[0]} queries, whose scores move; accepted is 'changes'"
        )
    columns = trial.columns
    if isinstance(df, Mapping):
        df = union(df, trial.queries)
        order_names = order_names or places_of(df)
    gathered = [query for query in trial.queries if isinstance(query, IncompleteTopK)]
    for query in gathered:
        _check_sources(df.schema, query)
    made = {query.coded for query in gathered}
    plain = [column for column in columns if column not in made]
    _check_columns(df.schema, plain, {"id": [id], "time": [time] if time else [], "by": by_names, "order": order_names})
    if not order_names:
        df, order_names = _as_in_files(df)
    df = _with_codes(df, gathered)
    spark = df.sparkSession
    spec = Spec(
        queries=tuple(trial.queries),
        window=window,
        every=every,
        algorithm=algorithm,
        options=options,
        id=id,
        time=time,
        by=tuple(by_names),
        columns=tuple(columns),
        order=tuple(order_names),
        emit=emit,
        watermark=bool(df.isStreaming and time is not None and WATERMARK in df.schema[time].metadata),
        buckets=_buckets(spark, bool(by_names)),
        segments=_folder(spark, segments) if df.isStreaming else None,
        quarantine=quarantine,
        stamped=time is not None and df.schema[time].dataType.typeName().startswith("timestamp"),
        run=uuid.uuid4().hex,
        types=tuple(
            df.schema[name].dataType.simpleString() for name in (*by_names, id, *([time] if time else []), *order_names)
        ),
        retain=int(spark.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or 100),
    )
    spec = dataclasses.replace(spec, schema=to_arrow_schema(_result(df.schema, spec)))
    apart = order is None or tuple(order_names) == PLACES  # no partition's rows lie between another's
    if df.isStreaming and apart and worthwhile(spec):
        spec = dataclasses.replace(spec, pruned=True)
    return _stream(df, spec) if df.isStreaming else _table(df, spec)


def _with_codes(df: DataFrame, queries: list[IncompleteTopK]) -> DataFrame:
    """Add, for each list of sources, the column of their numbers: words do not travel."""
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
    words = isinstance(query.sources[0], str)
    kinds = ("string", "varchar", "char") if words else ("byte", "short", "integer", "long")
    if named[query.source] not in kinds:
        expected = "strings" if words else "whole numbers"
        got = named[query.source]
        raise DataError(f"source: column {query.source!r} is {got}; the query names its sources by {expected}")


def _stream(df: DataFrame, spec: Spec) -> DataFrame:
    from topwatch.spark.operator.partition_writer import SCHEMA, Bulk
    from topwatch.spark.operator.processor import Watching

    spark = df.sparkSession
    # Columns are called by their indices: mapInArrow does not take a name with a dot. One select for all, since Spark
    # goes over the plan in every micro-batch.
    named = [column.alias(str(index)) for index, column in enumerate(_carried(df, spec))]
    references = df.select(*named).mapInArrow(Bulk(spec), SCHEMA)
    if spark.conf.get(PROVIDER, "") != ROCKSDB:
        spark.conf.set(PROVIDER, ROCKSDB)  # this operator needs it
    return references.groupBy("bucket").transformWithStateInPandas(
        Watching(spec),
        outputStructType=_result(df.schema, spec),
        outputMode="Append",
        timeMode="EventTime" if spec.watermark else "None",
    )


def _table(df: DataFrame, spec: Spec) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

    from topwatch.spark.operator.static_frame import Sweep

    schema = _result(df.schema, spec)
    rows = df.select(*_carried(df, spec), F.monotonically_increasing_id().alias(POSITION))
    keys = [F.col(quoted(name)) for name in (*spec.by, *([spec.time] if spec.time else []), *spec.order, POSITION)]
    spread = rows.repartition(*keys[: len(spec.by)]) if spec.by else rows.coalesce(1)
    sorted_rows = spread.sortWithinPartitions(*keys)
    by_index = sorted_rows.toDF(*map(str, range(len(rows.columns))))  # mapInArrow does not take a name with a dot
    return by_index.mapInArrow(Sweep(spec), schema)


def _as_in_files(df: DataFrame) -> tuple[DataFrame, list[str]]:
    return (df.select("*", *file_places()), list(PLACES)) if reads_files(df) else (df, [])


def _carried(df: DataFrame, spec: Spec) -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

    ready = {*spec.by, spec.id, spec.time, *spec.order}
    ready |= {field.name for field in df.schema.fields if field.dataType.typeName() == "double"}
    return [
        F.col(quoted(name)) if name in ready else F.col(quoted(name)).cast("double").alias(name)
        for name in spec.carried
    ]


def _result(schema: StructType, spec: Spec) -> StructType:
    from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

    # The schema says what is never null: otherwise Spark would look at every value of every change.
    reported: dict[str, DataType] = {"at": LongType(), "query": StringType()}
    reported |= {"rank": LongType()} if spec.emit == "answers" else {"op": StringType()}
    reported |= {"id": schema[spec.id].dataType, "score": DoubleType()}
    fields = [StructField(name, schema[name].dataType) for name in spec.by]
    return StructType([*fields, *(StructField(name, kind, nullable=False) for name, kind in reported.items())])


def _check_columns(schema: StructType, numeric: Sequence[str], named: dict[str, list[str]]) -> None:
    from pyspark.sql.types import NumericType, TimestampNTZType, TimestampType

    have = schema.fieldNames()
    for field, columns in {"queries": list(numeric), **named}.items():
        for column in columns:
            if column not in have:
                raise DataError(
                    f"{field}: column {column!r} is missing; columns are {', '.join(have)}{nearest_name(column, have)}"
                )
            kind = schema[column].dataType
            if field == "queries" and not isinstance(kind, NumericType):
                raise DataError(f"queries: column {column!r} is {kind.simpleString()}; expected numbers")
            if field == "time" and not isinstance(kind, NumericType | TimestampType | TimestampNTZType):
                raise DataError(f"time: column {column!r} is {kind.simpleString()}; expected timestamps or numbers")


def _names(field: str, value: str | Sequence[str] | None) -> list[str]:
    names = [] if value is None else [value] if isinstance(value, str) else list(value)
    for name in names:
        if not isinstance(name, str) or not name:
            raise QueryError(f"{field}: expected names of columns, got {name!r}")
    return names


def _folder(spark: SparkSession, segments: str | None) -> str | None:
    if segments is not None:
        return segments.rstrip("/")
    default = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
    return f"{default.rstrip('/')}/topwatch-segments" if default else None


def _buckets(spark: SparkSession, grouped: bool) -> tuple[int, ...]:
    """Choose numbers for the buckets so that each falls into a shuffle partition of its own."""
    from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

    if not grouped:
        return (0,)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    tried = spark.range(20 * partitions + 64).select(F.col("id").cast("int").alias("number"))
    partitioned = tried.select("number", F.pmod(F.hash("number"), F.lit(partitions)).alias("partition"))
    first = partitioned.groupBy("partition").agg(F.min("number").alias("number")).orderBy("partition")
    return tuple(row.number for row in first.collect())
