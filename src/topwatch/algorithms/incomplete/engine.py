"""Standing queries over objects whose parts come in rows of their own: an engine of one gathering per query.

Queries share the window and the numbers of ids, and nothing else. A row that a query refuses stays refused, whatever
expires later; that is all that cannot be derived from the window, and is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from topwatch.algorithms.incomplete.kernels.object_scores import NOBODY
from topwatch.algorithms.incomplete.kernels.tally_loop import Arrivals
from topwatch.algorithms.incomplete.objects import Reported
from topwatch.algorithms.incomplete.observations import MOST_LEARNT, Numbering, Reading
from topwatch.algorithms.incomplete.pieces import cut_step
from topwatch.core.engine import Report
from topwatch.core.kernels.rows import Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.per_query_engine import NO_STEP, NONE, NOTHING
from topwatch.core.saved_state import Saved
from topwatch.core.stream import FifoFeed
from topwatch.query.incomplete_topk import IncompleteTopK
from topwatch.query.queries import Query


class Gathering(Protocol):
    """One query, served by one algorithm. Rows are called by their ordinals."""

    duplicates: int  # rows refused because their source has reported the object already

    def begin(self, head: int, rows: Arrivals, reported: Reported) -> None:
        """Begin again with these rows, the first of which is ``head``; ``reported`` is what was last reported."""

    def process(self, rows: Arrivals, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""

    def answer(self) -> Reported:
        """Return the last evaluation's answer."""

    def taken(self, ordinals: Ints) -> np.ndarray:
        """Tell which rows count, or have counted until they expired."""

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""

    def precision(self) -> float | None:
        """Estimate the share of the answer that is right; None where all of it is."""

    def stats(self) -> dict[str, int]:
        """Return counters since the start."""

    def _check(self) -> None:
        """Assert the invariants."""


