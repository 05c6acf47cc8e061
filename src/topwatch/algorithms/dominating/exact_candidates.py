"""Contenders as Python sees them: made, renamed, ranked."""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.dominating.grid import DominanceGrid
from topwatch.algorithms.dominating.kernels.codes import Lanes, surely
from topwatch.algorithms.dominating.kernels.exact_scores import ROWS, Contenders
from topwatch.core.jit import kernel
from topwatch.core.kernels.scoring import Floats, Ints


def empty_contenders(seats: int = 64) -> Contenders:
    """Return a list without rows."""
    code, sure, slot, seq, score, reported, member, shown = (np.zeros(seats, np.int64) for _ in range(8))
    gone, size = np.zeros((seats, 3), np.int64), np.zeros(3, np.int64)
    return Contenders(code, sure, slot, seq, score, reported, member, shown, gone, size)


def ranked_members(c: Contenders) -> tuple[Ints, Floats]:
    """Return slots and scores of the last evaluation's answer, best first."""
    n = c.size[ROWS]
    members = np.flatnonzero(c.shown[:n])
    order = members[np.lexsort((-c.seq[members], -c.reported[members]))]
    return c.slot[order], c.reported[order].astype(np.float64)


def rename_contenders(grid: DominanceGrid, c: Contenders) -> None:
    """Give all contenders the codes of a new grid."""
    n = c.size[ROWS]
    c.code[:n] = grid.codes[c.slot[:n]]
    _surely_all(grid.lanes, c.code[:n], c.sure[:n])


def promising(grid: DominanceGrid, slots: Ints, count: int) -> Ints:
    """Return about so many rows that are good in all columns at once."""
    if slots.size <= count:
        return slots
    lanes, codes = grid.lanes, grid.codes[slots]
    width = 64 // lanes.shift.size
    guess = np.zeros(slots.size)
    for shift, share in zip(lanes.shift.tolist(), grid.shares, strict=True):
        levels = (codes >> shift) & ((1 << (width - 1)) - 1)
        guess += np.log1p(-np.minimum(share, 1.0 - 1e-9))[levels]
    return slots[np.argpartition(-guess, count)[:count]]


@kernel
def _surely_all(lanes: Lanes, codes: Ints, out: Ints) -> None:
    for i in range(len(codes)):
        out[i] = surely(lanes, codes[i])
