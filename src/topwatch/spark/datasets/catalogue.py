"""The data sets of the papers' experiments: what is read of each, and how its rows become those of a stream."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from topwatch.spark.datasets.steps import (
    chunks,
    clip,
    drop_missing,
    logarithm,
    normalise,
    numbers,
    one_of,
    percentile,
    snapshots,
    times,
)
from topwatch.spark.datasets.writing import ROW, About

COVER_ATTRIBUTES = [
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
HEAVY = ["duration", "src_bytes", "dst_bytes"]
COUNTS = ["count", "srv_count", "dst_host_count", "dst_host_srv_count"]
MEASUREMENTS = ["primary_voltage", "secondary_voltage", "solar_current", "global_current"]
DELAYS = ["dep_delay", "arr_delay"]
ENDINGS = {
    "images": ["gif", "jpg", "jpeg", "png", "tif", "tiff", "bmp", "xbm"],
    "pages": ["html", "htm", "txt", ""],  # a path that ends in no name is a page too
    "programs": ["class", "pl", "cgi", "js"],
}
OTHERS = "others"  # archives, films, sounds and what is unknown

# What is read of each data set.
COLUMNS = {
    "covtype": ["id", *COVER_ATTRIBUTES, "cover"],
    "kddcup99": ["id", "protocol", "service", "label", *HEAVY, *COUNTS],
    "luce": ["id", "time", "station", *MEASUREMENTS],
    "nycflights13": ["time", "tailnum", "origin", *DELAYS],
    "worldcup98": ["time", "client", "url", "status", "size"],
}


def covtype(frame: DataFrame, about: About) -> DataFrame:
    """Return the attributes scaled, with the kind of cover as a label.

    Forest Cover (UCI): the data set FC of the top-k dominating paper (TKDE 2011), in the order of its file.

    The paper takes four to ten of the ten quantitative attributes; all are here, each scaled to [0, 1].
    """
    about.order = [ROW]
    return normalise(numbers(frame, COVER_ATTRIBUTES, about), COVER_ATTRIBUTES, about)


def kddcup99(frame: DataFrame, about: About, *, scale: str = "log") -> DataFrame:
    """Return the numbers scaled, protocol, service and label as text.

    KDD Cup 1999: network connections in the order of their file, with their duplicates: ties and bursts in mass.

    Duration and bytes have heavy tails: scaled by the largest, 693 million bytes, all but 85 of the half million
    rows would lie below 0.001. So the logarithm is taken of these three; the counts end at 511 and 255 and stay as
    they are. It keeps the order of values: skylines and dominance are the same with and without, sums of columns
    are not.
    """
    about.order = [ROW]
    frame = numbers(frame, HEAVY + COUNTS, about)
    if one_of("scale", scale, ["log", "linear"]) == "log":
        frame = logarithm(frame, HEAVY, about)
    return normalise(frame, HEAVY + COUNTS, about)


def luce(frame: DataFrame, about: About, *, percent: float | str = 99.9) -> DataFrame:
    """Return the measurements, clipped at a percentile and scaled.

    LUCE (SensorScope, EPFL): the real data set of the top-k/w paper (TODS 2015), by time.

    Its sensors glitch: voltages of 87 where 5 is usual. Scaled by such a maximum, all other rows would lie in a
    corner, so values are clipped first. Missing values stay missing.
    """
    about.order = ["time", "id"]
    frame = drop_missing(times(frame, "time"), ["time", "id"], about)
    frame = numbers(frame, MEASUREMENTS, about)
    frame = clip(frame, MEASUREMENTS, percentile("percent", percent), about)
    return normalise(frame, MEASUREMENTS, about)


def nycflights13(
    frame: DataFrame, about: About, *, delay: str = "dep_delay", every: str | None = None, combine: str = "sum"
) -> DataFrame:
    """Return (id, source, value, time): one row per flight, or per aeroplane, airport and interval.

    Flights from New York in 2013: an incomplete stream from many sources, in place of the servers of CIKM 2009.

    The object is the aeroplane, the source is the airport it leaves from, the value is its delay in minutes;
    ``scaled`` is the delay in [0, 1], as the paper has values. With ``every`` the flights of an interval become one
    row, which is the paper's preprocessing. An object that comes again in one source counts as another one there:
    ``occurrence``, from 1, distinguishes them.
    """
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


def worldcup98(
    frame: DataFrame, about: About, *, shape: str = "requests", every: str = "30 s", over: str = "5 minutes"
) -> DataFrame:
    """Return the requests with their class, or how many of each class every client made lately.

    Requests to the web site of the 1998 World Cup: as a stream, or as snapshots of what clients requested lately.

    Snapshots have the shape of the trace in the skyline paper (SIGMOD 2009): objects, moments, and four counts over
    the last while. There the four are kinds of connections, here they are kinds of URLs, by the ending of the path.
    """
    frame = drop_missing(times(frame, "time"), ["time", "client"], about).withColumn("class", kind_of(sf.col("url")))
    endings = [f"{name} ({', '.join(ends)})".replace(", )", " or nothing)") for name, ends in ENDINGS.items()]
    about.notes.append(f"classes by the ending of the path: {'; '.join(endings)}; {OTHERS}")
    if one_of("shape", shape, ["requests", "snapshots"]) == "requests":
        about.order = ["time", ROW]
        frame = numbers(frame, ["status", "size"], about)
        return frame.select(sf.col(ROW).alias("id"), "time", "client", "class", "status", "size", "url", ROW)
    about.order = ["time", "id"]
    frame = frame.withColumnRenamed("client", "id")
    classes = {name: sf.col("class") == name for name in (*ENDINGS, OTHERS)}
    return snapshots(frame, "id", classes, every, over, about)


def kind_of(url: Column) -> Column:
    """Return the class of a URL."""
    path = sf.lower(sf.split_part(sf.coalesce(url, sf.lit("")), sf.lit("?"), sf.lit(1)))
    ending = sf.regexp_extract(path, r"\.([a-z0-9]+)$", 1)
    result = sf.lit(OTHERS)
    for name, endings in ENDINGS.items():
        result = sf.when(ending.isin(endings), name).otherwise(result)
    return result
