"""Forest Cover (UCI): the data set FC of the top-k dominating paper (TKDE 2011), in the order of its file.

The paper takes four to ten of the ten quantitative attributes; all are here, each scaled to [0, 1].
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from topwatch.spark.datasets.about import About
from topwatch.spark.datasets.steps import ROW, normalise, numbers

ATTRIBUTES = [
    "elevation",
    "aspect",
    "slope",
    "h_dist_hydrology",
    "v_dist_hydrology",
    "h_dist_roadways",
    "hillshade_9am",
    "hillshade_noon",
    "hillshade_3pm",
    "h_dist_fire",
]
COLUMNS = ["id", *ATTRIBUTES, "cover"]


def rows(frame: DataFrame, about: About) -> DataFrame:
    """Return the attributes scaled, with the kind of cover as a label."""
    about.order = [ROW]
    return normalise(numbers(frame, ATTRIBUTES, about), ATTRIBUTES, about)
