"""Which rows of a piece of a stream can ever be among the best, without knowing the rest of it.

While a window holds the whole piece, a row is no answer as long as k older and better rows are there; after that, once
k newer and better ones have come, it never will be one. A row for which both hold can be dropped. Of n rows about
2 k (1 + ln(n / k)) are left for a query, when scores come in random order.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.find_rows import find_run
from topwatch.core.jit import inlined, kernel, leaf
from topwatch.core.kernels.scoring import BLOCK, Floats, Ints, Queries, inside


@kernel
def keep_candidates(table: Queries, columns: Floats, older: Floats, keep: np.ndarray) -> None:
    """Mark the rows, oldest first, that can be an answer.

    ``older`` has each query's best keys of the rows before these, the least first, and takes in these as well; without
    queries in it, the rows are marked that can be an answer after the last of them has come.
    """
    queries = len(table.k)
    newer = np.full((queries, np.max(table.k)), -np.inf)
    hits = np.empty(BLOCK, np.int64)
    # Block by block and not query by query: a block's rows stay in the nearest cache.
    for block in range((len(keep) + BLOCK - 1) // BLOCK if len(older) > 0 else 0):
        start = block * BLOCK
        for q in range(queries):
            _pass(table, q, columns, start, min(len(keep), start + BLOCK), True, older, keep, hits)
    stop = len(keep)
    while stop > 0:
        start = max(0, stop - BLOCK)
        for q in range(queries):
            _pass(table, q, columns, start, stop, False, newer, keep, hits)
        stop = start


@leaf
def _pass(
    table: Queries,
    q: int,
    columns: Floats,
    start: int,
    stop: int,
    forward: bool,
    met: Floats,
    keep: np.ndarray,
    hits: Ints,
) -> None:
    """Go over a block of rows; ``met`` has the k best keys met before, the least of them first."""
    k = table.k[q]
    if k == 0:
        return
    best = met[q]
    out = table.keys[: stop - start]
    result = find_run(table, q, columns, start, best[0], best[0] == -np.inf, out, hits)
    for i in range(result):
        t = i if forward else result - 1 - i
        # A newer row of the same key is better: an older one counts only above it, a newer one also beside it.
        among = out[t] >= best[0] if forward else out[t] > best[0] or (out[t] == best[0] and best[0] == -np.inf)
        if among and inside(table, q, columns, start + hits[t]):
            keep[start + hits[t]] = True
            _note(best, k, out[t])


@inlined
def _note(best: Floats, k: int, key: float) -> None:
    """Put a key among the k best, in place of the least."""
    index = 0
    while index + 1 < k and best[index + 1] < key:
        best[index] = best[index + 1]
        index += 1
    best[index] = key
