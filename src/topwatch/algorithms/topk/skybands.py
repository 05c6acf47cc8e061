"""The skybands of a group of queries, in one pool: sized, filled from rows, saved and loaded.

How large each is comes from its kind (:mod:`topwatch.algorithms.topk.schemes`); how rows come and go is in
``kernels/skyband_kinds.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topwatch.algorithms.topk.kernels.prune import keys_of
from topwatch.algorithms.topk.kernels.skyband_kinds import PROBABILISTIC, RELAXED, STRICT, Skybands
from topwatch.algorithms.topk.kernels.sorted_runs import FAR
from topwatch.algorithms.topk.runs import RunPool
from topwatch.algorithms.topk.schemes import Sizes, Skyband
from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints
from topwatch.core.engine import Window
from topwatch.core.kernels.scoring import Queries
from topwatch.core.saved_state import Saved


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
        A filter takes only rows about as good as its best ones, for the sake of an index.
    """

    def __init__(self, band: Skyband, window: Window, filters: bool = False, levelled: bool = False) -> None:
        self.band = band
        self._window = window
        self.pool = RunPool(band.kind == STRICT, False, window)
        self._filters = filters
        self._levelled = levelled and band.kind != PROBABILISTIC
        self.arrays = self._view(NO_INTS, NO_FLOATS)

    def add(self, index: int, k: int, n: int) -> None:
        """Give a query an empty skyband."""
        self._add(index, k, self.band.sizes(k, n))

    def _add(self, index: int, k: int, sizes: Sizes) -> None:
        self.pool.used = int(self.arrays.used[0])
        self.pool.add(index, k, *sizes)
        have = self.arrays.routing.size
        indices = self.pool.runs.first.size
        level, routing = np.zeros(indices, np.int64), np.full(indices, np.inf)
        level[:have], routing[:have] = self.arrays.level, self.arrays.routing
        level[index] = 3 * k + 24 if self._levelled else 0
        routing[index] = -np.inf
        self.arrays = self._view(level, routing)

    def _view(self, level: Ints, routing: Floats) -> Skybands:
        largest = int(self.pool.answers.first.size and self.pool.largest)
        newest = np.zeros(max(1, largest), np.int64)
        used = np.array([self.pool.used], np.int64)
        band = self.band
        return Skybands(self.pool.runs, band.kind, float(band.relax), self._filters, level, routing, newest, used)

    def took(self, arrays: Skybands) -> None:
        """Take back what a kernel has worked on: runs may have moved to a larger pool."""
        self.arrays = arrays
        self.pool.runs = arrays.runs
        self.pool.used = int(arrays.used[0])

    def remove(self, index: int) -> None:
        """Close a query's skyband."""
        self.pool.remove(index)
        self.arrays.routing[index] = np.inf

    def resize(self, index: int, k: int, n: int) -> None:
        """Follow a window whose number of rows is another now; only a probabilistic skyband depends on it."""
        if self.band.kind != PROBABILISTIC:
            return
        runs = self.pool.runs
        sizes = self.band.sizes(k, n)
        if sizes.limit == runs.limit[index]:
            return
        key, seq, _ = self.rows(index)
        threshold, routing = runs.threshold[index], self.arrays.routing[index]
        self._move(index, k, sizes)
        self.write(index, k, key[: sizes.limit], seq[: sizes.limit])
        runs = self.pool.runs
        if key.size < sizes.limit and key.size >= sizes.target:
            runs.threshold[index], self.arrays.routing[index] = threshold, routing

    def rows(self, index: int) -> tuple[Floats, Ints, float]:
        """Return the keys and ticks of a query's rows, best first, and its threshold."""
        runs = self.pool.runs
        part = slice(runs.first[index], runs.first[index] + runs.size[index])
        return runs.key[part].copy(), runs.seq[part].copy(), float(runs.threshold[index])

    def write(self, index: int, k: int, key: Floats, seq: Ints) -> None:
        """Fill a query's skyband with rows, best first."""
        if key.size > self.pool.runs.room[index]:
            runs = self.pool.runs
            self._move(index, k, Sizes(int(runs.target[index]), int(runs.limit[index]), key.size + key.size // 4 + 16))
        runs = self.pool.runs
        self.pool.answers.since[index] = 0
        first = int(runs.first[index])
        runs.key[first : first + key.size], runs.seq[first : first + key.size] = key, seq
        runs.size[index] = key.size
        runs.oldest[index] = seq.min() if key.size else FAR
        runs.threshold[index] = self.arrays.routing[index] = -np.inf
        if runs.banded:
            runs.beaten[first : first + key.size] = _newer_and_better(seq)
        if self.band.kind == RELAXED:
            runs.limit[index] = max(5 * k, k + int(np.ceil((1 + self.band.relax) * (key.size - k))))
        if self.band.kind == PROBABILISTIC and key.size and key.size == runs.limit[index]:
            runs.threshold[index] = self.arrays.routing[index] = key[-1]

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the rows of queries by their ticks, query after query, and their thresholds."""
        parts = [self.rows(index) for index in indices]
        return {
            "sizes": np.array([key.size for key, _, _ in parts], np.int64),
            "thresholds": np.array([threshold for _, _, threshold in parts]),
            "ticks": np.concatenate([NO_INTS, *(seq for _, seq, _ in parts)]),
        }

    def load(self, saved: Saved, table: Queries, indices: Sequence[int], n: int) -> None:
        """Fill probabilistic skybands with the rows that were saved, query after query; keys are computed again."""
        rows = self._window.rows()
        live = self._window.seq[self._window.live_slots()]
        first, last = (int(live[0]), int(live[-1])) if live.size else (1, 0)
        sizes = saved.ints("sizes", len(indices), low=0, high=live.size)
        thresholds = saved.floats("thresholds", len(indices)).tolist()
        ticks = np.split(saved.ints("ticks", int(sizes.sum()), low=first, high=last), np.cumsum(sizes)[:-1])
        for index, threshold, seq in zip(indices, thresholds, ticks, strict=True):
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
            self.pool.runs.threshold[index] = self.arrays.routing[index] = threshold

    def _move(self, index: int, k: int, sizes: Sizes) -> None:
        """Give a query another skyband, which is empty; what was last reported stays."""
        answer, stale = self.pool.answer(index), self.pool.answers.stale[index]
        self.pool.runs.size[index] = 0
        self._add(index, k, sizes)
        self.pool.set_answer(index, *answer)
        self.pool.answers.stale[index] = stale

    def _check(self, k: Ints) -> None:
        runs, routing = self.pool.runs, self.arrays.routing
        self.pool._check(k)
        for q in np.flatnonzero(k):
            key, _, threshold = self.rows(int(q))
            assert routing[q] <= threshold, "a row that a query lets in is not routed to it"
            assert not key.size or routing[q] <= key[-1], "a query keeps a row that is not routed to it"
            lacking = self._filters and key.size < k[q]
            assert not lacking or routing[q] == -np.inf, "a filter that lacks rows keeps some out"
            if self.band.kind == PROBABILISTIC:
                assert key.size <= runs.limit[q], "a probabilistic skyband keeps too many rows"
            elif not self._filters:
                assert threshold == -np.inf, "an exact skyband refuses rows"


def _newer_and_better(seq: Ints) -> Ints:
    """Count for each row, best first, the newer ones before it."""
    return np.array([int((seq[:i] > tick).sum()) for i, tick in enumerate(seq)], np.int64)
