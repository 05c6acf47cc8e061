"""Threshold queries: every row whose score is better than a given one.

Each arrival and each expiry is looked at by the queries whose cells it falls into (or, without a grid, by all), and
reported when it reaches the threshold. Nothing is kept per query: the answer is those rows of the window.

Mouratidis, Bakiras, Papadias: Continuous monitoring of top-k queries over sliding windows. SIGMOD 2006, section 7.

Cost per arrival and per expiry: O(d + C Q / cells). Memory: O(N d + Q C), none of it for answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from topwatch.algorithms.topk.grid import Grid, cells_per_axis, unindexed
from topwatch.algorithms.topk.kernels.route import Index, new_hits, route_by_lists, route_by_scan
from topwatch.algorithms.topk.kernels.walk_cells import HITS, LISTED, SCORES
from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.core.engine import Report, Window
from topwatch.core.jit import kernel
from topwatch.core.kernels.rows import ENTER, LEAVE, Rows, Step
from topwatch.core.kernels.scoring import BLOCK, Floats, Ints, Queries
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Query

_NONE = np.empty(0, np.int64)


class Thresholds:
    """A group of threshold queries over one window."""

    in_order = False

    def __init__(self, window: Window, axes: list[int], expected: int, listed: bool, per_axis: int | None) -> None:
        self.window = window
        self.table = QueryTable()
        self.grid: Grid | None = None
        self._axes = axes
        self._expected = expected
        self._listed = listed and bool(axes)
        self._per_axis = per_axis
        self._waiting = _NONE  # slots of rows that have arrived since the last evaluation
        self._evaluated = 0  # tick of the last evaluation
        self._counters = np.zeros(8, np.int64)

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Write a query into the table; :meth:`start` gives it its first answer."""
        return self.table.add(query, column_of)

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation."""
        if len(self.table) == 1:
            self.resume(head, moment)
        if self.grid is not None and not self.grid.fits(self.table.arrays, index):
            self.grid = None
        if self.grid is not None:
            self.grid.admit(self.table.arrays, index, float(self.table.arrays.floor[index]))
        rows = self.window.rows()
        live = self.window.live_slots()
        seen = rows.seq[live] <= moment
        seen &= rows.seq[live] >= head if rows.fifo else rows.gone[live] > moment
        slots, keys = self._rank(index, live[seen])
        what = np.empty((slots.size, 4), np.int64)
        what[:, 0], what[:, 1], what[:, 2], what[:, 3] = at, index, ENTER, slots
        return Report(what, keys)

    def resume(self, head: int, evaluated: int) -> None:
        """Nothing is kept but which rows have not been evaluated yet."""
        held = self.window.live_slots()
        self._waiting, self._evaluated = held[self.window.seq[held] > evaluated], evaluated
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

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        rows = self.window.rows()
        self._prepare(rows, step.arrived)
        earlier = self._waiting.size
        arrived = np.concatenate([self._waiting, step.arrived])
        if step.at.size == 0:
            self._waiting = arrived
            return Report(np.empty((0, 4), np.int64), np.empty(0))
        cut = earlier + int(step.arrivals[-1])
        arrived, self._waiting = arrived[:cut], arrived[cut:]
        if rows.fifo:
            expired = np.arange(step.heads[0], step.heads[-1]) & rows.mask
        else:
            expired = step.expired[: step.expiries[-1]]
        enter = self._events(rows, step, arrived, ENTER)
        leave = self._events(rows, step, expired, LEAVE)
        self._evaluated = int(step.moment[-1])
        what, key = np.concatenate([leave.what, enter.what]), np.concatenate([leave.key, enter.key])
        if not rows.fifo:
            stays = _same_again(what, key, rows.entity)
            what, key = what[~stays], key[~stays]
        return Report(what, key)

    def _events(self, rows: Rows, step: Step, slots: Ints, op: int) -> Report:
        """Changes of one kind: of rows that were live at an evaluation at least."""
        index = self.grid.index if self.grid is not None else unindexed(self.table.indices)
        row, query, key = _matches(self.table.arrays, rows.columns, index, slots, self._counters)
        self._counters[HITS] += row.size if op == ENTER else 0
        slot = slots[row]
        born = np.searchsorted(step.moment, rows.seq[slot])  # the evaluation that first sees the row
        if rows.fifo:
            died = np.searchsorted(step.heads[1:], rows.seq[slot], side="right")
        else:
            died = np.searchsorted(step.moment, rows.gone[slot])
        before = rows.seq[slot] <= self._evaluated
        keep = (died > born) | ((op == LEAVE) & before)
        keep &= (died if op == LEAVE else born) < step.at.size
        what = np.empty((int(keep.sum()), 4), np.int64)
        what[:, 0] = step.at[(died if op == LEAVE else born)[keep]]
        what[:, 1], what[:, 2], what[:, 3] = query[keep], op, slot[keep]
        return Report(what, key[keep])

    def _prepare(self, rows: Rows, arrived: Ints) -> None:
        if not self._listed:
            return
        floors = self.table.arrays.floor
        live = self.window.live_slots() if self.grid is None else _NONE
        if self.grid is None and live.size:
            per_axis = self._per_axis or cells_per_axis(len(self._axes), max(self._expected, live.size))
            self.grid = Grid(self._axes, per_axis, walked=False)
            self.grid.build(rows, live, _NONE, self.table.arrays, floors)
        elif self.grid is not None and arrived.size and not self.grid.covers(rows, arrived):
            self.grid.stretch(rows, arrived, self.table.arrays, floors)

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and keys of the last evaluation's answer, best first."""
        return self._rank(index, live())

    def _rank(self, index: int, live: Ints) -> tuple[Ints, Floats]:
        rows = self.window.rows()
        alone = np.full(self.table.indices, 0)
        alone[index] = self.table.arrays.k[index]
        table = self.table.arrays._replace(k=alone)
        row, _, keys = _matches(table, rows.columns, unindexed(self.table.indices), live, np.zeros(8, np.int64))
        slots = live[row]
        order = np.lexsort((-rows.seq[slots], -keys))
        return slots[order], keys[order]

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Nothing is kept."""

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        if self.window.fifo:
            held = self.window.live_slots()
            self._waiting = held[held.size - self._waiting.size :]

    def indexed(self) -> bool:
        """Return whether rows find their queries by a grid, or are compared with all."""
        return self._listed

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        return {
            "scores": int(self._counters[SCORES]),
            "listed": int(self._counters[LISTED]),
            "hits": int(self._counters[HITS]),
            "influence": int(self.grid.index.influence.size.sum()) if self.grid is not None else 0,
            "bytes": self.grid.bytes() if self.grid is not None else 0,
        }

    def _check(self) -> None:
        self.table._check()
        if self.grid is not None:
            rows, live = self.window.rows(), self.window.live_slots()
            self.grid._check(rows, live, self.table.arrays, self.table.arrays.floor)


def _same_again(what: Ints, key: Floats, entity: Ints) -> np.ndarray:
    """Mark the leaves and enters that are one id with one key, replaced by a newer row."""
    name = np.stack([what[:, 0], what[:, 1], entity[what[:, 3]], (key + 0.0).view(np.int64)], axis=1)
    _, number, times = np.unique(name, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(times[number.reshape(-1)] == 2)


@kernel
def _matches(table: Queries, columns: Floats, index: Index, slots: Ints, counters: Ints) -> tuple[Ints, Ints, Floats]:
    """Return all (row, query, key) of rows that reach a query's floor."""
    hits = new_hits(len(table.k))
    row = np.empty(64, np.int64)
    query = np.empty(64, np.int64)
    key = np.empty(64, np.float64)
    n = 0
    block = BLOCK
    i = 0
    while i < len(slots):
        stop = min(len(slots), i + block)
        if index.listed:
            fits = route_by_lists(table, table.floor, columns, index, slots, i, stop, hits, counters)
        else:
            fits = route_by_scan(table, table.floor, columns, slots, i, stop, hits, counters)
        if not fits:
            block = max(1, block // 4)
            continue
        more = hits.size[0]
        if n + more > len(row):
            row = np.concatenate((row[:n], np.empty(n + more, np.int64)))
            query = np.concatenate((query[:n], np.empty(n + more, np.int64)))
            key = np.concatenate((key[:n], np.empty(n + more, np.float64)))
        row[n : n + more] = hits.row[:more]
        query[n : n + more] = hits.query[:more]
        key[n : n + more] = hits.key[:more]
        n += more
        i = stop
    return row[:n], query[:n], key[:n]
