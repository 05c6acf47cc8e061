"""Which rows dominate which: a point and a block of rows, two rows, and boxes of which the rows are not known.

A record of SIGMOD 2009 is only known to lie inside its filter, a box; one whose values are known is a box without
extent. So the four cases of certain dominance and the three of possible dominance are one comparison each: of the worse
corner of the one with the better corner of the other, or the reverse (Definitions 2 and 3). Smaller is better in every
column.
"""

from __future__ import annotations

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, kernel, leaf

BLOCK = 64  # rows compared at once


@inlined
def compare_block(point: Floats, values: Floats, start: int, stop: int, le: np.ndarray, ge: np.ndarray) -> bool:
    """Mark the rows that are nowhere above a point, and those that are nowhere below; return whether some are one only.

    A row that is one and not the other dominates the point, or is dominated by it; equal rows are both. ``values`` is
    (columns, rows), of which those from ``start`` to ``stop`` are compared; NaN is neither.
    """
    for c in range(len(point)):
        y = values[c, start:stop]
        p = point[c]
        if c == 0:
            for i in range(len(y)):
                le[i] = y[i] <= p
                ge[i] = y[i] >= p
        else:
            for i in range(len(y)):
                le[i] &= y[i] <= p
                ge[i] &= y[i] >= p
    some = np.int32(0)
    for i in range(len(le)):
        some = np.int32(some + (np.int32(le[i]) ^ np.int32(ge[i])))
    return bool(some > 0)


@leaf
def dominates(a: Floats, i: int, b: Floats, j: int) -> bool:
    """Return whether row i of one table dominates row j of another; equal rows do not."""
    better = False
    for k in range(a.shape[1]):
        if a[i, k] > b[j, k]:
            return False
        better |= a[i, k] < b[j, k]
    return better


@leaf
def _any_dominates(a: Floats, rows: Ints, b: Floats, j: int) -> bool:
    """Return whether one of some rows of one table dominates row j of another."""
    for r in range(len(rows)):
        if dominates(a, rows[r], b, j):
            return True
    return False


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
        if not _any_dominates(high, front[:size], low, rows[r]):
            front[size] = rows[r]
            index[size] = r
            size += 1
    for f in range(size):
        keep[index[f]] = not _any_dominates(high, front[f + 1 : size], low, front[f])


@kernel
def decide_dominance(
    low: Floats, high: Floats, rows: Ints, fresh: Ints, out: np.ndarray, sure: np.ndarray, witness: Ints
) -> int:
    """Decide what can be decided about rows, and return how many stay open.

    ``fresh`` are the rows whose box has shrunk since the last call. ``out`` gets those that are certainly dominated,
    ``sure`` those that are not possibly dominated; both stay true while boxes shrink. A row that is out need not be
    compared as a dominator: what dominates it certainly is one too. ``witness`` is a possible dominator of the row.
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
    low: Floats, high: Floats, rows: Ints, known: np.ndarray, done: np.ndarray, width: int, probe: np.ndarray
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
                probe[j] = True
                count += 1
                if count == width:
                    break
