"""Ids that are no numbers, kept beside a window: in the Arrow arrays they came in, looked up by the row's tick.

No Python object is made per row, and kernels never see them: they are read only for rows that change an answer. Numeric
ids are an array of the window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.core.arrays import Ints

if TYPE_CHECKING:
    import pyarrow as pa

Values = Any  # a NumPy array of numbers or an Arrow array

_MANY_CHUNKS = 256


class ArrowIds:
    """Ids of any Arrow type by tick, in chunks. Reading is O(log chunks) per row, merging O(1) amortised."""

    def __init__(self) -> None:
        self._ticks: list[Ints | range] = []  # of a chunk's rows; a range where none is left out
        self._chunks: list[pa.Array] = []
        self._rows = 0

    def write(self, first: int, values: Values) -> None:
        """Store the ids of rows that arrive from tick ``first`` on."""
        self.restore(range(first, first + len(values)), values)
        self._merge()

    def restore(self, ticks: Ints | range, values: Values) -> None:
        """Store the ids of rows with these ticks, which are sorted."""
        self._ticks.append(ticks)
        self._chunks.append(values)
        self._rows += len(ticks)

    def read(self, ticks: Ints) -> Values:
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

    def release(self, head: int) -> None:
        """Release chunks whose rows are all older than ``head``."""
        while len(self._ticks) > 1 and self._ticks[1][0] <= head:
            self._rows -= len(self._ticks.pop(0))
            self._chunks.pop(0)
        self._merge()

    def crowded(self, held: int, others: int = 0) -> bool:
        """Return whether most ids, with some that are kept elsewhere, belong to rows that are gone."""
        return self._rows + others > 2 * held + 4096

    def keep(self, ticks: Ints) -> None:
        """Release all ids but those of the rows with these ticks, which are sorted."""
        self._chunks, self._ticks, self._rows = [self.read(ticks)], [ticks], ticks.size

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


def _is_whole(chunk: pa.Array) -> bool:
    """Return whether ids are plain numbers, of which NumPy picks some faster than Arrow."""
    return str(chunk.type) == "int64" and not chunk.null_count
