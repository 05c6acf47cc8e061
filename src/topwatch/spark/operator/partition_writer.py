"""The bulk stage: the rows of a partition into a segment, and only references to it onwards.

It runs inside ``mapInArrow``, where rows come as Arrow batches and cost least. Rows are put into the order of their
source, those of one bucket together, and written while Spark makes the next ones; what is shuffled is one line per
bucket and piece. Where pruning is exact, nothing is written at all: the few rows that can be an answer travel in the
lines themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topwatch.spark.node.worker_tuning import tune_worker
from topwatch.spark.operator.ordering import in_order, squeeze
from topwatch.spark.state.manifest import CENSUS, check_partitions
from topwatch.spark.state.segments import Folder, Segment, pack
from topwatch.spark.stream_spec import Spec

KEPT_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"  # as many as the checkpoint was begun with
PIECE = 1 << 15  # rows of a piece, for each bucket
MOST = 1 << 20
ROWS, BAD, KEPT, COUNT = 0, 1, 2, 3  # what a reference points to: rows, refused ones, what pruning has left, nothing
SCHEMA = (
    "bucket int, kind int, part int, piece int,"
    " segment string, data binary, start bigint, size bigint, rows bigint, check bigint"
)
_FIELDS = pa.schema(
    [
        ("bucket", pa.int32()),
        ("kind", pa.int32()),
        ("part", pa.int32()),
        ("piece", pa.int32()),
        ("segment", pa.string()),
        ("data", pa.binary()),
        ("start", pa.int64()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("check", pa.int64()),
    ]
)


class Bulk:
    """The function for ``mapInArrow``."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn a partition's rows into references; they may be used once the last of them is handed on."""
        from pyspark import TaskContext

        tune_worker()
        task = TaskContext.get()
        assert task is not None
        kept = task.getLocalProperty(KEPT_PARTITIONS)
        if self._spec.by and kept is not None:  # said before anything is done; the state has the last word
            check_partitions(int(kept), len(self._spec.buckets))
        folder = Folder(self._spec.segments) if self._spec.segments is not None else None
        writer = _Writer(self._spec, folder, task.stageId(), task.partitionId())
        pruner = None
        if self._spec.pruned:
            from topwatch.spark.operator.pruning import Pruner

            pruner = Pruner(self._spec)
        for piece in _pieces(batches, min(MOST, PIECE * max(2, len(self._spec.buckets)))):
            table = piece.rename_columns(self._spec.carried)
            good, bad = split(table, self._spec)
            if good.num_rows and pruner is not None:
                pruner.take(in_order(good, self._spec))
            elif good.num_rows:
                writer.rows(in_order(good, self._spec))
            if bad.num_rows:
                writer.carry(BAD, bad if self._spec.quarantine is not None else None, bad.num_rows)
        if pruner is not None:
            for rows, left in pruner.pieces():
                writer.carry(KEPT, left, rows)
        if writer.close():
            yield pa.RecordBatch.from_pylist(writer.lines, schema=_FIELDS)


class _Writer:
    """Writes pieces into one segment, or into the lines where there is no folder, and keeps the lines."""

    def __init__(self, spec: Spec, folder: Folder | None, stage: int, part: int) -> None:
        self._spec = spec
        self._folder = folder
        self._stage = stage
        self._part = part
        self._segment: Segment | None = None
        self.lines: list[dict[str, Any]] = []

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
        self._line(self._spec.buckets[bucket], ROWS, **self._segment.add_table(table)._asdict())

    def carry(self, kind: int, table: pa.Table | None, rows: int, bucket: int = 0) -> None:
        """Let a piece travel in its line; None where it need only be counted."""
        data = pack(table).to_pybytes() if table is not None else None
        self._line(self._spec.buckets[bucket], kind, data=data, rows=rows)

    def close(self) -> bool:
        """Make the segment safe; tell whether there are lines."""
        if self._segment is not None:
            name = self._segment.close()
            for line in self.lines:
                if line["segment"] is not None:
                    line["segment"] = name
        if self.lines and self._spec.by:
            self._line(CENSUS, COUNT)
        return bool(self.lines)

    def _line(self, bucket: int, kind: int, **what: Any) -> None:
        where = {"bucket": bucket, "kind": kind, "part": self._part, "piece": len(self.lines)}
        nothing = {"segment": None, "data": None, "start": 0, "size": 0, "rows": 0, "check": 0}
        self.lines.append({**where, **nothing, **what})


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


def split(table: pa.Table, spec: Spec) -> tuple[pa.Table, pa.Table]:
    """Return the rows that can be used, and the others as (reason, raw)."""
    reasons = [(spec.id, "id is null")] + ([(spec.time, "time is null")] if spec.time else [])
    bad: list[pa.Table] = []
    for column, reason in reasons:
        if table.column(column).null_count:
            missing = pc.is_null(table.column(column))
            bad.append(refuse(table.filter(missing), reason, spec))
            table = table.filter(pc.invert(missing))
    return table, pa.concat_tables(bad) if bad else table.slice(0, 0)


def refuse(table: pa.Table, reason: str, spec: Spec) -> pa.Table:
    """Return rows as they go to the quarantine."""
    shown = [name for name in spec.carried if name in table.column_names and name not in spec.order]
    raw = [json.dumps(row, default=str) for row in table.select(shown).to_pylist()]
    return pa.table({"reason": pa.array([reason] * len(raw), pa.string()), "raw": pa.array(raw, pa.string())})
