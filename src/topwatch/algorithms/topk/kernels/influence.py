"""Influence lists: for each cell of the grid the queries that a row falling there may concern (SIGMOD'06, section 4.1).

A query is in the lists of exactly the cells whose bound reaches its ``level``. So membership needs no look-up: when
the level moves, the cells between the old and the new one are enumerated and nothing else is touched. Cost: O(axes) for
each of these cells; per arrival one score for each query in the list of its cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.cells import Cells, Reach, cells_above, locate_run
from topwatch.algorithms.topk.kernels.find_rows import Counts, Hits, SlotRange, run_length
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf
from topwatch.core.kernels.memory import PREFETCH_DISTANCE, prefetch
from topwatch.core.kernels.scoring import DISTANCE, LINEAR, Queries, inside, score_row


class Influence(NamedTuple):
    """Lists of queries by cell, each with spare room, in one pool."""

    first: Ints
    size: np.ndarray  # int32
    room: Ints
    pool: np.ndarray  # uint32: half the memory, and no index below zero to look out for
    used: Ints  # one number: how much of the pool
    level: Floats  # per query; NaN when it is in no list
    result: Ints  # room for an enumeration of all cells
    bounds: Floats


class Lists(NamedTuple):
    """A grid by whose influence lists arrivals find their queries."""

    cells: Cells
    reach: Reach
    influence: Influence
    kind: int  # of all queries' scores; -1 where they differ


@leaf
def route_by_lists(
    table: Queries, thresholds: Floats, columns: Floats, lists: Lists, arrivals: SlotRange, hits: Hits, counts: Counts
) -> bool:
    """Score arrivals against the queries of their cells and write those that reach the threshold; False: no room."""
    slots = arrivals.slots
    start = arrivals.start
    cells = lists.cells
    cell_of = hits.cells
    rows = hits.indices
    count = lists.influence.size
    first = lists.influence.first
    pool = lists.influence.pool
    value = table.value
    # The papers' own cases are worth loops without look-ups: all linear in four columns, or distances in two.
    linear = lists.kind == LINEAR and len(cells.low) == 4
    planar = lists.kind == DISTANCE and len(cells.low) == 2
    x0 = x1 = x2 = x3 = 0.0
    total = ZERO
    scores = ZERO
    listed = ZERO
    i = start
    while i < arrivals.stop:
        n = run_length(slots, i, arrivals.stop)
        locate_run(cells, columns, slots[i], cell_of[i - start : i - start + n])
        # First which rows have a list at all, without a branch; then the lists, each prefetched some rows early.
        some = ZERO
        for r in range(n):
            rows[some] = r
            some += int(count[cell_of[i - start + r]] > 0)
        listed += some
        for t in range(some):
            if t + PREFETCH_DISTANCE < some:
                upcoming = first[cell_of[i - start + rows[t + PREFETCH_DISTANCE]]]
                prefetch(pool, upcoming)
                prefetch(pool, upcoming + 16)
            r = rows[t]
            cell = cell_of[i - start + r]
            queries = count[cell]
            scores += queries
            slot = slots[i] + r
            if linear:
                x0 = columns[cells.column[0], slot]
                x1 = columns[cells.column[1], slot]
                x2 = columns[cells.column[2], slot]
                x3 = columns[cells.column[3], slot]
            elif planar:
                x0 = columns[cells.column[0], slot]
                x1 = columns[cells.column[1], slot]
            for position in range(first[cell], first[cell] + queries):
                q = pool[position]
                if linear:
                    key = value[q, 0] * x0 + value[q, 1] * x1 + value[q, 2] * x2 + value[q, 3] * x3
                elif planar:
                    key = -np.sqrt((x0 - value[q, 0]) * (x0 - value[q, 0]) + (x1 - value[q, 1]) * (x1 - value[q, 1]))
                else:
                    key = score_row(table, q, columns, slot)
                if key >= thresholds[q] and inside(table, q, columns, slot):
                    if total == len(hits.row):
                        return False
                    hits.row[total] = i + r
                    hits.query[total] = q
                    hits.key[total] = key
                    total += 1
        i += n
    counts.scores += scores
    counts.listed += listed
    hits.size[0] = total
    return True


@kernel
def move_level(lists: Lists, table: Queries, q: int, level: float) -> Lists:
    """Put a query into the lists of the cells that reach ``level`` and out of all others (NaN: out of all)."""
    influence = lists.influence
    before = influence.level[q]
    if level == before:
        return lists
    lowest = level
    if np.isnan(level) or before < level:
        lowest = before
    n = cells_above(lists.cells, lists.reach, table, q, lowest, influence.result, influence.bounds)
    for i in range(n):
        bound = influence.bounds[i]
        if bound >= level and not bound >= before:
            influence = _add(influence, influence.result[i], q)
        elif bound >= before and not bound >= level:  # also when the level is NaN: the query goes
            _drop(influence, influence.result[i], q)
    influence.level[q] = level
    return Lists(lists.cells, lists.reach, influence, lists.kind)


@inner
def _add(influence: Influence, cell: int, q: int) -> Influence:
    n = influence.size[cell]
    if n == influence.room[cell]:
        room = max(4, 2 * n)
        if influence.used[0] + room > len(influence.pool):
            influence = _repack(influence, room)
        first = influence.used[0]
        influence.used[0] += room
        old = influence.first[cell]
        for i in range(n):
            influence.pool[first + i] = influence.pool[old + i]
        influence.first[cell] = first
        influence.room[cell] = room
    influence.pool[influence.first[cell] + n] = q
    influence.size[cell] = n + 1
    return influence


@inner
def _repack(influence: Influence, more: int) -> Influence:
    """Move all lists, with half their size to spare, into a pool with room for ``more`` and as much again."""
    needed = more
    for cell in range(len(influence.size)):
        needed += influence.size[cell] + influence.size[cell] // 2
    pool = np.empty(2 * needed + 64, np.uint32)
    used = 0
    for cell in range(len(influence.size)):
        n = influence.size[cell]
        old = influence.first[cell]
        for i in range(n):
            pool[used + i] = influence.pool[old + i]
        influence.first[cell] = used
        influence.room[cell] = n + n // 2
        used += n + n // 2
    influence.used[0] = used
    return Influence(
        influence.first,
        influence.size,
        influence.room,
        pool,
        influence.used,
        influence.level,
        influence.result,
        influence.bounds,
    )


@inlined
def _drop(influence: Influence, cell: int, q: int) -> None:
    first = influence.first[cell]
    last = influence.size[cell] - 1
    for i in range(last + 1):
        if influence.pool[first + i] == q:
            influence.pool[first + i] = influence.pool[first + last]
            influence.size[cell] = last
            return
