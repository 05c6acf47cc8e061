"""Levels: small whole numbers in place of values, by which rows are put into cells and compared by words.

:class:`Axes` learns bounds along each column of a table from some of its rows: quantiles, so that scale and shape do
not matter, where a value that would be picked twice is a level of its own. :class:`Tuples` compares many rows with a
few: the ranks of a row's values among theirs make one word, so that a comparison is three operations and exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.tables.kernels.levels import count_covering, number_cells, write_levels, write_words

LEVEL_BITS = 15


@dataclass(frozen=True)
class Axes:
    """Bounds of each column.

    Attributes
    ----------
    bound : array (columns, bounds)
        Rising; entries behind the last are infinite. See :func:`topwatch.tables.kernels.levels.level_of`.
    bounds : array
        How many there are. A column has one level more.
    stride : array
        What one level of a column adds to the number of a cell.
    """

    bound: Floats
    bounds: Ints
    stride: Ints

    @classmethod
    def among(cls, values: Floats, cells: int) -> Axes:
        """Learn bounds from rows so that there are at most so many cells.

        >>> Axes.among(np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0]]), 9).shape
        (3, 3)
        """
        d = len(values)
        most = 1
        while (most + 2) ** d <= cells:
            most += 1
        # With very many columns there is no cell for two levels of each: the last ones have one.
        axes = [bounds_of(column, most if 2 ** (j + 1) <= cells else 0) for j, column in enumerate(values)]
        bound, bounds = stacked(axes)
        stride = np.concatenate([np.cumprod((bounds + 1)[::-1])[-2::-1], [1]]) if d > 1 else np.ones(1, np.int64)
        return cls(bound, bounds, stride)

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of each column."""
        return tuple((self.bounds + 1).tolist())

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(np.prod(self.bounds + 1))

    def cells_of(self, values: Floats) -> Ints:
        """Return the number of each row's cell."""
        cells = np.empty(values.shape[1], np.int64)
        number_cells(np.ascontiguousarray(values), self.bound, self.bounds, self.stride, cells)
        return cells

    def single(self, axis: int) -> np.ndarray:
        """Return, for each level of a column, whether only one value has it.

        >>> Axes.among(np.array([[5.0, 5.0, 5.0, 5.0]]), 9).single(0)
        array([False,  True, False])
        """
        bound = self.bound[axis, : self.bounds[axis]]
        result = np.zeros(bound.size + 1, np.bool_)
        result[1:-1] = np.nextafter(bound[:-1], np.inf) == bound[1:]
        if bound.size:
            result[-1] = bound[-1] == np.inf
        return result


@dataclass(frozen=True)
class _Block:
    rows: Ints  # in the order of their words
    words: Ints
    lane: Ints  # (columns, levels among all rows): what a level adds to a word
    known: np.ndarray  # of these levels, those that one of the rows has


