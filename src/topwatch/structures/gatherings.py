"""Standing queries over objects whose parts come in rows of their own: an engine of one gathering per query.

Queries share the window and the numbers of ids, and nothing else. A row that a query refuses stays refused, whatever
expires later; that is all that cannot be derived from the window, and is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from topwatch.kernels.objects import NOBODY
from topwatch.kernels.rows import Step
from topwatch.kernels.scoring import Floats, Ints
from topwatch.kernels.tally import Arrivals
from topwatch.queries import IncompleteTopK, Query
from topwatch.structures.contest import NO_STEP, NONE, NOTHING
from topwatch.structures.engine import Found
from topwatch.structures.feed import FifoFeed
from topwatch.structures.reading import Numbering, Reading


class Gathering(Protocol):
    """One query, served by one algorithm. Rows are called by their ordinals."""

    duplicates: int  # rows refused because their source has told of the object already

    def begin(self, head: int, rows: Arrivals, told: tuple[Ints, Floats]) -> None:
        """Begin anew with these rows, the first of which is ``head``; ``told`` is what was last reported."""

    def process(self, rows: Arrivals, step: Step, place: int) -> Found:
        """Take a step of the window; return the changes at its judgements."""

    def answer(self) -> tuple[Ints, Floats]:
        """Return the newest rows of the objects of the last judgement's answer and their scores, best first."""

    def taken(self, ordinals: Ints) -> np.ndarray:
        """Tell which rows count, or have counted until they expired."""

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""

    def stats(self) -> dict[str, int]:
        """Return counters since the start."""

    def _check(self) -> None:
        """Assert the invariants."""


Design = Callable[[FifoFeed, IncompleteTopK], Gathering]
_NOTHING_TOLD = (np.empty(0, np.int64), np.empty(0))


class _Member(NamedTuple):
    reading: Reading
    gathering: Gathering


class Gatherings:
    """A group of queries over one window.

    Parameters
    ----------
    feed : FifoFeed
        Owns the rows, their ids and their times.
    design : Design
        Makes the gathering of a query.
    """

    in_order = False

    def __init__(self, feed: FifoFeed, design: Design) -> None:
        self._feed = feed
        self._design = design
        self._numbering = Numbering(feed)
        self._members: list[_Member | None] = []
        self._told: dict[int, tuple[Ints, Floats]] = {}

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Take in a query; :meth:`start` or :meth:`load` gives it its first answer."""
        assert isinstance(query, IncompleteTopK)
        self._members.append(_Member(Reading(self._feed, query, column_of), self._design(self._feed, query)))
        return len(self._members) - 1

    def _serving(self) -> list[tuple[int, _Member]]:
        return [(place, member) for place, member in enumerate(self._members) if member is not None]

    def _member(self, place: int) -> _Member:
        member = self._members[place]
        assert member is not None
        return member

    def start(self, place: int, head: int, moment: int, at: int) -> Found:
        """Judge a new query over the rows of the last judgement, then take in what has come since."""
        reading, gathering = self._member(place)
        window = self._feed.window
        held = window.live_slots()
        seen = window.seq[held] <= moment
        ids = self._numbering.of(held)
        gathering.begin(window.head, reading.read(held[seen], ids[seen]), _NOTHING_TOLD)
        nobody = np.zeros(1, np.int64)
        judged = Step(NONE, NONE, np.array([at]), np.array([moment]), nobody, np.full(2, head), nobody)
        found = gathering.process(reading.read(NONE, NONE), judged, place)
        gathering.process(reading.read(held[~seen], ids[~seen]), NO_STEP._replace(heads=np.full(1, head)), place)
        return found

    def resume(self, head: int, judged: int) -> None:
        """Nothing yet: :meth:`load` follows, and knows which rows were refused."""

    def save(self) -> dict[str, np.ndarray]:
        """Return which of the rows held count, and the counters of those that do not."""
        window = self._feed.window
        ordinals = window.seq[window.live_slots()]
        saved = {}
        for order, (_, (reading, gathering)) in enumerate(self._serving()):
            saved[f"{order} taken"] = gathering.taken(ordinals)
            saved[f"{order} refused"] = np.array([reading.unknown, reading.outside, gathering.duplicates])
        return saved

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Make the state anew from the window and what was saved by an engine with the same queries."""
        window = self._feed.window
        held = window.live_slots()
        ids = self._numbering.of(held)
        for order, (place, (reading, gathering)) in enumerate(self._serving()):
            rows = reading.read(held, ids, count=False)
            rows.source[~saved[f"{order} taken"]] = NOBODY
            slots, keys = self._told.pop(place, _NOTHING_TOLD)
            gathering.begin(window.head, rows, (window.seq[slots], keys))
            reading.unknown, reading.outside, gathering.duplicates = saved[f"{order} refused"].tolist()

    def remove(self, place: int) -> None:
        """Take a query out."""
        self._members[place] = None

    def process(self, step: Step) -> Found:
        """Take a step of the window; return the changes at its judgements."""
        ids = self._numbering.of(step.arrived)
        found = [
            gathering.process(reading.read(step.arrived, ids), step, place)
            for place, (reading, gathering) in self._serving()
        ]
        if len(found) <= 1:
            return found[0] if found else NOTHING
        return Found(np.concatenate([part.what for part in found]), np.concatenate([part.key for part in found]))

    def answer(self, place: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return rows of the objects of the last judgement's answer and their scores, best first."""
        if place in self._told:
            return self._told[place]
        ordinals, scores = self._member(place).gathering.answer()
        return ordinals & (self._feed.window.capacity - 1), scores

    def set_answer(self, place: int, slots: Ints, keys: Floats) -> None:
        """Say what was last reported, after a restore; :meth:`load` follows."""
        self._told[place] = (slots, keys)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        for _, member in self._serving():
            member.gathering.relocate()

    def indexed(self) -> None:
        """Nothing is indexed by queries."""

    def stats(self) -> dict[str, int]:
        """Counters since the start: also rows of an ``unknown_source``, ``out_of_bounds``, and ``duplicates``."""
        total = {"unknown_source": 0, "out_of_bounds": 0, "duplicates": 0}
        for _, (reading, gathering) in self._serving():
            total["unknown_source"] += reading.unknown
            total["out_of_bounds"] += reading.outside
            total["duplicates"] += gathering.duplicates
            for name, value in gathering.stats().items():
                total[name] = total.get(name, 0) + value
        return total

    def _check(self) -> None:
        for _, member in self._serving():
            member.gathering._check()
