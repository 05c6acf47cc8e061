"""KDD Cup 1999: network connections in the order of their file, with their duplicates: ties and bursts in mass.

Duration and bytes have heavy tails: scaled by the largest, 693 million bytes, all but 85 of the half million rows would
lie below 0.001. So the logarithm is taken of these three; the counts end at 511 and 255 and stay as they are. It keeps
the order of values: skylines and dominance are the same with and without, sums of columns are not.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from topwatch.spark.datasets.about import About
from topwatch.spark.datasets.steps import ROW, logarithm, normalise, numbers, one_of

HEAVY = ["duration", "src_bytes", "dst_bytes"]
COUNTS = ["count", "srv_count", "dst_host_count", "dst_host_srv_count"]
COLUMNS = ["id", "protocol", "service", "label", *HEAVY, *COUNTS]


def rows(frame: DataFrame, about: About, *, scale: str = "log") -> DataFrame:
    """Return the numbers scaled, protocol, service and label as text."""
    about.order = [ROW]
    frame = numbers(frame, HEAVY + COUNTS, about)
    if one_of("scale", scale, ["log", "linear"]) == "log":
        frame = logarithm(frame, HEAVY, about)
    return normalise(frame, HEAVY + COUNTS, about)