class Tuples:
    """A few distinct rows that many others are compared with: how many are no better than each, and which are the same.

    Only the values of the few matter. A word has room for so many values; more rows than that make several blocks, and
    the words of each are looked up by the ranks among all.

    Parameters
    ----------
    values : array (columns, rows)
        Without NaN; smaller is better.

    Examples
    --------
    >>> few = Tuples(np.array([[1.0, 2.0], [2.0, 1.0]]))
    >>> many = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 0.0]])
    >>> few.compare(many)
    (array([2, 1]), array([1, 0]))
    >>> few.find(many)
    array([ 0, -1, -1])
    """

    def __init__(self, values: Floats) -> None:
        self.values = values
        d = len(values)
        self._width = min(64 // d, LEVEL_BITS + 1)
        self._guard = guard_bits(d, self._width)
        self._bound, self._bounds = stacked([np.unique(column) for column in values])
        levels, _ = self._levels(values)
        room = (1 << (self._width - 1)) - 1
        self._blocks = [
            self._block(levels, np.arange(first, min(first + room, values.shape[1])))
            for first in range(0, values.shape[1], room)
        ]

    def _levels(self, values: Floats) -> tuple[np.ndarray, np.ndarray]:
        levels = np.empty(values.shape, np.int32)
        exact = np.empty(values.shape[1], np.bool_)
        write_levels(np.ascontiguousarray(values), self._bound, self._bounds, levels, exact)
        return levels, exact

    def _block(self, levels: np.ndarray, rows: Ints) -> _Block:
        known = np.zeros((len(levels), int(self._bounds.max()) + 1), np.bool_)
        for j, own in enumerate(levels):
            known[j, own[rows]] = True
        lane = np.cumsum(known, axis=1) << (np.arange(len(levels)) * self._width)[:, None]
        words = _words(levels[:, rows], lane)
        order = np.argsort(words)
        return _Block(rows[order], words[order], lane, known)

    def compare(self, others: Floats) -> tuple[Ints, Ints]:
        """Count, for each row, the others that are not better in any column, and those that are the same."""
        levels, exact = self._levels(others)
        same_levels = levels[:, exact]
        covered, same = np.zeros((2, self.values.shape[1]), np.int64)
        for block in self._blocks:
            counts = np.zeros(block.rows.size, np.int64)
            count_covering(_words(levels, block.lane), block.words, self._guard, counts)
            covered[block.rows] = counts
            words = np.sort(_words(same_levels, block.lane)[_are_known(same_levels, block)])
            same[block.rows] = np.searchsorted(words, block.words, "right") - np.searchsorted(words, block.words)
        return covered, same

    def find(self, others: Floats) -> Ints:
        """Return which of the rows each of the others is the same as, or -1."""
        levels, exact = self._levels(others)
        result: Ints = np.full(others.shape[1], -1)
        (indices,) = np.nonzero(exact)
        levels = levels[:, indices]
        for block in self._blocks:
            words = _words(levels, block.lane)
            at = np.minimum(np.searchsorted(block.words, words), block.words.size - 1)
            same = _are_known(levels, block) & (block.words[at] == words)
            result[indices[same]] = block.rows[at[same]]
        return result


def _words(levels: np.ndarray, lane: Ints) -> Ints:
    words = np.empty(levels.shape[1], np.int64)
    write_words(np.ascontiguousarray(levels), lane, words)
    return words


def _are_known(levels: np.ndarray, block: _Block) -> np.ndarray:
    """Return, of levels that values have exactly, whether the block's rows have these values too."""
    result: np.ndarray = block.known[np.arange(len(levels))[:, None], levels].all(axis=0)
    return result


def distinct(values: Floats) -> Floats:
    """Return each row of an array (columns, rows) once.

    >>> distinct(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 3.0]]))
    array([[1., 0.],
           [2., 3.]])
    """
    order = np.lexsort(values)
    ordered = values[:, order]
    first = np.ones(order.size, np.bool_)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    kept: Floats = ordered[:, first]
    return kept


def guard_bits(columns: int, width: int) -> int:
    """Return a word with the highest bit of each lane set, for lanes of so many bits side by side.

    >>> bin(guard_bits(columns=2, width=4))
    '0b10001000'
    """
    return signed(sum(1 << ((j + 1) * width - 1) for j in range(columns)))


def signed(word: int) -> int:
    """Return 64 bits as the whole number that kernels take them for."""
    return int(np.array(word, np.uint64).astype(np.int64))


def at_previous(by_cell: np.ndarray) -> np.ndarray:
    """Return what is known of the cell before each one in every column; 0 for cells that have none.

    >>> at_previous(np.array([[1, 2], [3, 4]]))
    array([[0, 0],
           [0, 1]])
    """
    result = np.zeros_like(by_cell)
    result[(slice(1, None),) * by_cell.ndim] = by_cell[(slice(None, -1),) * by_cell.ndim]
    return result


def stacked(axes: list[Floats]) -> tuple[Floats, Ints]:
    """Return the bounds of several columns as kernels take them, and how many each has.

    >>> stacked([np.array([1.0, 2.0]), np.array([5.0])])
    (array([[ 1.,  2., inf],
           [ 5., inf, inf]]), array([2, 1]))
    """
    bounds = np.array([axis.size for axis in axes])
    bound = np.full((len(axes), (1 << int(bounds.max()).bit_length()) - 1), np.inf)
    for j, axis in enumerate(axes):
        bound[j, : axis.size] = axis
    return bound, bounds


def bounds_of(values: Floats, most: int) -> Floats:
    """Return at most ``most`` rising bounds, between which about as many of the values lie."""
    if values.size == 0 or most == 0:
        return np.empty(0)
    ordered = np.sort(values)
    picks, times = np.unique(ordered[np.arange(1, most + 1) * ordered.size // (most + 1)], return_counts=True)
    apart = np.nextafter(picks[times > 1], np.inf)
    bounds: Floats = np.unique(np.concatenate([picks, apart]))
    return bounds[:most] if bounds.size > most else bounds
