"""Frames before they are watched: which row came first in files, several sources as one frame, and rows as chunks.

The order of rows must not depend on how Spark cuts files into partitions. Rows of one block of a file follow each other
in one partition. Blocks are in the order of the files' times, then of their offset in the file; blocks of files of
the same moment are in the order of Spark's partitions. Every column that travels with each row costs time, so that
this is one number, made without a division: 42 bits of the time in 1,024 microseconds, 22 of the megabyte in which the
block begins (Spark makes blocks of four megabytes and more, unless it is configured otherwise).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from topwatch.query.errors import DataError, QueryError, missing_column, nearest_name
from topwatch.query.queries import IncompleteTopK, Query
from topwatch.query.windows import duration
from topwatch.spark.session import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_POSITIONS = ("_file_position",)
COMBINES = ("sum", "max")


def file_positions() -> list[Any]:
    """Return the columns, for a frame that reads files."""
    from pyspark.sql import functions as sf

    time = sf.shiftright(sf.unix_micros("_metadata.file_modification_time"), 10)
    megabyte = sf.shiftright(sf.col("_metadata.file_block_start"), 20)
    return [(sf.shiftleft(time, 22) + sf.least(megabyte, sf.lit((1 << 22) - 1))).alias(FILE_POSITIONS[0])]


def with_instants(df: DataFrame, time: str | None) -> DataFrame:
    """Return the frame with a time column of type TIMESTAMP_NTZ as TIMESTAMP: local times of the session's time zone.

    Event time is an instant: Spark gives a watermark to no other type. pandas writes times without a zone.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import TimestampNTZType

    if time is None or time not in df.columns or not isinstance(df.schema[time].dataType, TimestampNTZType):
        return df
    return df.withColumn(time, sf.col(quoted(time)).cast("timestamp"))


def reads_files(df: DataFrame) -> bool:
    """Return whether Spark knows from which files rows come."""
    # Trying it out would leave an error in Spark's log where it does not.
    hidden = df._jdf.queryExecution().analyzed().metadataOutput()
    return any(hidden.apply(i).name() == "_metadata" for i in range(hidden.size()))


def union(frames: Mapping[Any, DataFrame], queries: Sequence[Query]) -> DataFrame:
    """Return one frame with the rows of all, each with its source in the column that the queries name."""
    from pyspark.sql import functions as sf

    gathered = [query for query in queries if isinstance(query, IncompleteTopK)]
    columns = {query.source for query in gathered}
    if len(columns) != 1:
        raise QueryError("df: several frames need IncompleteTopK queries that name one source column for all")
    (column,) = columns
    known = list(dict.fromkeys(source for query in gathered for source in query.sources))
    if not frames:
        raise QueryError("df: expected a frame for each source, got an empty mapping")
    parts = []
    for name, frame in frames.items():
        if name not in known:
            hint = nearest_name(str(name), [str(source) for source in known])
            raise QueryError(f"df: {name!r} is no source; sources are {', '.join(map(repr, known))}{hint}")
        if column in frame.columns:
            raise DataError(f"df: the frame of {name!r} has a column {column!r}, which is made from the frames' names")
        # Spark does not know a row's file once frames are one.
        positions = file_positions() if all(map(reads_files, frames.values())) else []
        parts.append(frame.select("*", sf.lit(name).alias(column), *positions))
    first = parts[0].columns
    for name, part in zip(frames, parts, strict=True):
        if set(part.columns) != set(first):
            odd = ", ".join(sorted(set(part.columns) ^ set(first)))
            raise DataError(f"df: the frame of {name!r} has not the columns of the others: {odd}")
    return reduce(lambda one, other: one.unionByName(other), parts)


def spark_interval(field: str, span: str, unit: Literal["microsecond", "millisecond"] = "microsecond") -> str:
    """Return a span of time in a unit that Spark knows; it does not know all of ours.

    >>> spark_interval("every", "1.5 ms"), spark_interval("lateness", "10 minutes", "millisecond")
    ('1500 microseconds', '600000 milliseconds')
    """
    number = duration(field, span) // (1_000 if unit == "microsecond" else 1_000_000)
    if number < 1:
        raise QueryError(f"{field}: expected at least a {unit}, got {span!r}")
    return f"{number} {unit}s"


def positions_in(df: DataFrame) -> list[str]:
    """Return the columns with positions of rows in files, if a union has them."""
    return [name for name in FILE_POSITIONS if name in df.columns]


def chunks(
    df: DataFrame,
    every: str,
    time: str,
    id: str = "id",
    source: str = "source",
    value: str = "value",
    combine: str = "sum",
    by: str | Sequence[str] | None = None,
) -> DataFrame:
    """Put the values of a source for an object within an interval into one row (CIKM 2009, section 6.1.1).

    A row's time is the end of its interval. A streaming frame needs a watermark on its time: a chunk comes when that
    has passed its end, and later rows are left out by Spark. Chunks of one time have no order: watch them with
    ``order=[id, source]``.

    Parameters
    ----------
    df : DataFrame
        Streaming or static, with a column of timestamps.
    every : str
        The length of an interval, such as ``"5 seconds"``.
    time, id, source, value : str
        Names of columns. Other columns are left out.
    combine : {"sum", "max"}
        What becomes of several values.
    by : str or list of str, optional
        Columns whose values have their own objects.

    Returns
    -------
    DataFrame
        The ``by`` columns, time, id, source and value.
    """
    grouped = [by] if isinstance(by, str) else list(by or ())
    for field, column in {"time": time, "id": id, "source": source, "value": value}.items():
        if column not in df.columns:
            raise missing_column(field, column, df.columns)
    if not df.schema[time].dataType.typeName().startswith("timestamp"):
        raise DataError(f"time: column {time!r} is {df.schema[time].dataType.simpleString()}; expected timestamps")
    made = by_interval(df, list(dict.fromkeys([*grouped, id, source])), time, value, every, combine)
    return made.select(*map(quoted, (*grouped, time, id, source, value)))


def by_interval(
    df: DataFrame, keys: Sequence[str], time: str, value: str, every: str, combine: str = "sum"
) -> DataFrame:
    """Put the rows of an interval with the same keys together; return keys, the interval's end as time, and value."""
    from pyspark.sql import functions as sf

    if combine not in COMBINES:
        raise QueryError(f"combine: expected 'sum' or 'max', got {combine!r}{nearest_name(str(combine), COMBINES)}")
    interval = sf.window(sf.col(quoted(time)), spark_interval("every", every))
    number = sf.col(quoted(value)).cast("double")
    # From the smallest to the largest: the last digits of a sum depend on the order, which may be another one when a
    # task is tried again.
    values = sf.array_sort(sf.collect_list(number))
    in_order = sf.when(sf.size(values) > 0, sf.aggregate(values, sf.lit(0.0), lambda total, x: total + x))
    combined = in_order if combine == "sum" else sf.max(number)
    columns = [sf.col(quoted(key)) for key in keys]
    made = df.groupBy(interval.alias("_interval"), *columns).agg(combined.alias(value))
    # Intervals come in the order of their times: no reader has to wait for others.
    return made.select(*columns, sf.col("_interval.end").alias(time, metadata={}), sf.col(quoted(value)))
