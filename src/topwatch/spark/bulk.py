"""The bulk step: the rows of a partition into a segment, and only references to it onwards.

It runs inside ``mapInArrow``, where rows come as Arrow batches and cost least. Rows are put into the order of their
source, those of one bucket together, and written once; what is shuffled is one line per bucket and segment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.spark.ordering import in_order, squeeze
from topwatch.spark.segments import Folder, pack
from topwatch.spark.spec import Spec

BUCKET = "_bucket"  # column with the number of the row's bucket, worked out by Spark
CHUNK = 1 << 20  # rows of one segment
ROWS, BAD = 0, 1  # what a reference points to
SCHEMA = "bucket int, kind int, part int, chunk int, segment string, data binary, start bigint, count bigint"
_FIELDS = pa.schema(
    [
        ("bucket", pa.int32()),
        ("kind", pa.int32()),
        ("part", pa.int32()),
        ("chunk", pa.int32()),
        ("segment", pa.string()),
        ("data", pa.binary()),
        ("start", pa.int64()),
        ("count", pa.int64()),
    ]
)


class Bulk:
    """The function for ``mapInArrow``."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn a partition's rows into references."""
        from pyspark import TaskContext

        from topwatch.spark.processor import here

        query, batch = here()
        task = TaskContext.get()
        assert task is not None
        folder = Folder(f"{self._spec.segments}/{query}") if self._spec.segments is not None else None
        for chunk, table in enumerate(_chunks(batches)):
            lines = list(self._lines(table, folder, batch, {"part": task.partitionId(), "chunk": chunk}))
            if lines:
                yield pa.RecordBatch.from_pylist(lines, schema=_FIELDS)

    def _lines(
        self, table: pa.Table, folder: Folder | None, batch: int, where: dict[str, int]
    ) -> Iterator[dict[str, Any]]:
        good, bad = split(table, self._spec)
        if good.num_rows:
            good = in_order(good, self._spec)
            bounds = [0, good.num_rows]
            if len(self._spec.buckets) > 1:
                number = good.column(BUCKET).to_numpy()
                if np.any(number[1:] < number[:-1]):
                    good = good.take(pa.array(np.argsort(number, kind="stable")))
                bounds = np.searchsorted(
                    good.column(BUCKET).to_numpy(), np.arange(len(self._spec.buckets) + 1)
                ).tolist()
            good = good.drop_columns([BUCKET]) if BUCKET in good.column_names else good
            good = squeeze(good, self._spec.order)
            slices = [(i, a, b - a) for i, (a, b) in enumerate(pairwise(bounds)) if b > a]
            yield from self._store(good, slices, ROWS, folder, batch, where)
        if bad.num_rows:
            yield from self._store(bad, [(0, 0, bad.num_rows)], BAD, folder, batch, where)

    def _store(
        self,
        table: pa.Table,
        slices: list[tuple[int, int, int]],
        kind: int,
        folder: Folder | None,
        batch: int,
        where: dict[str, int],
    ) -> Iterator[dict[str, Any]]:
        name = folder.write(batch, pack(table)) if folder is not None else None
        for number, start, count in slices:
            line: dict[str, Any] = {
                "bucket": self._spec.buckets[number],
                "kind": kind,
                "start": start,
                "count": count,
                **where,
            }
            if name is None:
                line |= {"segment": None, "data": pack(table.slice(start, count)).to_pybytes(), "start": 0}
            else:
                line |= {"segment": name, "data": None}
            yield line


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches into tables of about as many rows as a segment should have."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= CHUNK:
            yield pa.Table.from_batches(waiting)
            rows, waiting = 0, []
    if rows:
        yield pa.Table.from_batches(waiting)


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
