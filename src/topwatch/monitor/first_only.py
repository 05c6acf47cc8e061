"""The result stream of TODS'15, Definition 3.6: each row reported once per query, when it first becomes an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topwatch.core.saved_state import Saved

_ENTER = 1
_BITS = 42  # of a row's tick; the query's number stands above


class FirstOnly:
    """Remembers which live rows have been reported, and passes on only the enters of others.

    A row may leave an answer and enter it again; that is no news. What is remembered, one number per row and query,
    goes when the row expires. Cost per step: O(c log c) for c changes, and a look-up of each.
    """

    def __init__(self) -> None:
        self._known = np.empty(0, np.int64)  # sorted

    def choose(self, query: np.ndarray, op: np.ndarray, ticks: np.ndarray, head: int) -> np.ndarray:
        """Return the indices of the changes to report; rows older than ``head`` have expired after them."""
        names = (query << _BITS) | ticks
        entered = np.flatnonzero(op == _ENTER)
        _, first = np.unique(names[entered], return_index=True)
        fresh = entered[np.sort(first)]
        index = np.minimum(np.searchsorted(self._known, names[fresh]), max(0, self._known.size - 1))
        if self._known.size:
            fresh = fresh[self._known[index] != names[fresh]]
        known = np.union1d(self._known, names[fresh])
        self._known = known[(known & ((1 << _BITS) - 1)) >= head]
        return fresh

    def save(self, numbers: Sequence[int], head: int) -> dict[str, np.ndarray]:
        """Return what is remembered of the queries with these numbers, by their order, and of rows from ``head`` on."""
        queries, ticks = self._known >> _BITS, self._known & ((1 << _BITS) - 1)
        order = {number: i for i, number in enumerate(numbers)}
        indices = np.array([order.get(int(query), -1) for query in queries], np.int64)
        kept = (indices >= 0) & (ticks >= head)
        return {"reported queries": indices[kept], "reported ticks": ticks[kept]}

    def load(self, saved: Saved, numbers: Sequence[int], head: int, evaluated: int) -> None:
        """Take back what was saved of rows from ``head`` to the last evaluated; the queries have these numbers now."""
        indices = saved.ints("reported queries", None, low=0, high=len(numbers) - 1)
        ticks = saved.ints("reported ticks", indices.size, low=head, high=min(evaluated, (1 << _BITS) - 1))
        self._known = np.unique((np.array(numbers, np.int64)[indices] << _BITS) | ticks)
        saved.expect(self._known.size == ticks.size, "reported ticks", "each row once for a query")
