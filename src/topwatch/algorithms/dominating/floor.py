"""Floor: keep exact scores only for the rows near the answer, and prove of all others that they are below a floor.

Ours, exact. A *floor* is a score a little below the k-th. The rows that reach it, or may within the current *epoch* of
arrivals, are contenders: their scores are kept exactly, by one vectorised comparison per event. Every other row is
known to stay below, in one of three ways:

- its cell is low: no more rows than the floor lie in the cells not before it (suffix counts, made once per epoch);
- a bound is written with it: its score when last counted, plus what has come since to cells not before its own, less
  what has gone from cells behind it (the drift of its cell, one number, also made once per epoch); not far below the
  floor it is compared with what came and went itself, all of an epoch's at once;
- some *pivot* is at least as good in every column: a row that is itself known to be below the floor, either by little
  or counted lately.

An arrival in a low cell, nearly all of them, costs nothing more. One in another cell is compared with the pivots, and
only when none covers it its score is counted, until the count shows that the floor is out of reach. When fewer than k
contenders reach the floor it is lowered, when too many do it is raised. There is no queue of events, and the expiry of
an answer is no special case, so that it serves all windows alike.

Rows not far below the floor are contenders too, as long as following them costs less than counting them again whenever
their bounds have drifted up to the floor; how far that is, is learnt from the comparisons that counts take.

An epoch is 1.4 √n arrivals, or a sixteenth of the floor where scores are low: no score rises by more in it, so that
rows within an epoch of the floor must be followed.

Cost per event: O(c) for c contenders (k + 20 %, and those below the floor), by vector operations; per epoch O(cells d)
for the suffix counts and one pass over the rows of cells that are not low. Memory per row: 8 B for its code and, by
cell, 16 B with some slack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from topwatch.algorithms.dominating.grid import DominanceGrid
from topwatch.algorithms.dominating.kernels.blocks import CONTENDS, NO_BOUND
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED
from topwatch.algorithms.dominating.kernels.contenders import (
    ROWS,
    Start,
    empty_contenders,
    encode_contenders,
    ranked_members,
)
from topwatch.algorithms.dominating.kernels.counting import new_walk
from topwatch.algorithms.dominating.kernels.floor_bounds import Floor, FloorState, bounds_by_slot, new_scalars
from topwatch.algorithms.dominating.kernels.floor_loop import CONTINUE, FROM_ROWS, IN_NEW_GRID, drive_floor
from topwatch.core.arrays import NO_INTS, Floats, Ints, size_of
from topwatch.core.engine import NO_STEP, StateFactory, Window
from topwatch.core.kernels.rows import Report, Step, new_log, report_of
from topwatch.query.queries import Dominating

PIVOTS = 2048  # chosen in each epoch
LAST_LOW = 512
NO_START = Start(NO_INTS, NO_INTS, NO_INTS)


def floor(cells: int | None = None, slack: int | None = None) -> StateFactory:
    """Return what makes the state of a query; ``cells`` along each axis, ``slack`` contenders beyond k."""
    return partial(FloorContest, cells=cells, slack=slack)


class FloorContest:
    """A query that ``floor`` answers."""

    def __init__(
        self,
        window: Window,
        query: Dominating,
        column_of: Mapping[str, int],
        expected: int,
        cells: int | None,
        slack: int | None,
    ) -> None:
        self._window = window
        self._k = min(query.k, expected) if expected else query.k
        self._slack = slack if slack is not None else max(8, self._k // 5)
        self._grid = DominanceGrid(window, query, column_of, expected, cells)
        self._contenders = empty_contenders()
        self._walk = new_walk(len(query.prefer), expected)
        self._floor = self._new_floor()
        self._last_seq = 0  # of the rows processed

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots and scores that were last reported."""
        self._contenders = empty_contenders()
        self._last_seq = int(self._window.seq[slots[-1]]) if slots.size else 0
        self._grid.build(slots, slots)
        self._renew_floor()
        known = slots[self._grid.codes[slots] != NOT_RANKED]
        self._floor.now.live = known.size
        seeds = np.concatenate([reported[0], self._grid.promising(known, self._k + self._slack)])
        self._drive(NO_STEP, 0, FROM_ROWS, Start(slots, seeds, reported[1].astype(np.int64)))

    def _new_floor(self) -> Floor:
        cells = self._grid.blocks.count.size
        epoch = max(16, round(1.4 * math.sqrt(self._grid.room)))
        sums, drift, before, arrived = (np.zeros(cells, np.int32) for _ in range(4))
        pivots = PIVOTS + 2 * LAST_LOW
        came, went, pivot, bound = (np.zeros(size, np.int64) for size in (epoch, epoch, pivots, pivots))
        low = np.zeros((2, LAST_LOW), np.int64)
        now = new_scalars(epoch)
        return Floor(now, sums, drift, before, arrived, came, went, pivot, bound, low, self._k, self._slack)

    def _renew_floor(self) -> None:
        """Make the arrays for a new grid; what was learnt stays, but for what depends on the length of an epoch."""
        old, self._floor = self._floor, self._new_floor()
        for name in ("level", "live", "pivot_level", "compared", "recounted", "surveys", "refills"):
            setattr(self._floor.now, name, getattr(old.now, name))

    def _state(self) -> FloorState:
        return FloorState(self._window.rows(), self._grid.lanes, self._grid.codes, self._floor, self._walk)

    def process(self, step: Step, index: int) -> Report:
        """Process a step of the window; return the changes at its evaluations."""
        outdated = self._grid.is_outdated()
        if outdated:
            self._rebuild()
        self._grid.encode(step.arrived)
        if step.arrived.size:
            self._last_seq = int(self._window.seq[step.arrived[-1]])
        return self._drive(step, index, IN_NEW_GRID if outdated else CONTINUE, NO_START)

    def _drive(self, step: Step, index: int, begin: int, start: Start) -> Report:
        self._grid.blocks, self._contenders, log = drive_floor(
            self._state(), self._grid.blocks, self._contenders, begin, start, step, index, new_log()
        )
        return report_of(log)

    def _rebuild(self) -> None:
        """Make a new grid, with the bounds of the old one."""
        live = self._window.live_slots()
        bounds = np.full(self._window.capacity, NO_BOUND, np.int32)
        bounds_by_slot(self._state(), self._grid.blocks, bounds)
        self._grid.build(live, live[self._window.seq[live] <= self._last_seq], bounds=bounds)
        self._renew_floor()
        encode_contenders(self._grid.lanes, self._grid.codes, self._contenders)

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, best first."""
        return ranked_members(self._contenders)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        self._grid.relocate()
        if self._window.fifo:
            n = self._contenders.size[ROWS]
            self._contenders.slot[:n] = self._contenders.seq[:n] & (self._window.capacity - 1)

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        counters, now = self._walk.counters, self._floor.now
        contenders = (self._contenders.table, self._contenders.gone)
        return {
            "scores": int(counters.counted),
            "comparisons": int(counters.compared),
            "surveys": int(now.surveys),
            "recomputations": int(now.refills),
            "kept": int(self._contenders.size[ROWS]),
            "bytes": self._grid.bytes() + size_of(self._floor, self._walk.deferred, contenders),
        }

    def _check(self, rows: Ints) -> None:
        self._grid._check(rows[self._window.seq[rows] <= self._last_seq])
        c = self._contenders
        n = int(c.size[ROWS])
        assert np.all(np.diff(c.seq[:n]) > 0)
        assert np.array_equal(self._grid.codes[c.slot[:n]], c.code[:n])
        assert self._floor.now.live == self._grid.blocks.count.sum()
        bounds = np.full(self._window.capacity, NO_BOUND, np.int32)
        b = self._grid.blocks
        for cell in np.flatnonzero(b.count).tolist():
            first, _, begin, size = b.cell[cell].tolist()
            mine = slice(first + begin, first + begin + size)
            bounds[b.slot[mine]] = b.bound[mine]
        assert np.array_equal(np.sort(np.flatnonzero(bounds == CONTENDS)), np.sort(c.slot[:n]))
