"""Rows by cell, and the computation from scratch that walks the cells best first (SIGMOD'06, Fig. 6).

The paper marks cells that have been put on the heap. Here a cell is reached only by a step along the last axis on
which it lies off the start, so each is put there once and no marks are needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.cells import Cells, bound_of, cells_above, extent, number_of, weigh
from topwatch.algorithms.topk.kernels.find_rows import Counts
from topwatch.algorithms.topk.kernels.influence import Lists
from topwatch.algorithms.topk.kernels.run_updates import form_band
from topwatch.algorithms.topk.kernels.scan_window import offer, start_filling
from topwatch.algorithms.topk.kernels.sorted_runs import Runs
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import inlined, leaf
from topwatch.core.kernels.memory import prefetch
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import LINEAR, Queries, inside, score_row

FIRST, AT, LAST, BEHIND = range(4)  # ends of a cell's chain
CHUNK = 8


class Points(NamedTuple):
    """The rows of each cell, oldest first, in a chain of chunks with their values beside them.

    So a cell is read from memory in a few pieces, and rows that expire in the order they came leave at the front with
    nothing moved. A cell wastes less than two chunks; with room for all rows and that, the pool never runs out.
    """

    ends: Ints  # (cells, 4): first chunk and index in it, last chunk and index behind the last row
    following: Ints  # by chunk
    spare: Ints  # free chunks, as a stack
    spares: Ints  # one number
    values: Floats  # (chunks * CHUNK, axes + 1): a row's values and, beside them, its slot
    index_of: Ints  # by slot; empty where rows go in the order they came
    cell: np.ndarray  # int32, by slot
    heap_bound: Floats  # room for the walk
    heap_code: Ints


@inlined
def prefetch_end(points: Points, cell: int) -> None:
    """Prefetch the ends of a cell's chain, some rows before they are needed."""
    prefetch(points.ends, 4 * cell)


@inlined
def prefetch_next(points: Points, cell: int) -> None:
    """Prefetch the memory behind a cell's last row, some rows before it is needed."""
    index = points.ends[cell, LAST] * CHUNK + points.ends[cell, BEHIND]
    if 0 <= index < len(points.values):
        width = points.values.shape[1]
        prefetch(points.values, index * width)
        prefetch(points.values, index * width + width - 1)


@inlined
def link(points: Points, cells: Cells, columns: Floats, slot: int, cell: int) -> None:
    """Put a row behind the others of its cell."""
    chunk = points.ends[cell, LAST]
    behind = points.ends[cell, BEHIND]
    if chunk < 0 or behind == CHUNK:
        points.spares[0] -= 1
        new = points.spare[points.spares[0]]
        points.following[new] = -1
        if chunk < 0:
            points.ends[cell, FIRST] = new
            points.ends[cell, AT] = 0
        else:
            points.following[chunk] = new
        points.ends[cell, LAST] = new
        chunk = new
        behind = 0
    index = chunk * CHUNK + behind
    axes = len(cells.column)
    for i in range(axes):
        points.values[index, i] = columns[cells.column[i], slot]
    points.values[index, axes] = slot
    if len(points.index_of) > 0:
        points.index_of[slot] = index
    points.cell[slot] = cell
    points.ends[cell, BEHIND] = behind + 1


@inlined
def unlink(points: Points, slot: int, fifo: bool) -> None:
    """Take a row out of its cell: the first, if rows go in the order they came; else the first moves to its index."""
    cell = points.cell[slot]
    chunk = points.ends[cell, FIRST]
    at = points.ends[cell, AT]
    if not fifo:
        first = chunk * CHUNK + at
        index = points.index_of[slot]
        for i in range(points.values.shape[1]):
            points.values[index, i] = points.values[first, i]
        points.index_of[int(points.values[index, points.values.shape[1] - 1])] = index
    at += 1
    points.ends[cell, AT] = at
    empty = chunk == points.ends[cell, LAST] and at == points.ends[cell, BEHIND]
    if empty or at == CHUNK:
        points.spare[points.spares[0]] = chunk
        points.spares[0] += 1
        points.ends[cell, FIRST] = -1 if empty else points.following[chunk]
        points.ends[cell, AT] = 0
        if empty:
            points.ends[cell, LAST] = -1


