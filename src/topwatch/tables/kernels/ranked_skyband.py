"""The k-skyband of a table: the rows that fewer than k others dominate.

Distinct rows come in an order in which dominators are first. So each is compared with rows that are already in the
skyband, and with no others: of a row's dominators, the first k are dominated by fewer than k rows themselves. Rows of
the skyband lie in cells; a cell that is not before a row's own in every column holds none of its dominators, and one
that is behind in no column holds nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf
from topwatch.tables.kernels.levels import compare_rows

CHUNK = 16  # rows of a cell that lie together


class Ranked(NamedTuple):
    """Distinct rows, dominators first."""

    rank: np.ndarray  # (rows, columns), int32: rank of the value among those of its column
    weight: Ints  # how many rows have these values
    word: Ints  # levels in lanes
    cell_code: Ints  # word with only the coordinates of its cell
    cell: Ints  # number of that cell
    guard: int  # mask: the guard bits
    step: int  # one cell further in every lane


class Cells(NamedTuple):
    """Rows of the skyband by cell, in the order in which cells got their first row."""

    number: np.ndarray  # of a cell → its index here, or -1; int32
    cell_code: Ints
    weight: Ints  # of all rows of a cell
    chunk: Ints  # the cell's newest chunk
    before: Ints  # of a chunk, the one before it
    size: Ints  # of a chunk
    member: Ints  # rows, chunk by chunk
    word: Ints  # their words
    used: Ints  # cells, chunks


@kernel
def keep_skyband(rows: Ranked, k: int, cells: int, keep: np.ndarray) -> None:
    """Mark the rows that fewer than k others dominate."""
    n = len(rows.weight)
    most = min(n, cells)
    chunks = n // CHUNK + most + 1
    held = Cells(
        np.full(cells, -1, np.int32),
        np.empty(most, np.int64),
        np.zeros(most, np.int64),
        np.empty(most, np.int64),
        np.empty(chunks, np.int64),
        np.zeros(chunks, np.int64),
        np.empty(chunks * CHUNK, np.int64),
        np.empty(chunks * CHUNK, np.int64),
        np.zeros(2, np.int64),
    )
    for r in range(n):
        if _dominators(rows, held, r, k) < k:
            keep[r] = True
            _put(rows, held, r)


@leaf
def _dominators(rows: Ranked, held: Cells, r: int, k: int) -> int:
    """Count the rows that dominate row r, up to k or a few more."""
    guard = rows.guard
    mine = rows.cell_code[r] | guard
    result = ZERO
    for c in range(held.used[0]):
        if (mine - held.cell_code[c]) & guard == guard:
            if (mine - (held.cell_code[c] + rows.step)) & guard == guard:
                result += held.weight[c]
            else:
                result += _in_cell(rows, held, c, r, k - result)
            if result >= k:
                return result
    return result


@inlined
def _in_cell(rows: Ranked, held: Cells, c: int, r: int, enough: int) -> int:
    guard = rows.guard
    mine = rows.word[r] | guard
    result = ZERO
    chunk = held.chunk[c]
    while chunk >= 0 and result < enough:
        first = chunk * CHUNK
        for i in range(first, first + held.size[chunk]):
            if (mine - held.word[i]) & guard == guard:
                other = held.member[i]
                worse = False
                for j in range(rows.rank.shape[1]):
                    worse |= rows.rank[other, j] > rows.rank[r, j]
                result += ZERO if worse else rows.weight[other]
        chunk = held.before[chunk]
    return result


@inner
def _put(rows: Ranked, held: Cells, r: int) -> None:
    """Add a row to its cell."""
    c = held.number[rows.cell[r]]
    if c < 0:
        c = held.used[0]
        held.used[0] += 1
        held.number[rows.cell[r]] = c
        held.cell_code[c] = rows.cell_code[r]
        held.chunk[c] = -1
    chunk = held.chunk[c]
    if chunk < 0 or held.size[chunk] == CHUNK:
        fresh = held.used[1]
        held.used[1] += 1
        held.before[fresh] = chunk
        held.chunk[c] = fresh
        chunk = fresh
    at = chunk * CHUNK + held.size[chunk]
    held.member[at] = r
    held.word[at] = rows.word[r]
    held.size[chunk] += 1
    held.weight[c] += rows.weight[r]


@kernel
def compare_small(values: Floats, starts: Ints, most: int, dominators: Ints, dominated: Ints) -> None:
    """Count both for all rows of groups that have at most so many rows, by comparing each pair."""
    for g in range(len(starts) - 1):
        if starts[g + 1] - starts[g] > most:
            continue
        for a in range(starts[g], starts[g + 1]):
            for b in range(a + 1, starts[g + 1]):
                less, more = compare_rows(values, a, b)
                if less != more:
                    dominators[b if less else a] += 1
                    dominated[a if less else b] += 1
