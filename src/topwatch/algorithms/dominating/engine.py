"""A query served by safe intervals: what ``eva``, ``ada``, ``ahba`` and ``amsa`` are put together from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from topwatch.algorithms.dominating.exact_candidates import empty_contenders, promising, ranked_members
from topwatch.algorithms.dominating.grid import DominanceGrid, new_walk
from topwatch.algorithms.dominating.kernels.blocks import NO_BOUND
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED
from topwatch.algorithms.dominating.kernels.counting import COMPARED, COUNTED
from topwatch.algorithms.dominating.kernels.event_loop import drive_events
from topwatch.algorithms.dominating.kernels.event_queue import NO_EVENT, NOBODY, Queue
from topwatch.algorithms.dominating.kernels.event_state import (
    ESTIMATES,
    EVENTS,
    EVICTED,
    EXCLUDED,
    MADE,
    NEAR,
    NUMBERS,
    OBSOLETES,
    RECENT,
    Board,
    Course,
    Rules,
)
from topwatch.algorithms.dominating.kernels.exact_scores import ROWS
from topwatch.algorithms.dominating.kernels.safe_time import LEVELS
from topwatch.core.engine import Report, Window
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.per_query_engine import NO_STEP, NONE, Design
from topwatch.query.queries import Dominating


@dataclass(frozen=True)
class Intervals:
    """What one algorithm does its own way.

    Attributes
    ----------
    later : bool
        Later dominators lengthen intervals.
    most : function of the window's rows
        Returns how many candidates there are at most; 0 for none.
    near : int or None
        Rows due within so many updates become candidates, to begin with; a thousandth of the window when None.
    suffix : bool
        Suffix counts bound scores too.
    exclude : bool
        Rows of cells far below the answer are looked at when they arrive, and given no events.
    kept : float
        Share of obsolete events that are kept.
    samples : int
        Rows of a cell whose mean stands for the others; 0 for none.
    cells : int or None
        Cells along each axis.
    """

    later: bool = False
    most: Callable[[int], int] = lambda rows: 0
    near: int | None = None
    suffix: bool = False
    exclude: bool = False
    kept: float = 1.0
    samples: int = 0
    cells: int | None = None

    def design(self) -> Design:
        """Return what makes the contest of a query."""

        def make(window: Window, query: Dominating, column_of: Mapping[str, int], expected: int) -> EventContest:
            return EventContest(window, query, column_of, expected, self)

        return make


class EventContest:
    """A query whose rows are looked at when their safe intervals end; windows that are first in, first out."""

    def __init__(
        self, window: Window, query: Dominating, column_of: Mapping[str, int], expected: int, how: Intervals
    ) -> None:
        self._window = window
        self._expected = expected
        self._how = how
        self._k = min(query.k, expected) if expected else query.k
        self._grid = DominanceGrid(window, query, column_of, how.cells)
        self._walk = new_walk(len(query.prefer), expected)
        self._now: Ints = np.zeros(NUMBERS, np.int64)
        self._contenders = empty_contenders()
        self._samples = empty_contenders()
        self._queue, self._passed, self._sums = self._new_queue(), np.zeros(1, np.int32), np.zeros(1, np.int32)
        self._board = Board(np.zeros(LEVELS, np.int64), np.zeros((self._k + 1, LEVELS), np.int64))
        self._coming = np.zeros(1, np.int32)
        self._recent: Ints = np.zeros(1, np.int64)
        self._room = 0  # rows that the grid was made for
        self._taken = 0  # ordinal of the last row taken in
        self._crowding = 1.0
        self._checked = 0
        self._moved = False
        self._set_near(expected)

    def _set_near(self, rows: int) -> None:
        how = self._how
        near = how.near if how.near is not None else max(1, rows // 1000)
        self._now[NEAR] = 2 * near  # two events an update

    def _new_queue(self) -> Queue:
        size = self._window.capacity
        after, before, bucket = (np.full(size, NOBODY, np.int32) for _ in range(3))
        score, made = np.zeros(size, np.int32), np.zeros(size, np.int64)
        return Queue(np.full(size, NO_EVENT), score, made, after, before, bucket)

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots and scores that were last reported."""
        window = self._window
        self._taken = int(window.seq[slots[-1]]) if slots.size else 0
        self._build(slots, slots, reported)

    def _build(self, slots: Ints, learn_from: Ints, reported: tuple[Ints, Floats]) -> None:
        held = learn_from.size
        self._room = max(1024, min(2 * held, self._expected) if self._expected else 2 * held)
        if not self._expected:
            self._set_near(self._room)
        self._grid.build(learn_from, slots, self._room, np.zeros(self._window.capacity, np.int32))
        cells = self._grid.blocks.count.size
        self._passed, self._sums = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
        self._now[MADE] = -1
        self._coming = np.zeros(cells, np.int32)
        self._recent = np.zeros(max(4, math.isqrt(self._room)), np.int64)
        self._now[RECENT] = 0
        self._queue = self._new_queue()
        self._contenders, self._samples = empty_contenders(), empty_contenders()
        self._crowding = self._grid.crowding()
        self._checked = self._window.tick
        self._moved = False
        known = slots[self._grid.codes[slots] != NOT_RANKED]
        more = min(self._how.most(self._room), max(64, self._k)) if slots.size > 4 * self._k else 0
        seeds = np.concatenate([reported[0], promising(self._grid, known, self._k + more)])
        self._drive(NO_STEP, 0, seeds, reported[1].astype(np.int64), slots)

    def process(self, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        if self._outgrown():
            live = self._window.live_slots()
            self._build(live[self._window.seq[live] <= self._taken], live, self.answer())
        self._grid.encode(step.arrived)
        if step.arrived.size:
            self._taken = int(self._window.seq[step.arrived[-1]])
        return self._drive(step, index, NONE, NONE, NONE)

    def _outgrown(self) -> bool:
        held = self._window.capacity - self._window.free()
        if self._moved or self._grid.learnt < min(held, 1024):
            return True
        if held > self._room and (not self._expected or self._room < self._expected):
            return True
        if self._window.tick - self._checked < max(held // 4, 8192):
            return False
        self._checked = self._window.tick
        return self._grid.crowding() > 1.6 * self._crowding + 0.03

    def _drive(self, step: Step, index: int, seeds: Ints, reported: Ints, slots: Ints) -> Report:
        how = self._how
        rules = Rules(
            self._k,
            self._expected,
            how.later,
            how.most(max(self._room, 1)),
            how.suffix,
            how.exclude,
            how.kept,
            how.samples,
        )
        grid = self._grid
        course = Course(
            self._window.rows(), grid.lanes, grid.codes, self._queue, self._passed, self._coming, self._recent,
            self._sums, self._now, self._walk, np.zeros(grid.lanes.shift.size, np.int64), self._board, rules,
        )  # fmt: skip
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        grid.blocks, self._contenders, self._samples, log = drive_events(
            course, grid.blocks, self._contenders, self._samples, seeds, reported, slots, step, index, log
        )
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, best first."""
        return ranked_members(self._contenders)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        n = self._contenders.size[ROWS]
        self._contenders.slot[:n] = self._contenders.seq[:n] & (self._window.capacity - 1)
        self._moved = True

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        c = self._walk.counters
        mine = (self._passed, self._coming, self._recent, self._sums, *self._board, *self._walk.undecided)
        arrays = (*self._queue, *self._contenders, *self._samples, *mine)
        return {
            "scores": int(c[COUNTED]),
            "comparisons": int(c[COMPARED]),
            "events": int(self._now[EVENTS]),
            "obsolete": int(self._now[OBSOLETES]),
            "evicted": int(self._now[EVICTED]),
            "excluded": int(self._now[EXCLUDED]),
            "sampled": int(self._samples.size[ROWS]),
            "estimates": int(self._now[ESTIMATES]),
            "recomputations": 0,
            "kept": int(self._contenders.size[ROWS]),
            "bytes": self._grid.bytes() + sum(array.nbytes for array in arrays),
        }

    def _check(self, rows: Ints) -> None:
        if self._moved:
            return
        mine = rows[self._window.seq[rows] <= self._taken]
        self._grid._check(mine)
        c, n = self._contenders, int(self._contenders.size[ROWS])
        assert np.all(np.diff(c.seq[:n]) > 0)
        assert np.array_equal(self._grid.codes[c.slot[:n]], c.code[:n])
        assert np.all(self._queue.due[c.slot[:n]] == NO_EVENT)
        linked = 0
        for first in self._queue.bucket[self._queue.bucket != NOBODY].tolist():
            slot = first
            while slot != NOBODY:
                assert (
                    self._queue.due[slot] & (self._queue.bucket.size - 1)
                    == np.flatnonzero(self._queue.bucket == first).item()
                )
                linked += 1
                slot = int(self._queue.after[slot])
        assert linked == np.count_nonzero(self._queue.due[mine] >= 0)


__all__ = ["NO_BOUND", "EventContest", "Intervals"]
