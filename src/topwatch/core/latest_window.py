"""The latest window: one live row per id, which a newer row replaces and a deletion removes.

Every arrival gets a fresh slot, so that the row it replaces stays readable until an evaluation has seen it go. An id is
an *entity* number to the kernels. Integer ids are looked up in a compiled hash table, others in a dictionary.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from topwatch.core.kernels.latest_rows import FREE, NEVER, Entities, enter, find, forget, replace
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Floats, Ints


class LatestWindow:
    """Rows by id.

    Parameters
    ----------
    columns : int
        How many columns each row has.
    room : int
        How many rows to make room for at first.
    """

    fifo = False

    def __init__(self, columns: int, room: int = 1024) -> None:
        self.tick = 0
        size = 1 << max(4, (room - 1).bit_length())
        self.columns: Floats = np.full((columns, size), np.nan)
        self.seq: Ints = np.full(size, NEVER)
        self.gone: Ints = np.zeros(size, np.int64)
        self.entity: Ints = np.zeros(size, np.int64)
        self._current: Ints = np.full(size, -1)  # by entity
        self._free: Ints = np.arange(size - 1, -1, -1)
        self._frees = size
        self._spare: Ints = np.arange(size - 1, -1, -1)
        self._spares = size
        self._table = Entities(np.zeros(4 * size, np.int64), np.full(4 * size, FREE))
        self._names: dict[Hashable, int] = {}
        self._name_of: dict[int, Hashable] = {}  # entity to id, for ids that are deleted
        self._id_of: Ints = np.zeros(size, np.int64)  # entity to id, for whole numbers
        self.pending: Ints = np.empty(0, np.int64)  # slots of rows that are gone but not yet evaluated to be

    @property
    def capacity(self) -> int:
        """How many slots there are."""
        return int(self.seq.size)

    @property
    def live(self) -> int:
        """How many ids have a row now."""
        return self.capacity - self._frees - self.pending.size

    def rows(self) -> Rows:
        """Return the arrays as kernels take them."""
        return Rows(self.columns, self.seq, self.gone, self.entity, False, self.capacity - 1)

    def live_slots(self) -> Ints:
        """Return the slots of all rows held, also of those that are gone but not yet evaluated, oldest first."""
        held = np.flatnonzero(self.seq != NEVER)
        return held[np.argsort(self.seq[held], kind="stable")]

    def sample(self, count: int) -> Ints:
        """Return about so many slots of rows held."""
        held = np.flatnonzero(self.seq != NEVER)
        return held[:: max(1, held.size // count)]

    def free(self) -> int:
        """Return how many more rows fit."""
        return self._frees

    def grow(self, rows: int) -> None:
        """Make room for more rows; rows keep their slots."""
        old = self.capacity
        size = max(2 * old, 1 << (rows - 1).bit_length())
        more = size - old
        self.columns = np.hstack([self.columns, np.full((self.columns.shape[0], more), np.nan)])
        self.seq = np.concatenate([self.seq, np.full(more, NEVER)])
        self.gone = np.concatenate([self.gone, np.zeros(more, np.int64)])
        self.entity = np.concatenate([self.entity, np.zeros(more, np.int64)])
        self._current = np.concatenate([self._current, np.full(more, -1)])
        self._id_of = np.concatenate([self._id_of, np.zeros(more, np.int64)])
        fresh = np.arange(size - 1, old - 1, -1)
        self._free = np.concatenate([self._free[: self._frees], fresh, np.zeros(size - self._frees - more, np.int64)])
        self._frees += more
        self._spare = np.concatenate(
            [self._spare[: self._spares], fresh, np.zeros(size - self._spares - more, np.int64)]
        )
        self._spares += more
        known = np.flatnonzero(self._table.entity != FREE)
        table = Entities(np.zeros(4 * size, np.int64), np.full(4 * size, FREE))
        numbers = self._table.entity[known]
        enter(table, self._table.id[known], numbers[::-1].copy(), numbers.size, np.empty(numbers.size, np.int64))
        self._table = table

    def add_columns(self, count: int) -> None:
        """Add columns whose past values are missing."""
        self.columns = np.ascontiguousarray(np.vstack([self.columns, np.full((count, self.capacity), np.nan)]))

    def entities(self, ids: np.ndarray, known_only: bool = False) -> Ints:
        """Return the entity number of each id; unknown ids get one, or -1 if ``known_only``."""
        out = np.empty(len(ids), np.int64)
        if ids.dtype == np.int64:
            if known_only:
                find(self._table, ids, out)
            else:
                self._spares = enter(self._table, ids, self._spare, self._spares, out)
                self._id_of[out] = ids
            return out
        for i, name in enumerate(ids.tolist()):
            number = self._names.get(name, -1)
            if number < 0 and not known_only:
                self._spares -= 1
                number = int(self._spare[self._spares])
                self._names[name] = number
                self._name_of[number] = name
            out[i] = number
        return out

    def append(self, columns: list[Floats], start: int, stop: int, entities: Ints) -> tuple[Ints, Ints, Ints]:
        """Write rows of a batch; return their slots, the slots they replaced and at which row each was."""
        n = stop - start
        slots, old, old_row = (np.empty(n, np.int64) for _ in range(3))
        replaced = replace(
            entities,
            self.tick,
            self._free,
            self._frees,
            self._current,
            self.seq,
            self.gone,
            self.entity,
            slots,
            old,
            old_row,
        )
        self._frees -= n
        self.tick += n
        for index, column in enumerate(columns):
            self.columns[index, slots] = column[start:stop]
        return slots, old[:replaced], old_row[:replaced]

    def delete(self, entities: Ints) -> Ints:
        """Retire the rows of known entities; return their slots."""
        self.tick += 1
        slots = np.unique(self._current[entities])
        slots = slots[slots >= 0]
        self.gone[slots] = self.tick
        self._current[self.entity[slots]] = -1
        return slots

    def release(self, slots: Ints) -> None:
        """Free the slots of rows that an evaluation has seen go, and forget ids that have no row any more."""
        for number in np.unique(self.entity[slots[self._current[self.entity[slots]] < 0]]).tolist():
            self._forget(number)
        self.seq[slots] = NEVER
        self.columns[:, slots] = np.nan
        self._free[self._frees : self._frees + slots.size] = slots[::-1]
        self._frees += slots.size

    def _forget(self, number: int) -> None:
        if number in self._name_of:
            del self._names[self._name_of.pop(number)]
        else:
            forget(self._table, self._id_of[number])
        self._spare[self._spares] = number
        self._spares += 1

    def bytes(self) -> int:
        """Size of the arrays."""
        arrays = (self.columns, self.seq, self.gone, self.entity, self._current, self._free, self._spare, *self._table)
        return int(sum(array.nbytes for array in arrays))

    def _check(self) -> None:
        held = self.live_slots()
        assert held.size + self._frees == self.capacity
        assert np.unique(self._free[: self._frees]).size == self._frees
        assert not np.isin(self._free[: self._frees], held).any()
        current = self._current[self._current >= 0]
        assert np.all(self.gone[current] == NEVER)
        assert np.array_equal(np.sort(current), np.sort(held[self.gone[held] == NEVER]))
