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
from topwatch.kernels.scoring import LINEAR, Floats, Ints, Queries, inside, score_row
from topwatch.kernels.select import offer, start_filling

SCORES, LISTED, CELLS, FILLS, HITS = range(5)  # counters


class Points(NamedTuple):
    """The rows of each cell side by side, values included, so that a cell is read from memory in one go.

    Each cell has spare room in the pool; a full one moves to the pool's free end with half as much again. A row that
    goes is replaced by the last of its cell.
    """

    first: Ints  # by cell
    size: Ints
    room: Ints
    used: Ints  # one number
    values: Floats  # (pool, axes)
    slot: Ints  # (pool)
    place: Ints  # by slot: where in the pool the row is
    cell: Ints  # by slot
    heap_bound: Floats  # room for the walk
    heap_code: Ints


@inlined
def link(points: Points, cells: Cells, columns: Floats, slot: int, cell: int) -> None:
    """Put a row into a cell. The pool must have free room (:func:`room_for`)."""
    if points.size[cell] == points.room[cell]:
        _move_cell(points, cell)
    place = points.first[cell] + points.size[cell]
    for i in range(len(cells.column)):
        points.values[place, i] = columns[cells.column[i], slot]
    points.slot[place] = slot
    points.place[slot] = place
    points.cell[slot] = cell
    points.size[cell] += 1


@leaf
def _move_cell(points: Points, cell: int) -> None:
    old = points.first[cell]
    new = points.used[0]
    n = points.size[cell]
    for j in range(n):
        for i in range(points.values.shape[1]):
            points.values[new + j, i] = points.values[old + j, i]
        points.slot[new + j] = points.slot[old + j]
        points.place[points.slot[new + j]] = new + j
    points.first[cell] = new
    points.room[cell] = room_for(n)
    points.used[0] += room_for(n)


@inlined
def room_for(rows: int) -> int:
    """Return how much room a cell with so many rows is given.

    A cell that was given room for m rows moves after at least m / 3 + 5 arrivals, into room for 1.5 m + 8: an arrival
    uses up fewer than five places on average, and a pool with eight free places per arrival never runs out.
    """
    return rows + rows // 2 + 8


@inlined
def unlink(points: Points, slot: int) -> None:
    """Take a row out of its cell."""
    cell = points.cell[slot]
    place = points.place[slot]
    points.size[cell] -= 1
    last = points.first[cell] + points.size[cell]
    if place < last:
        for i in range(points.values.shape[1]):
            points.values[place, i] = points.values[last, i]
        points.slot[place] = points.slot[last]
        points.place[points.slot[place]] = place


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
        form_band(runs, q, table.k[q])


@inlined
def _take(table: Queries, q: int, rows: Rows, points: Points, cell: int, runs: Runs, counters: Ints) -> None:
    """Offer a cell's rows to a run."""
    first = points.first[cell]
    n = points.size[cell]
    counters[CELLS] += 1
    counters[SCORES] += n
    linear = table.kind[q] == LINEAR
    for place in range(first, first + n):
        if linear:
            key = table.value[q, 0] * points.values[place, 0]
            for i in range(1, table.terms[q]):
                key += table.value[q, i] * points.values[place, i]
        else:
            key = score_row(table, q, rows.columns, points.slot[place])
        if key >= runs.bar[q]:
            slot = points.slot[place]
            if inside(table, q, rows.columns, slot):
                offer(runs, q, key, rows.seq[slot], slot)


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
