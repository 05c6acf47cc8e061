"""Static frames: the same monitors over rows that Spark has sorted, group by group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from topwatch.spark.bulk import split
from topwatch.spark.emitting import Emitter
from topwatch.spark.spec import Spec


class Sweep:
    """The function for ``mapInArrow`` over a partition sorted by group, time and source order."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run each group's rows through a monitor of its own."""
        emitter = Emitter(self._spec)
        last: tuple[Any, ...] | None = None
        monitor = self._spec.monitor()
        for batch in batches:
            table, _ = split(pa.Table.from_batches([batch]), self._spec)
            for key, part in _runs(table, self._spec.by):
                if key != last:
                    last, monitor = key, self._spec.monitor()
                found = emitter.emit(key, monitor.push(part))
                if found is not None:
                    yield from found.to_batches()


def _runs(table: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Cut a table where the group changes."""
    if not table.num_rows:
        return
    if not by:
        yield (), table
        return
    rows = list(zip(*(table.column(name).to_pylist() for name in by), strict=True))
    start = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or rows[i] != rows[start]:
            yield rows[start], table.slice(start, i - start)
            start = i
