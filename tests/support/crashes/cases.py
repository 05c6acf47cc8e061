"""Pipelines that tests kill and start again: their settings, their rows, and what monitors say about them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import topwatch as tw
from topwatch.spark.pipeline import runner
from topwatch.spark.pipeline.config.reading import read

Line = tuple[Any, ...]

BASE: dict[str, Any] = {
    "source": {"files": {"path": "in/*.parquet", "max_files": 1}},
    "queries": [
        {"name": "hot", "top": 20, "score": {"linear": {"x": 1.0, "y": 0.01}}},
        {"name": "near", "nearest": 10, "point": {"x": 0.5, "y": 25.0}},
    ],
    "sink": {"parquet": "out/"},
    "checkpoint": "ckpt/",
}
BEGINNING = 1_000_000_000  # seconds: when the first file was written, and its first row happened
RATE = 10  # rows in a second of event time


@dataclass(frozen=True)
class Case:
    """A pipeline by its settings, and how many rows each file has; a file is a micro-batch."""

    settings: dict[str, Any]
    rows: int = 2000
    disorder: float = 0.0  # by how many seconds rows may be out of order
    holes: bool = False  # some rows have no id

    @property
    def partitions(self) -> int:
        """How many partitions the state has."""
        return 2 if "by" in self.settings else 1


def _case(by: bool, algorithm: str, window: int | str, every: int, rows: int = 2000, **more: Any) -> Case:
    case = {name: more.pop(name) for name in ("disorder", "holes") if name in more}
    spark = {"spark.sql.shuffle.partitions": 2 if by else 1, **more.pop("spark", {})}
    grouped = {"by": "g"} if by else {}
    settings = {"algorithm": algorithm, "window": {"last": window}, "every": every, "spark": spark, **grouped, **more}
    return Case(settings, rows, **case)


# Windows smaller and larger than a micro-batch; a group has about an eighth of the rows.
CASES: dict[str, Case] = {
    "all-auto-short-1": _case(False, "auto", 1500, 1),
    "all-auto-long-50": _case(False, "auto", 5000, 50),
    "all-sma-short-50": _case(False, "sma", 500, 50),
    "all-sma-long-1": _case(False, "sma", 5000, 1),
    "by-auto-short-50": _case(True, "auto", 60, 50),
    "by-auto-long-1": _case(True, "auto", 700, 1),
    "by-auto-filling-1": _case(True, "auto", 3000, 1),  # windows are full after a dozen micro-batches
    "by-sma-short-1": _case(True, "sma", 60, 1),
    "by-sma-long-50": _case(True, "sma", 700, 50),
    # So many rows that the state becomes a snapshot and its old segments go.
    "all-sma-snapshots": _case(
        False, "sma", 100_000, 10_000, rows=140_000, spark={"spark.sql.streaming.minBatchesToRetain": 2}
    ),
    "by-auto-snapshots": _case(
        True, "auto", 10_000, 5_000, rows=280_000, spark={"spark.sql.streaming.minBatchesToRetain": 2}
    ),
    # Rows that wait for the watermark, and rows that cannot be used.
    "all-auto-late": _case(
        False,
        "auto",
        "3 minutes",
        1,
        time="ts",
        lateness="1 minute",
        quarantine="bad/",
        disorder=50.0,
        holes=True,
    ),
}


@dataclass
class Stream:
    """A case in a folder: its pipeline, and its files as far as they have come."""

    case: Case
    folder: Path
    seed: int
    tables: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "in").mkdir(parents=True)
        self.file.write_text(yaml.safe_dump({**BASE, **self.case.settings}, sort_keys=False))

    @property
    def file(self) -> Path:
        """The pipeline."""
        return self.folder / "pipeline.yml"

    @property
    def out(self) -> Path:
        """Where its changes go."""
        return self.folder / "out"

    def grow(self, files: int) -> None:
        """Put files there until there are so many."""
        for number in range(len(self.tables), files):
            self.tables.append(self._rows(number))
            path = self.folder / "in" / f"{number:05d}.parquet"
            pq.write_table(self.tables[-1], path.with_suffix(".new"))
            path.with_suffix(".new").rename(path)
            os.utime(path, (BEGINNING + number,) * 2)

    def _rows(self, number: int) -> pa.Table:
        rng = np.random.default_rng([self.seed, number])
        rows, first = self.case.rows, self.case.rows * number
        seconds = (np.arange(rows) + first) / RATE + self.case.disorder * rng.random(rows)
        return pa.table(
            {
                "id": pa.array(np.arange(first, first + rows), mask=self.case.holes & (rng.random(rows) < 0.002)),
                "ts": pa.array(((BEGINNING + seconds) * 1e6).astype("datetime64[us]"), pa.timestamp("us", "UTC")),
                "g": pa.array(np.array([*"abcdefg", None])[rng.integers(0, 8, rows)].tolist(), pa.string()),
                "x": rng.random(rows).round(3),
                "y": rng.integers(0, 50, rows).astype(float),
            }
        )

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Run the pipeline over what there is now, in a session that is there already."""
        query, _ = runner.begin(spark, read(self.file), once=True)
        return query

    def wanted(self) -> list[Line]:
        """What monitors say that compute every answer again, one for each group."""
        pipeline = read(self.file)
        table = pa.concat_tables(self.tables)
        table = table.filter(pc.is_valid(table.column("id")))
        if pipeline.time is not None:
            table = table.sort_by(pipeline.time)
        result: list[Line] = []
        groups = pc.unique(table.column("g")).to_pylist() if pipeline.by else [None]
        for group in groups:
            part = table
            if pipeline.by:
                part = table.filter(pc.is_null(table["g"]) if group is None else pc.equal(table["g"], group))
            monitor = tw.Monitor(
                pipeline.standing_queries(),
                pipeline.window.build(),
                every=pipeline.every,
                algorithm="brute",
                id=pipeline.id,
                time=pipeline.time,
            )
            result += [(*((group,) if pipeline.by else ()), *change) for change in monitor.push(part)]
        return result

    def refused(self) -> list[str]:
        """Return the times of the rows without an id, as the quarantine has them."""
        table = pa.concat_tables(self.tables)
        return sorted(str(time) for time in table.filter(pc.is_null(table["id"])).column("ts").to_pylist())
