"""The best of rows that lie in no order: a mark that so many of their keys reach, found by counting.

To count the keys above a value takes a few vector instructions. So halving the range from the lowest to the highest key
finds a mark sooner than any sort could move the rows. Where many keys are equal there may be none; rows are sorted
then.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.sorted_runs import Runs, before, cut, put, spare, write
from topwatch.core.jit import ZERO, inlined, leaf
from topwatch.core.kernels.scoring import Floats

FEW = 24  # rows up to which insertion sort is used


@leaf
def thin(runs: Runs, q: int, start: int, least: int, most: int) -> None:
    """Of the ranks from ``start`` on keep ``least`` to ``most`` rows, the best, and raise the threshold to what they
    reach.

    There are more than ``most``.
    """
    first = runs.first[q]
    n = runs.size[q]
    mark = mark_of(runs.key[first + start : first + n], least, most)
    if np.isnan(mark):
        sort(runs, first + start, n - start)
        cut(runs, q, start + least)
        return
    to = start
    for i in range(start, n):
        reaches = runs.key[first + i] >= mark
        put(runs, first + to, first + i)
        to += int(reaches)
    runs.size[q] = to
    runs.threshold[q] = mark
    runs.whole[q] = 0


@leaf
def lift(runs: Runs, q: int, k: int, top: int) -> None:
    """Sort the best of the overflow, all live, behind the first ``top`` rows, which are fewer than the answer has.

    ``runs.oldest`` is that of the rows before ``top``, or older.
    """
    first = runs.first[q]
    n = runs.size[q]
    to = n
    if n > k + spare(k):
        to = k + spare(k) // 2
        margin = spare(k) // 4
        mark = mark_of(runs.key[first + top : first + n], to - top - margin, to - top + margin)
        if np.isnan(mark):
            sort(runs, first + top, n - top)
        else:
            to = top
            for i in range(first + top, first + n):
                if runs.key[i] >= mark:
                    _swap(runs, first + to, i)
                    to += 1
    sort(runs, first + top, to - top)
    runs.top[q] = to
    oldest = runs.oldest[q]
    for index in range(first + top, first + to):
        oldest = min(oldest, runs.seq[index])
    runs.oldest[q] = oldest


@leaf
def mark_of(keys: Floats, least: int, most: int) -> float:
    """Return a value that ``least`` to ``most`` of the keys reach, which are more; NaN where none was found."""
    low = keys[0]
    high = keys[0]
    for i in range(len(keys)):
        low = min(low, keys[i])
        high = max(high, keys[i])
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return np.nan
        result = ZERO
        for i in range(len(keys)):
            result += int(keys[i] >= middle)
        if result > most:
            low = middle
        elif result < least:
            high = middle
        else:
            return middle


@leaf
def sort(runs: Runs, start: int, count: int) -> None:
    """Sort rows in the pool, best first; many by a heap with the worst on top, taken from the top to the end."""
    if count <= FEW:
        for i in range(start + 1, start + count):
            _sift(runs, start, i)
        return
    for root in range(count // 2 - 1, -1, -1):
        _sink(runs, start, root, count)
    for end in range(count - 1, 0, -1):
        _swap(runs, start, start + end)
        _sink(runs, start, 0, end)


@inlined
def _sift(runs: Runs, start: int, index: int) -> None:
    """Insert a row by rank among the sorted ones before it."""
    key = runs.key[index]
    seq = runs.seq[index]
    slot = runs.slot[index] if len(runs.slot) > 0 else 0
    while index > start and before(key, seq, runs.key[index - 1], runs.seq[index - 1]):
        put(runs, index, index - 1)
        index -= 1
    write(runs, index, key, seq, slot)


@inlined
def _swap(runs: Runs, index: int, other: int) -> None:
    if index == other:
        return
    key = runs.key[index]
    seq = runs.seq[index]
    slot = runs.slot[index] if len(runs.slot) > 0 else 0
    put(runs, index, other)
    write(runs, other, key, seq, slot)


@inlined
def _sink(runs: Runs, start: int, index: int, count: int) -> None:
    while True:
        child = 2 * index + 1
        if child >= count:
            return
        a = start + child
        if child + 1 < count and before(runs.key[a], runs.seq[a], runs.key[a + 1], runs.seq[a + 1]):
            child += 1
            a += 1
        if not before(runs.key[start + index], runs.seq[start + index], runs.key[a], runs.seq[a]):
            return
        _swap(runs, start + index, a)
        index = child
