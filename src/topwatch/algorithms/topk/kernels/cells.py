"""The regular grid: which cell a row falls into, which cells can hold a row above a threshold, and in what order.

A query orders the cells of each axis by how good their best value is: downwards, upwards, or outwards from a point.
In these ranks its upper bound only falls, so the cells above a threshold form a staircase that is enumerated without a
visited set, and the best-first walk of SIGMOD'06 (section 4.2) reaches each cell from exactly one other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import inlined, leaf
from topwatch.core.kernels.scoring import DISTANCE, EXPR, PRODUCT, Queries, term_bound, upper_bound


class Cells(NamedTuple):
    """A grid's geometry, one entry per axis. The outermost cells reach to ``least`` and ``most``."""

    column: Ints
    low: Floats
    width: Floats
    scale: Floats  # 1 / width
    pad: Floats  # more than the rounding error of finding a cell
    least: Floats
    most: Floats
    per_axis: Ints
    stride: Ints


class Reach(NamedTuple):
    """How each query orders the cells of each axis (queries, axes), and between which cells its where ranges lie."""

    direction: Ints  # +1 from the last cell down, -1 from the first cell up, 0 outwards from ``centre``
    centre: Ints
    first: Ints
    last: Ints
    low: Floats  # where range along the axis
    high: Floats
    ordered: Ints  # 0: no such order is known, all cells are looked at
    ranks: Ints  # room for a cell's ranks
    box_low: Floats  # room for its box
    box_high: Floats
    parts: Floats  # (axes, cells per axis): what each cell's best value adds to the score, by rank


@inlined
def locate(cells: Cells, columns: Floats, slot: int) -> int:
    """Return the cell of a row. A missing value falls into the first cell of its axis, where no query counts it."""
    cell = 0
    for i in range(len(cells.low)):
        t = (columns[cells.column[i], slot] - cells.low[i]) * cells.scale[i]
        top = cells.per_axis[i] - 1
        c = 0
        if t >= top:
            c = top
        elif t > 0:
            c = int(t)
        cell += c * cells.stride[i]
    return cell


@inlined
def locate_run(cells: Cells, columns: Floats, start: int, out: np.ndarray) -> None:
    """Fill ``out`` (int32) with the cells of the rows in consecutive slots from ``start``."""
    stop = start + len(out)
    for i in range(len(cells.low)):
        x = columns[cells.column[i], start:stop]
        low = cells.low[i]
        scale = cells.scale[i]
        top = np.float64(cells.per_axis[i] - 1)
        stride = np.int32(cells.stride[i])
        if i == 0:
            for r in range(len(out)):
                t = (x[r] - low) * scale
                t = t if t > 0.0 else 0.0
                t = t if t < top else top
                out[r] = np.int32(t) * stride
        else:
            for r in range(len(out)):
                t = (x[r] - low) * scale
                t = t if t > 0.0 else 0.0
                t = t if t < top else top
                out[r] = np.int32(out[r] + np.int32(np.int32(t) * stride))


@leaf
def count_outside(cells: Cells, columns: Floats, start: int, stop: int) -> int:
    """Count values in consecutive slots that lie beyond what the grid has learnt."""
    outside = 0
    for i in range(len(cells.low)):
        x = columns[cells.column[i], start:stop]
        least = cells.least[i]
        most = cells.most[i]
        for r in range(len(x)):
            outside += int(x[r] < least) + int(x[r] > most)
    return outside


@inlined
def cell_low(cells: Cells, i: int, c: int) -> float:
    """Return a value not above any value of the axis' cell."""
    if c == 0:
        return cells.least[i]
    return max(cells.least[i], cells.low[i] + c * cells.width[i] - cells.pad[i])


@inlined
def cell_high(cells: Cells, i: int, c: int) -> float:
    """Return a value not below any value of the axis' cell."""
    if c == cells.per_axis[i] - 1:
        return cells.most[i]
    return min(cells.most[i], cells.low[i] + (c + 1) * cells.width[i] + cells.pad[i])


@inlined
def extent(reach: Reach, q: int, i: int) -> int:
    """Return how many cells of an axis a query can reach."""
    return reach.last[q, i] - reach.first[q, i] + 1


