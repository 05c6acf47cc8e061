"""Standing top-k queries over a window: the parts that the algorithms of SIGMOD'06 and our own are put together from.

An algorithm says what its runs keep, whether arrivals find their queries by influence lists, and whether rows are
kept by cell; the rest is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topwatch.algorithms.topk.grid import Grid, cells_per_axis, unindexed
from topwatch.algorithms.topk.kernels.overflow import shed
from topwatch.algorithms.topk.kernels.report import Answers, report
from topwatch.algorithms.topk.kernels.scan_window import fill_by_scan
from topwatch.algorithms.topk.kernels.sorted_runs import Runs, cut
from topwatch.algorithms.topk.kernels.topk_loop import drive
from topwatch.algorithms.topk.kernels.walk_cells import CELLS, FILLS, HITS, LISTED, SCORES
from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.algorithms.topk.runs import RunPool
from topwatch.core.engine import Report, Window
from topwatch.core.jit import kernel
from topwatch.core.kernels.rows import Log, Rows, Step, with_room
from topwatch.core.kernels.scoring import Floats, Ints, Queries
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Query

LOOK = 8192  # rows after which lists are evaluated
EXPENSIVE = 24  # scores by a list take so many times as long as by the loop over all queries
MOVING = (
    20  # and an entry of a query that was computed from scratch, whose threshold falls far, as long as so many to move
)
PATIENCE = 4  # windows before long lists are tried again, at first


@dataclass(frozen=True)
class Design:
    """What one algorithm does its own way.

    Attributes
    ----------
    sizes : function of k
        Returns (target, limit, room): a computation from scratch keeps ``target`` rows; a run that fills its ``room``
        and holds more than ``limit`` live rows is cut back to them.
    banded : bool
        Runs are skybands.
    unsorted : bool
        Of a run only the answer and a few rows more are sorted.
    lists : function of (queries, live rows, largest target)
        Whether arrivals find their queries by influence lists rather than by a fused scan.
    walked : bool
        Rows are kept by cell, and a starving run is filled by a walk over the cells.
    per_axis : int or None
        Cells along each axis; by the number of rows when None.
    adaptive : bool
        Lists that turn out to be long, or to move a lot, are given up for a while.
    stretch : int
        A run that starves again and again keeps up to so many times its target more.
    """

    sizes: Callable[[int], tuple[int, int, int]]
    banded: bool
    unsorted: bool
    lists: Callable[[int, int, int], bool]
    walked: bool
    per_axis: int | None = None
    adaptive: bool = False
    stretch: int = 0


class Standing:
    """A group of top-k queries that share a window, a grid and a loop.

    Parameters
    ----------
    window : RingWindow or LatestWindow
        Owns the rows.
    axes : list of int
        Columns of the grid, in the order of the queries' terms; empty when the queries read different columns.
    expected : int
        How many rows the window will hold, 0 when that is not known.
    design : Design
        The algorithm.
    """

    in_order = True

    def __init__(self, window: Window, axes: list[int], expected: int, design: Design) -> None:
        self.window = window
        self.table = QueryTable()
        self.pool = RunPool(design.banded, design.unsorted, window)
        self.grid: Grid | None = None
        self._axes = axes
        self._expected = expected
        self._design = design
        self._counters = np.zeros(8, np.int64)
        self._levelled = 0  # live rows when the lists were last made again
        self._checked = 0  # tick when the bounds were last checked
        self._head = 0  # rows before it have expired
        self._scan_until = 0  # tick until which there are no lists since they were expensive
        self._patience = PATIENCE  # windows that this lasts the next time
        self._list_cost = np.zeros(2, np.int64)  # rows that were looked up in lists, and what that cost in scores

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Write a query into the tables; :meth:`start` gives it its first answer."""
        index = self.table.add(query, column_of)
        k = int(self.table.arrays.k[index])
        if self._expected:
            # More rows than the window holds are never in an answer: no room is made for them.
            k = self.table.arrays.k[index] = min(k, self._expected)
        target, limit, room = self._design.sizes(k)
        self.pool.add(index, k, target, limit, room, self._design.stretch * target)
        return index

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation, then take in what has come since."""
        rows = self.window.rows()
        log = _first_report(self.table.arrays, index, rows, head, moment, at, self.pool.runs, self.pool.answers)
        if moment != self.window.tick:
            _fill(self.table.arrays, index, rows, head, self.window.tick, self.pool.runs)
        self.pool.answers.stale[index], self.pool.answers.since[index] = 1, 0
        if self.grid is not None and not self.grid.fits(self.table.arrays, index):
            self.grid = None
        if self.grid is not None:
            self.grid.admit(self.table.arrays, index, float(self.pool.runs.threshold[index]))
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def resume(self, head: int, evaluated: int) -> None:
        """Fill all runs again from the window: as of the last evaluation, for its answers, and as of now."""
        rows = self.window.rows()
        _evaluate_all(self.table.arrays, rows, head, evaluated, self.window.tick, self.pool.runs, self.pool.answers)
        active = self.table.active()
        self.pool.answers.stale[active], self.pool.answers.since[active] = 1, 0
        self.grid = None

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Nothing: all is derived from the window."""
        return {}

    def load(self, saved: Saved) -> None:
        """Nothing was saved."""

    def remove(self, index: int) -> None:
        """Take a query out."""
        if self.grid is not None:
            self.grid.admit(self.table.arrays, index, float("nan"))
        self.table.remove(index)
        self.pool.remove(index)

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        rows = self.window.rows()
        self._prepare(rows, step)
        index = self.grid.index if self.grid is not None else unindexed(self.table.indices)
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        before = self._counters.copy()
        log, influence = drive(
            rows, self.table.arrays, self.pool.runs, self.pool.answers, index, step, log, self._counters
        )
        if self.grid is not None:
            self.grid.index = index._replace(influence=influence)
            done = self._counters - before
            entries = int(influence.size.sum()) // max(1, len(self.table))
            self._list_cost += step.arrived.size, int(done[SCORES] + MOVING * entries * done[FILLS])
        self._head = int(step.heads[-1])
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def _prepare(self, rows: Rows, step: Step) -> None:
        """Make the grid when it pays, and keep it fitting to the rows."""
        arrived = step.arrived
        held = self.window.capacity - self.window.free()
        before = held - arrived.size
        thresholds = self.pool.runs.threshold
        target = self.pool.largest
        if not self._axes or not self._design.lists(len(self.table), before, target) or self._crowded(held):
            self.grid = None
            return
        if self.grid is not None and arrived.size and not self.grid.covers(rows, arrived):
            self.grid.stretch(rows, arrived, self.table.arrays, thresholds)
        tick = self.window.tick
        if self.grid is not None and tick - self._checked > max(held // 2, 65_536):
            self._checked = tick
            if self._outgrown(held) or self.grid.drifted(rows, self.window.sample(2000)):
                self.grid = None
        if self.grid is None:
            per_axis = self._design.per_axis or cells_per_axis(len(self._axes), max(self._expected, held))
            self.grid = Grid(self._axes, per_axis, self._design.walked)
            live = self.window.live_slots()
            self.grid.build(rows, live, self._linked(arrived), self.table.arrays, thresholds)
            self._levelled, self._checked = before, tick
        elif before > 2 * self._levelled or (before == self._expected > self._levelled):
            # While a window fills, thresholds rise without a computation from scratch that would clean the lists.
            _trim(self.table.arrays, self.pool.runs, int(step.heads[0]))
            self.grid.level(self.table.arrays, thresholds)
            self._levelled = before

    def _crowded(self, held: int) -> bool:
        """Tell whether lists are long or move a lot, or did a short time ago: asking all in one loop is faster then."""
        if not self._design.adaptive:
            return False
        rows, cost = self._list_cost.tolist()
        if rows >= LOOK:
            self._list_cost[:] = 0
            if cost * EXPENSIVE > rows * len(self.table):
                self._scan_until = self.window.tick + self._patience * max(held, LOOK)
                self._patience = min(64, 2 * self._patience)
            else:
                self._patience = PATIENCE
        return self.window.tick < self._scan_until

    def _linked(self, arrived: Ints) -> Ints:
        """Return the rows that are in their cells: all but those about to arrive."""
        live = self.window.live_slots()
        return live[: live.size - arrived.size]

    def _outgrown(self, held: int) -> bool:
        assert self.grid is not None
        if self._design.per_axis is not None or self._expected:
            return False
        wanted = cells_per_axis(len(self._axes), held) ** len(self._axes)
        have = self.grid.per_axis ** len(self._axes)
        return not have / 8 <= wanted <= have * 8

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and keys of the last evaluation's answer, best first."""
        slots, keys, _ = self.pool.answer(index)
        return slots, keys

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Nothing: what was last reported is derived from the window."""

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        if self.grid is not None:
            self.grid.relink(self.window.rows(), self.window.live_slots())

    def indexed(self) -> bool:
        """Return whether rows find their queries by a grid, or are compared with all: once the window is full."""
        rows = max(self._expected, self.window.capacity - self.window.free())
        lists = bool(self._axes) and self._design.lists(len(self.table), rows, self.pool.largest)
        return lists and self.window.tick >= self._scan_until

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        c = self._counters
        return {
            "scores": int(c[SCORES]),
            "listed": int(c[LISTED]),
            "hits": int(c[HITS]),
            "cells": int(c[CELLS]),
            "recomputations": int(c[FILLS]),
            "kept": int(self.pool.runs.size.sum()),
            "influence": int(self.grid.index.influence.size.sum()) if self.grid is not None else 0,
            "bytes": self.pool.bytes() + (self.grid.bytes() if self.grid is not None else 0),
        }

    def _check(self) -> None:
        self.table._check()
        self.pool._check(self.table.arrays.k, self._head)
        if self.grid is not None:
            rows, live = self.window.rows(), self.window.live_slots()
            self.grid._check(rows, live, self.table.arrays, self.pool.runs.threshold)


@kernel
def _fill(table: Queries, q: int, rows: Rows, head: int, moment: int, runs: Runs) -> None:
    fill_by_scan(table, q, rows, head, moment, runs)


@kernel
def _evaluate_all(
    table: Queries, rows: Rows, head: int, evaluated: int, now: int, runs: Runs, answers: Answers
) -> None:
    log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
    for q in range(len(table.k)):
        if table.k[q] != 0:
            fill_by_scan(table, q, rows, head, evaluated, runs)
            log = with_room(log, 2 * table.k[q])
            report(answers, runs, rows, q, table.k[q], 0, log)
            log.size[0] = 0
            if evaluated != now:
                fill_by_scan(table, q, rows, head, now, runs)


@kernel
def _trim(table: Queries, runs: Runs, head: int) -> None:
    for q in range(len(runs.size)):
        if runs.size[q] > runs.target[q] > 0:
            if runs.unsorted:
                shed(runs, q, head, runs.target[q])
            else:
                cut(runs, q, runs.target[q])


@kernel
def _first_report(
    table: Queries, q: int, rows: Rows, head: int, moment: int, at: int, runs: Runs, answers: Answers
) -> Log:
    fill_by_scan(table, q, rows, head, moment, runs)
    log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
    log = with_room(log, 2 * table.k[q])
    report(answers, runs, rows, q, table.k[q], at, log)
    return log
