"""Rows whose codes leave open whether a row dominates them: put aside during a count, looked up together at its end.

Two values of one level are told apart by themselves only, and they lie all over memory. The more columns, the fewer
levels a lane has, 126 with eight, and the more rows are left open. A count may end without them; if not, their values
are asked for all at once, so that the waits for memory overlap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import Blocks
from topwatch.algorithms.dominating.kernels.codes import GUARD, LEVEL, Lanes, beats
from topwatch.core.jit import ZERO, inlined, leaf, long, prefetch
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Ints

PIECE = 64  # rows looked at together
TOGETHER = 256  # rows looked up together
MOST_PIECES = 8192  # put aside


class Undecided(NamedTuple):
    """Pieces of the pool of codes with such rows."""

    piece: Ints  # first entry * 2 * PIECE + entries
    size: Ints  # one number: how many
    position: Ints  # room for rows that are looked up together
    slot: Ints


def none_undecided(rows: int) -> Undecided:
    """Return room for pieces that are put aside, in a window of so many rows; for many when that is not known."""
    index, slot = np.zeros((2, TOGETHER + PIECE), np.int64)
    pieces = min(MOST_PIECES, max(PIECE, rows // PIECE)) if rows else MOST_PIECES
    return Undecided(np.zeros(pieces, np.int64), np.zeros(1, np.int64), index, slot)


@inlined
def put_aside(u: Undecided, first: int, size: int) -> None:
    """Remember a piece."""
    u.piece[u.size[0]] = 2 * PIECE * first + size
    u.size[0] += 1


@leaf
def decide(lanes: Lanes, rows: Rows, b: Blocks, u: Undecided, code: int, sure: int, slot: int) -> int:
    """Count the rows that a row dominates by their values, of those put aside, and forget them."""
    guard = lanes.masks[GUARD]
    result = ZERO
    n = ZERO
    for p in range(u.size[0]):
        first = u.piece[p] // (2 * PIECE)
        for at in range(first, first + u.piece[p] % (2 * PIECE)):
            other = b.code[at] ^ guard
            u.position[n] = at
            n += int(((other - code) & guard == guard) & ((other - sure) & guard != guard))
        if n > TOGETHER:
            result += _by_values(lanes, rows, b, u, n, code, slot)
            n = ZERO
    u.size[0] = 0
    return result + _by_values(lanes, rows, b, u, n, code, slot)


@leaf
def _by_values(lanes: Lanes, rows: Rows, b: Blocks, u: Undecided, n: int, code: int, slot: int) -> int:
    """Count the rows that a row dominates, of those at the first ``n`` positions."""
    d = len(lanes.shift)
    for i in range(n):
        other = long(b.slot[u.position[i]])
        u.slot[i] = other
        differs = b.code[u.position[i]] ^ code
        column = lanes.column[d - 1]
        for j in range(d - 2, -1, -1):
            column = lanes.column[j] if (differs >> lanes.shift[j]) & lanes.masks[LEVEL] == 0 else column
        prefetch(rows.columns, column * rows.columns.shape[1] + other)
    result = ZERO
    for i in range(n):
        result += int(beats(lanes, rows, slot, code, u.slot[i], b.code[u.position[i]]))
    return result
