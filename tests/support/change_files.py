"""A stream of changes to write: each file that is put into a folder is a micro-batch."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

SCHEMA = "at bigint, query string, op string, id string, score double"


class ChangeFiles:
    """A folder of changes; those of batch ``n`` are numbered ``100 n`` and up."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder, self._batches = spark, folder, 0
        folder.mkdir()

    def add(self, count: int = 3) -> list[int]:
        """Put a batch there and return its numbers."""
        numbers = [100 * self._batches + i for i in range(count)]
        lines = [f'{{"at": {n}, "query": "hot", "op": "enter", "id": "r{n}", "score": {n / 8}}}\n' for n in numbers]
        file = self._folder / f"{self._batches}.json"
        file.write_text("".join(lines))
        # Spark takes files by their times, to the millisecond.
        os.utime(file, (1e9 + self._batches, 1e9 + self._batches))
        self._batches += 1
        return numbers

    def frame(self) -> DataFrame:
        return self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self._folder))
