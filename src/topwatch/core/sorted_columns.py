"""Sorted lists of all rows, one per column: the structure under TSL."""

from __future__ import annotations

import numpy as np

from topwatch.core.jit import kernel, leaf
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.kernels.sorted_lists import BUCKET, Ordered, put, take_out

TUNED = {1: 4, 5: 10, 10: 20, 20: 30, 50: 70, 100: 120}  # the best kmax of TSL in SIGMOD'06, section 8


def view_size(k: int) -> int:
    """Return kmax as SIGMOD'06 tuned it for TSL, and about as much between and beyond its values.

    A view of up to kmax > k rows is what saves searching the lists after each expiry.

    >>> [view_size(k) for k in (1, 3, 20, 200)]
    [4, 7, 30, 230]
    """
    if k in TUNED:
        return TUNED[k]
    return max(k + 4, min(2 * k, k + 10) if k < 50 else k + max(20, 3 * k // 20))


class OrderedColumns:
    """Rows sorted by each of some columns. A row with a missing value in one of them is in no list."""

    def __init__(self, columns: list[int]) -> None:
        self.columns: Ints = np.array(columns, np.int64)
        self.arrays = new_ordered(len(columns), 0, 0)

    def build(self, rows: Rows, live: Ints) -> None:
        """Make the lists again, with room for a full window."""
        axes = self.columns.size
        # A bucket is at least half full after a split but may shrink by deletions: room for four times the rows, each.
        self.arrays = new_ordered(axes, 4 * (rows.seq.size // BUCKET) + 16, rows.seq.size)
        _put_all(self.arrays, self.columns, rows.columns, rows.seq, live)

    def crowded(self, more: int) -> bool:
        """Tell whether the lists could run out of buckets within so many insertions."""
        return int(self.arrays.spares[0]) < self.columns.size * (2 * more // BUCKET + 4)

    def bytes(self) -> int:
        """Size of the arrays."""
        return sum(array.nbytes for array in self.arrays)

    def _check(self, rows: Rows, live: Ints) -> None:
        o = self.arrays
        ranked = live[~np.isnan(rows.columns[self.columns][:, live]).any(axis=0)]
        for c, column in enumerate(self.columns):
            parts = [slice(b * BUCKET, b * BUCKET + o.size[b]) for b in o.order[c, : o.buckets[c]]]
            slots = np.concatenate([o.slot[p] for p in parts]) if parts else np.empty(0, np.int64)
            assert np.array_equal(np.sort(slots), np.sort(ranked)), "a sorted list does not hold just the live rows"
            values, ticks = rows.columns[column, slots], rows.seq[slots]
            rising = (values[:-1] < values[1:]) | ((values[:-1] == values[1:]) & (ticks[:-1] < ticks[1:]))
            assert rising.all(), "a sorted list is out of order"


@leaf
def put_row(o: Ordered, axes: Ints, columns: Floats, seq: Ints, slot: int) -> None:
    """Insert a row into all lists."""
    for c in range(len(axes)):
        if np.isnan(columns[axes[c], slot]):
            return
    for c in range(len(axes)):
        put(o, c, columns[axes[c], slot], seq[slot], slot)


@leaf
def take_row(o: Ordered, axes: Ints, columns: Floats, seq: Ints, slot: int) -> None:
    """Delete a row from all lists."""
    for c in range(len(axes)):
        if np.isnan(columns[axes[c], slot]):
            return
    for c in range(len(axes)):
        take_out(o, c, columns[axes[c], slot], seq[slot])


@kernel
def _put_all(o: Ordered, axes: Ints, columns: Floats, seq: Ints, live: Ints) -> None:
    for i in range(len(live)):
        put_row(o, axes, columns, seq, live[i])


def new_ordered(axes: int, buckets: int, slots: int) -> Ordered:
    """Make empty lists with room for so many buckets each."""
    total = axes * buckets
    return Ordered(
        order=np.zeros((axes, max(total, 1)), np.int64),
        buckets=np.zeros(axes, np.int64),
        spare=np.arange(total - 1, -1, -1, dtype=np.int64),
        spares=np.array([total], np.int64),
        size=np.zeros(total, np.int64),
        value=np.zeros(total * BUCKET),
        tick=np.zeros(total * BUCKET, np.int64),
        slot=np.zeros(total * BUCKET, np.int64),
        seen=np.zeros(slots, np.int64),
        search=np.zeros(1, np.int64),
        left=np.zeros(2 * axes, np.int64),
        right=np.zeros(2 * axes, np.int64),
        low=np.zeros(axes),
        high=np.zeros(axes),
    )
