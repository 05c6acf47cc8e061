"""The k rows of a table that dominate the most others, where the table lies in parts that stay where they are.

Counts by cell, summed over the parts, bound the score of every cell (:func:`score_bounds`). Rows whose upper bound
reaches a floor, which k rows are known to reach, are candidates. Of a few rows that look good in a sample the scores
are counted, and the floor rises to near the k-th score. Where many candidates are left, a second grid has its levels
where they lie. A row that k others dominate cannot be an answer either: each of them dominates more. The scores of the
candidates that remain are counted in each part, and summed.

Exact: the floor is never above the k-th score, and no bound below a row's score. This is not in the papers; the bounds
are those of the ``floor`` algorithm (:mod:`topwatch.algorithms.dominating.floor`) without its window.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from topwatch.core.arrays import Floats, Hashes, Ints
from topwatch.core.hashing import mix_all
from topwatch.tables.levels import Axes, Tuples, distinct
from topwatch.tables.skyband import skyband

CELLS = 1 << 17
CANDIDATES = 16_384  # counted at once
ROUNDS = 3  # grids
SAMPLE = 8192
FEW = 4096  # rows for which bounds do not pay
PROMISING = 16  # one of so many sampled rows decides where the first grid is fine


@dataclass(frozen=True)
class Sieve:
    """Which rows are candidates: those in a marked cell of every grid, and of these one piece of several."""

    grids: tuple[tuple[Axes, np.ndarray], ...]
    k: int
    most: int  # candidates that a part may name; of more, it names some
    piece: int = 0
    pieces: int = 1

    def passing(self, values: Floats) -> Floats:
        """Return the candidates among some rows."""
        for axes, marked in self.grids:
            values = values[:, marked[axes.cells_of(values)]]
        if self.pieces > 1:
            values = values[:, _hashes(values) % np.uint64(self.pieces) == self.piece]
        return values

    def thinned(self, values: Floats) -> Floats:
        """Return distinct candidates, without those that k others dominate where that is soon found."""
        if values.shape[1] <= 4 * CANDIDATES:
            values = values[:, skyband(values, self.k)]
        return distinct(values)


class Sifted(NamedTuple):
    """Candidates, distinct in each part; there are ``rows`` of them, and ``whole`` is whether all are named."""

    values: Floats
    whole: bool
    rows: int


def sifted(chunks: Iterable[Floats], sieve: Sieve) -> Sifted:
    """Return the candidates of a part, whose rows come in chunks."""
    kept: list[Floats] = [np.empty((len(sieve.grids[0][0].bounds), 0))]
    held, room = 0, 8 * CANDIDATES
    for values in chunks:
        kept.append(sieve.passing(values))
        held += kept[-1].shape[1]
        if held > room:
            kept = [sieve.thinned(np.concatenate(kept, axis=1))]
            held = kept[0].shape[1]
            room = max(room, 2 * held)
    result = sieve.thinned(np.concatenate(kept, axis=1))
    rows = result.shape[1]
    if rows <= sieve.most:
        return Sifted(result, True, rows)
    return Sifted(result[:, :: -(-rows // sieve.most)], False, rows)


class Parts(Protocol):
    """A table in parts: numbers without NaN, smaller is better in each column."""

    def sample(self) -> tuple[int, Floats]:
        """Return how many rows there are, and some."""
        ...

    def histogram(self, axes: Axes) -> Ints:
        """Count the rows of each cell."""
        ...

    def sift(self, sieve: Sieve) -> Sifted:
        """Return the candidates."""
        ...

    def compare(self, few: Tuples) -> tuple[Ints, Ints]:
        """Count, for each of a few rows, the rows that are not better in any column, and those that are the same."""
        ...


class Best(NamedTuple):
    """Values of the rows that may be an answer, with their scores; rows that are not named have 0 or are none."""

    values: Floats
    scores: Ints
    others: bool  # rows that are not named fill up the answer


def best_dominating(parts: Parts, k: int) -> Best:
    """Return the values of all rows with at least the k-th score.

    Costs six to a dozen passes over the parts; each counts at most ``CANDIDATES`` rows' scores, O(rows) for each.
    """
    rows, sample = parts.sample()
    if not rows:
        return Best(sample, np.zeros(0, np.int64), False)
    most = max(CANDIDATES, 4 * k)
    floor = 0
    grids: list[tuple[Axes, Ints]] = []
    looked_at = distinct(sample)
    for _ in range(ROUNDS):
        looked_at = _by_estimate(looked_at, sample)
        axes = Axes.among(_learnt_from(looked_at, sample), CELLS)
        counts = parts.histogram(axes)
        least, upper = score_bounds(axes, counts)
        upper[counts == 0] = -1
        grids.append((axes, upper))
        floor = max(floor, kth_score(least, counts, k))
        few = 2 * k + 64
        if counts[upper >= max(1, floor)].sum() > 4 * few:
            floor = max(floor, kth_score(*_scores(parts, looked_at[:, :few]), k))
        sifted = parts.sift(_sieve(grids, floor, k, most))
        if sifted.whole:
            return _best(parts, sifted.values, Best(sample[:, :0], np.zeros(0, np.int64), False), k)[0]
        looked_at = distinct(sifted.values)
    return _in_pieces(parts, grids, floor, sifted.rows, k, most)


def score_bounds(axes: Axes, counts: Ints) -> tuple[Ints, Ints]:
    """Return the least and the most that rows of each cell can dominate; a cell without rows has no meaning.

    A row dominates all rows of the cells behind its own in every column, and at most those of the cells that are not
    before it in any. Both are suffix sums. In a column where a cell's level is a single value, the cells beside it
    count as behind.

    >>> axes = Axes(np.array([[2.0, 3.0]]), np.array([2]), np.array([1]))
    >>> score_bounds(axes, np.array([2, 5, 1]))  # rows below 2, from 2 and from 3 on
    (array([6, 1, 0]), array([7, 5, 0]))
    """
    shape = axes.shape
    d = len(shape)
    sums = counts.reshape(shape)
    for axis in range(d):
        sums = np.flip(np.cumsum(np.flip(sums, axis), axis=axis), axis)
    least = sums
    one_value = np.ones(shape, np.bool_)
    for axis, size in enumerate(shape):
        single = axes.single(axis)
        behind = np.arange(size) + ~single
        along = [-1 if a == axis else 1 for a in range(d)]
        least = np.take(least, np.minimum(behind, size - 1), axis=axis) * (behind < size).reshape(along)
        one_value &= single.reshape(along)
    same = np.where(one_value.ravel(), counts, 0)
    return least.ravel() - same, sums.ravel() - np.maximum(same, 1)


def kth_score(scores: Ints, times: Ints, k: int) -> int:
    """Return the k-th largest score, each counted so many times; 0 where there are fewer than k.

    >>> kth_score(np.array([5, 9, 7]), np.array([1, 2, 1]), 3)
    7
    """
    order = np.argsort(-scores, kind="stable")
    index = int(np.searchsorted(np.cumsum(times[order]), k))
    return int(max(0, scores[order[index]])) if index < order.size else 0


def _in_pieces(parts: Parts, grids: list[tuple[Axes, Ints]], floor: int, rows: int, k: int, most: int) -> Best:
    """Count the scores of many candidates, some at a time; the floor rises on the way."""
    best = Best(np.empty((len(grids[0][0].bounds), 0)), np.zeros(0, np.int64), False)
    pieces = -(-rows // most)
    for piece in range(pieces):
        sifted = parts.sift(_sieve(grids, floor, k, 1 << 62, piece, pieces))
        best, reached = _best(parts, sifted.values, best, k)
        floor = max(floor, reached)
    return best


def _sieve(grids: list[tuple[Axes, Ints]], floor: int, k: int, most: int, piece: int = 0, pieces: int = 1) -> Sieve:
    return Sieve(tuple((axes, upper >= max(1, floor)) for axes, upper in grids), k, most, piece, pieces)


def _best(parts: Parts, candidates: Floats, before: Best, k: int) -> tuple[Best, int]:
    """Return what is best of candidates and of those before, and the k-th score."""
    candidates = distinct(candidates)
    candidates = candidates[:, skyband(candidates, k)]
    values = distinct(np.concatenate([before.values, candidates], axis=1))
    if not values.shape[1]:
        return Best(values, np.zeros(0, np.int64), True), 0
    scores, times = _scores(parts, values)
    reached = kth_score(scores, times, k)
    keep = scores >= max(1, reached)
    return Best(values[:, keep], scores[keep], reached == 0), reached


def _scores(parts: Parts, values: Floats) -> tuple[Ints, Ints]:
    """Return the scores of distinct rows, and how often each is there."""
    covered, same = parts.compare(Tuples(values))
    return covered - same, same


def _by_estimate(values: Floats, sample: Floats) -> Floats:
    """Put distinct rows in order: first those that dominate most of the sample."""
    covered, _ = Tuples(values).compare(sample)
    ordered: Floats = values[:, np.argsort(-covered, kind="stable")]
    return ordered


def _learnt_from(best_first: Floats, sample: Floats) -> Floats:
    """Return rows to learn bounds from: half of them promising ones."""
    some = best_first[:, : max(1, best_first.shape[1] // PROMISING)]
    return np.concatenate([sample, np.tile(some, max(1, sample.shape[1] // some.shape[1]))], axis=1)


def _hashes(values: Floats) -> Hashes:
    total = np.zeros(values.shape[1], np.uint64)
    for column in values:
        total = mix_all(total ^ (column + 0.0).view(np.uint64))
    return total


def best_in_memory(values: Floats, k: int) -> Best:
    """Return the same of a table that lies in memory.

    >>> best = best_in_memory(np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]]), 1)
    >>> best.values.ravel().tolist(), best.scores.tolist()
    ([1.0, 1.0], [2])
    """
    parts = InMemory(values)
    if values.shape[1] > FEW:
        return best_dominating(parts, k)
    return _best(parts, values[:, skyband(values, k)], Best(values[:, :0], np.zeros(0, np.int64), False), k)[0]


class InMemory:
    """A table that lies in memory, in one part."""

    def __init__(self, values: Floats) -> None:
        self._values = values

    def sample(self) -> tuple[int, Floats]:
        """Return how many rows there are, and some."""
        rows = self._values.shape[1]
        return rows, self._values[:, :: max(1, rows // SAMPLE)]

    def histogram(self, axes: Axes) -> Ints:
        """Count the rows of each cell."""
        return np.bincount(axes.cells_of(self._values), minlength=axes.cells)

    def sift(self, sieve: Sieve) -> Sifted:
        """Return the candidates."""
        return sifted([self._values], sieve)

    def compare(self, few: Tuples) -> tuple[Ints, Ints]:
        """Count, for each of a few rows, the rows that are not better in any column, and those that are the same."""
        return few.compare(self._values)
