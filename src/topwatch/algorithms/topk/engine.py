"""The engine of standing top-k queries: a group of queries that share a window, a grid and a loop.

A :class:`~topwatch.algorithms.topk.designs.Design` says what an algorithm does its own way: what its runs keep, whether
arrivals find their queries by influence lists, and whether rows are kept by cell. The rest is the same for all
algorithms of SIGMOD'06 and our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from topwatch.algorithms.topk.designs import Design
from topwatch.algorithms.topk.grid import Grid, cells_per_axis
from topwatch.algorithms.topk.kernels.find_rows import Counts
from topwatch.algorithms.topk.kernels.scan_window import evaluate_from_scratch, trim
from topwatch.algorithms.topk.kernels.sorted_runs import QueryState
from topwatch.algorithms.topk.kernels.topk_loop import new_work, run, run_by_lists
from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.algorithms.topk.runs import RunPool
from topwatch.core.arrays import Floats, Ints
from topwatch.core.engine import Window
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Report, Step, larger, new_log, report_of
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Query

LOOK = 8192  # rows after which the cost of the lists is compared with that of a scan
EXPENSIVE = 24  # a score by a list takes so many times as long as one by the loop over all queries
MOVING = 20  # scores that an entry costs of a query that is computed from scratch: its threshold falls far
PATIENCE = 4  # windows before long lists are tried again, at first


class StandingEngine:
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
        self._counts = record(Counts)
        self._levelled = 0  # live rows when the lists were last made again
        self._head = 0  # rows before it have expired
        self._scan_until = 0  # tick until which there are no lists since they were expensive
        self._patience = PATIENCE  # windows that this lasts the next time
        self._looked_up = 0  # rows that were looked up in lists
        self._list_cost = 0  # what that has cost, in scores

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
        result = self._evaluate(index, head, moment, at)
        threshold = float(self.pool.runs.threshold[index])
        if self.grid is not None and not self.grid.admit(self.table.arrays, index, threshold):
            self.grid = None
        return result

    def resume(self, head: int, evaluated: int) -> None:
        """Fill all runs again from the window: as of the last evaluation, for its answers, and as of now."""
        for index in self.table.active():
            self._evaluate(index, head, evaluated, 0)
        self.grid = None

    def _evaluate(self, index: int, head: int, moment: int, at: int) -> Report:
        """Report an answer as of a moment and leave its run as of now; a window without rows needs no compiled code."""
        log = new_log(2 * int(self.table.arrays.k[index]))
        if self._held():
            evaluate_from_scratch(self._state(), index, self.window.rows(), head, moment, self.window.tick, at, log)
        self.pool.answers.stale[index], self.pool.answers.since[index] = 1, 0
        return report_of(log)

    def _state(self) -> QueryState:
        return QueryState(self.table.arrays, self.pool.runs, self.pool.answers)

    def _held(self) -> int:
        """Return how many rows the window holds."""
        return self.window.capacity - self.window.free()

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
        self._prepare(step)
        state, grid, log = self._state(), self.grid, new_log()
        expired = None if rows.fifo else step.expired
        work = new_work(self.pool.runs.threshold.size, self._counts)
        if grid is None:
            while not run(rows, state, None, None, expired, step, log, work):
                log = larger(log, 2 * int(self.table.arrays.k.max()))
        else:
            scores, fills = int(self._counts.scores), int(self._counts.fills)
            log, grid.lists = run_by_lists(rows, state, grid.lists, grid.points, expired, step, log, work)
            moved = (int(self._counts.fills) - fills) * (grid.entries() // max(1, len(self.table)))
            self._looked_up += step.arrived.size
            self._list_cost += int(self._counts.scores) - scores + MOVING * moved
        self._head = int(step.heads[-1])
        return report_of(log)

    def _prepare(self, step: Step) -> None:
        """Make the grid when it pays, and keep it fitting to the rows."""
        held = self._held()
        before = held - step.arrived.size
        table, thresholds = self.table.arrays, self.pool.runs.threshold
        lists = self._axes and self._design.lists(len(self.table), before, self.pool.largest)
        if not lists or self._crowded(held):
            self.grid = None
            return
        per_axis = self._design.per_axis or cells_per_axis(len(self._axes), max(self._expected, held))
        if self.grid is None or not self.grid.follow(self.window, step.arrived, table, thresholds, per_axis):
            self.grid = Grid(self._axes, per_axis, self._design.walked)
            self.grid.build(self.window, step.arrived, table, thresholds)
            self._levelled = before
        elif before > 2 * self._levelled or (before == self._expected > self._levelled):
            # While a window fills, thresholds rise without a computation from scratch that would clean the lists.
            trim(self._state(), int(step.heads[0]))
            self.grid.level(table, thresholds)
            self._levelled = before

    def _crowded(self, held: int) -> bool:
        """Tell whether lists are long or move a lot, or did a short time ago: a scan of all queries is faster then."""
        if not self._design.adaptive:
            return False
        if self._looked_up >= LOOK:
            if self._list_cost * EXPENSIVE > self._looked_up * len(self.table):
                self._scan_until = self.window.tick + self._patience * max(held, LOOK)
                self._patience = min(64, 2 * self._patience)
            else:
                self._patience = PATIENCE
            self._looked_up = self._list_cost = 0
        return self.window.tick < self._scan_until

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

    def indexed(self) -> bool | None:
        """Return whether rows find their queries by a grid, or are compared with all: once the window is full."""
        rows = max(self._expected, self._held())
        lists = bool(self._axes) and self._design.lists(len(self.table), rows, self.pool.largest)
        return lists and self.window.tick >= self._scan_until

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        c = self._counts
        return {
            "scores": int(c.scores),
            "listed": int(c.listed),
            "hits": int(c.hits),
            "cells": int(c.cells),
            "recomputations": int(c.fills),
            "kept": int(self.pool.runs.size.sum()),
            "influence": self.grid.entries() if self.grid is not None else 0,
            "bytes": self.pool.bytes() + (self.grid.bytes() if self.grid is not None else 0),
        }

    def _check(self) -> None:
        self.table._check()
        self.pool._check(self.table.arrays.k, self._head)
        if self.grid is not None:
            rows, live = self.window.rows(), self.window.live_slots()
            self.grid._check(rows, live, self.table.arrays, self.pool.runs.threshold)
