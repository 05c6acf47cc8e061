"""Rows in the order of a column: sorted buckets, as a list of rows that takes insertions and deletions anywhere.

Keys are (value, tick), so that equal values are found as fast as others. A bucket that is full is halved, an empty one
is given back. Finding, inserting and deleting cost O(log N) comparisons and one move of at most a bucket.
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.core.jit import ZERO, inlined, leaf, move
from topwatch.core.kernels.scoring import Floats, Ints

BUCKET = 256
FIRST, USED, SPARE = range(3)


class Ordered(NamedTuple):
    """One sorted list per column; buckets of all columns share the pools."""

    order: Ints  # (columns, buckets): buckets of a column from the smallest values up
    buckets: Ints  # how many each column has
    spare: Ints  # free buckets, as a stack
    spares: Ints  # one number
    size: Ints  # rows in each bucket
    value: Floats  # (buckets * BUCKET)
    tick: Ints
    slot: Ints
    seen: Ints  # by slot: the last search that met the row
    search: Ints  # one number
    left: Ints  # per column, (bucket, index): cursors of a search
    right: Ints
    low: Floats  # per column: what the search has not met yet lies in [low, high]
    high: Floats


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
def place_in(o: Ordered, bucket: int, value: float, tick: int) -> int:
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
        o.spares[0] -= 1
        o.order[c, 0] = o.spare[o.spares[0]]
        o.size[o.order[c, 0]] = 0
        o.buckets[c] = 1
    at = bucket_for(o, c, value, tick)
    bucket = o.order[c, at]
    if o.size[bucket] == BUCKET:
        _halve(o, c, at)
        at = bucket_for(o, c, value, tick)
        bucket = o.order[c, at]
    start = bucket * BUCKET + place_in(o, bucket, value, tick)
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
    o.spares[0] -= 1
    new = o.spare[o.spares[0]]
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
    start = bucket * BUCKET + place_in(o, bucket, value, tick)
    behind = bucket * BUCKET + o.size[bucket] - start - 1
    move(o.value, start, start + 1, behind)
    move(o.tick, start, start + 1, behind)
    move(o.slot, start, start + 1, behind)
    o.size[bucket] -= 1
    if o.size[bucket] == 0:
        o.spare[o.spares[0]] = bucket
        o.spares[0] += 1
        o.buckets[c] -= 1
        for i in range(at, o.buckets[c]):
            o.order[c, i] = o.order[c, i + 1]
