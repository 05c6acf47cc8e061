"""The skyline of a table in memory: a few strong rows drop most others, and the rest is sorted and sifted.

First a sample says which rows dominate most, and one pass drops all that they dominate. What is left becomes words with
a level of each column, and is looked at in the order of the sum of levels (:mod:`topwatch.kernels.front`).

That a sum puts dominators first is the idea of sort-filter-skyline (Chomicki and others, ICDE 2003), groups by halves
that of point-based partitioning (BSkyTree, Lee and Hwang, EDBT 2010), with the medians of the columns for a pivot.
"""

from __future__ import annotations

import numpy as np

from topwatch.kernels.front import HALVES, Placed, Scale, drop_beaten, keep_front, place_rows
from topwatch.kernels.scoring import Floats, Ints
from topwatch.structures.axes import bounds_of, stacked

SMALL = 2048  # rows for which no sample is taken
SAMPLE = 2048
CANDIDATES = 32  # of the sample, that may be strong
STRONG = 16
GAIN = 0.15  # of what is left of the sample, that a strong row must drop
LANES = 16  # columns that words tell of; the values decide about the others
LEVEL_BITS = 10
CELL_BITS = 16
LEARNT = 4096  # rows that levels are learnt from
SLOTS = 4096  # of the table from values to levels


def front(values: Floats) -> Ints:
    """Return the rows (rising) that no other dominates, of an array (columns, rows) of numbers without NaN.

    Smaller is better in every column; equal rows do not dominate each other. The cost of n rows of which s are left is
    O(n log n) and, at worst, O(n s); the rows of the skyline that a row is compared with are a small share of s.

    >>> front(np.array([[1.0, 2.0, 3.0, 1.0], [3.0, 2.0, 3.0, 3.0]])).tolist()
    [0, 1, 3]
    """
    d, n = values.shape
    left: Ints = np.arange(n)
    if n > SMALL:
        left = unbeaten(values, strong_rows(values[:, :: n // SAMPLE]))
    lanes = min(d, LANES)
    width = min(64 // lanes, LEVEL_BITS + 1)
    scale = _scale(values[:lanes, left[:: max(1, left.size // LEARNT)]], (1 << (width - 1)) - 1)
    words = np.empty((3, left.size), np.int64)
    sums = np.empty(left.size, np.uint16)
    place_rows(values, left, scale, width, words, sums)
    if left.size > SMALL:
        kept = _sieve(words[2], scale)
        left, words, sums = left[kept], words[:, kept], sums[kept]
    order = np.argsort(sums, kind="stable")
    guard = sum(1 << ((j + 1) * width - 1) for j in range(lanes))
    rows = Placed(
        np.ascontiguousarray(values[:, left].T),
        order,
        words[0, order],
        words[1, order],
        int(np.array(guard, np.uint64).astype(np.int64)),
        np.zeros(left.size, np.bool_),
        np.full(left.size, -1),
    )
    keep_front(rows, 1 << min(lanes, HALVES))
    return np.sort(left[order[rows.keep]])


def unbeaten(values: Floats, strong: Floats) -> Ints:
    """Return the rows (rising) that none of a few strong ones dominates.

    >>> unbeaten(np.array([[1.0, 2.0, 3.0]]), np.array([[2.0]])).tolist()
    [0, 1]
    """
    left = np.empty(values.shape[1], np.int64)
    return left[: drop_beaten(np.ascontiguousarray(values), np.ascontiguousarray(strong), left)]


def strong_rows(sample: Floats) -> Floats:
    """Return a few rows of a sample that together dominate most of it, the strongest first.

    >>> strong_rows(np.array([[1.0, 3.0, 4.0, 2.0], [1.0, 2.0, 4.0, 0.0]]))
    array([[1.],
           [1.]])
    """
    ranks = np.argsort(np.argsort(sample, axis=1), axis=1)
    some = sample[:, np.argsort(ranks.sum(axis=0))[:CANDIDATES]]
    beats = np.ones((some.shape[1], sample.shape[1]), np.bool_)
    same = np.ones_like(beats)
    for mine, others in zip(some, sample, strict=True):
        beats &= mine[:, None] <= others
        same &= mine[:, None] == others
    beats &= ~same
    chosen: list[int] = []
    rest = sample.shape[1]
    for _ in range(STRONG):
        gains = beats.sum(axis=1)
        best = int(gains.argmax()) if gains.size else 0
        if not gains.size or gains[best] <= GAIN * rest:
            break
        chosen.append(best)
        rest -= int(gains[best])
        beats &= ~beats[best]
    return np.ascontiguousarray(some[:, chosen])


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
    place = np.cumsum(bits) - bits
    return Scale(low, high, slots, level, bound, bounds, bounds // 2 + 1, have - bits, place)


def _sieve(cells: Ints, scale: Scale) -> np.ndarray:
    """Mark the rows whose cell has no row in a cell that is before it in every column."""
    bits = np.append(scale.place[1:], 0) - scale.place
    bits[-1] = max(0, int(cells.max(initial=0)).bit_length() - scale.place[-1])
    shape = tuple(1 << int(part) for part in bits[::-1])
    full = np.zeros(int(np.prod(shape)), np.bool_)
    full[cells] = True
    before = full.reshape(shape)
    for axis in range(before.ndim):
        before = np.logical_or.accumulate(before, axis=axis)
    behind = np.zeros_like(before)
    behind[(slice(1, None),) * before.ndim] = before[(slice(None, -1),) * before.ndim]
    kept: np.ndarray = ~behind.ravel()[cells]
    return kept
