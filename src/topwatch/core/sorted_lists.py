"""Sorted lists of rows, one per column: sorted buckets, which take insertions and deletions anywhere.

Keys are (value, tick), so that equal values are as fast to look up as others. A bucket that is full is halved, an empty
one is released. Finding, inserting and deleting cost O(log N) comparisons and one move of at most a bucket.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import Floats, Ints, size_of
from topwatch.core.jit import ZERO, inlined, kernel, leaf
from topwatch.core.kernels.memory import move, record
from topwatch.core.kernels.rows import Rows

BUCKET = 256


class OrderedScalars:
    """Numbers beside the arrays; a record."""

    spares: int  # free buckets
    search: int  # the number of the last search


class Cursors(NamedTuple):
    """One row of each column's list."""

    bucket: Ints  # its index in the column's order; one beyond either end where there is no row
    rank: Ints  # in the bucket


class Ordered(NamedTuple):
    """One sorted list per column; buckets of all columns share the pools."""

    order: Ints  # (columns, buckets): buckets of a column from the smallest values up
    buckets: Ints  # how many each column has
    spare: Ints  # free buckets, as a stack
    size: Ints  # rows in each bucket
    value: Floats  # (buckets * BUCKET)
    tick: Ints
    slot: Ints
    seen: Ints  # by slot: the last search that met the row
    left: Cursors  # of a search
    right: Cursors
    low: Floats  # per column: what the search has not met yet lies in [low, high]
    high: Floats
    now: OrderedScalars


@inlined
def _after(value: float, tick: int, other: float, other_tick: int) -> bool:
    return value > other or (value == other and tick > other_tick)


@leaf
def bucket_for(o: Ordered, c: int, value: float, tick: int) -> int:
    """Return the index of the last bucket whose first row is not after the key (0 when all are)."""
    low = ZERO
    high = o.buckets[c] - 1
    while low < high:
        middle = (low + high + 1) // 2
        start = o.order[c, middle] * BUCKET
        if _after(o.value[start], o.tick[start], value, tick):
            high = middle - 1
        else:
            low = middle
    return low


@leaf
def rank_in(o: Ordered, bucket: int, value: float, tick: int) -> int:
    """Return how many rows of a bucket are before the key."""
    start = bucket * BUCKET
    low = ZERO
    high = o.size[bucket]
    while low < high:
        middle = (low + high) // 2
        if _after(value, tick, o.value[start + middle], o.tick[start + middle]):
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def put(o: Ordered, c: int, value: float, tick: int, slot: int) -> None:
    """Insert a row into a column's list."""
    if o.buckets[c] == 0:
        o.now.spares -= 1
        o.order[c, 0] = o.spare[o.now.spares]
        o.size[o.order[c, 0]] = 0
        o.buckets[c] = 1
    at = bucket_for(o, c, value, tick)
    bucket = o.order[c, at]
    if o.size[bucket] == BUCKET:
        _halve(o, c, at)
        at = bucket_for(o, c, value, tick)
        bucket = o.order[c, at]
    start = bucket * BUCKET + rank_in(o, bucket, value, tick)
    behind = bucket * BUCKET + o.size[bucket] - start
    move(o.value, start + 1, start, behind)
    move(o.tick, start + 1, start, behind)
    move(o.slot, start + 1, start, behind)
    o.value[start] = value
    o.tick[start] = tick
    o.slot[start] = slot
    o.size[bucket] += 1


@leaf
def _halve(o: Ordered, c: int, at: int) -> None:
    o.now.spares -= 1
    new = o.spare[o.now.spares]
    old = o.order[c, at]
    half = BUCKET // 2
    for i in range(half):
        o.value[new * BUCKET + i] = o.value[old * BUCKET + half + i]
        o.tick[new * BUCKET + i] = o.tick[old * BUCKET + half + i]
        o.slot[new * BUCKET + i] = o.slot[old * BUCKET + half + i]
    o.size[old] = half
    o.size[new] = BUCKET - half
    for i in range(o.buckets[c], at + 1, -1):
        o.order[c, i] = o.order[c, i - 1]
    o.order[c, at + 1] = new
    o.buckets[c] += 1


