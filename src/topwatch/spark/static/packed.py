"""A static frame's numbers as Spark keeps them for a few passes: chunks of arrays, and what each pass computes of them.

Turning rows into arrays costs more than what is then computed. So it is done once: each partition becomes a few
rows that hold a chunk of numbers each, which Spark keeps in memory or on disk until the last pass. A pass gives one
line for each partition, and these are added up in a few tasks before the driver sees them.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topwatch.core.arrays import Floats, Ints
from topwatch.spark.session import quoted
from topwatch.spark.static.selection import numbers, signs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from topwatch.tables.levels import Axes, Tuples
    from topwatch.tables.top_dominating import Sieve, Sifted

CHUNK = 1 << 16
SAMPLE = 16_384  # rows, over all partitions
ADDERS = 8  # tasks that add lines up, where there are more partitions
LEAST = 1024  # candidates that a partition may name in any case
_LINE = pa.schema([("line", pa.binary())])


class PackedParts:
    """The parts of :func:`topwatch.tables.top_dominating.best_dominating`: the partitions of a frame.

    Parameters
    ----------
    df : DataFrame
        Static.
    prefer : mapping of column to "min" or "max"
        The columns that are read. Rows without a value in one are left out.
    """

    def __init__(self, df: DataFrame, prefer: dict[str, Any]) -> None:
        from pyspark.sql import functions as sf

        self._columns = len(prefer)
        read = df.select(*(sf.col(quoted(name)).alias(str(j)) for j, name in enumerate(prefer)))
        self._chunks = read.mapInArrow(partial(_pack, sign=signs(prefer)), "line binary").persist()
        self._parts = 0

    def __enter__(self) -> PackedParts:
        return self

    def __exit__(self, *_: object) -> None:
        self._chunks.unpersist()

    def sample(self) -> tuple[int, Floats]:
        """Return how many rows there are, and some."""
        lines = self._pass(partial(_sample, columns=self._columns))
        self._parts = len(lines)
        rows = sum(count for count, _ in lines)
        some = [sample[:, :: max(1, sample.shape[1] * rows // (count * SAMPLE))] for count, sample in lines if count]
        return rows, np.ascontiguousarray(np.concatenate([np.empty((self._columns, 0)), *some], axis=1))

    def histogram(self, axes: Axes) -> Ints:
        """Count the rows of each cell."""
        counts = np.zeros(axes.cells, np.int64)
        for cells, times in self._pass(partial(_histogram, axes=axes), _add_histograms):
            counts[cells] += times
        return counts

    def sift(self, sieve: Sieve) -> Sifted:
        """Return the candidates."""
        from topwatch.tables.top_dominating import Sifted

        share = max(LEAST, 4 * sieve.most // max(1, self._parts))
        lines = self._pass(partial(_sift, sieve=dataclasses.replace(sieve, most=share), columns=self._columns))
        values = np.concatenate([np.empty((self._columns, 0)), *(line[0] for line in lines)], axis=1)
        return Sifted(values, all(line[1] for line in lines), sum(line[2] for line in lines))

    def compare(self, few: Tuples) -> tuple[Ints, Ints]:
        """Count, for each of a few rows, the rows that are not better in any column, and those that are the same."""
        total = np.zeros((2, few.values.shape[1]), np.int64)
        for line in self._pass(partial(_compare, values=few.values), _add_arrays):
            total += line
        return total[0], total[1]

    def _pass(self, compute: Any, add: Any = None) -> list[Any]:
        """Return what is computed of each partition, or of several that were added up."""
        lines = self._chunks.mapInArrow(partial(_computed, compute=compute), "line binary")
        if add is not None and self._parts > ADDERS:
            lines = lines.repartition(ADDERS).mapInArrow(partial(_added, add=add), "line binary")
        return [pickle.loads(line) for line in lines.toArrow().column("line").to_pylist()]


def _pack(batches: Iterable[pa.RecordBatch], sign: Floats) -> Iterator[pa.RecordBatch]:
    """Turn rows into chunks of numbers, smaller better, without rows that lack one."""
    waiting: list[Floats] = []
    rows = 0
    for batch in batches:
        table = pa.Table.from_batches([batch])
        # No negative zeros: equal values have equal bits.
        values = numbers(table, tuple(table.column_names)) * sign + 0.0
        waiting.append(values[:, ~np.isnan(values).any(axis=0)])
        rows += waiting[-1].shape[1]
        if rows >= CHUNK:
            yield _line(np.concatenate(waiting, axis=1).tobytes())
            waiting, rows = [], 0
    if rows:
        yield _line(np.concatenate(waiting, axis=1).tobytes())


def _computed(batches: Iterable[pa.RecordBatch], compute: Any) -> Iterator[pa.RecordBatch]:
    yield _line(pickle.dumps(compute(line for batch in batches for line in batch.column(0))))


def _added(batches: Iterable[pa.RecordBatch], add: Any) -> Iterator[pa.RecordBatch]:
    lines = (pickle.loads(line.as_py()) for batch in batches for line in batch.column(0))
    total = None
    for line in lines:
        total = line if total is None else add(total, line)
    if total is not None:
        yield _line(pickle.dumps(total))


def _line(content: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([content], pa.binary())], schema=_LINE)


def _chunks(lines: Iterable[Any], columns: int) -> Iterator[Floats]:
    for line in lines:
        yield np.frombuffer(line.as_buffer(), np.float64).reshape(columns, -1)


def _sample(lines: Iterable[Any], columns: int) -> tuple[int, Floats]:
    rows = 0
    some = [np.empty((columns, 0))]
    step = 1
    for values in _chunks(lines, columns):
        some.append(values[:, -rows % step :: step])
        rows += values.shape[1]
        if sum(part.shape[1] for part in some) > 2 * SAMPLE:
            some = [np.concatenate(some, axis=1)[:, ::2]]
            step *= 2
    return rows, np.concatenate(some, axis=1)


def _histogram(lines: Iterable[Any], axes: Axes) -> tuple[Ints, Ints]:
    counts = np.zeros(axes.cells, np.int64)
    for values in _chunks(lines, len(axes.bounds)):
        counts += np.bincount(axes.cells_of(values), minlength=axes.cells)
    cells = np.flatnonzero(counts)
    return cells, counts[cells]


def _add_histograms(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    cells, index = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    times = np.zeros(cells.size, np.int64)
    np.add.at(times, index, np.concatenate([one[1], other[1]]))
    return cells, times


def _sift(lines: Iterable[Any], sieve: Sieve, columns: int) -> tuple[Floats, bool, int]:
    from topwatch.tables.top_dominating import sifted

    return tuple(sifted(_chunks(lines, columns), sieve))  # type: ignore[return-value]


def _compare(lines: Iterable[Any], values: Floats) -> Ints:
    from topwatch.tables.levels import Tuples

    few = Tuples(values)
    total: Ints = np.zeros((2, values.shape[1]), np.int64)
    for others in _chunks(lines, len(values)):
        total += few.compare(others)
    return total


def _add_arrays(one: Ints, other: Ints) -> Ints:
    return one + other
