"""Static frames: the same monitors over rows that Spark has sorted, group by group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from topwatch.spark.operator.emitter import Emitter
from topwatch.spark.operator.partition_writer import split
from topwatch.spark.static.selection import group_numbers
from topwatch.spark.stream_spec import Spec


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
            rows = pa.Table.from_batches([batch]).select(range(len(self._spec.carried)))
            table, _ = split(rows.rename_columns(self._spec.carried), self._spec)
            for key, part in _runs(table, self._spec.by):
                if last is None or not _same(key, last):
                    last, monitor = key, self._spec.monitor()
                result = emitter.emit(key, monitor.push(part))
                if result is not None:
                    yield from result.to_batches()


def _runs(table: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Cut a table where the group changes."""
    if not table.num_rows:
        return
    number = group_numbers(table, by)
    starts = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
    for start, stop in pairwise(starts.tolist()):
        yield tuple(table.column(name)[start].as_py() for name in by), table.slice(start, stop - start)


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Tell whether two keys are of one group: NaN is a value here, as Spark has it."""
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))
