"""Ids of the rows that a grouped engine holds, found by tick.

Integer ids of the rows that came last lie one behind the other, so that a tick is an index. Everything else, and what
is left of older rows, is kept as Arrow has it (:class:`topwatch.core.ids.ArrowIds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.core.arrays import Ints
from topwatch.core.grouping import pick, scattered
from topwatch.core.ids import ArrowIds, Values
from topwatch.core.saved_state import refuse

if TYPE_CHECKING:
    from topwatch.algorithms.topk.grouped_engine import GroupedEngine


class GroupedIds:
    """Ids by tick. O(1) per row that is written, and per whole number that is read."""

    def __init__(self) -> None:
        self._kept = ArrowIds()
        self._recent = np.empty(0, np.int64)  # of the ticks from ``_first`` on
        self._first = 0
        self._count = 0

    def write(self, first: int, ids: Values) -> None:
        """Note the ids of rows from tick ``first`` on."""
        self._kept.write(first, ids)

    def write_in_order(self, first: int, ids: Any, index: Ints) -> None:
        """Note the ids of rows, in pieces, each of which has got a tick from ``first`` on."""
        import pyarrow as pa

        if str(ids.type) != "int64" or ids.null_count:
            self.write(first, ids.combine_chunks().take(pa.array(scattered([np.arange(index.size)], index))))
            return
        if self._count == 0:
            self._first = first
        have, self._count = self._count, self._count + index.size
        if self._count > self._recent.size:
            larger = np.empty(self._count + self._count // 2, np.int64)
            larger[:have] = self._recent[:have]
            self._recent = larger
        scattered([chunk.to_numpy() for chunk in ids.chunks], index, self._recent[have : self._count])

    def read(self, ticks: Ints) -> Any:
        """Return the ids of rows."""
        import pyarrow as pa

        if self._count == 0:
            return self._kept.read(ticks)
        old = ticks < self._first
        some = bool(old.any())
        numbers = np.empty(ticks.size, np.int64)
        indices = np.where(old, 0, ticks - self._first) if some else ticks - self._first
        pick(self._recent[: self._count], indices, numbers)
        if some:
            numbers[old] = self._kept.read(ticks[old]).to_numpy()
        return pa.array(numbers)

    def tidy(self, engine: GroupedEngine) -> None:
        """Give back the ids of rows that are gone, once they are the most."""
        if self._kept.crowded(engine.live(), self._count):
            self.keep(engine.live_ticks())

    def keep(self, ticks: Ints) -> None:
        """Give back all but the rows with these ticks, which are sorted."""
        ids = self.read(ticks)
        self._kept, self._recent, self._count = ArrowIds(), np.empty(0, np.int64), 0
        self.restore(ticks, ids)

    def restore(self, ticks: Ints, ids: Values) -> None:
        """Note the ids of rows with these ticks, which are sorted and come before all others."""
        if len(ticks) != len(ids) or not np.all(ticks[1:] > ticks[:-1]):
            refuse("ids of groups", "one for each tick, and ticks that rise", f"{len(ids)} for {len(ticks)}")
        self._kept.restore(ticks, ids)

    def bytes(self) -> int:
        """Size of the arrays."""
        return self._kept.bytes() + self._recent.nbytes
