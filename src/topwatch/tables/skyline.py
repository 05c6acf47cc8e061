"""The skyline of a table in memory: easily where it is small; else strong rows drop many, and the rest is sorted.

First each row is compared with the skyline so far, for as long as few comparisons are enough. Where they are not, a
sample shows which rows dominate most, and a pass drops all that they dominate. What is left becomes words with a level
of each column; cells behind others go, and rows are compared in the order of the sum of levels
(:mod:`topwatch.tables.kernels.sorted_skyline`).

That a sum puts dominators first is the idea of sort-filter-skyline (Chomicki and others, ICDE 2003), groups by halves
that of point-based partitioning (BSkyTree, Lee and Hwang, EDBT 2010), with the medians of the columns for a pivot.
"""

from __future__ import annotations

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.tables.kernels.sorted_skyline import (
    HALVES,
    Scale,
    Sorted,
    choose_strong,
    drop_beaten,
    encode_rows,
    keep_easily,
    keep_front,
)
from topwatch.tables.levels import at_previous, bounds_of, guard_bits, stacked

EASY = 10.0  # rows that one is compared with, on average, where nothing else is worth its while
FEW = 1024  # rows for which no strong ones are sought
MANY = 32_768  # rows from which a sieve pays
SAMPLE = 128
STRONG = 8
GAIN = 0.1  # of what is left of the sample, that a strong row must drop
LANES = 16  # columns that have a lane in words; the values decide about the others
LEVEL_BITS = 10
CELL_BITS = 16
LEARNT = 2048  # rows that levels are learnt from
SLOTS = 4096  # of the table from values to levels


def front(values: Floats) -> Ints:
    """Return the rows (rising) that no other dominates, of an array (columns, rows) of numbers without NaN.

    Smaller is better in every column; equal rows do not dominate each other. The cost of n rows of which s are left is
    O(n log n) and, at worst, O(n s); the rows of the skyline that a row is compared with are a small share of s.

    >>> front(np.array([[1.0, 2.0, 3.0, 1.0], [3.0, 2.0, 3.0, 3.0]])).tolist()
    [0, 1, 3]
    """
    some = np.ascontiguousarray(values)
    keep = np.zeros(values.shape[1], np.bool_)
    if keep_easily(some, EASY, keep):
        return np.flatnonzero(keep)
    left, some = _sifted(some)
    lanes = min(len(values), LANES)
    width = min(64 // lanes, LEVEL_BITS + 1)
    scale = _scale(some[:lanes, :: max(1, left.size // LEARNT)], (1 << (width - 1)) - 1)
    words = np.empty((3, left.size), np.int64)
    sums = np.empty(left.size, np.uint16)
    encode_rows(some, scale, width, words, sums)
    if left.size > MANY and lanes == len(values):  # cells are of all columns
        kept = np.flatnonzero(_sieve(words[2], scale))
        left, some, words, sums = left[kept], np.take(some, kept, axis=1), np.take(words, kept, axis=1), sums[kept]
    order = np.argsort(sums, kind="stable")
    rows = Sorted(
        np.ascontiguousarray(some.T),
        order,
        words[0, order],
        words[1, order],
        guard_bits(lanes, width),
        np.zeros(left.size, np.bool_),
        np.full(left.size, -1),
    )
    keep_front(rows, 1 << min(lanes, HALVES))
    return np.sort(left[order[rows.keep]])


def _sifted(some: Floats) -> tuple[Ints, Floats]:
    """Return the rows that strong ones leave, and their values; again and again while most go."""
    rows = some.shape[1]
    left: Ints | None = None
    while some.shape[1] > FEW:
        strong = strong_rows(some)
        if not strong.shape[1]:
            break
        kept = unbeaten(some, strong)
        left = kept if left is None else left[kept]
        enough = 2 * kept.size > some.shape[1]
        some = np.take(some, kept, axis=1)
        if enough:
            break
    return np.arange(rows) if left is None else left, some


def unbeaten(values: Floats, strong: Floats) -> Ints:
    """Return the rows (rising) that none of a few strong ones dominates.

    >>> unbeaten(np.array([[1.0, 2.0, 3.0]]), np.array([[2.0]])).tolist()
    [0, 1]
    """
    left = np.empty(values.shape[1] + 1, np.int64)
    return left[: drop_beaten(np.ascontiguousarray(values), np.ascontiguousarray(strong.T), left)]


def strong_rows(values: Floats) -> Floats:
    """Return a few rows that together dominate much of a sample, the strongest first.

    >>> strong_rows(np.array([[1.0, 3.0, 4.0, 2.0], [1.0, 2.0, 4.0, 0.0]]))
    array([[1.],
           [1.]])
    """
    step = max(1, values.shape[1] // SAMPLE)
    sample = np.ascontiguousarray(values[:, step // 2 :: step])
    return np.ascontiguousarray(sample[:, choose_strong(sample, STRONG, GAIN)])


def _scale(some: Floats, most: int) -> Scale:
    """Learn from some rows how values become levels, at most so many for a column besides the first."""
    d = len(some)
    bound, bounds = stacked([bounds_of(column, most) for column in some])
    low, high, slots = np.zeros((3, d))
    level = np.zeros((d, SLOTS + 1), np.uint16)
    for j, column in enumerate(some):
        mine = bound[j, : bounds[j]]
        finite = column[np.isfinite(column)]
        if not mine.size or not finite.size:
            continue
        ends = float(finite.min()), float(finite.max())
        step = SLOTS / (ends[1] - ends[0]) if ends[1] > ends[0] else np.inf
        if not np.isfinite(step) or not np.isfinite(ends[1] - ends[0]):
            continue
        edges = ends[0] + np.arange(SLOTS + 1) / step
        table = np.searchsorted(mine, edges, side="right")
        if 2 * np.unique(table).size > mine.size:
            low[j], high[j], slots[j], level[j] = *ends, step, table
    top = np.maximum(bounds, level[:, -1])
    have = np.array([int(last).bit_length() for last in top])
    bits = np.minimum(CELL_BITS // d + (np.arange(d) < CELL_BITS % d), have)
    index = np.cumsum(bits) - bits
    return Scale(low, high, slots, level, bound, bounds, bounds // 2 + 1, have - bits, index)


def _sieve(cells: Ints, scale: Scale) -> np.ndarray:
    """Mark the rows whose cell has no row in a cell that is before it in every column."""
    bits = np.append(scale.shift[1:], 0) - scale.shift
    bits[-1] = max(0, int(cells.max(initial=0)).bit_length() - scale.shift[-1])
    shape = tuple(1 << int(part) for part in bits[::-1])
    full = np.zeros(int(np.prod(shape)), np.bool_)
    full[cells] = True
    before = full.reshape(shape)
    for axis in range(before.ndim):
        before = np.logical_or.accumulate(before, axis=axis)
    kept: np.ndarray = ~at_previous(before).ravel()[cells]
    return kept
