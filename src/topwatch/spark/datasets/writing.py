"""A stream as a folder of Parquet files: in its order, by name and by time, so that it can be read file by file.

The order of a stream is one order of all its rows, so the last step is one task: it sorts, numbers and writes them.
Whatever is worked out before runs in parallel.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from topwatch.query.errors import QueryError
from topwatch.spark.datasets.about import ABOUT, About
from topwatch.spark.datasets.steps import ROW

POSITION = "position"  # of a row in its stream, from 0
_SETTINGS = {
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # Spark reads no nanoseconds otherwise
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}
_PLACE = re.compile(r"-c(\d+)\.")  # which of its task's files a file is


@contextmanager
def settings(spark: SparkSession) -> Iterator[None]:
    """Let Spark read and write times the way the steps need it; what was set before comes back."""
    before = {name: str(spark.conf.get(name)) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def check_folder(out: Path, force: bool) -> None:
    """Refuse a folder that cannot be written, or that holds what is not ours to replace."""
    if not out.parent.is_dir():
        raise QueryError(f"out: there is no folder {str(out.parent)!r} to make {out.name!r} in")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / ABOUT).is_file():
        raise QueryError(f"out: {str(out)!r} exists and is no data set of ours; accepted is a new or empty folder")
    if not force:
        raise QueryError(f"out: {str(out)!r} exists already; --force replaces it")


def write(rows: DataFrame, out: Path, rows_per_file: int, about: About) -> None:
    """Write rows in the order that ``about`` names; the folder appears under its name only when it is complete."""
    kept = [name for name in rows.columns if name not in (ROW, "id", "time")]
    first = [name for name in ("id", "time") if name in rows.columns]
    ordered = rows.repartition(1).sortWithinPartitions(*about.order)
    # In a single partition these numbers are 0, 1, 2 ...
    numbered = ordered.select(sf.monotonically_increasing_id().alias(POSITION), *first, *kept)
    scratch = out.with_name(f".{out.name}.{os.urandom(8).hex()}.part")
    try:
        writer = numbered.write.option("maxRecordsPerFile", rows_per_file).option("compression", "zstd")
        writer.parquet(str(scratch / "spark"))
        files = sorted((scratch / "spark").glob("*.parquet"), key=_index)
        stream = scratch / "stream"
        stream.mkdir()
        # A second apart, the last one now: a stream of files is read by their times, and Spark passes over files that
        # are a week older than the newest.
        start = int(time.time()) - len(files) + 1
        for number, file in enumerate(files):
            target = stream / f"part-{number:06d}.parquet"
            file.rename(target)
            os.utime(target, (start + number,) * 2)
            about.rows_out += pq.read_metadata(target).num_rows
        about.files, about.rows_per_file = len(files), rows_per_file
        about.order = ["place in the file" if name == ROW else name for name in about.order]
        about.columns = {field.name: field.dataType.simpleString() for field in numbered.schema.fields}
        (stream / ABOUT).write_text(about.to_json())
        if out.exists():
            shutil.rmtree(out)
        stream.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _index(file: Path) -> int:
    result = _PLACE.search(file.name)
    assert result is not None, file.name
    return int(result.group(1))
