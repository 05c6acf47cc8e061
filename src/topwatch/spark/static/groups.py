"""The groups of a static frame: which row is of which group, and a monitor for each where the frame is watched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from topwatch.core.arrays import Ints
from topwatch.monitor.changes import Changes, Groups
from topwatch.monitor.group_keys import GroupKeys, encoded_values
from topwatch.spark.operator.bucket import Emitter
from topwatch.spark.operator.quarantine import split
from topwatch.spark.planner import Spec


class WatchedPartition:
    """The function for ``mapInArrow`` over a partition sorted by group, time and source order.

    One group's window is in memory at a time; a monitor with ``by`` would keep those of all groups to the end.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run each group's rows through a monitor of its own."""
        keys, last = GroupKeys(self._spec.by), 0
        monitor, emitter = self._spec.monitor(by=()), Emitter(self._spec)
        for batch in batches:
            rows = pa.Table.from_batches([batch]).select(range(len(self._spec.carried)))
            table, _ = split(rows.rename_columns(self._spec.carried), self._spec)
            for group, part in _runs(table, keys):
                if group != last:
                    last, monitor, emitter = group, self._spec.monitor(by=()), Emitter(self._spec)
                changes = monitor.push(part)
                if len(changes):
                    yield from emitter.emit(self._of_group(changes, keys, group)).to_batches()

    def _of_group(self, changes: Changes, keys: GroupKeys, group: int) -> Changes:
        if not self._spec.by:
            return changes
        names = [str(query.name) for query in self._spec.queries]
        return changes.of_groups(names, Groups(keys.names, keys.columns or [], np.full(len(changes), group)))


def _runs(table: pa.Table, keys: GroupKeys) -> Iterator[tuple[int, pa.Table]]:
    """Cut a table where the group changes."""
    if not keys.names:
        yield 0, table
    elif table.num_rows:
        number = keys.number([table.column(name).combine_chunks() for name in keys.names])
        starts = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
        for start, stop in pairwise(starts.tolist()):
            yield int(number[start]), table.slice(start, stop - start)


def group_numbers(table: pa.Table, by: tuple[str, ...]) -> Ints:
    """Return numbers that are the same for rows of the same group; missing values are a group, and so is NaN.

    >>> group_numbers(pa.table({"g": [0.0, None, float("nan"), -0.0, float("nan"), None]}), ("g",)).tolist()
    [0, 1, 2, 0, 2, 1]
    """
    number = np.zeros(table.num_rows, np.int64)
    for name in by:
        values = encoded_values(table.column(name).combine_chunks())
        together = number * len(values.dictionary) + values.indices.to_numpy()
        number = np.unique(together, return_inverse=True)[1].astype(np.int64)
    return number


def last_start(table: pa.Table, by: tuple[str, ...]) -> int:
    """Return where the last group begins, of rows that lie group by group."""
    number = group_numbers(table, by)
    changes = np.flatnonzero(np.diff(number))
    return int(changes[-1]) + 1 if changes.size else 0
