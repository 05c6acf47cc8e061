"""Bounds of how many rows the rows of a cell dominate, from counts of rows by cell.

A row dominates all rows of the cells behind its own in every column, and at most those of the cells that are not
before it in any. Both are suffix sums. In a column where a cell's level is a single value, the cells beside it count as
behind.
"""

from __future__ import annotations

import numpy as np

from topwatch.core.kernels.scoring import Ints
from topwatch.tables.axes import Axes


def score_bounds(axes: Axes, counts: Ints) -> tuple[Ints, Ints]:
    """Return the least and the most that rows of each cell can dominate; a cell without rows has no meaning.

    >>> axes = Axes(np.array([[2.0, 3.0]]), np.array([2]), np.array([1]))
    >>> score_bounds(axes, np.array([2, 5, 1]))  # rows below 2, from 2 and from 3 on
    (array([6, 1, 0]), array([7, 5, 0]))
    """
    shape = axes.shape
    d = len(shape)
    sums = counts.reshape(shape)
    for axis in range(d):
        sums = np.flip(np.cumsum(np.flip(sums, axis), axis=axis), axis)
    least = sums
    one_value = np.ones(shape, np.bool_)
    for axis, size in enumerate(shape):
        single = axes.single(axis)
        behind = np.arange(size) + ~single
        along = [-1 if a == axis else 1 for a in range(d)]
        least = np.take(least, np.minimum(behind, size - 1), axis=axis) * (behind < size).reshape(along)
        one_value &= single.reshape(along)
    same = np.where(one_value.ravel(), counts, 0)
    return least.ravel() - same, sums.ravel() - np.maximum(same, 1)


def kth_score(scores: Ints, times: Ints, k: int) -> int:
    """Return the k-th largest score, each counted so many times; 0 where there are fewer than k.

    >>> kth_score(np.array([5, 9, 7]), np.array([1, 2, 1]), 3)
    7
    """
    order = np.argsort(-scores, kind="stable")
    index = int(np.searchsorted(np.cumsum(times[order]), k))
    return int(max(0, scores[order[index]])) if index < order.size else 0
