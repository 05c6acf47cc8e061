"""A stream of files that tests watch on Spark, and what monitors report of the same rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import topwatch as tw

QUERIES = [
    tw.TopK(k=3, score=tw.linear(x=1.0, y=0.01), name="hot"),
    tw.Nearest(k=2, point={"x": 0.5, "y": 25.0}, name="near"),
]
FILES, ROWS = 6, 300
Line = tuple[Any, ...]


class Stream:
    """A folder of files that a query reads, a few at a time."""

    def __init__(self, spark: SparkSession, folder: Path, rng: np.random.Generator, backend: str = "folder") -> None:
        self.spark, self.folder, self.backend = spark, folder, backend
        count = FILES * ROWS
        seconds = np.arange(count) + rng.random(count)
        self.table = pa.table(
            {
                "id": [f"r{i}" for i in range(count)],
                "ts": pa.array((seconds * 1e6).astype("datetime64[us]"), pa.timestamp("us", "UTC")),
                "g": pa.array(rng.choice(np.array(["a", "b", "c", None]), count).tolist(), pa.string()),
                "x": rng.random(count).round(2),
                "y": rng.integers(0, 50, count),
            }
        )
        (folder / "in").mkdir()

    def write(self, first: int = 0, last: int = FILES, table: pa.Table | None = None) -> None:
        table = self.table if table is None else table
        for i in range(first, last):
            path = self.folder / "in" / f"{i:03d}.parquet"
            pq.write_table(table.slice(i * ROWS, ROWS), path, row_group_size=100)
            os.utime(path, (1_000_000_000 + i,) * 2)

    def read(self, files: int = 1) -> DataFrame:
        kind = self.spark.read.parquet(str(self.folder / "in")).schema
        reader = self.spark.readStream.schema(kind).option("maxFilesPerTrigger", files)
        return reader.parquet(str(self.folder / "in"))

    def run(self, frame: DataFrame, name: str = "one") -> list[Line]:
        folder = self.folder / name
        writer = frame.writeStream.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "ck"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return lines(self.spark.read.parquet(str(folder / "out")))

    @property
    def segments(self) -> str | None:
        return str(self.folder / "segments") if self.backend == "folder" else None


def lines(frame: DataFrame) -> list[Line]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def wanted(
    table: pa.Table, by: str | None = None, queries: Any = QUERIES, algorithm: str = "brute", **options: Any
) -> list[Line]:
    """What monitors say, one for each group."""
    result: list[Line] = []
    for group in [None] if by is None else pc.unique(table.column(by)).to_pylist():
        part = table
        if by is not None:
            column = table.column(by)
            part = table.filter(pc.is_null(column) if group is None else pc.equal(column, group))
        monitor = tw.Monitor(queries, algorithm=algorithm, **options)
        result += [(*(() if by is None else (group,)), *change) for change in monitor.push(part)]
    return sorted(result, key=str)


BOTH = pytest.mark.parametrize("backend", ["folder", "store"])
