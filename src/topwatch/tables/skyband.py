"""The k-skyband of a table: the rows that fewer than k others dominate.

First a grid: a row whose cell has k rows in cells before it in every column is out at once. What is left is numbered
column by column, so that dominance is a comparison of small whole numbers and nothing is rounded; equal rows become one
with a weight, put in the order of the sum of their numbers, in which dominators come first
(:mod:`topwatch.tables.kernels.ranked_skyband`).
"""

from __future__ import annotations

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.tables.kernels.ranked_skyband import Ranked, compare_small, keep_skyband
from topwatch.tables.levels import Axes, at_previous, guard_bits, signed
from topwatch.tables.skyline import front

SMALL = 64  # rows up to which each pair is compared
SIEVED = 4096  # rows from which a grid pays
SIEVE_CELLS = 1 << 17
CELL_BITS = 12  # of the cells that the skyband's rows lie in
LEVEL_BITS = 15
SAMPLE = 8192


def skyband(values: Floats, k: int) -> Ints:
    """Return the rows (rising) that fewer than k others dominate, of an array (columns, rows) of numbers without NaN.

    Smaller is better in every column; equal rows do not dominate each other. The cost of n rows of which s are left is
    O(n log n) and, at worst, O(n s).

    >>> skyband(np.array([[1.0, 2.0, 3.0, 1.0], [3.0, 2.0, 3.0, 3.0]]), 1).tolist()
    [0, 1, 3]
    >>> skyband(np.array([[1.0, 2.0, 3.0, 1.0], [3.0, 2.0, 3.0, 3.0]]), 4).tolist()
    [0, 1, 2, 3]
    """
    left: Ints = np.arange(values.shape[1])
    if k == 1:
        return front(values)
    if left.size <= k:
        return left  # no row has as many as k others
    if left.size >= SIEVED:
        left = left[_sieve(values, k)]
    ranks, weight, row_of = _distinct(values[:, left])
    keep = np.zeros(weight.size, np.bool_)
    rows, cells = _ranked(ranks, weight)
    keep_skyband(rows, k, cells, keep)
    return left[keep[row_of]]


def skybands(values: Floats, starts: Ints, k: int) -> np.ndarray:
    """Mark the rows of the k-skyband of each group; rows of a group lie together, from one start to the next."""
    keep = np.zeros(values.shape[1], np.bool_)
    dominators, dominated = np.zeros((2, values.shape[1]), np.int64)
    sizes = np.diff(starts)
    if (sizes <= SMALL).any():
        compare_small(np.ascontiguousarray(values), starts, SMALL, dominators, dominated)
        keep |= (dominators < k) & np.repeat(sizes <= SMALL, sizes)
    for g in np.flatnonzero(sizes > SMALL):
        keep[starts[g] + skyband(values[:, starts[g] : starts[g + 1]], k)] = True
    return keep


def _sieve(values: Floats, k: int) -> np.ndarray:
    """Mark the rows that are left when cells with k rows before them in every column are out."""
    axes = Axes.among(values[:, :: max(1, values.shape[1] // SAMPLE)], SIEVE_CELLS)
    cells = axes.cells_of(values)
    before = np.bincount(cells, minlength=axes.cells).reshape(axes.shape)
    for axis in range(before.ndim):
        before = np.cumsum(before, axis=axis)
    kept: np.ndarray = (at_previous(before).ravel() < k)[cells]
    return kept


def _distinct(values: Floats) -> tuple[np.ndarray, Ints, Ints]:
    """Return the distinct rows as ranks, dominators first, how often each is there, and which of them each row is."""
    ranks = np.empty((values.shape[1], values.shape[0]), np.int32)
    for j, column in enumerate(values):
        ranks[:, j] = np.unique(column, return_inverse=True)[1]
    order = np.lexsort((*ranks.T, ranks.sum(axis=1, dtype=np.int64)))
    in_order = ranks[order]
    first = np.ones(order.size, np.bool_)
    first[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    number = np.cumsum(first) - 1
    row_of = np.empty(order.size, np.int64)
    row_of[order] = number
    return in_order[first], np.bincount(number), row_of


def _ranked(ranks: np.ndarray, weight: Ints) -> tuple[Ranked, int]:
    """Return rows as the kernel takes them, and how many cells there are."""
    d = ranks.shape[1]
    width = min(64 // d, LEVEL_BITS + 1)
    bits = CELL_BITS // d + (np.arange(d) < CELL_BITS % d)
    word, index, cell = np.zeros((3, ranks.shape[0]), np.int64)
    step = cells = 0
    for j in range(d):
        rank = ranks[:, j].astype(np.int64)
        have = int(rank.max()).bit_length()
        level = rank >> max(0, have - (width - 1))
        coarse = max(0, min(have, width - 1) - int(bits[j]))
        word |= level << (j * width)
        index |= (level >> coarse << coarse) << (j * width)
        cell |= (level >> coarse) << cells
        cells += min(have, width - 1) - coarse
        step |= 1 << (j * width + coarse)
    return Ranked(
        np.ascontiguousarray(ranks), weight, word, index, cell, guard_bits(d, width), signed(step)
    ), 1 << cells
