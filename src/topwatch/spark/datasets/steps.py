"""The steps that data sets share, each from a DataFrame to a DataFrame. Each records what it did in an :class:`About`.

Results do not depend on how Spark cuts the rows into partitions: bounds are exact, and sums have an order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, TimestampNTZType, TimestampType

from topwatch.query.errors import DataError, QueryError, missing_column, nearest_name
from topwatch.query.windows import duration
from topwatch.spark.datasets.writing import ROW, About
from topwatch.spark.source_frames import by_interval, spark_interval

MICROSECOND = 1_000  # nanoseconds


def read(spark: SparkSession, path: str, columns: Sequence[str], about: About) -> DataFrame:
    """Return the named columns of a Parquet file, and each row's position in it."""
    frame = spark.read.parquet(path)
    for column in columns:
        if column not in frame.columns:
            raise missing_column(path, column, frame.columns)
    frame = frame.select(*columns, sf.col("_metadata.row_index").alias(ROW))
    about.rows_in = frame.count()
    return frame


def times(frame: DataFrame, column: str) -> DataFrame:
    """Turn a column of times into timestamps. Whole numbers are nanoseconds, as Spark reads Arrow's finest unit."""
    kind = frame.schema[column].dataType
    if isinstance(kind, LongType):
        # Not timestamp_micros(x / 1000): a division into doubles loses the last digits.
        return frame.withColumn(column, sf.timestamp_micros(sf.expr(f"`{column}` div {MICROSECOND}")))
    if isinstance(kind, TimestampType | TimestampNTZType):
        return frame.withColumn(column, sf.col(column).cast(TimestampType()))
    raise DataError(f"column {column!r} is {kind.simpleString()}; expected timestamps")


def numbers(frame: DataFrame, columns: Sequence[str], about: About) -> DataFrame:
    """Turn columns into doubles; what is missing, NaN or infinite becomes null, and nulls are counted."""
    for column in columns:
        value = sf.col(column).cast("double")
        finite = ~sf.isnan(value) & (sf.abs(value) < sf.lit(float("inf")))
        frame = frame.withColumn(column, sf.when(finite, value))
    if columns:
        missing = _totals(frame, {column: sf.col(column).isNull() for column in columns})
        about.nulls.update(missing)
    return frame


def drop_missing(frame: DataFrame, columns: Sequence[str], about: About) -> DataFrame:
    """Leave out rows without a value in one of the columns; a row counts for the first that is missing."""
    reasons: dict[str, Column] = {}
    before: Column = sf.lit(True)
    for column in columns:
        reasons[f"{column} is null"] = before & sf.col(column).isNull()
        before = before & sf.col(column).isNotNull()
        about.nulls.pop(column, None)
    about.dropped.update(_totals(frame, reasons))
    return frame.where(before)


def clip(frame: DataFrame, columns: Sequence[str], percent: float, about: About) -> DataFrame:
    """Lower values that lie above the column's percentile to it."""
    aggregates = [sf.percentile(column, sf.lit(percent / 100)).alias(column) for column in columns]
    bounds = {column: bound for column, bound in _first(frame, aggregates).items() if bound is not None}
    above = _totals(frame, {column: sf.col(column) > sf.lit(bound) for column, bound in bounds.items()})
    for column, bound in bounds.items():
        # least() would take the bound for a null
        frame = frame.withColumn(column, sf.when(sf.col(column) > sf.lit(bound), bound).otherwise(sf.col(column)))
        about.clipped[column] = {"above": bound, "values": above[column]}
    return frame


def logarithm(frame: DataFrame, columns: Sequence[str], about: About) -> DataFrame:
    """Take log(1 + x) of columns without negative values."""
    for column, least in _first(frame, [sf.min(column).alias(column) for column in columns]).items():
        if least is not None and least < 0:
            raise DataError(f"column {column!r} has {least:g}; log(1 + x) needs values of at least 0")
        frame = frame.withColumn(column, sf.log1p(column))
    about.notes.append(f"log(1 + x) before scaling: {', '.join(columns)}")
    return frame


