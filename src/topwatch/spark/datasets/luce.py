"""LUCE (SensorScope, EPFL): the real data set of the top-k/w paper (TODS 2015), by time.

Its sensors glitch: voltages of 87 where 5 is usual. Scaled by such a maximum, all other rows would lie in a corner, so
values are clipped first. Missing values stay missing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from topwatch.spark.datasets.about import About
from topwatch.spark.datasets.steps import clip, drop_missing, normalise, numbers, percentile, times

MEASUREMENTS = ["primary_voltage", "secondary_voltage", "solar_current", "global_current"]
COLUMNS = ["id", "time", "station", *MEASUREMENTS]


def rows(frame: DataFrame, about: About, *, percent: float | str = 99.9) -> DataFrame:
    """Return the measurements, clipped at a percentile and scaled."""
    about.order = ["time", "id"]
    frame = drop_missing(times(frame, "time"), ["time", "id"], about)
    frame = numbers(frame, MEASUREMENTS, about)
    frame = clip(frame, MEASUREMENTS, percentile("percent", percent), about)
    return normalise(frame, MEASUREMENTS, about)
