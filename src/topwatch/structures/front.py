"""The skyline of a table in memory: a few strong rows drop most others, and the rest is sorted and sifted.

First a sample says which rows dominate most, and one pass drops all that they dominate. What is left becomes words with
a level of each column, and is looked at in the order of the sum of levels (:mod:`topwatch.kernels.front`).

That a sum puts dominators first is the idea of sort-filter-skyline (Chomicki and others, ICDE 2003), groups by halves
that of point-based partitioning (BSkyTree, Lee and Hwang, EDBT 2010), with the medians of the columns for a pivot.
"""

from __future__ import annotations

import numpy as np

from topwatch.kernels.front import Placed, drop_beaten, keep_front, place_rows
from topwatch.kernels.scoring import Floats, Ints
from topwatch.structures.axes import bounds_of, stacked

SMALL = 2048  # rows for which no sample is taken
SAMPLE = 2048
CANDIDATES = 64  # of the sample, that may be strong
STRONG = 16
GAIN = 0.01  # of the sample, that a strong row must drop
LANES = 16  # columns that words tell of; the values decide about the others
LEVEL_BITS = 10
HALVES = 8  # columns that make groups


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
    bound, bounds = _bounds(values[:lanes], left, (1 << (width - 1)) - 1)
    words = np.empty((2, left.size), np.int64)
    sums = np.empty(left.size, np.uint16)
    halves = min(lanes, HALVES)
    place_rows(values, left, bound, bounds, width, halves, words, sums)
    order = np.argsort(sums, kind="stable")
    left = left[order]
    guard = sum(1 << ((j + 1) * width - 1) for j in range(lanes))
    rows = Placed(
        np.ascontiguousarray(values[:, left].T),
        words[0, order],
        words[1, order],
        int(np.array(guard, np.uint64).astype(np.int64)),
        np.zeros(left.size, np.bool_),
        np.full(left.size, -1),
    )
    keep_front(rows, 1 << halves)
    return np.sort(left[rows.keep])


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
    chosen = []
    for _ in range(STRONG):
        gains = beats.sum(axis=1)
        best = int(gains.argmax())
        if gains[best] <= GAIN * sample.shape[1]:
            break
        chosen.append(best)
        beats &= ~beats[best]
    return np.ascontiguousarray(some[:, chosen])


def _bounds(values: Floats, left: Ints, most: int) -> tuple[Floats, Ints]:
    """Return the bounds of levels, at most so many for a column, learnt from some of the rows that are left."""
    some = left[:: max(1, left.size // (4 * most + 1))]
    return stacked([bounds_of(column[some], most) for column in values])