@inlined
def cell_of_rank(reach: Reach, q: int, i: int, rank: int) -> int:
    """Return the axis' cell that a query ranks so."""
    if reach.direction[q, i] > 0:
        return reach.last[q, i] - rank
    if reach.direction[q, i] < 0:
        return reach.first[q, i] + rank
    centre = reach.centre[q, i]
    left = centre - reach.first[q, i]
    right = reach.last[q, i] - centre
    both = min(left, right)
    if rank > 2 * both:
        beyond = rank - both
        return centre + beyond if right > left else centre - beyond
    return centre + (rank + 1) // 2 if rank % 2 == 1 else centre - rank // 2


@inlined
def best_interval(cells: Cells, reach: Reach, table: Queries, q: int, i: int, rank: int) -> tuple[float, float]:
    """Return an interval whose bound covers the axis' cell of this rank and all of higher rank.

    Outwards from a point the next cell may lie on either side: the nearer of the two covers both, and makes the
    bound fall with the rank whatever the rounding.
    """
    c = cell_of_rank(reach, q, i, rank)
    low = max(cell_low(cells, i, c), reach.low[q, i])
    high = min(cell_high(cells, i, c), reach.high[q, i])
    if reach.direction[q, i] == 0 and rank + 1 < extent(reach, q, i):
        other = cell_of_rank(reach, q, i, rank + 1)
        low2 = max(cell_low(cells, i, other), reach.low[q, i])
        high2 = min(cell_high(cells, i, other), reach.high[q, i])
        point = table.value[q, i] if table.kind[q] == DISTANCE else 0.0
        if max(low2 - point, point - high2) < max(low - point, point - high):
            return low2, high2
    return low, high


@leaf
def weigh(cells: Cells, reach: Reach, table: Queries, q: int) -> None:
    """Work out what the cells of each axis can add to a query's score, where that is a sum."""
    if table.kind[q] == PRODUCT or table.kind[q] == EXPR:
        return
    for i in range(len(cells.low)):
        for rank in range(extent(reach, q, i)):
            low, high = best_interval(cells, reach, table, q, i, rank)
            reach.parts[i, rank] = term_bound(table, q, i, low, high)


@inlined
def bound_of(cells: Cells, reach: Reach, table: Queries, q: int) -> float:
    """Return the upper bound of the cell with the ranks in ``reach.ranks``; :func:`weigh` comes first."""
    if table.kind[q] != PRODUCT and table.kind[q] != EXPR:
        total = reach.parts[0, reach.ranks[0]]
        unbounded = total == np.inf
        for i in range(1, len(cells.low)):
            part = reach.parts[i, reach.ranks[i]]
            unbounded = unbounded or part == np.inf
            total += part
        if table.kind[q] == DISTANCE:
            return -np.sqrt(total)
        return np.inf if unbounded else total
    for i in range(len(cells.low)):
        reach.box_low[i], reach.box_high[i] = best_interval(cells, reach, table, q, i, reach.ranks[i])
    return upper_bound(table, q, reach.box_low, reach.box_high)


@inlined
def number_of(cells: Cells, reach: Reach, q: int) -> int:
    """Return the cell with the ranks in ``reach.ranks``."""
    cell = 0
    for i in range(len(cells.low)):
        cell += cell_of_rank(reach, q, i, reach.ranks[i]) * cells.stride[i]
    return cell


@leaf
def cells_above(
    cells: Cells, reach: Reach, table: Queries, q: int, threshold: float, result: Ints, bounds: Floats
) -> int:
    """Write all cells whose bound reaches ``threshold``, with their bounds; return how many. O(cells times axes)."""
    d = len(cells.low)
    ranks = reach.ranks
    for i in range(d):
        ranks[i] = 0
        if extent(reach, q, i) <= 0:
            return 0
    weigh(cells, reach, table, q)
    n = 0
    ordered = reach.ordered[q] == 1
    while True:
        reached = False
        if ranks[d - 1] < extent(reach, q, d - 1):
            bound = bound_of(cells, reach, table, q)
            reached = bound >= threshold
            if reached:
                result[n] = number_of(cells, reach, q)
                bounds[n] = bound
                n += 1
            if reached or not ordered:
                ranks[d - 1] += 1
                continue
        # Nothing further along this axis: step along the one before it.
        i = d - 1
        while i > 0 and ranks[i] == 0:
            i -= 1
        if i == 0:
            return n
        ranks[i] = 0
        ranks[i - 1] += 1
        while i - 1 > 0 and ranks[i - 1] == extent(reach, q, i - 1):
            ranks[i - 1] = 0
            i -= 1
            ranks[i - 1] += 1
        if ranks[0] == extent(reach, q, 0):
            return n
