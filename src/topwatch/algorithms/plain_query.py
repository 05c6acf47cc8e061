"""A query of an algorithm in plain Python: the algorithm follows rows and names the best, changes follow from that.

This is the short way to a new algorithm, ours or somebody else's. One with compiled loops implements
:class:`topwatch.core.engine.QueryState`, or an :class:`topwatch.core.engine.Engine` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.engine import PerQueryEngine, Window
from topwatch.core.kernels.rows import ENTER, LEAVE, Report, Step
from topwatch.query.queries import Nearest, TopK

if TYPE_CHECKING:
    from topwatch.algorithms.registry import Request

Entry = tuple[float, int, int]  # of a ranked row: what sorts it, best first, and its slot
Answer = list[tuple[int, int, float]]  # of each row what it is called, its slot and its key


class PlainQuery:
    """One ``TopK`` or ``Nearest`` query; an algorithm fills in the three methods that raise.

    Parameters
    ----------
    window : RingWindow or LatestWindow
        Owns the rows.
    query : TopK or Nearest
        What is asked.
    column_of : mapping
        Where the window has a column.
    expected : int
        How many rows the window will hold, 0 when that is not known.
    """

    def __init__(self, window: Window, query: TopK | Nearest, column_of: Mapping[str, int], expected: int) -> None:
        self.window = window
        self.query = query
        self._column_of = {name: column_of[name] for name in query.columns}
        self._entries: dict[int, Entry] = {}  # of the ranked live rows, by slot
        self._answer: Answer = []
        self._scores = 0

    @classmethod
    def engine(cls, request: Request) -> PerQueryEngine:
        """Make the engine of a group of queries: what a registry entry needs."""
        return PerQueryEngine(request.feed.window, request.expected, cls)

    # ---- what an algorithm does its own way

    def begin_with(self, entries: list[Entry]) -> None:
        """Begin again with these rows, the oldest first."""
        raise NotImplementedError

    def arrive(self, entry: Entry) -> None:
        """Take in a row."""
        raise NotImplementedError

    def expire(self, entry: Entry) -> None:
        """Let a row go that has been taken in."""
        raise NotImplementedError

    def best(self) -> list[Entry]:
        """Return the best k rows, best first: entries in ascending order."""
        raise NotImplementedError

    # ---- what is the same for all

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots and keys that were last reported."""
        self._entries = {entry[2]: entry for entry in self._ranked(slots)}
        self.begin_with(list(self._entries.values()))
        self._answer = self._named(zip(reported[0].tolist(), reported[1].tolist(), strict=True))

    def process(self, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        changes: list[tuple[int, int, int, int, float]] = []
        came = gone = 0
        for number, at in enumerate(step.at.tolist()):
            self._take(step.arrived[came : step.arrivals[number]])
            came = int(step.arrivals[number])
            if self.window.fifo:
                self._release(np.arange(step.heads[number], step.heads[number + 1]) & (self.window.capacity - 1))
            else:
                self._release(step.expired[gone : step.expiries[number]])
                gone = int(step.expiries[number])
            new = self._named((slot, -value) for value, _, slot in self.best())
            changes += ((at, index, op, slot, key) for op, slot, key in _difference(self._answer, new))
            self._answer = new
        self._take(step.arrived[came:])
        self._release(step.expired[gone:])
        what = np.array([change[:4] for change in changes], np.int64).reshape(-1, 4)
        return Report(what, np.array([change[4] for change in changes], np.float64))

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and keys of the last answer, best first."""
        slots, keys = [slot for _, slot, _ in self._answer], [key for *_, key in self._answer]
        return np.array(slots, np.int64), np.array(keys, np.float64)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        if self.window.fifo:
            mask = self.window.capacity - 1
            self._entries = {-tick & mask: (value, tick, -tick & mask) for value, tick, _ in self._entries.values()}
            self.begin_with(list(self._entries.values()))
            self._answer = [(name, name & mask, key) for name, _, key in self._answer]

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        return {"scores": self._scores, "kept": len(self._entries), "bytes": 0}

    def _check(self, rows: Ints) -> None:
        assert {entry[2] for entry in self.best()} <= set(self._entries) <= set(rows.tolist())

    def _take(self, slots: Ints) -> None:
        for entry in self._ranked(slots):
            self._entries[entry[2]] = entry
            self.arrive(entry)

    def _release(self, slots: Ints) -> None:
        for slot in slots.tolist():
            entry = self._entries.pop(slot, None)
            if entry is not None:
                self.expire(entry)

    def _ranked(self, slots: Ints) -> Iterator[Entry]:
        """Yield the entries of the rows that the query ranks."""
        columns = {name: self.window.rows().columns[column, slots] for name, column in self._column_of.items()}
        keys = self.query.score.evaluate(columns) * (-1.0 if self.query.smaller_is_better else 1.0)
        self._scores += slots.size
        ranked = ~np.isnan(keys)
        for name, values in columns.items():
            low, high = self.query.where.get(name, (-np.inf, np.inf))
            ranked &= (values >= low) & (values <= high)  # not so for NaN
        ticks = self.window.seq[slots]
        for i in np.flatnonzero(ranked).tolist():
            yield -float(keys[i]), -int(ticks[i]), int(slots[i])

    def _named(self, rows: Iterator[tuple[int, float]]) -> Answer:
        """Say what each row is called: in a first-in-first-out window by its tick, else by its id's number."""
        names = self.window.seq if self.window.fifo else self.window.entity  # type: ignore[union-attr]
        return [(int(names[slot]), slot, key) for slot, key in rows]


def _difference(old: Answer, new: Answer) -> Iterator[tuple[int, int, float]]:
    """Yield what left and what entered, with slot and key; a row of a latest window also by a new score."""
    was, now = ({(name, key) for name, _, key in answer} for answer in (old, new))
    yield from ((LEAVE, slot, key) for name, slot, key in old if (name, key) not in now)
    yield from ((ENTER, slot, key) for name, slot, key in new if (name, key) not in was)
