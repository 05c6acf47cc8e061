"""The strict, the relaxed and the probabilistic k-skyband: three structures, one interface.

Each says how large it is for a k and a window of n rows; how rows come and go is in
``algorithms/topk/kernels/skyband_kinds.py``. Any of them keeps a query's candidates, and any of them is its filter over
the recent buffer (TODS'15, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from topwatch.algorithms.topk.kernels.fill_skyband import keys_of
from topwatch.algorithms.topk.kernels.skyband_kinds import PROBABILISTIC, RELAXED, STRICT, Skybands
from topwatch.algorithms.topk.kernels.sorted_runs import FAR
from topwatch.algorithms.topk.runs import RunPool
from topwatch.core.engine import Window
from topwatch.core.kernels.scoring import Floats, Ints, Queries
from topwatch.core.saved_state import Saved


class Sizes(NamedTuple):
    """For one query: the least with which rows are refused, the size at which something is due, the initial room."""

    target: int
    limit: int
    room: int


class Skyband(Protocol):
    """The properties of one kind of skyband."""

    @property
    def kind(self) -> int:
        """Its number in the kernels."""

    @property
    def relax(self) -> float:
        """By how much of its candidates it may outgrow a strict one."""

    def sizes(self, k: int, n: int) -> Sizes:
        """Return its sizes for a query over n rows."""


@dataclass(frozen=True)
class StrictSkyband:
    """Exactly the rows that fewer than k newer and better ones beat: k (1 + ln(n/k)) of a stream in random order."""

    kind = STRICT
    relax = 0.0

    def sizes(self, k: int, n: int) -> Sizes:
        """Begin with room for what is expected; it grows where that is not enough."""
        return Sizes(k, FAR, expected_size(k, n) * 5 // 4 + 16)


@dataclass(frozen=True)
class RelaxedSkyband:
    """Those rows and some beaten ones, sorted out when candidates have grown by the share ``relax`` (γ)."""

    relax: float
    kind = RELAXED

    def sizes(self, k: int, n: int) -> Sizes:
        """First pruned at 4k candidates, as in the paper's example."""
        room = int(expected_size(k, n) * (1.25 + self.relax)) + 16
        return Sizes(k, 5 * k, max(room, 5 * k + 8))


@dataclass(frozen=True)
class ProbabilisticSkyband:
    """The best k + limit + additional rows, no more."""

    candidate_limit: Callable[[int, int], int]  # of n and k
    additional: int
    relax = 0.0
    kind = PROBABILISTIC

    def sizes(self, k: int, n: int) -> Sizes:
        """The limit of Definition 4.5."""
        target = k + self.candidate_limit(max(n, 1), k)
        return Sizes(target, target + self.additional, target + self.additional + 1)


def expected_size(k: int, n: int) -> int:
    """Return how many rows a k-skyband has in a stream in random order, k (1 + ln(n/k)).

    >>> expected_size(9, 40_000), expected_size(81, 40_000), expected_size(5, 3)
    (85, 584, 5)
    """
    return int(np.ceil(k * (1 + np.log(max(n, k) / k))))


