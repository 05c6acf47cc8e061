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
an answer is no special case, so that all windows are served alike.

Rows not far below the floor are contenders too, as long as following them costs less than counting them again whenever
their bounds have drifted up to the floor; how far that is, is learnt from the comparisons that counts take.

An epoch is 1.4 √n arrivals, or a sixteenth of the floor where scores are low: no score rises by more in it, so that
rows within an epoch of the floor must be followed.

Cost per event: O(c) for c contenders (k + 20 %, and those below the floor), by vector operations; per epoch O(cells d)
for the suffix counts and one look at the rows of cells that are not low. Memory per row: 8 B for its code and, by cell,
16 B with some slack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from topwatch.algorithms.dominating.exact_candidates import (
    empty_contenders,
    promising,
    ranked_members,
    rename_contenders,
)
from topwatch.algorithms.dominating.grid import DominanceGrid, new_walk
from topwatch.algorithms.dominating.kernels.blocks import CONTENDS, NO_BOUND
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED
from topwatch.algorithms.dominating.kernels.counting import COMPARED, COUNTED
from topwatch.algorithms.dominating.kernels.exact_scores import ROWS
from topwatch.algorithms.dominating.kernels.floor_bounds import (
    LENGTH,
    LEVEL,
    LIVE,
    LOW,
    MOST_REST,
    NEAR,
    NEVER,
    NUMBERS,
    REFILLS,
    REST,
    SURVEYS,
    Floor,
    Ground,
    bounds_by_slot,
)
from topwatch.algorithms.dominating.kernels.floor_loop import AGAIN, ANEW, ON, drive_floor
from topwatch.core.engine import Report, Window
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.per_query_engine import NO_STEP, NONE, Design
from topwatch.query.queries import Dominating

PIVOTS = 2048  # chosen in each epoch
LAST_LOW = 512
LONGEST = 2**28  # arrivals in one grid: its drifts are counted in 32 bits


def design(cells: int | None = None, slack: int | None = None) -> Design:
    """Return what makes the contest of a query; ``cells`` along each axis, ``slack`` contenders beyond k."""

    def make(window: Window, query: Dominating, column_of: Mapping[str, int], expected: int) -> FloorContest:
        return FloorContest(window, query, column_of, expected, cells, slack)

    return make