@leaf
def take_out(o: Ordered, c: int, value: float, tick: int) -> None:
    """Delete a row from a column's list."""
    at = bucket_for(o, c, value, tick)
    bucket = o.order[c, at]
    start = bucket * BUCKET + rank_in(o, bucket, value, tick)
    behind = bucket * BUCKET + o.size[bucket] - start - 1
    move(o.value, start, start + 1, behind)
    move(o.tick, start, start + 1, behind)
    move(o.slot, start, start + 1, behind)
    o.size[bucket] -= 1
    if o.size[bucket] == 0:
        o.spare[o.now.spares] = bucket
        o.now.spares += 1
        o.buckets[c] -= 1
        for i in range(at, o.buckets[c]):
            o.order[c, i] = o.order[c, i + 1]


class OrderedColumns:
    """Rows sorted by each of some columns. A row with a missing value in one of them is in no list."""

    def __init__(self, columns: list[int]) -> None:
        self.columns: Ints = np.array(columns, np.int64)
        self.arrays = new_ordered(len(columns), 0, 0)

    def build(self, rows: Rows, live: Ints) -> None:
        """Rebuild the lists, with room for a full window."""
        axes = self.columns.size
        # A bucket is at least half full after a split but may shrink by deletions: room for four times the rows, each.
        self.arrays = new_ordered(axes, 4 * (rows.seq.size // BUCKET) + 16, rows.seq.size)
        _put_all(self.arrays, self.columns, rows.columns, rows.seq, live)

    def crowded(self, more: int) -> bool:
        """Return whether the lists could run out of buckets within so many insertions."""
        return crowded(self.arrays, more)

    def bytes(self) -> int:
        """Size of the arrays."""
        return size_of(self.arrays)

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


@inlined
def row_at(o: Ordered, c: int, cursors: Cursors) -> int:
    """Return the index of the row that a cursor is at."""
    bucket: int = o.order[c, cursors.bucket[c]]
    rank: int = cursors.rank[c]
    return bucket * BUCKET + rank


@inlined
def is_crossed(o: Ordered, c: int) -> bool:
    """Return whether the left cursor of a column is beyond the right one."""
    left, right = o.left, o.right
    apart: int = left.bucket[c] - right.bucket[c]
    return apart > 0 or (apart == 0 and int(left.rank[c]) > right.rank[c])


@inlined
def to_last(o: Ordered, c: int, cursors: Cursors, bucket: int) -> None:
    """Set a cursor to the last row of a bucket, given by its index in the column's order; -1: before all rows."""
    cursors.bucket[c] = bucket
    cursors.rank[c] = o.size[o.order[c, bucket]] - 1 if bucket >= 0 else 0


@inlined
def step_back(o: Ordered, c: int, cursors: Cursors) -> None:
    """Go to the row before."""
    cursors.rank[c] -= 1
    if cursors.rank[c] < 0:
        to_last(o, c, cursors, cursors.bucket[c] - 1)


@inlined
def step_on(o: Ordered, c: int, cursors: Cursors) -> None:
    """Go to the row after."""
    cursors.rank[c] += 1
    if cursors.rank[c] == o.size[o.order[c, cursors.bucket[c]]]:
        cursors.bucket[c] += 1
        cursors.rank[c] = 0


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


def crowded(o: Ordered, more: int) -> bool:
    """Return whether the lists could run out of buckets within so many insertions into each."""
    return int(o.now.spares) < o.buckets.size * (2 * more // BUCKET + 4)


def new_ordered(axes: int, buckets: int, slots: int) -> Ordered:
    """Make empty lists with room for so many buckets each."""
    total = axes * buckets

    def zeros(size: int) -> Ints:
        return np.zeros(size, np.int64)

    return Ordered(
        order=np.zeros((axes, max(total, 1)), np.int64),
        buckets=zeros(axes),
        spare=np.arange(total - 1, -1, -1, dtype=np.int64),
        size=zeros(total),
        value=np.zeros(total * BUCKET),
        tick=zeros(total * BUCKET),
        slot=zeros(total * BUCKET),
        seen=zeros(slots),
        left=Cursors(zeros(axes), zeros(axes)),
        right=Cursors(zeros(axes), zeros(axes)),
        low=np.zeros(axes),
        high=np.zeros(axes),
        now=record(OrderedScalars, spares=total),
    )
