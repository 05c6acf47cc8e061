"""The loop of TSL, and the threshold algorithm (TA) of Fagin et al. by which it fills a run (SIGMOD'06, section 3.2).

TA reads the sorted columns in turn, each from its best value on, and scores every row that it meets. What it has not
met lies in a box that shrinks with every row read; when the box's bound is below the last row kept, nothing better is
left. Cost of the loop: that of the scan, and O(log N) per arrival and column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.find_rows import Counts
from topwatch.algorithms.topk.kernels.scan_window import offer, start_filling
from topwatch.algorithms.topk.kernels.sorted_runs import QueryState, Runs
from topwatch.algorithms.topk.kernels.topk_loop import Work, age, begin, evaluate, release, route_block, take_in
from topwatch.core.arrays import Ints
from topwatch.core.jit import ZERO, inlined, kernel, leaf, stepwise
from topwatch.core.kernels.rows import Log, Rows, Step, with_room
from topwatch.core.kernels.scoring import (
    DISTANCE,
    EXPR,
    LINEAR,
    PRODUCT,
    QUADRATIC,
    Queries,
    inside,
    score_row,
    upper_bound,
)
from topwatch.core.sorted_lists import (
    Ordered,
    bucket_for,
    is_crossed,
    put_row,
    rank_in,
    row_at,
    step_back,
    step_on,
    take_row,
    to_last,
)


class SortedColumns(NamedTuple):
    """All rows, sorted by each of some columns of the window."""

    lists: Ordered
    axes: Ints  # the columns


@stepwise
@kernel
def run_by_sorted_lists(
    rows: Rows, state: QueryState, expired: Ints | None, columns: SortedColumns, step: Step, log: Log, work: Work
) -> Log:
    """Take a step: the loop of :mod:`topwatch.algorithms.topk.kernels.topk_loop` with sorted lists for a grid."""
    table, runs, _ = state
    lists, axes = columns
    here = work.position
    begin(state, work)
    while True:
        route_block(table, runs.threshold, rows.columns, None, step.arrived, work)
        fell = False
        while not fell:
            j = here.evaluation
            until = min(here.stop, step.arrivals[j]) if j < len(step.at) else here.stop
            for r in range(here.arrival, until):
                put_row(lists, axes, rows.columns, rows.seq, step.arrived[r])
            take_in(rows, state, None, None, step, until, work)
            if j == len(step.at) or step.arrivals[j] > until:
                break
            release(rows, state, None, None, expired, step, work)
            if expired is None:
                for ordinal in range(step.heads[j], step.heads[j + 1]):
                    take_row(lists, axes, rows.columns, rows.seq, ordinal & rows.mask)
            else:
                for e in range(step.expiries[j - 1] if j > 0 else ZERO, step.expiries[j]):
                    take_row(lists, axes, rows.columns, rows.seq, expired[e])
            while not evaluate(rows, state, None, step.at[j], log, work):
                q = work.stale[here.next_stale]
                if runs.size[q] < table.k[q] and runs.whole[q] == 0:
                    before = runs.threshold[q]
                    work.counts.fills += 1
                    fill_by_threshold(table, q, rows, lists, runs, work.counts)
                    age(work, q, runs.oldest[q])
                    fell = fell or runs.threshold[q] < before
                log = with_room(log, 2 * table.k[q])
            here.stale = 0
            here.evaluation = j + 1
        if here.arrival == len(step.arrived) and here.evaluation == len(step.at):
            return log


@inlined
def _outwards(table: Queries, q: int, c: int) -> bool:
    """Tell whether a column is best near a point and read outwards from it; else it is read from its ends."""
    return table.kind[q] == DISTANCE or (table.kind[q] == QUADRATIC and table.value[q, c] < 0)


@leaf
def _open(o: Ordered, table: Queries, q: int, c: int) -> None:
    """Set a column's cursors: ``left`` and ``right`` are the next rows to be read on either side."""
    if _outwards(table, q, c):
        point = table.value[q, c] if table.kind[q] == DISTANCE else 0.0
        bucket = bucket_for(o, c, point, ZERO)
        index = rank_in(o, o.order[c, bucket], point, ZERO)
        o.left.bucket[c] = o.right.bucket[c] = bucket
        o.left.rank[c] = index
        o.right.rank[c] = index - 1
        step_back(o, c, o.left)
        step_on(o, c, o.right)
    else:
        o.left.bucket[c] = o.left.rank[c] = 0
        to_last(o, c, o.right, o.buckets[c] - 1)
    _bound(o, table, q, c)


@leaf
def _bound(o: Ordered, table: Queries, q: int, c: int) -> None:
    """Say in which interval the column's best unread value lies."""
    if not _outwards(table, q, c):
        o.low[c] = o.value[row_at(o, c, o.left)]
        o.high[c] = o.value[row_at(o, c, o.right)]
        return
    point = table.value[q, c] if table.kind[q] == DISTANCE else 0.0
    nearest = np.inf
    if o.right.bucket[c] < o.buckets[c]:
        nearest = o.value[row_at(o, c, o.right)]
    if o.left.bucket[c] >= 0:
        value = o.value[row_at(o, c, o.left)]
        if point - value <= nearest - point:
            nearest = value
    o.low[c] = nearest
    o.high[c] = nearest


@leaf
def _read(o: Ordered, table: Queries, q: int, c: int) -> int:
    """Read the best unread row of a column; return its index in the pool, or -1 when all have been read."""
    if _exhausted(o, table, q, c):
        return -1
    kind = table.kind[q]
    a = table.value[q, c]
    if _outwards(table, q, c):
        more_left = o.left.bucket[c] >= 0
        more_right = o.right.bucket[c] < o.buckets[c]
        point = a if kind == DISTANCE else 0.0
        leftwards = more_left
        if more_left and more_right:
            leftwards = point - o.value[row_at(o, c, o.left)] <= o.value[row_at(o, c, o.right)] - point
    else:
        least = o.value[row_at(o, c, o.left)]
        most = o.value[row_at(o, c, o.right)]
        leftwards = a < 0
        if kind == EXPR:
            leftwards = table.rising[q, c] < 0
        elif kind == PRODUCT:
            leftwards = abs(a + least) > abs(a + most)
        elif kind != LINEAR:
            leftwards = abs(least) > abs(most)
    cursors = o.left if leftwards else o.right
    index = row_at(o, c, cursors)
    if leftwards == _outwards(table, q, c):
        step_back(o, c, cursors)
    else:
        step_on(o, c, cursors)
    return index


@leaf
def fill_by_threshold(table: Queries, q: int, rows: Rows, o: Ordered, runs: Runs, counts: Counts) -> None:
    """Fill a run with the best ``target`` rows."""
    start_filling(runs, q)
    n = table.terms[q]
    if o.buckets[0] == 0:
        return
    o.now.search += 1
    for c in range(n):
        _open(o, table, q, c)
    while True:
        for c in range(n):
            index = _read(o, table, q, c)
            if index < 0:
                return  # one list read to its end has shown every row
            slot = o.slot[index]
            if o.seen[slot] != o.now.search:
                o.seen[slot] = o.now.search
                counts.scores += 1
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
    """Tell whether all rows of a column have been read."""
    if _outwards(table, q, c):
        return o.left.bucket[c] < 0 and o.right.bucket[c] >= o.buckets[c]
    return is_crossed(o, c)
