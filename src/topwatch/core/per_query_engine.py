"""Contests: standing queries about which rows dominate which, each with what its algorithm keeps of the window.

Queries share the window and nothing else: what an algorithm keeps depends on which columns are preferred, and how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from topwatch.core.engine import Report, Window
from topwatch.core.kernels.rows import Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Query

NONE = np.empty(0, np.int64)
NO_STEP = Step(NONE, NONE, NONE, NONE, NONE, np.ones(1, np.int64), NONE)
NOTHING = Report(np.empty((0, 4), np.int64), np.empty(0))


class Contest(Protocol):
    """One query, answered by one algorithm."""

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows, oldest first; ``reported`` are the slots and scores that were last reported."""

    def process(self, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, best first."""

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""

    def stats(self) -> dict[str, int]:
        """Return counters since the start."""

    def _check(self, rows: Ints) -> None:
        """Assert the invariants, given the rows held."""


@runtime_checkable
class Remembering(Protocol):
    """A contest that knows what cannot be derived from the window."""

    def save(self) -> dict[str, np.ndarray]:
        """Return it."""

    def load(self, saved: Saved) -> None:
        """Take it back."""


Design = Callable[[Window, Any, Mapping[str, int], int], Contest]  # the second is the query


class Contests:
    """A group of queries over one window; an engine.

    Parameters
    ----------
    window : RingWindow or LatestWindow
        Owns the rows.
    expected : int
        How many rows the window will hold, 0 when that is not known.
    design : Design
        Makes the contest of a query.
    """

    in_order = False

    def __init__(self, window: Window, expected: int, design: Design) -> None:
        self.window = window
        self._expected = expected
        self._design = design
        self._contests: list[Contest | None] = []
        self._reported: dict[int, tuple[Ints, Floats]] = {}
        self._begun: set[int] = set()

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Take in a query; :meth:`start` or :meth:`resume` gives it its first answer."""
        self._contests.append(self._design(self.window, query, column_of, self._expected))
        return len(self._contests) - 1

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation, then take in what has come since."""
        contest = self._contests[index]
        assert contest is not None
        held = self.window.live_slots()
        seen = self.window.seq[held] <= moment
        contest.begin(held[seen], _nothing_reported())
        self._begun.add(index)
        nobody = np.zeros(1, np.int64)
        result = contest.process(
            Step(NONE, NONE, np.array([at]), np.array([moment]), nobody, np.full(2, head), nobody), index
        )
        contest.process(NO_STEP._replace(arrived=held[~seen], heads=np.full(1, head)), index)
        return result

    def resume(self, head: int, evaluated: int) -> None:
        """Make the state again from the window; a query without a saved answer is evaluated as a new one is."""
        for index, contest in enumerate(self._contests):
            if contest is not None and index in self._reported:
                contest.begin(self.window.live_slots(), self._reported.pop(index))
                self._begun.add(index)
            elif contest is not None:
                self.start(index, head, evaluated, 0)

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Return what contests remember; most are derived from the window."""
        result: dict[str, np.ndarray] = {}
        for i, index in enumerate(indices):
            contest = self._contests[index]
            if isinstance(contest, Remembering):
                result |= {f"{i} {name}": array for name, array in contest.save().items()}
        return result

    def load(self, saved: Saved) -> None:
        """Take back what was saved."""
        for i, contest in enumerate(contest for contest in self._contests if contest is not None):
            if isinstance(contest, Remembering):
                mine = saved.part(f"{i} ")
                contest.load(mine)
                mine.done()

    def remove(self, index: int) -> None:
        """Take a query out."""
        self._contests[index] = None

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        result = []
        for index, contest in enumerate(self._contests):
            if contest is None:
                continue
            if index not in self._begun:
                held = self.window.live_slots()
                contest.begin(held[: held.size - step.arrived.size], _nothing_reported())
                self._begun.add(index)
            result.append(contest.process(step, index))
        if len(result) == 1:
            return result[0]
        if not result:
            return NOTHING
        return Report(np.concatenate([part.what for part in result]), np.concatenate([part.key for part in result]))

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, best first."""
        contest = self._contests[index]
        assert contest is not None
        return self._reported[index] if index in self._reported else contest.answer()

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Set what was last reported, before :meth:`resume`."""
        self._reported[index] = (slots, keys)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        for index, contest in enumerate(self._contests):
            if contest is not None and index in self._begun:
                contest.relocate()

    def indexed(self) -> None:
        """Nothing is indexed by queries."""

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        total: dict[str, int] = {}
        for contest in self._contests:
            if contest is not None:
                for name, value in contest.stats().items():
                    total[name] = total.get(name, 0) + value
        return total

    def _check(self) -> None:
        for index, contest in enumerate(self._contests):
            if contest is not None and index in self._begun:
                contest._check(self.window.live_slots())


def _nothing_reported() -> tuple[Ints, Floats]:
    return np.empty(0, np.int64), np.empty(0)
