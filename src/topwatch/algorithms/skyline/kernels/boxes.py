"""Dominance between boxes: what is certain and what is possible when a record is only known to lie inside its filter.

A record whose values are known is a box without extent, so that the four cases of certain dominance and the three of
possible dominance are one comparison each: of the worse corner of the one with the better corner of the other, or the
reverse (Zhang et al., SIGMOD 2009, Definitions 2 and 3). Smaller is better in every column.
"""

from __future__ import annotations

import numpy as np

from topwatch.core.jit import ZERO, kernel, leaf
from topwatch.core.kernels.scoring import Floats, Ints


@leaf
def dominates(a: Floats, i: int, b: Floats, j: int) -> bool:
    """Tell whether row i of one table dominates row j of another; equal rows do not."""
    better = False
    for k in range(a.shape[1]):
        if a[i, k] > b[j, k]:
            return False
        better |= a[i, k] < b[j, k]
    return better


@kernel
def keep_undominated(low: Floats, high: Floats, rows: Ints, keep: np.ndarray) -> None:
    """Mark the rows that no other of them certainly dominates.

    Rows should come with likely dominators first. Certain dominance is transitive, so that comparing with the rows that
    are left is enough; the second pass finds dominators that came later.
    """
    front = np.empty(len(rows), np.int64)
    index = np.empty(len(rows), np.int64)
    size = ZERO
    for r in range(len(rows)):
        result = False
        for f in range(size):
            if dominates(high, front[f], low, rows[r]):
                result = True
                break
        if not result:
            front[size] = rows[r]
            index[size] = r
            size += 1
    for f in range(size):
        result = False
        for g in range(f + 1, size):
            if dominates(high, front[g], low, front[f]):
                result = True
                break
        keep[index[f]] = not result


@kernel
def settle(low: Floats, high: Floats, rows: Ints, fresh: Ints, out: np.ndarray, sure: np.ndarray, witness: Ints) -> int:
    """Decide what can be decided about rows, and return how many stay open.

    ``fresh`` are the rows whose box has shrunk since the last call. ``out`` gets those that are certainly dominated,
    ``sure`` those that are not possibly dominated; both stay true while boxes shrink. A row that is out need not be
    looked at as a dominator: whoever dominates it certainly is one too. ``witness`` is a possible dominator of the row.
    """
    shrunk = np.zeros(len(low), np.bool_)
    for f in range(len(fresh)):
        shrunk[fresh[f]] = True
    for r in range(len(rows)):
        i = rows[r]
        if out[i] or sure[i]:
            continue
        others = rows if shrunk[i] else fresh
        for s in range(len(others)):
            if not out[others[s]] and dominates(high, others[s], low, i):
                out[i] = True
                break
    left = ZERO
    for r in range(len(rows)):
        i = rows[r]
        if out[i] or sure[i]:
            continue
        w = witness[i]
        if w >= 0 and not out[w] and dominates(low, w, high, i):
            left += 1
            continue
        sure[i] = True
        for s in range(len(rows)):
            j = rows[s]
            if j != i and not out[j] and dominates(low, j, high, i):
                witness[i] = j
                sure[i] = False
                left += 1
                break
    return left


@kernel
def choose_suspects(
    low: Floats, high: Floats, rows: Ints, known: np.ndarray, done: np.ndarray, width: int, ask: np.ndarray
) -> None:
    """For each open row whose values are known, mark up to ``width`` possible dominators whose values are not."""
    for r in range(len(rows)):
        i = rows[r]
        if done[i] or not known[i]:
            continue
        count = ZERO
        for s in range(len(rows)):
            j = rows[s]
            if not known[j] and dominates(low, j, high, i):
                ask[j] = True
                count += 1
                if count == width:
                    break
