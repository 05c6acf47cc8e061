"""Ids of any type, kept beside a window. Kernels never see them: they are read only for rows that change an answer.

Numbers lie in an array by slot. Everything else stays in the Arrow arrays it came in, found by the row's tick, so that
no Python object is made per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.core.kernels.scoring import Ints

if TYPE_CHECKING:
    import pyarrow as pa

Values = Any  # a NumPy array of numbers or an Arrow array

_MANY_CHUNKS = 256


class OrdinalIds:
    """Rows that are called by their ordinals, which are their ticks. Nothing is stored."""

    def write(self, slots: Ints, first: int, values: Values) -> None:
        """Nothing to note."""

    def read(self, slots: Ints, ticks: Ints) -> Values:
        """Return the ids of rows."""
        return ticks

    def move(self, old: Ints, new: Ints, size: int) -> None:
        """Ticks do not change when slots do."""

    def bytes(self) -> int:
        """Nothing."""
        return 0


class NumberIds:
    """Numeric ids by slot. O(1) per row."""

    def __init__(self, dtype: np.dtype[Any], slots: int, ring: bool) -> None:
        self._values = np.zeros(slots, dtype)
        self._ring = ring

    def write(self, slots: Ints, first: int, values: Values) -> None:
        """Note the ids of rows that arrive from tick ``first`` on."""
        if self._ring and slots[0] <= slots[-1]:  # consecutive slots, without the seam
            self._values[slots[0] : slots[-1] + 1] = values
        else:
            self._values[slots] = values

    def read(self, slots: Ints, ticks: Ints) -> Values:
        """Return the ids of rows."""
        return self._values[slots]

    def move(self, old: Ints, new: Ints, size: int) -> None:
        """Follow rows to their new slots in a window of another size."""
        values = np.zeros(size, self._values.dtype)
        values[new] = self._values[old]
        self._values = values

    def bytes(self) -> int:
        """Size of the array."""
        return int(self._values.nbytes)


class ArrowIds:
    """Ids of any Arrow type by tick, in chunks. Reading is O(log chunks) per row, merging O(1) amortised."""

    def __init__(self) -> None:
        self._ticks: list[Ints | range] = []  # of a chunk's rows; a range where none is left out
        self._chunks: list[pa.Array] = []
        self._rows = 0

    def write(self, slots: Ints, first: int, values: Values) -> None:
        """Note the ids of rows that arrive from tick ``first`` on."""
        self.restore(range(first, first + len(slots)), values)
        self._merge()

    def restore(self, ticks: Ints | range, values: Values) -> None:
        """Note the ids of rows with these ticks, which are sorted."""
        self._ticks.append(ticks)
        self._chunks.append(values)
        self._rows += len(ticks)

    def read(self, slots: Ints, ticks: Ints) -> Values:
        """Return the ids of rows."""
        import pyarrow as pa

        if not len(ticks):
            return self._chunks[0].slice(0, 0) if self._chunks else pa.array([], pa.null())
        starts = np.array([chunk[0] for chunk in self._ticks])
        number = np.searchsorted(starts, ticks, side="right").astype(np.int16) - 1  # short numbers sort fast
        order = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number[order], np.arange(len(starts) + 1))
        numbers = np.empty(order.size, np.int64) if all(map(_is_whole, self._chunks)) else None
        parts = []
        for i in np.flatnonzero(np.diff(bounds)):
            mine, known = order[bounds[i] : bounds[i + 1]], self._ticks[i]
            indices = ticks[mine] - known.start if isinstance(known, range) else np.searchsorted(known, ticks[mine])
            if numbers is not None:
                numbers[mine] = self._chunks[i].to_numpy()[indices]
            else:
                parts.append(self._chunks[i].take(pa.array(indices)))
        if numbers is not None:
            return pa.array(numbers)
        if len(parts) == 1:
            return parts[0]
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return pa.concat_arrays(parts).take(pa.array(back))

    def move(self, old: Ints, new: Ints, size: int) -> None:
        """Ticks do not change when slots do."""

    def release(self, head: int) -> None:
        """Give back chunks whose rows are all older than ``head``."""
        while len(self._ticks) > 1 and self._ticks[1][0] <= head:
            self._rows -= len(self._ticks.pop(0))
            self._chunks.pop(0)
        self._merge()

    def crowded(self, held: int, others: int = 0) -> bool:
        """Tell whether most ids, with some that are kept elsewhere, belong to rows that are gone."""
        return self._rows + others > 2 * held + 4096

    def keep(self, ticks: Ints) -> None:
        """Give back all but the rows with these ticks, which are sorted."""
        self._chunks, self._ticks, self._rows = [self.read(ticks, ticks)], [ticks], ticks.size

    def _merge(self) -> None:
        import pyarrow as pa

        if len(self._chunks) > _MANY_CHUNKS:
            self._chunks, self._ticks = (
                [pa.concat_arrays(self._chunks)],
                [np.concatenate(list(map(_array, self._ticks)))],
            )

    def bytes(self) -> int:
        """Size of the arrays."""
        ticks = sum(len(known) for known in self._ticks if not isinstance(known, range))
        return int(sum(chunk.nbytes for chunk in self._chunks) + 8 * ticks)


def _array(ticks: Ints | range) -> Ints:
    return np.arange(ticks.start, ticks.stop) if isinstance(ticks, range) else ticks


Ids = OrdinalIds | NumberIds | ArrowIds


def ids_for(values: Values, slots: int, ring: bool) -> Ids:
    """Return a store for ids of the kind of ``values``; ``ring``: rows come in consecutive slots."""
    if values is None:
        return OrdinalIds()
    return NumberIds(values.dtype, slots, ring) if isinstance(values, np.ndarray) else ArrowIds()


def _is_whole(chunk: pa.Array) -> bool:
    """Tell whether ids are plain numbers, of which NumPy picks some faster than Arrow."""
    return str(chunk.type) == "int64" and not chunk.null_count
