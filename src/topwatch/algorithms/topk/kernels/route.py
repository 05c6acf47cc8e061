"""Routing: which queries does an arrival concern?

Either all are asked, in one fused loop over a block of rows per query, or those in the influence list of the row's
cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.cells import Cells, Reach, locate_run
from topwatch.algorithms.topk.kernels.find_rows import find_run
from topwatch.algorithms.topk.kernels.influence import Influence
from topwatch.algorithms.topk.kernels.walk_cells import LISTED, SCORES, Points
from topwatch.core.jit import PREFETCH_DISTANCE, ZERO, inlined, inner, leaf, prefetch
from topwatch.core.kernels.scoring import BLOCK, DISTANCE, LINEAR, Floats, Ints, Queries, inside, score_row, score_run

FEW = 8  # where more than one row in so many reaches a threshold, keys are computed for all


class Index(NamedTuple):
    """The grid and what hangs on it. Without influence lists all arrays are empty."""

    cells: Cells
    reach: Reach
    influence: Influence
    points: Points
    listed: bool  # arrivals find their queries by the lists
    walked: bool  # rows are kept by cell
    kind: int  # of all queries' scores; -1 where they differ


class Hits(NamedTuple):
    """Rows of a block that reach the threshold of a query: row by row, and for one query in the order of arrival."""

    row: Ints
    query: Ints
    key: Floats
    size: Ints  # one number
    cells: np.ndarray  # room for the cells of a block
    indices: Ints  # room for sorting and for the rows that have a list
    spare: Ints
    spare_query: Ints
    spare_key: Floats


@inner
def new_hits(queries: int) -> Hits:
    """Make room for the hits of a block."""
    size = max(4096, queries)
    return Hits(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
        np.zeros(1, np.int64),
        np.empty(BLOCK, np.int32),
        np.empty(BLOCK + 1, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
    )


@inlined
def run_length(slots: Ints, start: int, stop: int) -> int:
    """Return how many slots from ``start`` on are consecutive."""
    first = slots[start]
    part = slots[start:stop]
    apart = 0
    for i in range(len(part)):
        apart += int(part[i] != first + i)
    if apart == 0:  # the usual case, detected without a branch per slot
        return stop - start
    n = 1
    while slots[start + n] == first + n:
        n += 1
    return n


@leaf
def route_by_scan(
    table: Queries, thresholds: Floats, columns: Floats, slots: Ints, start: int, stop: int, hits: Hits, counters: Ints
) -> bool:
    """Score arrivals against all queries and note those that reach the threshold; False when they do not fit."""
    total = ZERO
    scores = ZERO
    i = start
    while i < stop:
        n = run_length(slots, i, stop)
        out = table.keys[:n]
        for q in range(len(thresholds)):
            if table.k[q] == 0:
                continue
            dense = total * FEW > scores
            scores += n
            for t in range(find_run(table, q, columns, slots[i], thresholds[q], dense, out, hits.indices)):
                r = hits.indices[t]
                if inside(table, q, columns, slots[i] + r):
                    if total == len(hits.row):
                        return False
                    hits.row[total] = i + r
                    hits.query[total] = q
                    hits.key[total] = out[t]
                    total += 1
        i += n
    counters[SCORES] += scores
    hits.size[0] = total
    if total > 1:
        _by_row(hits, start, stop)
    return True


@leaf
def _by_row(hits: Hits, start: int, stop: int) -> None:
    """Sort hits by row, those of one row staying as they were."""
    n = hits.size[0]
    indices = hits.indices
    for r in range(stop - start + 1):
        indices[r] = 0
    for i in range(n):
        indices[hits.row[i] - start + 1] += 1
        hits.spare[i] = hits.row[i]
        hits.spare_query[i] = hits.query[i]
        hits.spare_key[i] = hits.key[i]
    for r in range(stop - start):
        indices[r + 1] += indices[r]
    for i in range(n):
        position = indices[hits.spare[i] - start]
        indices[hits.spare[i] - start] += 1
        hits.row[position] = hits.spare[i]
        hits.query[position] = hits.spare_query[i]
        hits.key[position] = hits.spare_key[i]


@leaf
def subscribe(
    table: Queries,
    q: int,
    columns: Floats,
    slots: Ints,
    start: int,
    stop: int,
    low: float,
    high: float,
    hits: Hits,
    done: int,
) -> bool:
    """Add the rows with a key from ``low`` to below ``high`` of one query to the hits from ``done`` on; False: no room.

    For a query whose threshold has fallen after the block was routed.
    """
    new = ZERO
    i = start
    while i < stop:
        n = run_length(slots, i, stop)
        out = table.keys[:n]
        score_run(table, q, columns, slots[i], out)
        for r in range(n):
            if low <= out[r] < high and inside(table, q, columns, slots[i] + r):
                hits.spare[new] = i + r
                hits.spare_key[new] = out[r]
                new += 1
        i += n
    position = hits.size[0] + new - 1
    if position >= len(hits.row):
        return False
    old = hits.size[0] - 1
    hits.size[0] += new
    while new > 0:
        if old >= done and hits.row[old] > hits.spare[new - 1]:
            hits.row[position] = hits.row[old]
            hits.query[position] = hits.query[old]
            hits.key[position] = hits.key[old]
            old -= 1
        else:
            new -= 1
            hits.row[position] = hits.spare[new]
            hits.query[position] = q
            hits.key[position] = hits.spare_key[new]
        position -= 1
    return True


@leaf
def route_by_lists(
    table: Queries,
    thresholds: Floats,
    columns: Floats,
    index: Index,
    slots: Ints,
    start: int,
    stop: int,
    hits: Hits,
    counters: Ints,
) -> bool:
    """Score arrivals against the queries of their cells and note those that reach the threshold; False: they do not
    fit.
    """
    result = hits.cells
    rows = hits.indices
    count = index.influence.size
    first = index.influence.first
    pool = index.influence.pool
    value = table.value
    # The papers' own cases are worth loops without look-ups: all linear in four columns, or distances in two.
    linear = index.kind == LINEAR and len(index.cells.low) == 4
    planar = index.kind == DISTANCE and len(index.cells.low) == 2
    x0 = x1 = x2 = x3 = 0.0
    total = ZERO
    scores = ZERO
    listed = ZERO
    i = start
    while i < stop:
        n = run_length(slots, i, stop)
        locate_run(index.cells, columns, slots[i], result[i - start : i - start + n])
        # First which rows have a list at all, without a branch; then the lists, each prefetched some rows early.
        some = ZERO
        for r in range(n):
            rows[some] = r
            some += int(count[result[i - start + r]] > 0)
        listed += some
        for t in range(some):
            if t + PREFETCH_DISTANCE < some:
                upcoming = first[result[i - start + rows[t + PREFETCH_DISTANCE]]]
                prefetch(pool, upcoming)
                prefetch(pool, upcoming + 16)
            r = rows[t]
            cell = result[i - start + r]
            queries = count[cell]
            scores += queries
            slot = slots[i] + r
            if linear:
                x0 = columns[index.cells.column[0], slot]
                x1 = columns[index.cells.column[1], slot]
                x2 = columns[index.cells.column[2], slot]
                x3 = columns[index.cells.column[3], slot]
            elif planar:
                x0 = columns[index.cells.column[0], slot]
                x1 = columns[index.cells.column[1], slot]
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
    counters[SCORES] += scores
    counters[LISTED] += listed
    hits.size[0] = total
    return True
