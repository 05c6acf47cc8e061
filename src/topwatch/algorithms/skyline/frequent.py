"""Ids that are in the skyline in a share of the last snapshots: counts over the skylines of evaluations.

SIGMOD 2009, Algorithm 6, lines 6 to 17: a counter for each record and the skyline of each sampled snapshot, which is
subtracted again when it leaves the window. Retained: the skylines, at most one for each snapshot of the window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from topwatch.algorithms.preferred import Preferred
from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints
from topwatch.core.kernels.rows import ENTER, LEAVE, Report, Step, joined, report_lines
from topwatch.core.latest import LatestWindow
from topwatch.core.saved_state import MOST_TICKS, Saved
from topwatch.query.queries import FrequentSkyline


class Shares:
    """How often each entity was in the skyline, over the last so many snapshots or those of them that were sampled.

    Parameters
    ----------
    snapshots : int
        How many of the last snapshots count.
    entities : int
        How many there can be, until :meth:`grow`.

    Examples
    --------
    >>> shares = Shares(snapshots=3, entities=2)
    >>> for number, skyline in enumerate([[0], [0, 1], [1], [1]]):
    ...     shares.take(number, np.array(skyline))
    >>> shares.frequent(0.5)
    (array([1]), array([1.]))
    """

    def __init__(self, snapshots: int, entities: int = 0) -> None:
        self._snapshots = snapshots
        self._count: Ints = np.zeros(entities, np.int64)
        self._since: Ints = np.zeros(entities, np.int64)  # earlier snapshots knew another id by this number
        self._skylines: deque[tuple[int, Ints]] = deque()
        self.taken = 0  # the number of the last snapshot, sampled or not

    def take(self, number: int, members: Ints | None) -> None:
        """Add a snapshot, whose skyline has these members; None when it is not sampled. Numbers rise. O(members)."""
        self.taken = number
        if members is not None:
            self._skylines.append((self.taken, members))
            self._count[members] += 1
        while self._skylines and self._skylines[0][0] <= self.taken - self._snapshots:
            number, old = self._skylines.popleft()
            self._count[old[self._since[old] <= number]] -= 1

    def forget(self, entities: Ints) -> None:
        """Forget ids that are gone; call it before the snapshot that does not have them."""
        self._count[entities] = 0
        self._since[entities] = self.taken + 1

    def frequent(self, share: float) -> tuple[Ints, Floats]:
        """Return the entities that were in at least a share of the skylines that count, and in which. O(entities)."""
        result = self.counted()
        shares = self._count[result] / max(1, len(self._skylines))
        return result[shares >= share], shares[shares >= share]

    def counted(self) -> Ints:
        """Return the entities that were in one of the skylines that count."""
        return np.flatnonzero(self._count)

    def grow(self, entities: int) -> None:
        """Make room for so many, if there is less."""
        more = np.zeros(max(0, entities - self._count.size), np.int64)
        self._count, self._since = np.concatenate([self._count, more]), np.concatenate([self._since, more])

    def save(self, row_of: Ints) -> dict[str, np.ndarray]:
        """Return all as arrays; entities are known by the rows that they have, -1 where they have none."""
        kept = [row_of[old[self._since[old] <= number]] for number, old in self._skylines]
        assert all((rows >= 0).all() for rows in kept)
        return {
            "taken": np.array([self.taken]),
            "numbers": np.array([number for number, _ in self._skylines], np.int64),
            "sizes": np.array([rows.size for rows in kept], np.int64),
            "rows": np.concatenate([NO_INTS, *kept]),
        }

    def load(self, saved: Saved, entity_of: Ints) -> None:
        """Undo :meth:`save`, given the entities of the rows."""
        (self.taken,) = saved.ints("taken", 1, low=0, high=MOST_TICKS).tolist()
        numbers = saved.rising("numbers", None, low=max(0, self.taken - self._snapshots + 1), high=self.taken)
        sizes = saved.ints("sizes", numbers.size, low=0, high=entity_of.size)
        rows = saved.ints("rows", int(sizes.sum()), low=0, high=entity_of.size - 1)
        members = entity_of[rows]
        pairs = np.repeat(np.arange(sizes.size), sizes) * max(1, self._count.size) + members
        saved.expect(np.unique(pairs).size == pairs.size, "rows", "each id once in a skyline")
        parts = np.split(members, np.cumsum(sizes)[:-1]) if sizes.size else []
        self._skylines = deque(zip(numbers.tolist(), parts, strict=True))
        self._since[:] = 0
        self._count[:] = np.bincount(members, minlength=self._count.size)

    def bytes(self) -> int:
        """Size of the arrays."""
        return int(self._count.nbytes + self._since.nbytes + sum(part.nbytes for _, part in self._skylines))

    def _check(self) -> None:
        total = np.zeros_like(self._count)
        for number, old in self._skylines:
            assert self.taken - self._snapshots < number <= self.taken
            total[old[self._since[old] <= number]] += 1
        assert np.array_equal(total, self._count)


class Snapshots(Protocol):
    """Where the skylines of a latest window come from."""

    def begin(self, slots: Ints) -> None:
        """Begin again with these rows."""

    def take(self, step: Step) -> None:
        """Process a step of the window."""

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
    """A query for frequent skyline rows; a query state. An evaluation costs O(ids) besides its skyline.

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
        self._answer: tuple[Ints, Floats, Ints] = (NO_INTS, NO_FLOATS, NO_INTS)

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
        """Process a step of the window; return the changes at its evaluations."""
        self._source.take(step)
        result: list[Report] = []
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
        return joined(result)

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
            report_lines(at, index, LEAVE, old_slots[left], old_shares[left]),
            report_lines(at, index, ENTER, slots[entered], shares[entered]),
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
        alike, moved = saved.counts("alike", 2)
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
