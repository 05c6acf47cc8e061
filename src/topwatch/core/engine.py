"""What every algorithm offers a monitor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from topwatch.core.kernels.rows import Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.latest_window import LatestWindow
from topwatch.core.ring_window import RingWindow
from topwatch.core.saved_state import Saved
from topwatch.query.queries import Query

Window = RingWindow | LatestWindow


class Report(NamedTuple):
    """Changes as slots and keys: one line each of at, index in the query table, op and slot."""

    what: Ints
    key: Floats


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
