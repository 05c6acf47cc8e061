"""BFA: keep every row's score, by comparing every arrival and every expiry with all rows.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011, section 3: the brute-force
algorithm, and the baseline to beat. The arrival and the expiry of an update share one vectorised pass over the window,
and the rows above a floor below the k-th score are collected on the way, so that an answer needs no second pass.

Cost per update: O(N d) comparisons. Memory per row: its values a second time, and a score.

Up to four columns are compared in one loop that writes nothing but scores, at about the pace at which memory can be
read; more columns take two loops.

To begin over a full window, as after a restore, all rows are scored once over the grid that the other algorithms use:
about 50 s for two million rows of four columns.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.algorithms.dominating.grid import DominanceGrid
from topwatch.algorithms.dominating.kernels.bfa_loop import BLOCK, OUT, Scores, ScoreScalars, drive_bfa
from topwatch.algorithms.dominating.kernels.counting import count_all, new_walk
from topwatch.algorithms.preferred import Preferred
from topwatch.core.arrays import Floats, Ints, size_of
from topwatch.core.engine import StateFactory, Window
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Report, Step, new_log, report_of
from topwatch.query.queries import Dominating


def bfa() -> StateFactory:
    """Return what makes the state of a query."""
    return BfaContest


class BfaContest:
    """A query that ``bfa`` answers."""

    def __init__(self, window: Window, query: Dominating, column_of: Mapping[str, int], expected: int) -> None:
        self._window = window
        self._k = min(query.k, expected) if expected else query.k
        self._preferred = Preferred(window, query, column_of)
        self._query, self._column_of = query, dict(column_of)
        self._result: Ints = np.empty(5 * self._k + 1024, np.int64)
        self._scores = self._empty()

    def _empty(self) -> Scores:
        size = self._window.capacity
        return Scores(
            np.full((len(self._preferred), size), np.nan),
            np.full(size, OUT, np.int32),
            np.zeros((3, self._k), np.int64),
            record(ScoreScalars, head=1),
            np.zeros((4, BLOCK), np.bool_),
        )

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots and scores that were last reported."""
        self._scores = s = self._empty()
        window = self._window
        s.value[:, slots] = self._preferred.values(slots)
        s.now.live = int(np.count_nonzero(~np.isnan(s.value[0, slots])))
        if window.fifo:
            s.now.head, s.now.end = window.end - slots.size + 1, window.end  # type: ignore[union-attr]
            if slots.size:
                s.now.head, s.now.end = window.seq[slots[0]], window.seq[slots[-1]]
        grid = DominanceGrid(window, self._query, self._column_of, even=True)
        grid.build(slots, slots, slots.size)
        s.score[slots[~np.isnan(s.value[0, slots])]] = 0
        walk = new_walk(len(self._preferred), slots.size)
        count_all(grid.lanes, window.rows(), grid.blocks, walk, s.score)
        n = reported[0].size
        s.answer[0, :n], s.answer[2, :n] = reported[0], reported[1].astype(np.int64)
        s.answer[1, :n] = window.seq[reported[0]] if window.fifo else window.entity[reported[0]]  # type: ignore[union-attr]
        s.now.answered = n
        s.now.floor = 0

    def process(self, step: Step, index: int) -> Report:
        """Process a step of the window; return the changes at its evaluations."""
        rows, fresh = self._window.rows(), self._preferred.values(step.arrived)
        self._result, log = drive_bfa(self._scores, rows, fresh, step, self._result, self._k, index, new_log())
        return report_of(log)

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, best first."""
        n = int(self._scores.now.answered)
        return self._scores.answer[0, :n].copy(), self._scores.answer[2, :n].astype(np.float64)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        old, window = self._scores, self._window
        new = self._empty()
        before, after = np.arange(old.score.size), np.arange(old.score.size)
        if window.fifo:
            ordinals = np.arange(old.now.head, old.now.end + 1)
            before, after = ordinals & (old.score.size - 1), ordinals & (window.capacity - 1)
            n = old.now.answered
            old.answer[0, :n] = old.answer[1, :n] & (window.capacity - 1)
        new.value[:, after] = old.value[:, before]
        new.score[after] = old.score[before]
        self._scores = old._replace(value=new.value, score=new.score)

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        now = self._scores.now
        return {
            "scores": int(now.passes),
            "comparisons": int(now.compared),
            "recomputations": int(now.selections),
            "kept": int(now.live),
            "bytes": size_of(self._scores, [self._result]),
        }

    def _check(self, rows: Ints) -> None:
        s = self._scores
        ranked = ~np.isnan(s.value[0])
        assert np.array_equal(ranked, s.score > OUT)
        assert s.now.live == ranked.sum()
