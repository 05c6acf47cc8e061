"""Which rows can ever be among the best: of a piece of a stream without knowing the others, and of a window.

While a window holds the whole piece, a row is no answer as long as k older and better rows are there; after that, once
k newer and better ones have come, it never will be one. A row for which both hold can be dropped. Of n rows about
2 k (1 + ln(n / k)) are left for a query, when scores come in random order. Of a whole window only the second holds: the
rows that are left are its k-skyband. Cost: O(terms) per row and query, O(k) per row that is left.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.find_rows import find_run
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, kernel, leaf, stepwise
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import BLOCK, Queries, inside, score_row, score_run


@stepwise
@kernel
def keep_candidates(table: Queries, columns: Floats, older: Floats, keep: np.ndarray) -> None:
    """Mark the rows, oldest first, that can be an answer.

    ``older`` has each query's best keys of the rows before these, the least first, and takes in these as well; without
    queries in it, the rows are marked that can be an answer after the last of them has come.
    """
    queries = len(table.k)
    newer = np.full((queries, np.max(table.k)), -np.inf)
    # Block by block and not query by query: a block's rows stay in the nearest cache.
    for block in range((len(keep) + BLOCK - 1) // BLOCK if len(older) > 0 else 0):
        start = block * BLOCK
        for q in range(queries):
            _pass(table, q, columns, start, min(len(keep), start + BLOCK), older[q], keep, True)
    stop = len(keep)
    while stop > 0:
        start = max(0, stop - BLOCK)
        for q in range(queries):
            _pass(table, q, columns, start, stop, newer[q], keep, False)
        stop = start


@leaf
def _pass(
    table: Queries, q: int, columns: Floats, start: int, stop: int, best: Floats, keep: np.ndarray, forward: bool
) -> None:
    """Go over a block of rows; ``best`` has the k best keys met before, the least of them first."""
    k = table.k[q]
    if k == 0:
        return
    result = find_run(table, q, columns, start, stop - start, best[0], best[0] == -np.inf)
    for i in range(result):
        t = i if forward else result - 1 - i
        row = start + table.rows[t]
        key = table.keys[t]
        # A newer row of the same key is better: an older one counts only above it, a newer one also beside it.
        among = key >= best[0] if forward else key > best[0] or (key == best[0] and best[0] == -np.inf)
        if among and inside(table, q, columns, row):
            keep[row] = True
            _note(best, k, key)


@inlined
def _note(best: Floats, k: int, key: float) -> None:
    """Put a key among the k best, in place of the least."""
    index = 0
    while index + 1 < k and best[index + 1] < key:
        best[index] = best[index + 1]
        index += 1
    best[index] = key


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