Design = Callable[[FifoFeed, IncompleteTopK], Gathering]
_NO_ROWS = (NONE, np.empty(0))
_NOTHING_TOLD = Reported(NONE, np.empty(0), NONE, np.empty(0))


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
        self._reported: dict[int, tuple[Ints, Floats]] = {}  # slots and keys, until :meth:`load`

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Take in a query; :meth:`start` or :meth:`load` gives it its first answer."""
        assert isinstance(query, IncompleteTopK)
        self._members.append(_Member(Reading(self._feed, query, column_of), self._design(self._feed, query)))
        return len(self._members) - 1

    def _serving(self) -> list[tuple[int, _Member]]:
        return [(index, member) for index, member in enumerate(self._members) if member is not None]

    def _member(self, index: int) -> _Member:
        member = self._members[index]
        assert member is not None
        return member

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation, then take in what has come since."""
        member = self._member(index)
        reading, gathering = member
        window = self._feed.window
        held = window.live_slots()
        seen = window.seq[held] <= moment
        ids = self._numbering.of(held)
        reading.learn(held[seen])
        gathering.begin(window.head, reading.read(held[seen], ids[seen]), _NOTHING_TOLD)
        nobody = np.zeros(1, np.int64)
        evaluated = Step(NONE, NONE, np.array([at]), np.array([moment]), nobody, np.full(2, head), nobody)
        result = gathering.process(reading.read(NONE, NONE), evaluated, index)
        self._take(member, held[~seen], ids[~seen], NO_STEP._replace(heads=np.full(1, head)), index)
        return result

    def resume(self, head: int, evaluated: int) -> None:
        """Nothing yet: :meth:`load` follows, and knows which rows were refused."""

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Return which of the rows held count, and the counters of those that do not."""
        window = self._feed.window
        ordinals = window.seq[window.live_slots()]
        saved = {}
        for order, (reading, gathering) in enumerate(map(self._member, indices)):
            saved[f"{order} taken"] = gathering.taken(ordinals)
            saved[f"{order} refused"] = np.array([reading.unknown, reading.outside, gathering.duplicates])
            reported = gathering.answer()
            saved[f"{order} sources"], saved[f"{order} best"] = reported.sources, reported.best
            if reading.learns and reading.bounds is not None:
                saved[f"{order} learnt"] = reading.bounds
        return saved

    def load(self, saved: Saved) -> None:
        """Make the state again from the window and what was saved by an engine with the same queries."""
        held = self._feed.window.live_slots()
        for order, (index, member) in enumerate(self._serving()):
            mine = saved.part(f"{order} ")
            reading, gathering = member
            if reading.learns:
                learnt = mine.floats("learnt", 2, reading.sources)
                holds = np.all((learnt[0] >= -MOST_LEARNT) & (learnt[0] <= 0) & (learnt[1] >= 0))
                mine.expect(holds and np.all(learnt[1] <= MOST_LEARNT), "learnt", "bounds that hold 0")
                reading.bounds = learnt
            slots, keys = self._reported.pop(index, _NO_ROWS)
            sources = mine.ints("sources", slots.size, low=0, high=(1 << reading.sources) - 1)
            reported = Reported(self._feed.window.seq[slots], keys, sources, mine.floats("best", slots.size, nan=True))
            self._begin(member, held, mine.flags("taken", held.size), reported)
            reading.unknown, reading.outside, gathering.duplicates = mine.ints("refused", 3, low=0).tolist()
            mine.expect(reading.single or not gathering.duplicates, "refused", "no duplicates", gathering.duplicates)
            mine.done()

    def _begin(self, member: _Member, held: Ints, taken: np.ndarray, reported: Reported) -> None:
        """Begin a gathering again with the rows held, of which those count that had been taken."""
        rows = member.reading.read(held, self._numbering.of(held), count=False)
        rows.source[~taken] = NOBODY
        member.gathering.begin(self._feed.window.head, rows, reported)

    def remove(self, index: int) -> None:
        """Take a query out."""
        self._members[index] = None

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        ids = self._numbering.of(step.arrived)
        return _joined([self._take(member, step.arrived, ids, step, index) for index, member in self._serving()])

    def _take(self, member: _Member, slots: Ints, ids: Ints, step: Step, index: int) -> Report:
        """Let a query take a step; where learnt bounds widen, all that it holds is normalised again before."""
        reading, gathering = member
        widenings = reading.widenings(slots)
        if not widenings.size:
            return gathering.process(reading.read(slots, ids), step, index)
        result = []
        for start, stop, part, wider in cut_step(step, slots.size, widenings):
            if wider:
                reading.learn(slots[start : start + 1])
                self._normalise(member, int(self._feed.window.seq[slots[start]]))
            result.append(gathering.process(reading.read(slots[start:stop], ids[start:stop]), part, index))
        return _joined(result)

    def _normalise(self, member: _Member, until: int) -> None:
        """Begin again with the rows before one, under the bounds that it has brought."""
        gathering, window = member.gathering, self._feed.window
        held = window.live_slots()
        held = held[window.seq[held] < until]
        duplicates = gathering.duplicates
        self._begin(member, held, gathering.taken(window.seq[held]), gathering.answer())
        gathering.duplicates = duplicates

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return rows of the objects of the last evaluation's answer and their scores, best first."""
        if index in self._reported:
            return self._reported[index]
        reported = self._member(index).gathering.answer()
        return reported.rows & (self._feed.window.capacity - 1), reported.scores

    def reported(self, index: int) -> Reported:
        """Return the last evaluation's answer with what is known of its objects."""
        return self._member(index).gathering.answer()

    def precision(self, index: int) -> float | None:
        """Estimate the share of a query's answer that is right; None where all of it is."""
        return self._member(index).gathering.precision()

    def counting(self, index: int, slots: Ints) -> Arrivals:
        """Return rows as a query sees them; those that it has refused have no source."""
        reading, gathering = self._member(index)
        rows = reading.read(slots, np.zeros(slots.size, np.int64), count=False)
        rows.source[~gathering.taken(rows.ordinal)] = NOBODY
        return rows

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Say what was last reported, after a restore; :meth:`load` follows."""
        self._reported[index] = (slots, keys)

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


def _joined(result: list[Report]) -> Report:
    if len(result) <= 1:
        return result[0] if result else NOTHING
    return Report(np.concatenate([part.what for part in result]), np.concatenate([part.key for part in result]))
