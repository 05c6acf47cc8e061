"""Generated rows as a streaming source of Spark's: row *i* is the same in every run, however batches are cut.

Rows are made on the executors, as Arrow batches. Where they come from is a function that the caller gives: this layer
knows none of the generators.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

RowsOf: TypeAlias = Callable[[str, int, int, int, int], NDArray[np.float64]]
"""``rows_of(kind, dims, seed, start, stop)``: rows start .. stop - 1 of a stream, an array (dims, stop - start)."""

NAME = "topwatch_generate"
_CHUNK = 65536  # rows of an Arrow batch


def source_of(rows_of: RowsOf) -> type[DataSource]:
    """Return the data source that takes its rows from ``rows_of``, to be registered with Spark."""
    # A class made here travels to the executors by value, and the function with it.
    return type("Generated", (_Generated,), {"rows_of": staticmethod(rows_of)})


class _Generated(DataSource):
    """Columns ``id`` (1, 2, 3 ...) and ``x1 .. xd``; the options are those of the source's settings."""

    rows_of: RowsOf

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        columns = [StructField(f"x{i}", DoubleType()) for i in range(1, int(self.options["dims"]) + 1)]
        return StructType([StructField("id", LongType()), *columns])

    def streamReader(self, schema: StructType) -> _Reader:  # noqa: N802 - Spark's name
        return _Reader(type(self).rows_of, dict(self.options))


class _Range(InputPartition):
    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the number of rows so far."""

    def __init__(self, rows_of: RowsOf, options: dict[str, str]) -> None:
        self._rows_of = rows_of
        self._kind, self._dims, self._seed = options["kind"], int(options["dims"]), int(options["seed"])
        self._per_batch, self._slices = int(options["rows_per_batch"]), int(options["slices"])
        self._end = int(options["rows"]) if "rows" in options else None
        self._ends_soon = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        # Rows without end are never all there: a run that takes what there is takes one batch.
        self._ends_soon = self._end is None

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        if self._ends_soon and self._end is None:
            self._end = start["rows"] + self._per_batch
        if isinstance(limit, ReadAllAvailable) and self._end is not None:
            return {"rows": max(start["rows"], self._end)}
        step = limit.max_rows if isinstance(limit, ReadMaxRows) else self._per_batch
        stop = start["rows"] + step
        return {"rows": stop if self._end is None else max(start["rows"], min(stop, self._end))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, count = start["rows"], end["rows"] - start["rows"]
        cuts = [first + count * i // self._slices for i in range(self._slices + 1)]
        return [_Range(a, b) for a, b in itertools.pairwise(cuts) if a < b]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        part = cast(_Range, partition)
        for start in range(part.start, part.stop, _CHUNK):
            stop = min(start + _CHUNK, part.stop)
            columns = self._rows_of(self._kind, self._dims, self._seed, start, stop)
            arrays = [np.arange(start + 1, stop + 1), *columns]
            yield pa.RecordBatch.from_arrays(
                [pa.array(array) for array in arrays], names=["id", *(f"x{i}" for i in range(1, self._dims + 1))]
            )
