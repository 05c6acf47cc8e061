"""Streams that tell of the same objects, one for each source: put together, and their rows gathered into chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from topwatch.query.errors import DataError, QueryError, nearest_name
from topwatch.query.queries import IncompleteTopK, Query
from topwatch.query.windows import duration
from topwatch.spark.column_names import quoted
from topwatch.spark.operator.file_order import PLACES, file_places, reads_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMBINES = ("sum", "max")


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
        # Where a row was in its file cannot be asked once frames are one.
        indices = file_places() if all(map(reads_files, frames.values())) else []
        parts.append(frame.select("*", sf.lit(name).alias(column), *indices))
    first = parts[0].columns
    for name, part in zip(frames, parts, strict=True):
        if set(part.columns) != set(first):
            odd = ", ".join(sorted(set(part.columns) ^ set(first)))
            raise DataError(f"df: the frame of {name!r} has not the columns of the others: {odd}")
    return reduce(lambda one, other: one.unionByName(other), parts)


def places_of(df: DataFrame) -> list[str]:
    """Return the columns that say where rows were in their files, if a union has them."""
    return [name for name in PLACES if name in df.columns]


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
    """Put what a source says of an object within an interval into one row (CIKM 2009, section 6.1.1).

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
    from pyspark.sql import functions as sf

    if combine not in COMBINES:
        hint = nearest_name(str(combine), COMBINES)
        raise QueryError(f"combine: expected 'sum' or 'max', got {combine!r}{hint}")
    microseconds = duration("every", every) // 1000
    if microseconds < 1:
        raise QueryError(f"every: expected at least a microsecond, got {every!r}")
    grouped = [by] if isinstance(by, str) else list(by or ())
    for field, column in {"time": time, "id": id, "source": source, "value": value}.items():
        if column not in df.columns:
            have = ", ".join(df.columns) + nearest_name(column, df.columns)
            raise DataError(f"{field}: column {column!r} is missing; columns are {have}")
    if not df.schema[time].dataType.typeName().startswith("timestamp"):
        raise DataError(f"time: column {time!r} is {df.schema[time].dataType.simpleString()}; expected timestamps")
    keys = list(dict.fromkeys([*grouped, id, source]))
    interval = sf.window(sf.col(quoted(time)), f"{microseconds} microseconds").alias("_interval")
    combined = (sf.sum if combine == "sum" else sf.max)(sf.col(quoted(value)).cast("double")).alias(value)
    made = df.groupBy(interval, *[sf.col(quoted(key)) for key in keys]).agg(combined)
    # Chunks come in the order of their times: whoever reads them has nothing to wait for.
    end = sf.col("_interval.end").alias(time, metadata={})
    return made.select(*[sf.col(quoted(key)) for key in grouped], end, *map(sf.col, map(quoted, (id, source, value))))
