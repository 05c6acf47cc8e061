"""Brute: compute every answer again at every evaluation.

Plain NumPy, no kernels, no state but the last answers. It serves every query on every window, and is what to trust when
something looks odd. Cost per evaluation: O(Q N log N), and O(Q N²) for queries that ask which rows dominate which.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints
from topwatch.core.engine import Window
from topwatch.core.kernels.rows import ENTER, LEAVE, Report, Rows, Step, joined
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Query, Skyline, Threshold


class Brute:
    """A group of queries of any kind over one window."""

    in_order = False

    def __init__(self, window: Window) -> None:
        self.window = window
        self._queries: dict[int, tuple[Query, dict[str, int]]] = {}
        self._answers: dict[int, tuple[Ints, Floats, Ints]] = {}  # slots, keys, ticks
        self._reported: set[int] = set()  # queries that :meth:`set_answer` has set, until :meth:`resume`
        self._scores = 0

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Take in a query; :meth:`start` gives it its first answer."""
        index = next(index for index in itertools.count() if index not in self._queries)
        self._queries[index] = query, {name: column_of[name] for name in query.columns}
        self._answers[index] = NO_INTS, NO_FLOATS, NO_INTS
        return index

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation."""
        return joined(self._evaluate(index, self._live(head, moment), at))

    def resume(self, head: int, evaluated: int) -> None:
        """Nothing is kept but the answers."""
        live = self._live(head, evaluated)
        for index in self._queries:
            if index not in self._reported:
                self._evaluate(index, live, 0)
        self._reported.clear()

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Nothing: all is derived from the window."""
        return {}

    def load(self, saved: Saved) -> None:
        """Nothing was saved."""

    def remove(self, index: int) -> None:
        """Take a query out."""
        del self._queries[index], self._answers[index]

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        result: list[Report] = []
        for j, at in enumerate(step.at):
            live = self._live(int(step.heads[j + 1]), int(step.moment[j]))
            for index in self._queries:
                result += self._evaluate(index, live, int(at))
        return joined(result)

    def _live(self, head: int, moment: int) -> Ints:
        rows = self.window.rows()
        if rows.fifo:
            return np.arange(head, moment + 1) & rows.mask
        return np.flatnonzero((rows.seq <= moment) & (rows.gone > moment))

    def _evaluate(self, index: int, live: Ints, at: int) -> list[Report]:
        rows = self.window.rows()
        slots, keys = self._rank(index, live)
        old_slots, old_keys, old_ticks = self._answers[index]
        new_names = self._names(index, rows, slots, keys, rows.seq[slots])
        old_names = self._names(index, rows, old_slots, old_keys, old_ticks)
        new_set, old_set = set(new_names), set(old_names)
        left = [i for i, name in enumerate(old_names) if name not in new_set]
        entered = [i for i, name in enumerate(new_names) if name not in old_set]
        self._answers[index] = (slots, keys, rows.seq[slots])
        result = []
        for op, where, what, score in ((LEAVE, left, old_slots, old_keys), (ENTER, entered, slots, keys)):
            lines = np.empty((len(where), 4), np.int64)
            lines[:, 0], lines[:, 1], lines[:, 2], lines[:, 3] = at, index, op, what[where]
            result.append(Report(lines, score[where]))
        return result

    def _names(self, index: int, rows: Rows, slots: Ints, keys: Floats, ticks: Ints) -> list[tuple[int, float]]:
        """Return what identifies a row in a change: its tick; in a latest window its id, with its own score if any."""
        number = ticks if rows.fifo else rows.entity[slots]
        if isinstance(self._queries[index][0], Dominating):
            keys = np.zeros(keys.size)
        return list(zip(number.tolist(), keys.tolist(), strict=True))

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and keys of the last evaluation's answer, best first."""
        slots, keys, _ = self._answers[index]
        return slots, keys

    def _rank(self, index: int, live: Ints) -> tuple[Ints, Floats]:
        query, column_of = self._queries[index]
        rows = self.window.rows()
        columns = {name: rows.columns[column, live] for name, column in column_of.items()}
        self._scores += live.size
        ranked = np.logical_and.reduce([~np.isnan(columns[name]) for name in query.columns])
        for name, (low, high) in query.where.items():
            ranked &= (columns[name] >= low) & (columns[name] <= high)
        assert not isinstance(query, FrequentSkyline | IncompleteTopK), "the plan refuses it"
        if isinstance(query, Dominating):
            keys = _dominated(query, columns, ranked)
        elif isinstance(query, Skyline):
            keys = np.zeros(live.size)
            ranked &= _dominated(query, columns, ranked, by=True) == 0
        else:
            keys = query.score.evaluate(columns)
            keys = -keys if query.smaller_is_better else keys
            ranked &= ~np.isnan(keys)
        if isinstance(query, Threshold):
            ranked &= keys > (-query.above if query.smaller_is_better else query.above)
        slots, keys = live[ranked], keys[ranked]
        order = np.lexsort((-rows.seq[slots], -keys))
        if not isinstance(query, Threshold | Skyline):
            order = order[: query.k]
        return slots[order], keys[order]

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Set what was last reported, before :meth:`resume`."""
        self._answers[index] = (slots, keys, self.window.seq[slots])
        self._reported.add(index)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        if self.window.fifo:
            mask = self.window.capacity - 1
            answers = self._answers.items()
            self._answers = {index: (ticks & mask, keys, ticks) for index, (_, keys, ticks) in answers}

    def indexed(self) -> None:
        """Nothing is indexed by queries."""

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        return {"scores": self._scores, "kept": sum(keys.size for _, keys, _ in self._answers.values()), "bytes": 0}

    def _check(self) -> None:
        for slots, keys, ticks in self._answers.values():
            assert slots.size == keys.size == ticks.size


def _dominated(
    query: Dominating | Skyline, columns: Mapping[str, Floats], ranked: np.ndarray, by: bool = False
) -> Floats:
    """Count for each ranked row how many other ranked rows it dominates, or is dominated by."""
    signs = [1.0 if better == "min" else -1.0 for better in query.prefer.values()]
    values = np.array([sign * columns[name] for name, sign in zip(query.prefer, signs, strict=True)])
    counts = np.full(ranked.size, np.nan)
    among = values[:, ranked]
    for row in np.flatnonzero(ranked):
        mine, others = (among, values[:, row, None]) if by else (values[:, row, None], among)
        counts[row] = np.count_nonzero(np.all(mine <= others, axis=0) & np.any(mine < others, axis=0))
    return counts
