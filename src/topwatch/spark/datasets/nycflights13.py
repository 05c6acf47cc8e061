"""Flights from New York in 2013: an incomplete stream from many sources, in place of the servers of CIKM 2009.

The object is the aeroplane, the source is the airport it leaves from, the value is its delay in minutes; ``scaled`` is
the delay in [0, 1], as the paper has values. With ``every`` the flights of an interval become one row, which is the
paper's preprocessing. An object that comes again in one source counts as another one there: ``occurrence``, from 1,
tells them apart.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from topwatch.spark.datasets.about import About
from topwatch.spark.datasets.steps import ROW, chunks, drop_missing, normalise, numbers, one_of, times

DELAYS = ["dep_delay", "arr_delay"]
COLUMNS = ["time", "tailnum", "origin", *DELAYS]


def rows(
    frame: DataFrame, about: About, *, delay: str = "dep_delay", every: str | None = None, combine: str = "sum"
) -> DataFrame:
    """Return (id, source, value, time): one row per flight, or per aeroplane, airport and interval."""
    delay = one_of("delay", delay, DELAYS)
    frame = numbers(times(frame, "time"), [delay], about)
    frame = drop_missing(frame, ["tailnum", delay, "time", "origin"], about)
    frame = frame.select(
        "time", sf.col("tailnum").alias("id"), sf.col("origin").alias("source"), sf.col(delay).alias("value"), ROW
    )
    about.order = ["time", ROW]
    if every is not None:
        frame = chunks(frame, ["id", "source"], "value", every, combine, about)
        about.order = ["time", "id", "source"]
    again = Window.partitionBy("id", "source").orderBy(*about.order)
    frame = frame.withColumn("occurrence", sf.row_number().over(again).cast("long"))
    return normalise(frame.withColumn("scaled", sf.col("value")), ["scaled"], about)
