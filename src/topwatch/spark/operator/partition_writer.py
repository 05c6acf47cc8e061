"""The bulk stage: writes the rows of a partition into a segment, and hands on references to it.

It runs inside ``mapInArrow``, where rows come as Arrow batches and cost least. Rows are put into the order of their
source, those of one bucket together, and written while Spark makes the next ones; what is shuffled is one line per
bucket and piece. Where pruning is exact, nothing is written at all: the few rows that can be an answer travel in the
lines themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from topwatch.spark.operator.ordering import in_order, squeeze
from topwatch.spark.operator.quarantine import split
from topwatch.spark.operator.references import BAD, COUNT, KEPT, ROWS, SCHEMA, Reference
from topwatch.spark.planner import Spec
from topwatch.spark.state.manifest import CENSUS, check_partitions
from topwatch.spark.state.segments import Segment, pack

BEGUN_WITH = "spark.sql.streaming.internal.stateStore.partitions"  # how many partitions the checkpoint was begun with
PIECE_ROWS = 1 << 15  # for each bucket
MOST_PIECE_ROWS = 1 << 20


class PartitionWriter:
    """The function for ``mapInArrow``."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn a partition's rows into references; they may be used once the last of them is handed on."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        begun = task.getLocalProperty(BEGUN_WITH)
        if self._spec.by and begun is not None:  # refused before anything is done; the state has the last word
            check_partitions(int(begun), len(self._spec.buckets))
        writer = _Writer(self._spec, task.stageId(), task.partitionId())
        pruner = None
        if self._spec.plan.pruned:
            from topwatch.spark.operator.pruning import Pruner

            pruner = Pruner(self._spec)
        for piece in _pieces(batches, min(MOST_PIECE_ROWS, PIECE_ROWS * max(2, len(self._spec.buckets)))):
            table = piece.rename_columns(self._spec.carried)
            good, bad = split(table, self._spec)
            if good.num_rows and pruner is not None:
                pruner.take(in_order(good, self._spec))
            elif good.num_rows:
                writer.rows(in_order(good, self._spec))
            if bad.num_rows:
                writer.carry(BAD, bad if self._spec.quarantine is not None else None, bad.num_rows)
        if pruner is not None:
            for rows, kept in pruner.pieces():
                writer.carry(KEPT, kept, rows)
        lines = writer.close()
        if lines:
            yield pa.RecordBatch.from_pylist([line._asdict() for line in lines], schema=SCHEMA)


class _Writer:
    """Writes pieces into one segment, or into the lines where the plan names no folder, and keeps the lines."""

    def __init__(self, spec: Spec, stage: int, part: int) -> None:
        self._spec = spec
        self._folder = spec.folder
        self._stage = stage
        self._part = part
        self._segment: Segment | None = None
        self._lines: list[Reference] = []

    def rows(self, table: pa.Table) -> None:
        """Write rows, those of each bucket apart."""
        buckets = len(self._spec.buckets)
        table = squeeze(table, self._spec.only_order)
        if buckets == 1:
            self.add(0, table)
            return
        from topwatch.spark.operator.bucket_numbers import apart, bucket_numbers

        for bucket, rows in enumerate(apart(table, bucket_numbers(table, self._spec.by, buckets), buckets)):
            if rows.num_rows:
                self.add(bucket, rows)

    def add(self, bucket: int, table: pa.Table) -> None:
        """Write a piece."""
        if self._folder is None:
            self.carry(ROWS, table, table.num_rows, bucket)
            return
        if self._segment is None:
            # A task that is run again has the same stage: it writes the same bytes under the same name.
            self._segment = self._folder.create(f"{self._spec.run}-{self._stage:07d}-p{self._part:05d}")
        # The segment gets its name when it is closed.
        self._line(self._spec.buckets[bucket], ROWS, **self._segment.add_table(table)._asdict())

    def carry(self, kind: int, table: pa.Table | None, rows: int, bucket: int = 0) -> None:
        """Let a piece travel in its line; None where it need only be counted."""
        data = pack(table).to_pybytes() if table is not None else None
        self._line(self._spec.buckets[bucket], kind, data=data, rows=rows)

    def close(self) -> list[Reference]:
        """Close the segment; return the lines."""
        if self._segment is not None:
            name = self._segment.close()
            self._lines = [line if line.segment is None else line._replace(segment=name) for line in self._lines]
        if self._lines and self._spec.by:
            self._line(CENSUS, COUNT)
        return self._lines

    def _line(self, bucket: int, kind: int, **what: Any) -> None:
        self._lines.append(Reference(bucket, kind, self._part, len(self._lines), **what))


def _pieces(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Join batches into tables of about as many rows as a piece should have."""
    buffered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        buffered.append(batch)
        rows += batch.num_rows
        if rows >= most:
            yield pa.Table.from_batches(buffered)
            rows, buffered = 0, []
    if rows:
        yield pa.Table.from_batches(buffered)
