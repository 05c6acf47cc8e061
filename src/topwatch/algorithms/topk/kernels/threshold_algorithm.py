"""The threshold algorithm (TA) of Fagin et al. over ordered columns: a query's best rows without looking at most.

Columns are read in turn, each from its best value on, and every row met is scored. What has not been met lies in a box
that shrinks with every step; when the box's bound is below the last row kept, nothing better is left.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.scan_window import offer, start_filling
from topwatch.algorithms.topk.kernels.sorted_runs import Runs
from topwatch.core.jit import ZERO, inlined, leaf
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import (
    DISTANCE,
    EXPR,
    LINEAR,
    PRODUCT,
    QUADRATIC,
    Ints,
    Queries,
    inside,
    score_row,
    upper_bound,
)
from topwatch.core.kernels.sorted_lists import BUCKET, Ordered, bucket_for, place_in


@inlined
def _outwards(table: Queries, q: int, c: int) -> bool:
    """Tell whether a column is best near a point and read outwards from it; else it is read from its ends."""
    return table.kind[q] == DISTANCE or (table.kind[q] == QUADRATIC and table.value[q, c] < 0)


@leaf
def _open(o: Ordered, table: Queries, q: int, c: int) -> None:
    """Set a column's cursors: ``left`` and ``right`` are the next rows to be read on either side."""
    last = o.buckets[c] - 1
    if _outwards(table, q, c):
        point = table.value[q, c] if table.kind[q] == DISTANCE else 0.0
        at = bucket_for(o, c, point, ZERO)
        index = place_in(o, o.order[c, at], point, ZERO)
        o.right[2 * c] = at
        o.right[2 * c + 1] = index
        if index == o.size[o.order[c, at]]:
            o.right[2 * c] = at + 1
            o.right[2 * c + 1] = 0
        o.left[2 * c] = at
        o.left[2 * c + 1] = index - 1
        if index == 0:
            o.left[2 * c] = at - 1
            o.left[2 * c + 1] = o.size[o.order[c, at - 1]] - 1 if at > 0 else 0
    else:
        o.left[2 * c] = 0
        o.left[2 * c + 1] = 0
        o.right[2 * c] = last
        o.right[2 * c + 1] = o.size[o.order[c, last]] - 1
    _bound(o, table, q, c)


@inlined
def _at(o: Ordered, c: int, cursors: Ints) -> int:
    return o.order[c, cursors[2 * c]] * BUCKET + cursors[2 * c + 1]


@leaf
def _bound(o: Ordered, table: Queries, q: int, c: int) -> None:
    """Say in which interval the column's best unread value lies."""
    if not _outwards(table, q, c):
        o.low[c] = o.value[_at(o, c, o.left)]
        o.high[c] = o.value[_at(o, c, o.right)]
        return
    point = table.value[q, c] if table.kind[q] == DISTANCE else 0.0
    nearest = np.inf
    if o.right[2 * c] < o.buckets[c]:
        nearest = o.value[_at(o, c, o.right)]
    if o.left[2 * c] >= 0:
        value = o.value[_at(o, c, o.left)]
        if point - value <= nearest - point:
            nearest = value
    o.low[c] = nearest
    o.high[c] = nearest


@leaf
def _read(o: Ordered, table: Queries, q: int, c: int) -> int:
    """Read the best unread row of a column; return its index in the pool, or -1 when all have been read."""
    kind = table.kind[q]
    a = table.value[q, c]
    if _outwards(table, q, c):
        more_left = o.left[2 * c] >= 0
        more_right = o.right[2 * c] < o.buckets[c]
        if not more_left and not more_right:
            return -1
        point = a if kind == DISTANCE else 0.0
        leftwards = more_left
        if more_left and more_right:
            leftwards = point - o.value[_at(o, c, o.left)] <= o.value[_at(o, c, o.right)] - point
        index = _at(o, c, o.left) if leftwards else _at(o, c, o.right)
    else:
        done = o.left[2 * c] > o.right[2 * c]
        if done or (o.left[2 * c] == o.right[2 * c] and o.left[2 * c + 1] > o.right[2 * c + 1]):
            return -1
        least = o.value[_at(o, c, o.left)]
        most = o.value[_at(o, c, o.right)]
        leftwards = a < 0
        if kind == EXPR:
            leftwards = table.rising[q, c] < 0
        elif kind == PRODUCT:
            leftwards = abs(a + least) > abs(a + most)
        elif kind != LINEAR:
            leftwards = abs(least) > abs(most)
        index = _at(o, c, o.left) if leftwards else _at(o, c, o.right)
    if leftwards == _outwards(table, q, c):
        _back(o, c, o.left if leftwards else o.right)
    else:
        _forth(o, c, o.left if leftwards else o.right)
    return index


@inlined
def _back(o: Ordered, c: int, cursors: Ints) -> None:
    cursors[2 * c + 1] -= 1
    if cursors[2 * c + 1] < 0:
        cursors[2 * c] -= 1
        cursors[2 * c + 1] = o.size[o.order[c, cursors[2 * c]]] - 1 if cursors[2 * c] >= 0 else 0


@inlined
def _forth(o: Ordered, c: int, cursors: Ints) -> None:
    cursors[2 * c + 1] += 1
    if cursors[2 * c + 1] == o.size[o.order[c, cursors[2 * c]]]:
        cursors[2 * c] += 1
        cursors[2 * c + 1] = 0


@leaf
def fill_by_threshold(table: Queries, q: int, rows: Rows, o: Ordered, runs: Runs, counters: Ints) -> None:
    """Fill a run with the best ``target`` rows."""
    start_filling(runs, q)
    n = table.terms[q]
    if o.buckets[0] == 0:
        return
    o.search[0] += 1
    for c in range(n):
        _open(o, table, q, c)
    while True:
        for c in range(n):
            index = _read(o, table, q, c)
            if index < 0:
                return  # one list read to its end has shown every row
            slot = o.slot[index]
            if o.seen[slot] != o.search[0]:
                o.seen[slot] = o.search[0]
                counters[0] += 1
                key = score_row(table, q, rows.columns, slot)
                if key >= runs.threshold[q] and inside(table, q, rows.columns, slot):
                    offer(runs, q, key, rows.seq[slot], slot)
        for c in range(n):
            if _exhausted(o, table, q, c):
                return
            _bound(o, table, q, c)
        if runs.whole[q] == 0 and upper_bound(table, q, o.low, o.high) < runs.threshold[q]:
            return


@inlined
def _exhausted(o: Ordered, table: Queries, q: int, c: int) -> bool:
    if _outwards(table, q, c):
        return o.left[2 * c] < 0 and o.right[2 * c] >= o.buckets[c]
    return o.left[2 * c] > o.right[2 * c] or (
        o.left[2 * c] == o.right[2 * c] and o.left[2 * c + 1] > o.right[2 * c + 1]
    )