def normalise(frame: DataFrame, columns: Sequence[str], about: About) -> DataFrame:
    """Scale columns so that the smallest value is 0 and the largest 1; a column with one value becomes 0."""
    bounds = [
        f(column).alias(f"{end} {column}") for column in columns for end, f in (("low", sf.min), ("high", sf.max))
    ]
    result = _first(frame, bounds)
    for column in columns:
        low, high = result[f"low {column}"], result[f"high {column}"]
        if low is None:
            continue  # nulls only
        scaled = (sf.col(column) - sf.lit(low)) / sf.lit(high - low) if high > low else sf.col(column) * 0.0
        frame = frame.withColumn(column, scaled)
        about.ranges[column] = [low, high]
    return frame


def chunks(frame: DataFrame, keys: Sequence[str], value: str, span: str, combine: str, about: About) -> DataFrame:
    """Put the rows of one interval together: one row for each of the keys' values, with the sum or the maximum.

    Its time is the end of the interval, when the row is complete.
    """
    about.notes.append(f"one row per {', '.join(keys)} and {span}, at its end: the {combine} of {value}")
    return by_interval(frame, keys, "time", value, span, combine)


def snapshots(
    frame: DataFrame, key: str, classes: Mapping[str, Column], every: str, over: str, about: About
) -> DataFrame:
    """Count the rows of each class over the last while, at regular moments.

    A moment sees the rows before it. There is a row for each key that has been seen in the last while, and one row of
    zeros when it no longer has; the last moment is the first after all rows. Moments have numbers, the first is 0.
    """
    step, span = duration("every", every), duration("over", over)
    if span % step:
        raise QueryError(f"over: expected a multiple of every, {every!r}, got {over!r}")
    windows = sf.window("time", spark_interval("over", over), spark_interval("every", every))
    counts = [sf.count_if(belongs).cast("double").alias(name) for name, belongs in classes.items()]
    seen = frame.groupBy(key, windows.alias("_window")).agg(*counts)
    seen = seen.withColumn("time", sf.col("_window.end")).drop("_window")
    ends = frame.select(sf.window("time", spark_interval("every", every)).end.alias("end"))
    first, last = ends.agg(sf.min("end"), sf.max("end")).first() or (None, None)
    seen = seen.where(sf.col("time") <= sf.lit(last))
    after = sf.col("time") + sf.expr(f"INTERVAL {step // MICROSECOND} MICROSECOND")
    following = sf.lead("time").over(Window.partitionBy(key).orderBy("time"))
    silent = seen.withColumn("_next", following).where(
        (after <= sf.lit(last)) & (sf.col("_next").isNull() | (sf.col("_next") > after))
    )
    zeros = silent.select(key, *[sf.lit(0.0).alias(name) for name in classes], after.alias("time"))
    number = (sf.unix_micros("time") - sf.unix_micros(sf.lit(first))) / (step // MICROSECOND)
    about.notes.append(f"one snapshot every {every} of the last {over}; one row of zeros where an object falls silent")
    return seen.unionByName(zeros).select(key, "time", number.cast("long").alias("snapshot"), *classes)


def one_of(field: str, value: Any, accepted: Sequence[str]) -> str:
    """Return an option that is one of some names."""
    if value not in accepted:
        words = " or ".join(repr(word) for word in accepted)
        raise QueryError(f"{field}: expected {words}, got {value!r}{nearest_name(str(value), accepted)}")
    return str(value)


def percentile(field: str, value: float | str) -> float:
    """Return an option that is a percentile."""
    try:
        percent = float(value)
    except (TypeError, ValueError):
        percent = 0.0
    if not 0 < percent <= 100:
        raise QueryError(f"{field}: expected a percentile above 0 and up to 100, got {value!r}")
    return percent


def _totals(frame: DataFrame, conditions: Mapping[str, Column]) -> dict[str, int]:
    """Count the rows for which conditions hold, all in one pass."""
    return _first(frame, [sf.count_if(condition).alias(name) for name, condition in conditions.items()])


def _first(frame: DataFrame, aggregates: Sequence[Column]) -> dict[str, Any]:
    if not aggregates:
        return {}
    row = frame.agg(*aggregates).first()
    assert row is not None, "an aggregate has a row"
    return row.asDict()
