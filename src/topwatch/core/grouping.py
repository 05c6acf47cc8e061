"""Rows by bucket and by group: the numbers of keys, and values moved to where the rows of a bucket or group lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topwatch.core.arrays import Floats, Hashes, Ints
from topwatch.core.hashing import FREE, find, mixed, table_of
from topwatch.core.jit import ZERO, kernel


@kernel
def number_keys(keys: Hashes, buckets: int, out: np.ndarray) -> None:
    """Write the number of each key's bucket, for keys of one whole number."""
    for i in range(len(keys)):
        out[i] = mixed(mixed(keys[i])) % np.uint64(buckets)


@kernel
def indices_of(number: np.ndarray, buckets: int) -> tuple[Ints, Ints]:
    """Return where each row goes, those of a bucket together and in order, and where buckets begin."""
    start = np.zeros(buckets + 1, np.int64)
    for i in range(len(number)):
        start[number[i] + 1] += 1
    for b in range(buckets):
        start[b + 1] += start[b]
    next_index = start.copy()
    index = np.empty(len(number), np.int64)
    for i in range(len(number)):
        b = number[i]
        index[i] = next_index[b]
        next_index[b] += 1
    return index, start


@kernel
def scatter(values: np.ndarray, index: Ints, first: int, out: np.ndarray) -> None:
    """Write values from row ``first`` on to their indices."""
    for i in range(ZERO, len(values)):
        out[index[first + i]] = values[i]


@kernel
def pick(values: Ints, index: Ints, out: Ints) -> None:
    """Write the values at some indices."""
    for i in range(ZERO, len(index)):
        out[i] = values[index[i]]


@kernel
def scatter_rows(a: Floats, b: Floats, c: Floats, d: Floats, index: Ints, first: int, out: Floats, column: int) -> None:
    """Write up to four values of rows, from row ``first`` on, side by side to their indices: a cache line each."""
    some = out.shape[1] - column
    for i in range(ZERO, len(a)):
        to = index[first + i]
        out[to, column] = a[i]
        if some > 1:
            out[to, column + 1] = b[i]
        if some > 2:
            out[to, column + 2] = c[i]
        if some > 3:
            out[to, column + 3] = d[i]


def by_group(group: Ints, groups: int) -> tuple[Ints, Ints, Ints]:
    """Sort rows by group, those of one staying in order: return where each row goes, the groups, their starts.

    >>> by_group(np.array([3, 1, 3]), 5)
    (array([1, 0, 2]), array([1, 3]), array([0, 1, 3]))
    """
    index, start = indices_of(group, groups)
    present = np.flatnonzero(start[1:] > start[:-1])
    return index, present, np.append(start[present], group.size)


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
        self._table = table_of(np.array(keys), numbers, size)

    def look_up(self, pieces: Sequence[Ints]) -> Ints | None:
        """Return the numbers of keys; None where one is not known."""
        out = np.empty(sum(map(len, pieces)), np.int64)
        first = 0
        for piece in pieces:
            find(self._table, _words(piece), out[first : first + len(piece)])
            first += len(piece)
        return None if (out == FREE).any() else out


def _words(values: np.ndarray) -> Ints:
    """Return values of eight bytes as read-only whole numbers, so that kernels are compiled once."""
    return _read_only(values.view(np.int64) if values.flags.contiguous else np.ascontiguousarray(values).view(np.int64))


def _read_only(values: np.ndarray) -> np.ndarray:
    result = np.ascontiguousarray(values).view()
    result.flags.writeable = False
    return result
