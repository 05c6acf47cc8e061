"""Sorted views and skybands: the rows each query keeps, and what was last reported of them.

A view keeps every live row whose key reaches its threshold; a skyband only those that fewer than k newer rows beat.
Both keep at least the answer, and say so when they no longer can (``whole`` is 0 and fewer than k are left).
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.report import Answers
from topwatch.algorithms.topk.kernels.sorted_runs import FAR, Runs
from topwatch.core.engine import Window
from topwatch.core.kernels.scoring import Ints


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
        self._used = 0
        self._answers_used = 0
        self.largest = 1  # target of any query so far

    def add(self, index: int, k: int, target: int, limit: int, room: int, most: int = 0) -> None:
        """Give a query a run; for the sizes see :class:`~topwatch.algorithms.topk.engine.Design`."""
        self._reserve(index + 1, room + most + 1, k)
        r, a = self.runs, self.answers
        r.first[index], a.first[index] = self._used, self._answers_used
        self._used += room + most + 1
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
        if grown == have and self._used + room <= r.key.size and self._answers_used + k <= a.key.size:
            return
        sizes = r.room - r.extra + r.most + 1
        kept = int(sizes[r.target > 0].sum())
        size = max(2 * (kept + room), r.key.size if kept + room <= r.key.size // 2 else 0)
        runs = self._new_runs(grown, size, r.banded, r.unsorted)
        answers = self._new_answers(grown, max(2 * (int(a.size.sum()) + kept + k), 64))
        self._used = self._answers_used = 0
        for index in np.flatnonzero(r.target > 0):
            old, size, n = r.first[index], sizes[index], r.size[index]
            for name in self._parts + (["beaten"] if r.banded else []):
                getattr(runs, name)[self._used : self._used + n] = getattr(r, name)[old : old + n]
            runs.first[index] = self._used
            self._used += size
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
        return sum(x.nbytes for x in (*self.runs[:-2], *self.answers))

    def _new_runs(self, indices: int, pool: int, banded: bool, unsorted: bool) -> Runs:
        def ints(n: int = indices) -> Ints:
            return np.zeros(n, np.int64)

        return Runs(
            first=ints(),
            room=ints(),
            limit=ints(),
            target=ints(),
            size=ints(),
            threshold=np.full(indices, np.inf),
            whole=np.ones(indices, np.int64),
            top=ints(),
            oldest=np.full(indices, FAR),
            key=np.zeros(pool),
            seq=ints(pool),
            slot=ints(0 if self._window.fifo else pool),
            beaten=ints(pool if banded else 0),
            extra=ints(),
            most=ints(),
            banded=banded,
            unsorted=unsorted,
        )

    def _new_answers(self, indices: int, pool: int) -> Answers:
        def ints(n: int = indices) -> Ints:
            return np.zeros(n, np.int64)

        slot = ints(0 if self._window.fifo else pool)
        return Answers(ints(), ints(), np.zeros(pool), ints(pool), slot, ints(), ints())

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
                assert (behind | (seq[top:] < head)).all(), "a row of the rest belongs into the answer"
            assert r.size[q] <= r.room[q]
            assert (key >= r.threshold[q]).all(), "a row below the threshold is kept"
            assert top == 0 or seq[:top].min() >= r.oldest[q]
            if r.banded and k[q] > 0:
                newer = np.array([(seq[:i] > seq[i]).sum() for i in range(seq.size)])
                assert (r.beaten[part] >= newer).all(), "a skyband counts too few newer and better rows"
                assert (r.beaten[part] < k[q]).all(), "a skyband keeps a row that k newer ones beat"
