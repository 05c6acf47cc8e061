"""Threshold queries: every row whose score is better than a given one.

Each arrival and each expiry is compared with the queries whose cells it falls into (or, without a grid, with all), and
reported when it reaches the threshold. Nothing is kept per query: the answer is those rows of the window.

Mouratidis, Bakiras, Papadias: Continuous monitoring of top-k queries over sliding windows. SIGMOD 2006, section 7.

Cost per arrival and per expiry: O(d + C Q / cells). Memory: O(N d + Q C), none of it for answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from topwatch.algorithms.topk.grid import Grid, cells_per_axis
from topwatch.algorithms.topk.kernels.find_rows import Counts, Hits, SlotRange, new_hits, route_by_scan
from topwatch.algorithms.topk.kernels.influence import Lists, route_by_lists
from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.core.arrays import NO_INTS, Floats, Ints
from topwatch.core.engine import Window
from topwatch.core.jit import kernel, stepwise
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import ENTER, LEAVE, NOTHING, Report, Rows, Step, joined, report_lines
from topwatch.core.kernels.scoring import BLOCK, Queries
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Query


class ThresholdEngine:
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
        self._pending = NO_INTS  # slots of rows that have arrived since the last evaluation
        self._evaluated = 0  # tick of the last evaluation
        self._counts = record(Counts)

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Write a query into the table; :meth:`start` gives it its first answer."""
        return self.table.add(query, column_of)

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation."""
        if len(self.table) == 1:
            self.resume(head, moment)
        floor = float(self.table.arrays.floor[index])
        if self.grid is not None and not self.grid.admit(self.table.arrays, index, floor):
            self.grid = None
        rows = self.window.rows()
        live = self.window.live_slots()
        seen = rows.seq[live] <= moment
        seen &= rows.seq[live] >= head if rows.fifo else rows.gone[live] > moment
        slots, keys = self._rank(index, live[seen])
        return report_lines(at, index, ENTER, slots, keys)

    def resume(self, head: int, evaluated: int) -> None:
        """Nothing is kept but which rows have not been evaluated yet."""
        held = self.window.live_slots()
        self._pending, self._evaluated = held[self.window.seq[held] > evaluated], evaluated
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
        self._prepare(step.arrived)
        earlier = self._pending.size
        arrived = np.concatenate([self._pending, step.arrived])
        if step.at.size == 0:
            self._pending = arrived
            return NOTHING
        cut = earlier + int(step.arrivals[-1])
        arrived, self._pending = arrived[:cut], arrived[cut:]
        if rows.fifo:
            expired = np.arange(step.heads[0], step.heads[-1]) & rows.mask
        else:
            expired = step.expired[: step.expiries[-1]]
        enter = self._events(rows, step, arrived, ENTER)
        leave = self._events(rows, step, expired, LEAVE)
        self._evaluated = int(step.moment[-1])
        result = joined([leave, enter])
        if rows.fifo:
            return result
        changed = ~_same_again(result, rows.entity)
        return Report(result.what[changed], result.key[changed])

    def _events(self, rows: Rows, step: Step, slots: Ints, op: int) -> Report:
        """Changes of one kind: of rows that were live at an evaluation at least."""
        lists, hits = self.grid.lists if self.grid is not None else None, new_hits(self.table.indices)
        row, query, key = _matches(self.table.arrays, rows.columns, lists, slots, hits, self._counts)
        self._counts.hits += row.size if op == ENTER else 0
        slot = slots[row]
        born = np.searchsorted(step.moment, rows.seq[slot])  # the evaluation that first sees the row
        if rows.fifo:
            died = np.searchsorted(step.heads[1:], rows.seq[slot], side="right")
        else:
            died = np.searchsorted(step.moment, rows.gone[slot])
        before = rows.seq[slot] <= self._evaluated
        keep = (died > born) | ((op == LEAVE) & before)
        keep &= (died if op == LEAVE else born) < step.at.size
        at = step.at[(died if op == LEAVE else born)[keep]]
        return report_lines(at, query[keep], op, slot[keep], key[keep])

    def _prepare(self, arrived: Ints) -> None:
        """Make the grid, and keep it fitting to the rows."""
        held = self.window.capacity - self.window.free()
        if not self._listed or not held:
            return
        table = self.table.arrays
        per_axis = self._per_axis or cells_per_axis(len(self._axes), max(self._expected, held))
        if self.grid is None or not self.grid.follow(self.window, arrived, table, table.floor, per_axis):
            self.grid = Grid(self._axes, per_axis, walked=False)
            self.grid.build(self.window, arrived, table, table.floor)

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and keys of the last evaluation's answer, best first."""
        return self._rank(index, live())

    def _rank(self, index: int, live: Ints) -> tuple[Ints, Floats]:
        rows = self.window.rows()
        alone = np.full(self.table.indices, 0)
        alone[index] = self.table.arrays.k[index]
        table = self.table.arrays._replace(k=alone)
        row, _, keys = _matches(table, rows.columns, None, live, new_hits(self.table.indices), record(Counts))
        slots = live[row]
        order = np.lexsort((-rows.seq[slots], -keys))
        return slots[order], keys[order]

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Nothing is kept."""

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        if self.window.fifo:
            held = self.window.live_slots()
            self._pending = held[held.size - self._pending.size :]

    def indexed(self) -> bool:
        """Return whether rows find their queries by a grid, or are compared with all."""
        return self._listed

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        return {
            "scores": int(self._counts.scores),
            "listed": int(self._counts.listed),
            "hits": int(self._counts.hits),
            "influence": self.grid.entries() if self.grid is not None else 0,
            "bytes": self.grid.bytes() if self.grid is not None else 0,
        }

    def _check(self) -> None:
        self.table._check()
        if self.grid is not None:
            rows, live = self.window.rows(), self.window.live_slots()
            self.grid._check(rows, live, self.table.arrays, self.table.arrays.floor)


def _same_again(changes: Report, entity: Ints) -> np.ndarray:
    """Mark the leaves and enters that are one id with one key, replaced by a newer row."""
    what, key = changes
    name = np.stack([what[:, 0], what[:, 1], entity[what[:, 3]], (key + 0.0).view(np.int64)], axis=1)
    _, number, times = np.unique(name, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(times[number.reshape(-1)] == 2)


@stepwise
@kernel
def _matches(
    table: Queries, columns: Floats, lists: Lists | None, slots: Ints, hits: Hits, counts: Counts
) -> tuple[Ints, Ints, Floats]:
    """Return all (row, query, key) of rows that reach a query's floor."""
    row = np.empty(64, np.int64)
    query = np.empty(64, np.int64)
    key = np.empty(64, np.float64)
    n = 0
    block = BLOCK
    i = 0
    while i < len(slots):
        arrivals = SlotRange(slots, i, min(len(slots), i + block))
        if lists is not None:
            fits = route_by_lists(table, table.floor, columns, lists, arrivals, hits, counts)
        else:
            fits = route_by_scan(table, table.floor, columns, arrivals, hits, counts)
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
        i = arrivals.stop
    return row[:n], query[:n], key[:n]
