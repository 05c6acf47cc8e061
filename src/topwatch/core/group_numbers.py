"""Rows by group: numbers for groups that are called by whole numbers, and values to where the rows of a group lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topwatch.core.kernels.partition import number_groups, place_groups, scatter, scatter_rows
from topwatch.core.kernels.scoring import Floats, Ints


def scattered(pieces: Sequence[np.ndarray], index: Ints, out: np.ndarray | None = None) -> np.ndarray:
    """Write values of eight bytes each, in pieces that follow each other, to their indices.

    >>> scattered([np.array([1.5, 2.5]), np.array([3.5])], np.array([2, 0, 1]))
    array([2.5, 3.5, 1.5])
    """
    if out is None:
        out = np.empty(index.size, pieces[0].dtype if pieces else np.int64)
    first = 0
    for piece in pieces:
        scatter(_words(piece), index, first, out.view(np.int64))
        first += len(piece)
    return out


def rows_at(columns: Floats | Sequence[Sequence[Floats]], index: Ints) -> Floats:
    """Write the values of rows to their indices, those of a row side by side; columns may come in pieces.

    >>> rows_at(np.array([[1.5, 2.5], [3.5, 4.5]]), np.array([1, 0]))
    array([[2.5, 4.5],
           [1.5, 3.5]])
    """
    pieces = [[column] for column in columns] if isinstance(columns, np.ndarray) else columns
    out = np.empty((index.size, len(pieces)))
    first = 0
    for parts in zip(*pieces, strict=True):
        plain = [_read_only(part) for part in parts]
        for column in range(0, len(plain), 4):
            a, b, c, d = (plain[min(column + more, len(plain) - 1)] for more in range(4))
            scatter_rows(a, b, c, d, index, first, out, column)
        first += len(parts[0])
    return out


class KeyNumbers:
    """Numbers of groups by their keys, which are whole numbers. O(1) per row; half of the slots are free.

    Parameters
    ----------
    keys, numbers : arrays of int
        Each key once.

    Examples
    --------
    >>> numbers = KeyNumbers(np.array([70, 80]), np.array([0, 2]))
    >>> numbers.look_up([np.array([80, 80, 70])]), numbers.look_up([np.array([90])])
    (array([2, 2, 0]), None)
    """

    def __init__(self, keys: Ints, numbers: Ints) -> None:
        size = 1 << max(4, int(2 * keys.size - 1).bit_length())
        self._held = np.zeros(size, np.uint64)
        self._numbers = np.full(size, -1, np.int64)
        place_groups(_words(keys).view(np.uint64), _words(numbers), self._held, self._numbers)

    def look_up(self, pieces: Sequence[Ints]) -> Ints | None:
        """Return the numbers of keys; None where one is not known."""
        out = np.empty(sum(map(len, pieces)), np.int64)
        first = 0
        for piece in pieces:
            part = out[first : first + len(piece)]
            if not number_groups(_words(piece).view(np.uint64), self._held, self._numbers, part):
                return None
            first += len(piece)
        return out


def _words(values: np.ndarray) -> Ints:
    """Return values of eight bytes as whole numbers that nobody writes to, so that kernels are compiled once."""
    return _read_only(values.view(np.int64) if values.flags.contiguous else np.ascontiguousarray(values).view(np.int64))


def _read_only(values: np.ndarray) -> np.ndarray:
    result = np.ascontiguousarray(values).view()
    result.flags.writeable = False
    return result
