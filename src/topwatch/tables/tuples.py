"""A few distinct rows that many others are compared with: how many are no better than each, and which are the same.

Only the values of the few matter. The ranks of another row's values among them make one word, so that a comparison is
three operations and exact. A word has room for so many values; more rows than that make several blocks, and the words
of each are looked up by the ranks among all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.tables.axes import stacked
from topwatch.tables.kernels.levels import count_covering, write_levels, write_words

LEVEL_BITS = 15


@dataclass(frozen=True)
class _Block:
    rows: Ints  # in the order of their words
    words: Ints
    lane: Ints  # (columns, levels among all rows): what is put into a word
    known: np.ndarray  # of these levels, those that one of the rows has


class Tuples:
    """Distinct rows, to which others can be compared.

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
        self._guard = int(np.array(sum(1 << ((j + 1) * self._width - 1) for j in range(d)), np.uint64).astype(np.int64))
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
    """Tell of levels that values have exactly whether the block's rows have these values too."""
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
