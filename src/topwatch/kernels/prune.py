"""Which rows of a piece of a stream can ever be among the best, without knowing the rest of it.

While a window holds the whole piece, a row is no answer as long as k older and better rows are there; after that, once
k newer and better ones have come, it never will be one. A row for which both hold can be dropped. Of n rows about
2 k (1 + ln(n / k)) are left for a query, when scores come in random order.
"""

from __future__ import annotations

import numpy as np

from topwatch.kernels.compile import inlined, kernel, leaf
from topwatch.kernels.finding import count_run
from topwatch.kernels.scoring import BLOCK, Floats, Queries, inside, score_run


@kernel
def keep_candidates(table: Queries, columns: Floats, keep: np.ndarray, forward: bool) -> None:
    """Mark the rows, oldest first, that can be an answer; without ``forward``: after the last of them has come."""
    for q in range(len(table.k)):
        k = table.k[q]
        if k == 0:
            continue
        best = np.empty(k, np.float64)
        if forward:
            best[:] = -np.inf
            start = 0
            while start < len(keep):
                stop = min(len(keep), start + BLOCK)
                _pass(table, q, columns, start, stop, True, best, keep)
                start = stop
        best[:] = -np.inf
        stop = len(keep)
        while stop > 0:
            start = max(0, stop - BLOCK)
            _pass(table, q, columns, start, stop, False, best, keep)
            stop = start


@leaf
def _pass(
    table: Queries, q: int, columns: Floats, start: int, stop: int, forward: bool, best: Floats, keep: np.ndarray
) -> None:
    """Go over a block of rows; ``best`` has the k best keys met before, the least of them first."""
    out = table.keys[: stop - start]
    if count_run(table, q, columns, start, best[0], out) == 0:
        return
    score_run(table, q, columns, start, out)
    for i in range(stop - start):
        r = i if forward else stop - start - 1 - i
        # A newer row of the same key is better: an older one counts only above it, a newer one also beside it.
        among = out[r] >= best[0] if forward else out[r] > best[0] or (out[r] == best[0] and best[0] == -np.inf)
        if among and inside(table, q, columns, start + r):
            keep[start + r] = True
            _note(best, out[r])


@inlined
def _note(best: Floats, key: float) -> None:
    """Put a key among the best, in place of the least."""
    place = 0
    while place + 1 < len(best) and best[place + 1] < key:
        best[place] = best[place + 1]
        place += 1
    best[place] = key
