"""Top-k/w queries: what the algorithms of TODS'15 are put together from.

An algorithm says which skyband keeps a query's candidates and which one, if any, filters the rows of the recent buffer
before them; the rest is the same for all. Rows of the window are read only when a query is added, moved to another
engine or restored: else nothing but the skybands, the filters and the buffer's rows is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from topwatch.algorithms.topk.grid import ROWS_PER_CELL, Grid, cells_per_axis
from topwatch.algorithms.topk.kernels.candidates import Buffer, Kept, new_calendar, note_all
from topwatch.algorithms.topk.kernels.find_rows import Counts
from topwatch.algorithms.topk.kernels.prune import in_skyband, keys_between, keys_of
from topwatch.algorithms.topk.kernels.skyband_kinds import PROBABILISTIC
from topwatch.algorithms.topk.kernels.skyband_loop import first_report, new_work, run_skybands
from topwatch.algorithms.topk.pa import CALM, SAMPLE, OrderTest
from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.algorithms.topk.schemes import Scheme
from topwatch.algorithms.topk.skybands import SkybandPool
from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints, size_of
from topwatch.core.fifo import RingWindow
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Report, Step, new_log, report_of
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Query

BUFFER = 2000  # rows: the paper's default
MANY_QUERIES = 2000  # a guess: with 400, PA was faster when all were scored in one vectorised loop
FEWEST = 64  # rows of the window that a grid is worth its while for
CELLS_PER_REGION = 8  # of the grid, for the region of a query: fewer list too many queries, more are expensive to move


class SkybandEngine:
    """A group of top-k/w queries that share a window, a buffer, an index and a loop.

    Parameters
    ----------
    window : RingWindow
        Owns the rows.
    axes : list of int
        Columns of the grid, in the order of the queries' terms; empty when the queries read different columns.
    expected : int
        How many rows the window will hold, 0 when that is not known.
    scheme : Scheme
        The algorithm.
    """

    in_order = True

    def __init__(self, window: RingWindow, axes: list[int], expected: int, scheme: Scheme) -> None:
        self.window = window
        self.table = QueryTable()
        self.grid: Grid | None = None
        self._axes = axes if scheme.indexable else []
        self._expected = expected
        self._first = scheme
        self._scheme = scheme.fallback or scheme  # exact until the stream is known to be in random order
        self._order = OrderTest()
        self._switches = 0
        self._main, self._filters = self._pools()
        self._reported: set[int] = set()  # queries that :meth:`set_answer` has set, until :meth:`resume`
        self._rows = expected or self._rough()  # what sizes go by
        # Rows that are there already do not go through the buffer: they are read when a query is added.
        self._buffer = record(Buffer, first=window.end + 1, room=self._buffer_size())
        self._calendar = new_calendar(window.capacity, 0)
        self._counts = record(Counts)

    def _pools(self) -> tuple[SkybandPool, SkybandPool]:
        scheme = self._scheme
        filters = SkybandPool(scheme.filter or scheme.keeps, self.window, True, bool(self._axes))
        return SkybandPool(scheme.keeps, self.window), filters

    def _adopt(self, scheme: Scheme, moment: int) -> None:
        """Go on with another scheme, filled from the window up to an ordinal; what was reported stays."""
        answers = {index: self._main.pool.answer(index) for index in self.table.active()}
        self._scheme = scheme
        self._main, self._filters = self._pools()
        self._buffer.first, self._buffer.room = moment + 1, self._buffer_size()
        for index, answer in answers.items():
            k = int(self.table.arrays.k[index])
            self._main.add(index, k, self._rows)
            if scheme.filter is not None:
                self._filters.add(index, k, int(self._buffer.room))
            self._fill(index, self.window.head, moment)
            self._main.pool.set_answer(index, *answer)
        self._fill_calendar()
        self.grid = None

    def _watch_order(self, before: int) -> None:
        """Change to the fallback before the rows of a step when they have an order in time, and back when none had."""
        if self._first.fallback is None or not len(self.table):
            return
        rows = self.window.rows()

        def keys(index: int, ordinals: Ints) -> Floats:
            return keys_of(self.table.arrays, index, rows, ordinals)

        ordered = self._order.look(self.window.head, self.window.end, self.table.active(), keys)
        exact = self._scheme is not self._first
        if ordered != exact and (ordered or self._order.calm >= CALM):
            self._switches += 1
            self._adopt(self._first.fallback if ordered else self._first, before)

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Write a query into the tables; :meth:`start` gives it its first answer."""
        index = self.table.add(query, column_of)
        k = int(self.table.arrays.k[index])
        if self._expected:
            k = self.table.arrays.k[index] = min(k, self._expected)
        self._main.add(index, k, self._rows)
        if self._scheme.filter is not None:
            self._filters.add(index, k, int(self._buffer.room))
        if self.table.indices > self._calendar.due.size:
            self._fill_calendar()
        return index

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation, then take in what has come since."""
        result = self._evaluate(index, head, moment, at)
        self._fill_calendar()
        if self.grid is not None and not self.grid.admit(self.table.arrays, index, float(self._routing()[index])):
            self.grid = None
        return result

    def _evaluate(self, index: int, head: int, moment: int, at: int) -> Report:
        """Fill a skyband from the window as of an evaluation, report it, and fill it as of now."""
        self._fill(index, head, moment)
        pool = self._main.pool
        log = new_log(2 * int(self.table.arrays.k[index]))
        first_report(pool.answers, pool.runs, self.window.rows(), index, int(self.table.arrays.k[index]), at, log)
        if moment != self.window.tick:
            self._fill(index, head, self.window.tick)
        pool.answers.stale[index], pool.answers.since[index] = 1, 0
        return report_of(log)

    def resume(self, head: int, evaluated: int) -> None:
        """Make the skybands again from the window; the buffer starts empty."""
        self._rows = self._expected or self._rough()
        for index in self.table.active():
            self._main.resize(index, int(self.table.arrays.k[index]), self._rows)
            if index in self._reported:
                self._fill(index, head, self.window.tick)
            else:
                self._evaluate(index, head, evaluated, 0)
        self._reported.clear()
        self._buffer.first, self._buffer.room = self.window.end + 1, self._buffer_size()
        self._fill_calendar()
        self.grid = None

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Return what cannot be derived from the window: the rows of probabilistic skybands, query after query."""
        watch = {"order": np.array([self._order.end, self._order.calm, self._switches, self._scheme is self._first])}
        if self._scheme.keeps.kind != PROBABILISTIC:
            return watch if self._first.fallback is not None else {}
        return {**self._main.save(indices), "rows": np.array([self._rows]), **watch}

    def load(self, saved: Saved) -> None:
        """Take back what was saved, after :meth:`resume`."""
        if self._first.fallback is None and self._first.keeps.kind != PROBABILISTIC:
            return
        self._order.end, self._order.calm, self._switches, first = saved.counts("order", 4)
        known = self._order.end <= self.window.end + SAMPLE + 1 and first <= 1
        saved.expect(known, "order", "no ordinal after the last row, and 0 or 1 as the last number")
        if not first and self._first.fallback is not None:
            self._adopt(self._first.fallback, self.window.end)
            return
        if self._scheme is not self._first:
            self._adopt(self._first, self.window.end)
        (self._rows,) = saved.ints("rows", 1, low=self._expected or 16, high=self._expected or 1 << 40).tolist()
        self._main.load(saved, self.table.arrays, self.table.active(), self._rows)
        self._fill_calendar()

    def remove(self, index: int) -> None:
        """Take a query out."""
        if self.grid is not None:
            self.grid.admit(self.table.arrays, index, float("nan"))
        self.table.remove(index)
        self._main.remove(index)
        if self._scheme.filter is not None:
            self._filters.remove(index)
        self._fill_calendar()

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        self._follow_rows(self.window.end - step.arrived.size)
        self._watch_order(self.window.end - step.arrived.size)
        self._prepare(step)
        lists = self.grid.lists if self.grid is not None else None
        begin = self.window.end - step.arrived.size + 1 if step.arrived.size else 0
        work = new_work(self.table.indices, self._scheme.filter is not None, begin, self._counts)
        main, filters, moved, log = run_skybands(
            self.window.rows(), self.table.arrays, self._kept(), lists, step, new_log(), work
        )
        self._main.took(main)
        self._filters.took(filters)
        if self.grid is not None and moved is not None:
            self.grid.lists = moved
        return report_of(log)

    def _kept(self) -> Kept:
        main, filters = self._main, self._filters
        filtered = self._scheme.filter is not None
        return Kept(main.arrays, filters.arrays, filtered, self._buffer, self._calendar, main.pool.answers)

    def _routing(self) -> Floats:
        routing: Floats = (self._filters if self._scheme.filter is not None else self._main).arrays.routing
        return routing

    def _rough(self) -> int:
        """Return the number of rows held, rounded up to a power of two so that it seldom changes."""
        return max(16, 1 << int(self.window.end - self.window.head).bit_length())

    def _buffer_size(self) -> int:
        most = (self._rows + 1) // 2
        return max(1, min(self._scheme.buffer or BUFFER, most))

    def _follow_rows(self, before: int) -> None:
        """Where the window goes by time, let limits and the buffer follow the number of its rows.

        ``before`` is the ordinal of the last row that has been taken in.
        """
        if self._expected:
            return
        rows = self._rough()
        if self._rows / 2 <= rows <= self._rows:
            return
        self._rows = rows
        for index in self.table.active():
            self._main.resize(index, int(self.table.arrays.k[index]), rows)
        size = self._buffer_size()
        if size < self._buffer.room and self._scheme.filter is not None:
            # How long a row may stay depends on the size when it came: a smaller buffer starts again.
            for index in self.table.active():
                self._fill(index, self.window.head, before)
            self._buffer.first = before + 1
            self.grid = None
        self._buffer.room = size
        self._fill_calendar()

    def _prepare(self, step: Step) -> None:
        """Make the index when it pays, and keep it fitting to the rows."""
        held = self.window.capacity - self.window.free()
        if not self.indexed() or held - step.arrived.size < FEWEST:
            self.grid = None
            return
        table, routing = self.table.arrays, self._routing()
        per_axis = self._scheme.cells or self._cells(max(self._expected, held))
        if self.grid is None or not self.grid.follow(self.window, step.arrived, table, routing, per_axis):
            self.grid = Grid(self._axes, per_axis, walked=False)
            self.grid.build(self.window, step.arrived, table, routing)

    def _cells(self, rows: int) -> int:
        """Choose cells along each axis: so many that the part of space that concerns a query has some of them."""
        filtered = self._scheme.filter is not None
        kept = (self._filters if filtered else self._main).pool.largest
        total = CELLS_PER_REGION * min(rows, int(self._buffer.room) if filtered else rows) // max(1, kept)
        return cells_per_axis(len(self._axes), ROWS_PER_CELL * total)

    def _fill(self, index: int, head: int, moment: int) -> None:
        """Fill a skyband from the window; a filter of the buffer starts empty."""
        k = int(self.table.arrays.k[index])
        keys = keys_between(self.table.arrays, index, self.window.rows(), head, moment)
        if self._scheme.keeps.kind == PROBABILISTIC:
            chosen = np.flatnonzero(~np.isnan(keys))
            limit = int(self._main.pool.runs.limit[index])
            order = np.lexsort((-chosen, -keys[chosen]))[:limit]
            chosen = chosen[order]
        else:
            chosen = np.flatnonzero(in_skyband(keys, k))
            chosen = chosen[np.lexsort((-chosen, -keys[chosen]))]
        self._main.write(index, k, keys[chosen], chosen + head)
        if self._scheme.filter is not None:
            self._filters.write(index, k, NO_FLOATS, NO_INTS)

    def _fill_calendar(self) -> None:
        """Make the calendar again."""
        self._calendar = new_calendar(self.window.capacity, self._main.pool.runs.first.size)
        note_all(self._calendar, self._main.pool.runs.oldest, self.window.capacity - 1)

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and keys of the last evaluation's answer, best first."""
        slots, keys, _ = self._main.pool.answer(index)
        return slots, keys

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Set what was last reported, before :meth:`resume`."""
        self._reported.add(index)
        self._main.pool.set_answer(index, slots, keys, self.window.seq[slots])

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        self._fill_calendar()

    def indexed(self) -> bool:
        """Return whether rows find their queries by a grid, or are compared with all: once there are some."""
        return bool(self._axes) and (len(self.table) >= MANY_QUERIES or self._scheme.index == "grid")

    def stats(self) -> dict[str, int]:
        """Counters since the start; ``recomputations`` is how often a probabilistic skyband let all rows in again."""
        c = self._counts
        filtered = self._scheme.filter is not None
        pools = [self._main] + ([self._filters] if filtered else [])
        return {
            "scores": int(c.scores),
            "listed": int(c.listed),
            "hits": int(c.hits),
            "recomputations": int(c.fills),
            "switches": self._switches,
            "kept": sum(int(pool.pool.runs.size.sum()) for pool in pools),
            "buffered": max(0, self.window.end - int(self._buffer.first) + 1) if filtered else 0,
            "influence": self.grid.entries() if self.grid is not None else 0,
            "bytes": sum(pool.pool.bytes() for pool in pools)
            + size_of(self._calendar)
            + (self.grid.bytes() if self.grid is not None else 0),
        }

    def _check(self) -> None:
        self.table._check()
        k = np.zeros(self._main.pool.runs.first.size, np.int64)
        k[self.table.active()] = self.table.arrays.k[self.table.active()]
        self._main._check(k)
        assert np.all(self._calendar.due <= self._main.pool.runs.oldest), "a row expires unnoticed"
        if self._scheme.filter is not None:
            self._filters._check(k)
            for index in self.table.active():
                _, seq, _ = self._filters.rows(index)
                assert not seq.size or seq.min() >= self._buffer.first, "a filter keeps a row that has left the buffer"
        if self.grid is not None:
            rows, live = self.window.rows(), self.window.live_slots()
            level = self.grid.lists.influence.level  # a query whose routing threshold is lower is scored apart
            self.grid._check(rows, live, self.table.arrays, np.fmax(level, self._routing()[: level.size]))
