"""witness: every row that is not in the skyline knows one that dominates it, and is looked at again when that one goes.

In windows that rows leave in the order they came, that is the youngest dominator: a row that a newer one dominates can
never come into the skyline and is dropped, and where all dominators are older, the row comes into it when the youngest
has expired. So the moment is known when the row arrives, and an expiry costs nothing but a look at the rows that waited
for it (:mod:`topwatch.algorithms.skyline.fifo_skyline`). In ``latest()`` windows, where rows move and go at any time,
any dominator will do (:mod:`topwatch.algorithms.skyline.latest_skyline`).

This is not in the five papers. For first-in-first-out windows the idea is that of the eager algorithm of Tao and
Papadias, "Maintaining sliding window skylines on data streams", TKDE 18(3), 2006; comparing from the newest row on, and
stopping at the first dominator, replaces their search tree.

Exact. Retained: the rows that no newer one dominates, of ``latest()`` windows all rows. ``FrequentSkyline`` counts over
the changes of the skyline, O(ids) at each evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.algorithms.skyline.fifo_skyline import UnbeatenRows
from topwatch.algorithms.skyline.frequent import Frequent
from topwatch.algorithms.skyline.latest_skyline import WitnessedRows
from topwatch.core.engine import Window
from topwatch.core.kernels.rows import ENTER, Step
from topwatch.core.kernels.scoring import Ints
from topwatch.core.latest_window import LatestWindow
from topwatch.core.per_query_engine import NOTHING, Contest, Design
from topwatch.query.queries import FrequentSkyline, Skyline


def design() -> Design:
    """Return what makes the contest of a query."""

    def make(window: Window, query: Skyline | FrequentSkyline, column_of: Mapping[str, int], expected: int) -> Contest:
        if isinstance(query, FrequentSkyline):
            assert isinstance(window, LatestWindow)
            return Frequent(window, query, column_of, EverySkyline(window, query, column_of))
        if isinstance(window, LatestWindow):
            return WitnessedRows(window, query, column_of)
        return UnbeatenRows(window, query, column_of)

    return make


class EverySkyline:
    """The skyline at every evaluation, kept up to date by its changes."""

    def __init__(self, window: LatestWindow, query: FrequentSkyline, column_of: Mapping[str, int]) -> None:
        self._window = window
        self._rows = WitnessedRows(window, query, column_of)
        self._members: Ints = np.empty(0, np.int64)
        self._left = np.zeros(window.capacity, np.bool_)  # by entity, room for an evaluation
        self._result = NOTHING

    def begin(self, slots: Ints) -> None:
        """Begin again with these rows; all members will be reported as new ones."""
        self._rows.begin(slots, (np.empty(0, np.int64), np.empty(0)))
        self._members = np.empty(0, np.int64)
        self._left = np.zeros(self._window.capacity, np.bool_)  # a first batch may have made the window grow before

    def take(self, step: Step) -> None:
        """Take a step of the window."""
        self._result = self._rows.process(step._replace(at=np.arange(step.at.size)), 0)

    def members(self, number: int, evaluation: int, live: Ints) -> Ints:
        """Return the entities in the skyline at an evaluation of the step."""
        first, last = np.searchsorted(self._result.what[:, 0], [evaluation, evaluation + 1])
        what = self._result.what[first:last]
        entities, entered = self._window.entity[what[:, 3]], what[:, 2] == ENTER
        self._left[entities[~entered]] = True
        stay = self._members[~self._left[self._members]]
        self._left[entities[~entered]] = False
        self._members = np.concatenate([stay, entities[entered]])
        return self._members

    def relocate(self) -> None:
        """Make room where the window has grown."""
        self._rows.relocate()
        self._left = np.zeros(self._window.capacity, np.bool_)

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        return self._rows.stats()

    def _check(self, rows: Ints) -> None:
        self._rows._check(rows)
        assert np.unique(self._members).size == self._members.size
