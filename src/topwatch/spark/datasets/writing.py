"""A stream as a folder of Parquet files, in order, by name and by time, beside what was done to make it.

The order of a stream is one order of all its rows, so the last step is one task: it sorts, numbers and writes them.
Whatever is worked out before runs in parallel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from topwatch.query.errors import QueryError

ABOUT = "_about.json"  # Spark passes over files whose names start with an underscore
ROW = "_row"  # position of a row in its file
POSITION = "position"  # of a row in its stream, from 0
_FOR_TIMES = {
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # Spark reads no nanoseconds otherwise
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}
_FILE_NUMBER = re.compile(r"-c(\d+)\.")  # which of its task's files a file is


@dataclass
class About:
    """What was done to make a stream of a data set.

    Attributes
    ----------
    name, options
        Of the data set; the options of the call.
    order : list of str
        What rows are sorted by.
    rows_in, rows_out, files, rows_per_file : int
        Rows that were read and written, and how these are cut.
    dropped : dict
        Rows left out, by the reason.
    nulls : dict
        Missing values that were kept, by column.
    clipped : dict
        By column: the bound, and how many values lay above it.
    ranges : dict
        By column: what became 0 and what became 1.
    notes : list of str
        What else was done, in sentences.
    columns : dict
        Names and types of the result.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    rows_in: int = 0
    rows_out: int = 0
    files: int = 0
    rows_per_file: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    clipped: dict[str, dict[str, float]] = field(default_factory=dict)
    ranges: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as text, the same for the same input: without times and paths."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def __str__(self) -> str:
        r"""Return it in lines.

        >>> print(About("luce", rows_in=9, rows_out=8, files=1, rows_per_file=10, dropped={"time is null": 1}))
        luce: 9 rows in, 8 rows out in 1 file of up to 10 rows
          dropped: 1 (time is null)
        """
        files = f"{self.files:,} file{'s' * (self.files != 1)} of up to {self.rows_per_file:,} rows"
        lines = [f"{self.name}: {self.rows_in:,} rows in, {self.rows_out:,} rows out in {files}"]
        if self.order:
            lines.append(f"order: {', '.join(self.order)}")
        lines += [f"dropped: {count:,} ({reason})" for reason, count in self.dropped.items() if count]
        lines += [f"nulls kept: {count:,} in {column}" for column, count in self.nulls.items() if count]
        lines += [
            f"clipped: {int(clip['values']):,} values of {column} above {clip['above']:g}"
            for column, clip in self.clipped.items()
        ]
        lines += [f"0 to 1: {column} from {low:g} to {high:g}" for column, (low, high) in self.ranges.items()]
        return "\n  ".join([*lines, *self.notes])


@contextmanager
def settings(spark: SparkSession) -> Iterator[None]:
    """Let Spark read and write times the way the steps need it; what was set before comes back."""
    before = {name: str(spark.conf.get(name)) for name in _FOR_TIMES}
    for name, value in _FOR_TIMES.items():
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
        files = sorted((scratch / "spark").glob("*.parquet"), key=_number)
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
        about.order = ["position in the file" if name == ROW else name for name in about.order]
        about.columns = {field.name: field.dataType.simpleString() for field in numbered.schema.fields}
        (stream / ABOUT).write_text(about.to_json())
        if out.exists():
            shutil.rmtree(out)
        stream.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _number(file: Path) -> int:
    match = _FILE_NUMBER.search(file.name)
    assert match is not None, file.name
    return int(match.group(1))
