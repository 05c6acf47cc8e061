"""Rows by cell, and the computation from scratch that walks the cells best first (SIGMOD'06, Fig. 6).

The paper marks cells that have been put on the heap. Here a cell is reached only by a step along the last axis on
which it lies off the start, so each is put there once and no marks are needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.kernels.cells import Cells, Reach, bound_of, cells_above, extent, number_of
from topwatch.kernels.compile import inlined, leaf
from topwatch.kernels.rows import Rows
from topwatch.kernels.runs import Runs, form_band
from topwatch.kernels.scoring import Floats, Ints, Queries, inside, score_row
from topwatch.kernels.select import offer, start_filling


class Points(NamedTuple):
    """The rows of each cell as a doubly linked list of slots, oldest first: O(1) to add and to take any row out."""

    head: Ints
    tail: Ints
    following: Ints
    previous: Ints
    cell: Ints
    heap_bound: Floats  # room for the walk
    heap_code: Ints


@inlined
def link(points: Points, slot: int, cell: int) -> None:
    """Put a row at the end of its cell's list."""
    tail = points.tail[cell]
    points.cell[slot] = cell
    points.previous[slot] = tail
    points.following[slot] = -1
    points.tail[cell] = slot
    if tail < 0:
        points.head[cell] = slot
    else:
        points.following[tail] = slot


@inlined
def unlink(points: Points, slot: int) -> None:
    """Take a row out of its cell's list."""
    cell = points.cell[slot]
    before = points.previous[slot]
    after = points.following[slot]
    if before < 0:
        points.head[cell] = after
    else:
        points.following[before] = after
    if after < 0:
        points.tail[cell] = before
    else:
        points.previous[after] = before


@leaf
def fill_by_walk(
    table: Queries, q: int, rows: Rows, cells: Cells, reach: Reach, points: Points, runs: Runs, counters: Ints
) -> None:
    """Fill a run with the best ``target`` rows, visiting only the cells that can hold one, in order of their bound."""
    start_filling(runs, q)
    d = len(cells.low)
    ranks = reach.ranks
    for i in range(d):
        ranks[i] = 0
        if extent(reach, q, i) <= 0:
            return
    ordered = reach.ordered[q] == 1
    if ordered:
        points.heap_bound[0] = bound_of(cells, reach, table, q)
        points.heap_code[0] = 0
        size = 1
    else:
        size = cells_above(cells, reach, table, q, -np.inf, points.heap_code, points.heap_bound)
        for i in range(size // 2 - 1, -1, -1):
            _sink(points, i, size)
    while size > 0 and points.heap_bound[0] >= runs.bar[q]:
        code = points.heap_code[0]
        size -= 1
        points.heap_bound[0] = points.heap_bound[size]
        points.heap_code[0] = points.heap_code[size]
        _sink(points, 0, size)
        cell = code
        if ordered:
            last = 0
            rest = code
            for i in range(d):
                ranks[i] = rest // cells.stride[i]
                rest -= ranks[i] * cells.stride[i]
                if ranks[i] > 0:
                    last = i
            cell = number_of(cells, reach, q)
            for i in range(last, d):
                if ranks[i] + 1 < extent(reach, q, i):
                    ranks[i] += 1
                    bound = bound_of(cells, reach, table, q)
                    ranks[i] -= 1
                    _rise(points, size, bound, code + cells.stride[i])
                    size += 1
        _take(table, q, rows, points, cell, runs, counters)
    if runs.banded:
        form_band(runs, q)


@inlined
def _take(table: Queries, q: int, rows: Rows, points: Points, cell: int, runs: Runs, counters: Ints) -> None:
    counters[2] += 1
    slot = points.head[cell]
    while slot >= 0:
        key = score_row(table, q, rows.columns, slot)
        counters[0] += 1
        if key >= runs.bar[q] and inside(table, q, rows.columns, slot):
            offer(runs, q, key, rows.seq[slot], slot)
        slot = points.following[slot]


@inlined
def _rise(points: Points, place: int, bound: float, code: int) -> None:
    """Add a cell to the heap."""
    while place > 0:
        parent = (place - 1) // 2
        if points.heap_bound[parent] >= bound:
            break
        points.heap_bound[place] = points.heap_bound[parent]
        points.heap_code[place] = points.heap_code[parent]
        place = parent
    points.heap_bound[place] = bound
    points.heap_code[place] = code


@inlined
def _sink(points: Points, place: int, size: int) -> None:
    """Let the entry at ``place`` sink to where both below it are smaller."""
    bound = points.heap_bound[place]
    code = points.heap_code[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and points.heap_bound[child + 1] > points.heap_bound[child]:
            child += 1
        if points.heap_bound[child] <= bound:
            break
        points.heap_bound[place] = points.heap_bound[child]
        points.heap_code[place] = points.heap_code[child]
        place = child
    points.heap_bound[place] = bound
    points.heap_code[place] = code
