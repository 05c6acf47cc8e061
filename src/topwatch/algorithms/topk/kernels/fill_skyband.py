"""A query's keys over the window, and which rows are in its k-skyband: what a skyband is filled with from scratch."""

from __future__ import annotations

import numpy as np

from topwatch.core.jit import ZERO, kernel
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import BLOCK, Floats, Ints, Queries, inside, score_row, score_run


@kernel
def keys_between(table: Queries, q: int, rows: Rows, head: int, moment: int) -> Floats:
    """Return the keys of the ordinals ``head`` to ``moment``; NaN for those that the query does not rank."""
    keys = np.empty(max(ZERO, moment - head + 1), np.float64)
    start = ZERO
    while start < len(keys):
        slot = (head + start) & rows.mask
        size = min(BLOCK, len(keys) - start, rows.mask + 1 - slot)
        score_run(table, q, rows.columns, slot, keys[start : start + size])
        if table.ranges[q] > 0:
            for i in range(size):
                if not inside(table, q, rows.columns, slot + i):
                    keys[start + i] = np.nan
        start += size
    return keys


@kernel
def keys_of(table: Queries, q: int, rows: Rows, ordinals: Ints) -> Floats:
    """Return the keys of some rows; NaN for those that the query does not rank."""
    keys = np.empty(len(ordinals), np.float64)
    for i in range(len(ordinals)):
        slot = ordinals[i] & rows.mask
        ranked = inside(table, q, rows.columns, slot)
        keys[i] = score_row(table, q, rows.columns, slot) if ranked else np.nan
    return keys


@kernel
def in_skyband(keys: Floats, k: int) -> np.ndarray:
    """Mark the rows that fewer than k newer and at least as good ones beat; the last row is the newest."""
    marked = np.zeros(len(keys), np.bool_)
    best = np.empty(k, np.float64)  # of the newer rows: a heap with the worst on top
    n = 0
    for row in range(len(keys) - 1, -1, -1):
        key = keys[row]
        if np.isnan(key) or (n == k and key <= best[0]):
            continue
        marked[row] = True
        index = 0
        if n < k:
            index = n
            n += 1
            while index > 0 and best[(index - 1) // 2] > key:
                best[index] = best[(index - 1) // 2]
                index = (index - 1) // 2
        else:
            while 2 * index + 1 < k:
                child = 2 * index + 1
                if child + 1 < k and best[child + 1] < best[child]:
                    child += 1
                if best[child] >= key:
                    break
                best[index] = best[child]
                index = child
        best[index] = key
    return marked
