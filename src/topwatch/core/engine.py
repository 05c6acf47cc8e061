"""What every algorithm offers a monitor, and the engine of algorithms that keep a state for each query.

Queries of one :class:`PerQueryEngine` share the window and nothing else: what an algorithm keeps depends on which
columns are preferred, and how. Cost: that of the algorithm, for each query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints
from topwatch.core.fifo import FifoFeed, RingWindow
from topwatch.core.kernels.rows import Report, Step, joined
from topwatch.core.latest import LatestFeed, LatestWindow
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Query

Window = RingWindow | LatestWindow
Feed = FifoFeed | LatestFeed


class Engine(Protocol):
    """Keeps the answers of a group of queries over one window.

    Queries are identified by the *index* that ``add`` returns. An engine reads rows from the window and never writes
    them.
    """

    in_order: bool  # changes come query by query in the order of indices, leaves first, best first

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Take in a query; :meth:`start` or :meth:`resume` gives it its first answer."""

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation."""

    def resume(self, head: int, evaluated: int) -> None:
        """Make the state again from the window, after a restore; ``evaluated`` is the tick of the last evaluation.

        Queries have the answers that :meth:`set_answer` has set, and all others those of the rows of that evaluation.
        """

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Return what cannot be derived from the window, of all queries in this order: nothing, where they are exact.

        What was last reported is saved by others.
        """

    def load(self, saved: Saved) -> None:
        """Take back what was saved by an engine with the same queries, after :meth:`resume`."""

    def remove(self, index: int) -> None:
        """Take a query out."""

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and keys of the last evaluation's answer, best first; ``live`` gives the rows it saw."""

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Set what was last reported, before :meth:`resume`."""

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""

    def indexed(self) -> bool | None:
        """Return whether rows find their queries by a grid, or are compared with all; None where there is no choice."""

    def stats(self) -> dict[str, int]:
        """Return counters since the start."""

    def _check(self) -> None:
        """Assert the invariants."""


NO_STEP = Step(NO_INTS, NO_INTS, NO_INTS, NO_INTS, NO_INTS, np.ones(1, np.int64), NO_INTS)


def one_evaluation(at: int, moment: int, head: int) -> Step:
    """Return a step without rows: an evaluation after row ``at`` of what is live from ``head`` on."""
    none = np.zeros(1, np.int64)
    return Step(NO_INTS, NO_INTS, np.array([at]), np.array([moment]), none, np.full(2, head), none)


class QueryState(Protocol):
    """What an algorithm keeps for one query, and the answer."""

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
class SavedQueryState(Protocol):
    """The state of a query that cannot be derived from the window, or not all of it."""

    def save(self) -> dict[str, np.ndarray]:
        """Return what cannot be derived."""

    def load(self, saved: Saved) -> None:
        """Undo :meth:`save`."""


_NO_ANSWER = (NO_INTS, NO_FLOATS)
StateFactory = Callable[[Window, Any, Mapping[str, int], int], QueryState]  # the second is the query


class PerQueryEngine:
    """An engine with a state of its own for each query.

    Parameters
    ----------
    window : RingWindow or LatestWindow
        Owns the rows.
    expected : int
        How many rows the window will hold, 0 when that is not known.
    design : StateFactory
        Makes the state of a query.
    """

    in_order = False

    def __init__(self, window: Window, expected: int, design: StateFactory) -> None:
        self.window = window
        self._expected = expected
        self._design = design
        self._states: list[QueryState | None] = []
        self._free: list[int] = []  # indices of queries that are gone
        self._reported: dict[int, tuple[Ints, Floats]] = {}
        self._begun: set[int] = set()

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Take in a query; :meth:`start` or :meth:`resume` gives it its first answer."""
        state = self._design(self.window, query, column_of, self._expected)
        if self._free:
            index = self._free.pop()
            self._states[index] = state
            return index
        self._states.append(state)
        return len(self._states) - 1

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation, then take in what has come since."""
        state = self._states[index]
        assert state is not None
        held = self.window.live_slots()
        seen = self.window.seq[held] <= moment
        state.begin(held[seen], _NO_ANSWER)
        self._begun.add(index)
        result = state.process(one_evaluation(at, moment, head), index)
        state.process(NO_STEP._replace(arrived=held[~seen], heads=np.full(1, head)), index)
        return result

    def resume(self, head: int, evaluated: int) -> None:
        """Make the state again from the window; a query without a saved answer is evaluated as a new one is."""
        for index, state in enumerate(self._states):
            if state is not None and index in self._reported:
                state.begin(self.window.live_slots(), self._reported.pop(index))
                self._begun.add(index)
            elif state is not None:
                self.start(index, head, evaluated, 0)

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Return what cannot be derived from the window."""
        result: dict[str, np.ndarray] = {}
        for i, index in enumerate(indices):
            state = self._states[index]
            if isinstance(state, SavedQueryState):
                result |= {f"{i} {name}": array for name, array in state.save().items()}
        return result

    def load(self, saved: Saved) -> None:
        """Take back what was saved."""
        for i, state in enumerate(state for state in self._states if state is not None):
            if isinstance(state, SavedQueryState):
                mine = saved.part(f"{i} ")
                state.load(mine)
                mine.done()

    def remove(self, index: int) -> None:
        """Take a query out."""
        self._states[index] = None
        self._begun.discard(index)
        self._free.append(index)

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        result = []
        for index, state in enumerate(self._states):
            if state is None:
                continue
            if index not in self._begun:
                held = self.window.live_slots()
                state.begin(held[: held.size - step.arrived.size], _NO_ANSWER)
                self._begun.add(index)
            result.append(state.process(step, index))
        return joined(result)

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, best first."""
        state = self._states[index]
        assert state is not None
        return self._reported[index] if index in self._reported else state.answer()

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Set what was last reported, before :meth:`resume`."""
        self._reported[index] = (slots, keys)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        for index, state in enumerate(self._states):
            if state is not None and index in self._begun:
                state.relocate()

    def indexed(self) -> None:
        """Nothing is indexed by queries."""

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        total: dict[str, int] = {}
        for state in self._states:
            if state is not None:
                for name, value in state.stats().items():
                    total[name] = total.get(name, 0) + value
        return total

    def _check(self) -> None:
        for index, state in enumerate(self._states):
            if state is not None and index in self._begun:
                state._check(self.window.live_slots())