@leaf
def fill_by_walk(table: Queries, q: int, rows: Rows, lists: Lists, points: Points, runs: Runs, counts: Counts) -> None:
    """Fill a run with the best ``target`` rows, visiting only the cells that can hold one, in order of their bound."""
    start_filling(runs, q)
    cells = lists.cells
    reach = lists.reach
    d = len(cells.low)
    ranks = reach.ranks
    for i in range(d):
        ranks[i] = 0
        if extent(reach, q, i) <= 0:
            return
    weigh(cells, reach, table, q)
    ordered = reach.ordered[q] == 1
    if ordered:
        points.heap_bound[0] = bound_of(cells, reach, table, q)
        points.heap_code[0] = 0
        size = 1
    else:
        size = cells_above(cells, reach, table, q, -np.inf, points.heap_code, points.heap_bound)
        for i in range(size // 2 - 1, -1, -1):
            _sink(points, i, size)
    while size > 0 and points.heap_bound[0] >= runs.threshold[q]:
        code = points.heap_code[0]
        size -= 1
        points.heap_bound[0] = points.heap_bound[size]
        points.heap_code[0] = points.heap_code[size]
        _sink(points, 0, size)
        cell = code
        if ordered:
            last = 0
            left = code
            for i in range(d):
                ranks[i] = left // cells.stride[i]
                left -= ranks[i] * cells.stride[i]
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
        _take(table, q, rows, points, cell, runs, counts)
    if runs.banded:
        form_band(runs, q, table.k[q])


@inlined
def _take(table: Queries, q: int, rows: Rows, points: Points, cell: int, runs: Runs, counts: Counts) -> None:
    """Offer a cell's rows to a run."""
    counts.cells += 1
    linear = table.kind[q] == LINEAR
    axes = points.values.shape[1] - 1
    chunk = points.ends[cell, FIRST]
    at = points.ends[cell, AT]
    while chunk >= 0:
        stop = points.ends[cell, BEHIND] if chunk == points.ends[cell, LAST] else CHUNK
        counts.scores += stop - at
        for index in range(chunk * CHUNK + at, chunk * CHUNK + stop):
            if linear:
                key = table.value[q, 0] * points.values[index, 0]
                for i in range(1, table.terms[q]):
                    key += table.value[q, i] * points.values[index, i]
            else:
                key = score_row(table, q, rows.columns, int(points.values[index, axes]))
            if key >= runs.threshold[q]:
                slot = int(points.values[index, axes])
                if inside(table, q, rows.columns, slot):
                    offer(runs, q, key, rows.seq[slot], slot)
        chunk = points.following[chunk]
        at = 0


@inlined
def _rise(points: Points, index: int, bound: float, code: int) -> None:
    """Add a cell to the heap."""
    while index > 0:
        parent = (index - 1) // 2
        if points.heap_bound[parent] >= bound:
            break
        points.heap_bound[index] = points.heap_bound[parent]
        points.heap_code[index] = points.heap_code[parent]
        index = parent
    points.heap_bound[index] = bound
    points.heap_code[index] = code


@inlined
def _sink(points: Points, index: int, size: int) -> None:
    """Let the entry at ``index`` sink to where both below it are smaller."""
    bound = points.heap_bound[index]
    code = points.heap_code[index]
    while True:
        child = 2 * index + 1
        if child >= size:
            break
        if child + 1 < size and points.heap_bound[child + 1] > points.heap_bound[child]:
            child += 1
        if points.heap_bound[child] <= bound:
            break
        points.heap_bound[index] = points.heap_bound[child]
        points.heap_code[index] = points.heap_code[child]
        index = child
    points.heap_bound[index] = bound
    points.heap_code[index] = code