class SkybandPool:
    """The skybands of a group of queries, by index in its query table; where they are filters, of the buffer's rows.

    Parameters
    ----------
    band : Skyband
        Which kind.
    window : RingWindow
        Owns the rows.
    filters : bool
        Any row may be forgotten: it filters.
    levelled : bool
        A filter listens only to rows about as good as its best ones, for the sake of an index.
    """

    def __init__(self, band: Skyband, window: Window, filters: bool = False, levelled: bool = False) -> None:
        self.band = band
        self._window = window
        self.pool = RunPool(band.kind == STRICT, False, window)
        self._filters = filters
        self._levelled = levelled and band.kind != PROBABILISTIC
        self.arrays = self._view(np.zeros(0, np.int64), np.empty(0))

    def add(self, index: int, k: int, n: int) -> None:
        """Give a query an empty skyband."""
        target, limit, room = self.band.sizes(k, n)
        self.pool._used = int(self.arrays.used[0])
        self.pool.add(index, k, target, limit, room)
        have = self.arrays.listen.size
        indices = self.pool.runs.first.size
        level, listen = np.zeros(indices, np.int64), np.full(indices, np.inf)
        level[:have], listen[:have] = self.arrays.level, self.arrays.listen
        level[index] = 3 * k + 24 if self._levelled else 0
        listen[index] = -np.inf
        self.arrays = self._view(level, listen)

    def _view(self, level: Ints, listen: Floats) -> Skybands:
        largest = int(self.pool.answers.first.size and self.pool.largest)
        newest = np.zeros(max(1, largest), np.int64)
        used = np.array([self.pool._used], np.int64)
        band = self.band
        return Skybands(self.pool.runs, band.kind, float(band.relax), self._filters, level, listen, newest, used)

    def took(self, arrays: Skybands) -> None:
        """Take back what a kernel has worked on: runs may have moved to a larger pool."""
        self.arrays = arrays
        self.pool.runs = arrays.runs
        self.pool._used = int(arrays.used[0])

    def remove(self, index: int) -> None:
        """Close a query's skyband."""
        self.pool.remove(index)
        self.arrays.listen[index] = np.inf

    def resize(self, index: int, k: int, n: int) -> None:
        """Follow a window whose number of rows is another now; only a probabilistic skyband depends on it."""
        if self.band.kind != PROBABILISTIC:
            return
        runs = self.pool.runs
        sizes = self.band.sizes(k, n)
        if sizes.limit == runs.limit[index]:
            return
        key, seq, _ = self.rows(index)
        threshold, listen = runs.threshold[index], self.arrays.listen[index]
        answer = self.pool.answer(index)
        stale = self.pool.answers.stale[index]
        self.pool.runs.size[index] = 0
        self.add(index, k, n)
        self.pool.set_answer(index, *answer)
        self.pool.answers.stale[index] = stale
        self.write(index, k, key[: sizes.limit], seq[: sizes.limit])
        runs = self.pool.runs
        if key.size < sizes.limit and key.size >= sizes.target:
            runs.threshold[index], self.arrays.listen[index] = threshold, listen

    def rows(self, index: int) -> tuple[Floats, Ints, float]:
        """Return the keys and ticks of a query's rows, best first, and its threshold."""
        runs = self.pool.runs
        part = slice(runs.first[index], runs.first[index] + runs.size[index])
        return runs.key[part].copy(), runs.seq[part].copy(), float(runs.threshold[index])

    def write(self, index: int, k: int, key: Floats, seq: Ints) -> None:
        """Fill a query's skyband with rows, best first."""
        if key.size > self.pool.runs.room[index]:
            self._widen(index, k, key.size)
        runs = self.pool.runs
        self.pool.answers.since[index] = 0
        first = int(runs.first[index])
        runs.key[first : first + key.size], runs.seq[first : first + key.size] = key, seq
        runs.size[index] = key.size
        runs.oldest[index] = seq.min() if key.size else FAR
        runs.threshold[index] = self.arrays.listen[index] = -np.inf
        if runs.banded:
            runs.beaten[first : first + key.size] = _newer_and_better(seq)
        if self.band.kind == RELAXED:
            runs.limit[index] = max(5 * k, k + int(np.ceil((1 + self.band.relax) * (key.size - k))))
        if self.band.kind == PROBABILISTIC and key.size and key.size == runs.limit[index]:
            runs.threshold[index] = self.arrays.listen[index] = key[-1]

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the rows of queries by their ticks, query after query, and their thresholds."""
        parts = [self.rows(index) for index in indices]
        return {
            "sizes": np.array([key.size for key, _, _ in parts], np.int64),
            "thresholds": np.array([threshold for _, _, threshold in parts]),
            "ticks": np.concatenate([np.empty(0, np.int64), *(seq for _, seq, _ in parts)]),
        }

    def load(self, saved: Saved, table: Queries, indices: Sequence[int], n: int) -> None:
        """Fill probabilistic skybands with the rows that were saved, query after query; keys are computed again."""
        rows = self._window.rows()
        live = self._window.seq[self._window.live_slots()]
        first, last = (int(live[0]), int(live[-1])) if live.size else (1, 0)
        sizes = saved.ints("sizes", len(indices), low=0, high=live.size)
        thresholds, ticks = (
            saved.floats("thresholds", len(indices)),
            saved.ints("ticks", int(sizes.sum()), low=first, high=last),
        )
        for index, threshold, seq in zip(
            indices, thresholds.tolist(), np.split(ticks, np.cumsum(sizes)[:-1]), strict=True
        ):
            k = int(table.k[index])
            self.resize(index, k, n)
            keys = keys_of(table, index, rows, seq)
            after = (keys[:-1] > keys[1:]) | ((keys[:-1] == keys[1:]) & (seq[:-1] > seq[1:]))
            saved.expect(after.all() and not np.isnan(keys).any(), "ticks", "rows that are ranked, best first")
            target, limit = int(self.pool.runs.target[index]), int(self.pool.runs.limit[index])
            saved.expect(seq.size <= limit, "sizes", f"at most {limit} rows", seq.size)
            lowest = keys[-1] if seq.size >= max(2, target) else -np.inf
            saved.expect(threshold <= lowest, "thresholds", f"at most {lowest}", threshold)
            self.write(index, k, keys, seq)
            self.pool.runs.threshold[index] = self.arrays.listen[index] = threshold

    def _widen(self, index: int, k: int, rows: int) -> None:
        """Give an empty skyband room for so many rows and some more."""
        runs, answers = self.pool.runs, self.pool.answers
        target, limit = int(runs.target[index]), int(runs.limit[index])
        answer, stale = self.pool.answer(index), answers.stale[index]
        runs.size[index] = 0
        self.pool._used = int(self.arrays.used[0])
        self.pool.add(index, k, target, limit, rows + rows // 4 + 16)
        self.pool.set_answer(index, *answer)
        self.pool.answers.stale[index] = stale
        self.arrays = self._view(self.arrays.level, self.arrays.listen)

    def _check(self, k: Ints) -> None:
        runs, listen = self.pool.runs, self.arrays.listen
        self.pool._check(k)
        for q in np.flatnonzero(k):
            key, _, threshold = self.rows(int(q))
            assert listen[q] <= threshold, "a query does not listen to all it lets in"
            assert not key.size or listen[q] <= key[-1], "a query does not listen to a row it keeps"
            lacking = self._filters and key.size < k[q]
            assert not lacking or listen[q] == -np.inf, "a filter that lacks rows keeps some out"
            if self.band.kind == PROBABILISTIC:
                assert key.size <= runs.limit[q], "a probabilistic skyband keeps too many rows"
            elif not self._filters:
                assert threshold == -np.inf, "an exact skyband refuses rows"


def _newer_and_better(seq: Ints) -> Ints:
    """Count for each row, best first, the newer ones before it."""
    return np.array([int((seq[:i] > tick).sum()) for i, tick in enumerate(seq)], np.int64)
