"""Requests to the web site of the 1998 World Cup: as a stream, or as snapshots of what clients asked for lately.

Snapshots have the shape of the trace in the skyline paper (SIGMOD 2009): objects, moments, and four counts over the
last while. There the four are kinds of connections, here they are kinds of URLs, by the ending of the path.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from topwatch.spark.datasets.about import About
from topwatch.spark.datasets.steps import ROW, drop_missing, numbers, one_of, snapshots, times

COLUMNS = ["time", "client", "url", "status", "size"]
ENDINGS = {
    "images": ["gif", "jpg", "jpeg", "png", "tif", "tiff", "bmp", "xbm"],
    "pages": ["html", "htm", "txt", ""],  # a path that ends in no name is a page too
    "programs": ["class", "pl", "cgi", "js"],
}
REST = "others"  # archives, films, sounds and what is unknown


def rows(
    frame: DataFrame, about: About, *, shape: str = "requests", every: str = "30 s", over: str = "5 minutes"
) -> DataFrame:
    """Return the requests with their class, or how many of each class every client made lately."""
    frame = drop_missing(times(frame, "time"), ["time", "client"], about).withColumn("class", kind(sf.col("url")))
    endings = [f"{name} ({', '.join(ends)})".replace(", )", " or nothing)") for name, ends in ENDINGS.items()]
    about.notes.append(f"classes by the ending of the path: {'; '.join(endings)}; {REST}")
    if one_of("shape", shape, ["requests", "snapshots"]) == "requests":
        about.order = ["time", ROW]
        frame = numbers(frame, ["status", "size"], about)
        return frame.select(sf.col(ROW).alias("id"), "time", "client", "class", "status", "size", "url", ROW)
    about.order = ["time", "id"]
    frame = frame.withColumnRenamed("client", "id")
    classes = {name: sf.col("class") == name for name in (*ENDINGS, REST)}
    return snapshots(frame, "id", classes, every, over, about)


def kind(url: Column) -> Column:
    """Return the class of a URL."""
    path = sf.lower(sf.split_part(sf.coalesce(url, sf.lit("")), sf.lit("?"), sf.lit(1)))
    ending = sf.regexp_extract(path, r"\.([a-z0-9]+)$", 1)
    result = sf.lit(REST)
    for name, endings in ENDINGS.items():
        result = sf.when(ending.isin(endings), name).otherwise(result)
    return result
