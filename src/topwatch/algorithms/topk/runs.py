"""Sorted views and skybands: the rows each query keeps, and what was last reported of them.

A view keeps every live row whose key reaches its threshold; a skyband only those that fewer than k newer rows beat.
Both keep at least the answer, and say so when they no longer can (``whole`` is 0 and fewer than k are left).
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.sorted_runs import FAR, Answers, Runs
from topwatch.core.arrays import Floats, Ints, size_of
from topwatch.core.engine import Window


class RunPool:
    """The runs and answers of a group of queries, by index in its query table.

    Parameters
    ----------
    banded : bool
        Keep skybands instead of views.
    unsorted : bool
        Of a run only the answer and a few rows more are sorted.
    window : Window
        Owns the rows; where it is first-in-first-out, slots follow from ticks and are not kept.
    """

    def __init__(self, banded: bool, unsorted: bool, window: Window) -> None:
        self._window = window
        self._parts = ["key", "seq"] + ([] if window.fifo else ["slot"])
        self.runs = self._new_runs(0, 0, banded, unsorted)
        self.answers = self._new_answers(0, 0)
        self.used = 0  # of the runs' pool
        self._answers_used = 0
        self.largest = 1  # target of any query so far

    def add(self, index: int, k: int, target: int, limit: int, room: int, most: int = 0) -> None:
        """Give a query a run; for the sizes see :class:`~topwatch.algorithms.topk.designs.Design`."""
        self._reserve(index + 1, room + most + 1, k)
        r, a = self.runs, self.answers
        r.first[index], a.first[index] = self.used, self._answers_used
        self.used += room + most + 1
        self._answers_used += k
        r.room[index], r.limit[index], r.target[index] = room, limit, target
        r.extra[index], r.most[index] = 0, most
        self.largest = max(self.largest, target)
        r.size[index] = r.top[index] = a.size[index] = 0
        r.threshold[index], r.whole[index], r.oldest[index] = -np.inf, 1, FAR
        a.stale[index], a.since[index] = 1, 0

    def remove(self, index: int) -> None:
        """Close a query's run; its memory is released when the pool next grows."""
        r, a = self.runs, self.answers
        r.size[index] = r.top[index] = r.room[index] = r.target[index] = a.size[index] = a.stale[index] = 0
        r.threshold[index], r.whole[index], r.oldest[index] = np.inf, 1, FAR
        r.extra[index] = r.most[index] = 0

    def answer(self, index: int) -> tuple[Ints, np.ndarray, Ints]:
        """Return the slots, keys and ticks of the last reported answer, best first."""
        a = self.answers
        part = slice(a.first[index], a.first[index] + a.size[index])
        slots = a.seq[part] & (self._window.capacity - 1) if self._window.fifo else a.slot[part].copy()
        return slots, a.key[part].copy(), a.seq[part].copy()

    def set_answer(self, index: int, slots: Ints, keys: np.ndarray, seq: Ints) -> None:
        """Set what was last reported."""
        a = self.answers
        part = slice(a.first[index], a.first[index] + len(slots))
        a.key[part], a.seq[part] = keys, seq
        if not self._window.fifo:
            a.slot[part] = slots
        a.size[index] = len(slots)
        a.stale[index], a.since[index] = 1, 0

    def _reserve(self, indices: int, room: int, k: int) -> None:
        r, a = self.runs, self.answers
        have = r.first.size
        grown = have if indices <= have else max(indices, 2 * have, 8)
        if grown == have and self.used + room <= r.key.size and self._answers_used + k <= a.key.size:
            return
        sizes = r.room - r.extra + r.most + 1
        kept = int(sizes[r.target > 0].sum())
        size = max(2 * (kept + room), r.key.size if kept + room <= r.key.size // 2 else 0)
        runs = self._new_runs(grown, size, r.banded, r.unsorted)
        answers = self._new_answers(grown, max(2 * (int(a.size.sum()) + kept + k), 64))
        self.used = self._answers_used = 0
        for index in np.flatnonzero(r.target > 0):
            old, size, n = r.first[index], sizes[index], r.size[index]
            for name in self._parts + (["beaten"] if r.banded else []):
                getattr(runs, name)[self.used : self.used + n] = getattr(r, name)[old : old + n]
            runs.first[index] = self.used
            self.used += size
        for name in ("room", "limit", "target", "size", "threshold", "whole", "top", "oldest", "extra", "most"):
            getattr(runs, name)[:have] = getattr(r, name)
        for index in np.flatnonzero(r.target > 0):
            old, n = a.first[index], a.size[index]
            for name in self._parts:
                getattr(answers, name)[self._answers_used : self._answers_used + n] = getattr(a, name)[old : old + n]
            answers.first[index] = self._answers_used
            # An answer never has more rows than its run is cut to.
            self._answers_used += int(min(r.target[index], r.room[index]))
        answers.size[:have], answers.stale[:have], answers.since[:have] = a.size, a.stale, a.since
        self.runs, self.answers = runs, answers

    def bytes(self) -> int:
        """Size of the arrays."""
        return size_of(self.runs, self.answers)

    def _new_runs(self, indices: int, pool: int, banded: bool, unsorted: bool) -> Runs:
        first, room, limit, target, size, top, extra, most = np.zeros((8, indices), np.int64)
        threshold, whole, oldest = np.full(indices, np.inf), np.ones(indices, np.int64), np.full(indices, FAR)
        key, seq, slot = self._new_rows(pool)
        beaten = np.zeros(pool if banded else 0, np.int64)
        return Runs(
            first, room, limit, target, size, threshold, whole, top, oldest,
            key, seq, slot, beaten, extra, most, banded, unsorted,
        )  # fmt: skip

    def _new_answers(self, indices: int, pool: int) -> Answers:
        first, size, stale, since = np.zeros((4, indices), np.int64)
        return Answers(first, size, *self._new_rows(pool), stale, since)

    def _new_rows(self, pool: int) -> tuple[Floats, Ints, Ints]:
        """Return room for keys, ticks and, where these do not say them, slots."""
        return np.zeros(pool), np.zeros(pool, np.int64), np.zeros(0 if self._window.fifo else pool, np.int64)

    def _check(self, k: Ints, head: int = 0) -> None:
        r = self.runs
        for q in range(r.first.size):
            part = slice(r.first[q], r.first[q] + r.size[q])
            key, seq = r.key[part], r.seq[part]
            ordered = (key[:-1] > key[1:]) | ((key[:-1] == key[1:]) & (seq[:-1] > seq[1:]))
            top = int(r.top[q]) if r.unsorted else int(r.size[q])
            assert min(k[q], r.size[q]) <= top <= r.size[q], "an answer is not sorted"
            assert ordered[: max(0, top - 1)].all(), "a run is out of order"
            if 0 < top < key.size:
                behind = (key[top - 1] > key[top:]) | ((key[top - 1] == key[top:]) & (seq[top - 1] > seq[top:]))
                assert (behind | (seq[top:] < head)).all(), "a row of the overflow belongs into the answer"
            assert r.size[q] <= r.room[q]
            assert (key >= r.threshold[q]).all(), "a row below the threshold is kept"
            assert top == 0 or seq[:top].min() >= r.oldest[q]
            if r.banded and k[q] > 0:
                newer = np.array([(seq[:i] > seq[i]).sum() for i in range(seq.size)])
                assert (r.beaten[part] >= newer).all(), "a skyband counts too few newer and better rows"
                assert (r.beaten[part] < k[q]).all(), "a skyband keeps a row that k newer ones beat"
