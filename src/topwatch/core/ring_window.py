"""The ring window: the newest rows of a stream, first in, first out, columns apart.

A row's slot is its ordinal modulo the capacity. Rows stay readable until the evaluation that sees them expire has been
made; then :meth:`RingWindow.release` frees their slots. Appending is O(1) per row, growing O(live rows).
"""

from __future__ import annotations

import numpy as np

from topwatch.core.constant_arrays import counted
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Floats, Ints

_NONE = np.empty(0, np.int64)


def _power_of_two(n: int) -> int:
    return 1 << max(4, (n - 1).bit_length())


class RingWindow:
    """Rows with ordinals from ``head`` to ``end``, both included.

    Parameters
    ----------
    columns : int
        How many columns each row has.
    capacity : int
        How many rows to make room for at first.
    """

    fifo = True

    def __init__(self, columns: int, capacity: int) -> None:
        self.head = 1
        self.end = 0
        size = _power_of_two(capacity)
        self.columns: Floats = np.empty((columns, size), np.float64)
        self.seq: Ints = np.empty(size, np.int64)

    @property
    def capacity(self) -> int:
        """How many rows fit without growing."""
        return int(self.seq.size)

    @property
    def tick(self) -> int:
        """The moment of the last event."""
        return self.end

    def rows(self) -> Rows:
        """Return the arrays as kernels take them."""
        return Rows(self.columns, self.seq, _NONE, _NONE, True, self.capacity - 1)

    def slots(self, first: int, last: int) -> Ints:
        """Return the slots of the ordinals ``first`` to ``last``, both included."""
        return np.arange(first, last + 1, dtype=np.int64) & (self.capacity - 1)

    def live_slots(self) -> Ints:
        """Return the slots of all rows held, oldest first."""
        return self.slots(self.head, self.end)

    def sample(self, count: int) -> Ints:
        """Return about so many slots of rows held, spread evenly."""
        step = max(1, (self.end - self.head + 1) // count)
        return np.arange(self.head, self.end + 1, step) & (self.capacity - 1)

    def append(self, columns: list[Floats], start: int, stop: int) -> Ints:
        """Write rows ``start`` to ``stop`` of a batch; return their slots. The rows must fit."""
        count = stop - start
        first = (self.end + 1) & (self.capacity - 1)
        straight = min(count, self.capacity - first)
        for index, column in enumerate(columns):
            self.columns[index, first : first + straight] = column[start : start + straight]
            self.columns[index, : count - straight] = column[start + straight : stop]
        np.add(counted(0, straight), self.end + 1, out=self.seq[first : first + straight])
        np.add(counted(straight, count), self.end + 1, out=self.seq[: count - straight])
        self.end += count
        slots = counted(0, count) + first
        slots[straight:] -= self.capacity
        return slots

    def free(self) -> int:
        """Return how many more rows fit."""
        return self.capacity - (self.end - self.head + 1)

    def release(self, head: int) -> None:
        """Forget the rows before ``head``."""
        self.head = max(self.head, head)

    def grow(self, rows: int) -> None:
        """Make room for ``rows`` live rows; every row gets a new slot."""
        size = _power_of_two(rows)
        old = self.live_slots()
        new = np.arange(self.head, self.end + 1) & (size - 1)
        columns = np.empty((self.columns.shape[0], size), np.float64)
        seq = np.empty(size, np.int64)
        columns[:, new] = self.columns[:, old]
        seq[new] = self.seq[old]
        self.columns, self.seq = columns, seq

    def add_columns(self, count: int) -> None:
        """Add columns whose past values are missing."""
        more = np.full((count, self.capacity), np.nan)
        self.columns = np.ascontiguousarray(np.vstack([self.columns, more]))

    def bytes(self) -> int:
        """Size of the arrays."""
        return int(self.columns.nbytes + self.seq.nbytes)

    def _check(self) -> None:
        slots = self.live_slots()
        assert slots.size <= self.capacity
        assert self.capacity & (self.capacity - 1) == 0
        assert np.array_equal(self.seq[slots], np.arange(self.head, self.end + 1))
