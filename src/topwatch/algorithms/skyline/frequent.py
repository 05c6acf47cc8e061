"""Ids that are in the skyline in a share of the last snapshots: a skyline at each evaluation, and their shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from topwatch.algorithms.skyline.shares import Shares
from topwatch.core.engine import Report
from topwatch.core.kernels.rows import ENTER, LEAVE, Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.latest_window import LatestWindow
from topwatch.core.preferred_columns import Preferred
from topwatch.core.saved_state import Saved
from topwatch.query.queries import FrequentSkyline


class Snapshots(Protocol):
    """Where the skylines of a latest window come from."""

    def begin(self, slots: Ints) -> None:
        """Begin again with these rows."""

    def take(self, step: Step) -> None:
        """Take a step of the window."""

    def members(self, number: int, evaluation: int, live: Ints) -> Ints | None:
        """Return the entities in the skyline at an evaluation of the step, or None when that snapshot is not sampled.

        It is called at every evaluation. ``number`` counts all snapshots; ``live`` are the slots of the ranked rows.
        """

    def relocate(self) -> None:
        """Make room where the window has grown."""

    def stats(self) -> dict[str, int]:
        """Return counters since the start."""

    def _check(self, rows: Ints) -> None:
        """Assert the invariants."""


class Frequent:
    """A query for frequent skyline rows; a contest. An evaluation costs O(ids) besides its skyline.

    Where no row comes or goes, evaluations see the same. Once they are as many as the snapshots that count, more of
    them change nothing and are no snapshots: so a long silence may be evaluated as many times only (see ``EveryTime``).
    """

    def __init__(
        self, window: LatestWindow, query: FrequentSkyline, column_of: Mapping[str, int], source: Snapshots
    ) -> None:
        self._window = window
        self._preferred = Preferred(window, query, column_of)
        self._share, self._snapshots = query.share, int(query.snapshots)
        self._source = source
        self._clear()

    def _clear(self) -> None:
        size = self._window.capacity
        self._slot_of: Ints = np.full(size, -1)  # by entity, of the last row taken
        self._ranked = np.zeros(size, np.bool_)  # by slot
        self._shares = Shares(self._snapshots, size)
        self._moved = True  # whether a row has come or gone since the last evaluation
        self._alike = 0  # evaluations that have seen the same rows
        self._answer: tuple[Ints, Floats, Ints] = (np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots and shares that were last reported."""
        self._clear()
        self._arrive(slots)
        self._answer = (*reported, self._window.entity[reported[0]])
        self._source.begin(slots)

    def _arrive(self, slots: Ints) -> None:
        self._moved |= slots.size > 0
        self._slot_of[self._window.entity[slots]] = slots  # of several rows of an id the last stays
        self._ranked[slots] = ~np.isnan(self._preferred.values(slots)[0])

    def process(self, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        self._source.take(step)
        result = []
        come = gone = 0
        for j in range(step.at.size):
            self._arrive(step.arrived[come : step.arrivals[j]])
            expired = step.expired[gone : step.expiries[j]]
            come, gone = int(step.arrivals[j]), int(step.expiries[j])
            entities = self._window.entity[expired]
            lost = entities[self._slot_of[entities] == expired]
            self._slot_of[lost] = -1
            self._shares.forget(lost)
            self._alike = 1 if self._moved or expired.size else self._alike + 1
            self._moved = False
            if self._alike <= self._snapshots:
                result += self._evaluate(j, int(step.at[j]), index)
        self._arrive(step.arrived[come:])
        if not result:
            return Report(np.empty((0, 4), np.int64), np.empty(0))
        return Report(np.concatenate([part.what for part in result]), np.concatenate([part.key for part in result]))

    def _evaluate(self, evaluation: int, at: int, index: int) -> list[Report]:
        live = self._slot_of[self._slot_of >= 0]
        members = self._source.members(self._shares.taken + 1, evaluation, live[self._ranked[live]])
        if live.size:
            self._shares.take(self._shares.taken + 1, members)
        entities, shares = self._shares.frequent(self._share)
        slots = self._slot_of[entities]
        ranked = self._ranked[slots]
        entities, shares, slots = entities[ranked], shares[ranked], slots[ranked]
        order = np.lexsort((-self._window.seq[slots], -shares))
        old_slots, old_shares, old = self._answer
        self._answer = (slots[order], shares[order], entities[order])
        left, entered = ~np.isin(old, entities), ~np.isin(entities, old)
        return [
            _lines(at, index, LEAVE, old_slots[left], old_shares[left]),
            _lines(at, index, ENTER, slots[entered], shares[entered]),
        ]

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and shares of the last evaluation's answer, best first."""
        return self._answer[0], self._answer[1]

    def relocate(self) -> None:
        """Make room where the window has grown; rows keep their slots."""
        more = self._window.capacity - self._slot_of.size
        self._slot_of = np.concatenate([self._slot_of, np.full(more, -1)])
        self._ranked = np.concatenate([self._ranked, np.zeros(more, np.bool_)])
        self._shares.grow(self._window.capacity)
        self._source.relocate()

    def save(self) -> dict[str, np.ndarray]:
        """Return the counts, each id as the index of its row among the live ones."""
        held = self._window.live_slots()
        row_of = np.full(self._slot_of.size, -1)
        row_of[self._window.entity[held]] = np.arange(held.size)
        return {**self._shares.save(row_of), "alike": np.array([self._alike, self._moved])}

    def load(self, saved: Saved) -> None:
        """Undo :meth:`save`, when the rows are there again."""
        self._shares.load(saved, self._window.entity[self._window.live_slots()])
        alike, moved = saved.ints("alike", 2, low=0).tolist()
        saved.expect(moved <= 1, "alike", "0 or 1 as the last number")
        self._alike, self._moved = alike, bool(moved)

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        stats = self._source.stats()
        mine = self._slot_of.nbytes + self._ranked.nbytes + self._shares.bytes()
        return {**stats, "snapshots": self._shares.taken, "bytes": stats["bytes"] + mine}

    def _check(self, rows: Ints) -> None:
        self._shares._check()
        self._source._check(rows)
        assert np.isin(self._slot_of[self._slot_of >= 0], rows).all()


def _lines(at: int, index: int, op: int, slots: Ints, keys: Floats) -> Report:
    what = np.empty((slots.size, 4), np.int64)
    what[:, 0], what[:, 1], what[:, 2], what[:, 3] = at, index, op, slots
    return Report(what, keys)