class FloorContest:
    """A query served by ``floor``."""

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
        self._expected = expected
        self._k = min(query.k, expected) if expected else query.k
        self._slack = slack if slack is not None else max(8, self._k // 5)
        self._grid = DominanceGrid(window, query, column_of, cells)
        self._contenders = empty_contenders()
        self._walk = new_walk(len(query.prefer), expected)
        self._room = 1  # rows that the grid was made for
        self._floor = self._new_floor(1)
        self._crowding = 1.0
        self._checked = 0  # tick when the grid was last checked
        self._built = 0
        self._taken = 0  # tick of the last row taken in

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots and scores that were last reported."""
        self._contenders = empty_contenders()
        self._taken = int(self._window.seq[slots[-1]]) if slots.size else 0
        self._build(slots, slots)
        known = slots[self._grid.codes[slots] != NOT_RANKED]
        seeds = promising(self._grid, known, self._k + self._slack)
        seeds = np.concatenate([reported[0], seeds])
        self._floor.now[LIVE] = known.size
        self._drive(NO_STEP, 0, ANEW, seeds, reported[1].astype(np.int64))

    def _build(self, slots: Ints, learn_from: Ints, bounds: np.ndarray | None = None) -> None:
        held = max(slots.size, learn_from.size)
        self._room = max(1024, min(2 * held, self._expected) if self._expected else 2 * held)
        if bounds is None:
            bounds = np.full(self._window.capacity, NO_BOUND, np.int32)
        self._grid.build(learn_from, slots, self._room, bounds)
        now = self._floor.now
        self._floor = self._new_floor(self._grid.blocks.count.size)
        now[[NEAR, REST, LENGTH, LOW]] = self._floor.now[[NEAR, REST, LENGTH, LOW]]
        self._floor.now[:] = now
        self._crowding = self._grid.crowding()
        self._checked = self._built = self._window.tick

    def _new_floor(self, cells: int) -> Floor:
        epoch = max(16, round(1.4 * math.sqrt(self._room)))
        now = np.zeros(NUMBERS, np.int64)
        now[LEVEL] = NEVER
        now[NEAR] = 3 * epoch  # little: what proves to be too little is learnt sooner than what is too much
        now[REST] = MOST_REST * epoch
        now[LENGTH] = epoch
        sums, drift, before, arrived = (np.zeros(cells, np.int32) for _ in range(4))
        pivots = PIVOTS + 2 * LAST_LOW
        came, went, pivot, bound = (np.zeros(size, np.int64) for size in (epoch, epoch, pivots, pivots))
        low = np.zeros((2, LAST_LOW), np.int64)
        return Floor(now, sums, drift, before, arrived, came, went, pivot, bound, low, self._k, self._slack)

    def _ground(self) -> Ground:
        return Ground(self._window.rows(), self._grid.lanes, self._grid.codes, self._floor, self._walk)

    def process(self, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        again = self._prepare()
        self._grid.encode(step.arrived)
        if step.arrived.size:
            self._taken = int(self._window.seq[step.arrived[-1]])
        return self._drive(step, index, AGAIN if again else ON, NONE, NONE)

    def _drive(self, step: Step, index: int, begin: int, seeds: Ints, reported: Ints) -> Report:
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        self._grid.blocks, self._contenders, log = drive_floor(
            self._ground(), self._grid.blocks, self._contenders, seeds, reported, begin, step, index, log
        )
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def _prepare(self) -> bool:
        """Make the grid again when the rows have outgrown it or drifted away; tell whether it was."""
        held = self._window.capacity - self._window.free()
        tick = self._window.tick
        outgrown = held > self._room and (not self._expected or self._room < self._expected)
        if not outgrown and self._grid.learnt >= min(held, 1024):
            if tick - self._checked < max(held // 4, 8192):
                return False
            self._checked = tick
            if tick - self._built < LONGEST and self._grid.crowding() <= 1.6 * self._crowding + 0.03:
                return False
        live = self._window.live_slots()
        before = live[self._window.seq[live] <= self._taken]
        bounds = np.full(self._window.capacity, NO_BOUND, np.int32)
        bounds_by_slot(self._ground(), self._grid.blocks, bounds)
        self._build(before, live, bounds)
        rename_contenders(self._grid, self._contenders)
        return True

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
        c, now = self._walk.counters, self._floor.now
        kept = int(self._contenders.size[ROWS])
        size = sum(array.nbytes for array in (*self._floor, *self._walk.undecided) if isinstance(array, np.ndarray))
        return {
            "scores": int(c[COUNTED]),
            "comparisons": int(c[COMPARED]),
            "surveys": int(now[SURVEYS]),
            "recomputations": int(now[REFILLS]),
            "kept": kept,
            "bytes": self._grid.bytes() + size + sum(array.nbytes for array in self._contenders),
        }

    def _check(self, rows: Ints) -> None:
        self._grid._check(rows[self._window.seq[rows] <= self._taken])
        c = self._contenders
        n = int(c.size[ROWS])
        assert np.all(np.diff(c.seq[:n]) > 0)
        assert np.array_equal(self._grid.codes[c.slot[:n]], c.code[:n])
        assert self._floor.now[LIVE] == self._grid.blocks.count.sum()
        bounds = np.full(self._window.capacity, NO_BOUND, np.int32)
        b = self._grid.blocks
        for cell in np.flatnonzero(b.count):
            first, _, begin, size = b.cell[cell].tolist()
            bounds[b.slot[first + begin : first + begin + size]] = b.bound[first + begin : first + begin + size]
        assert np.array_equal(np.sort(np.flatnonzero(bounds == CONTENDS)), np.sort(c.slot[:n]))
