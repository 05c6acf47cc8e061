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

from topwatch.algorithms.dominating.grid import DominanceGrid, new_walk
from topwatch.algorithms.dominating.kernels.bfa_loop import (
    COMPARED,
    END,
    FLOOR,
    HEAD,
    LIVE,
    OUT,
    PASSES,
    SELECTIONS,
    Scores,
    drive_bfa,
)
from topwatch.algorithms.dominating.kernels.blocks import NO_BOUND
from topwatch.algorithms.dominating.kernels.counting import count_all
from topwatch.core.engine import Report, Window
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.per_query_engine import Design
from topwatch.core.preferred_columns import Preferred
from topwatch.query.queries import Dominating


def design() -> Design:
    """Return what makes the contest of a query."""

    def make(window: Window, query: Dominating, column_of: Mapping[str, int], expected: int) -> BfaContest:
        return BfaContest(window, query, column_of, expected)

    return make


class BfaContest:
    """A query served by ``bfa``."""

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
            np.zeros(1, np.int64),
            np.array([1, 0, 0, 0, 0]),
            np.zeros((4, 1024), np.bool_),
            np.zeros(3, np.int64),
        )

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots and scores that were last reported."""
        self._scores = s = self._empty()
        window = self._window
        s.value[:, slots] = self._preferred.values(slots)
        s.now[LIVE] = np.count_nonzero(~np.isnan(s.value[0, slots]))
        if window.fifo:
            s.now[HEAD], s.now[END] = window.end - slots.size + 1, window.end  # type: ignore[union-attr]
            if slots.size:
                s.now[HEAD], s.now[END] = window.seq[slots[0]], window.seq[slots[-1]]
        grid = DominanceGrid(window, self._query, self._column_of, even=True)
        grid.build(slots, slots, slots.size, np.full(window.capacity, NO_BOUND, np.int32))
        s.score[slots[~np.isnan(s.value[0, slots])]] = 0
        walk = new_walk(len(self._preferred), slots.size)
        count_all(grid.lanes, window.rows(), grid.blocks, walk, s.score)
        n = reported[0].size
        s.answer[0, :n], s.answer[2, :n] = reported[0], reported[1].astype(np.int64)
        s.answer[1, :n] = window.seq[reported[0]] if window.fifo else window.entity[reported[0]]  # type: ignore[union-attr]
        s.answered[0] = n
        s.now[FLOOR] = 0

    def process(self, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        self._result, log = drive_bfa(
            self._scores,
            self._window.rows(),
            self._preferred.values(step.arrived),
            step,
            self._result,
            self._k,
            index,
            log,
        )
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, best first."""
        n = int(self._scores.answered[0])
        return self._scores.answer[0, :n].copy(), self._scores.answer[2, :n].astype(np.float64)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        old, window = self._scores, self._window
        new = self._empty()
        before, after = np.arange(old.score.size), np.arange(old.score.size)
        if window.fifo:
            ordinals = np.arange(old.now[HEAD], old.now[END] + 1)
            before, after = ordinals & (old.score.size - 1), ordinals & (window.capacity - 1)
            n = old.answered[0]
            old.answer[0, :n] = old.answer[1, :n] & (window.capacity - 1)
        new.value[:, after] = old.value[:, before]
        new.score[after] = old.score[before]
        self._scores = old._replace(value=new.value, score=new.score)

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        c = self._scores.counters
        return {
            "scores": int(c[PASSES]),
            "comparisons": int(c[COMPARED]),
            "recomputations": int(c[SELECTIONS]),
            "kept": int(self._scores.now[LIVE]),
            "bytes": sum(array.nbytes for array in self._scores) + self._result.nbytes,
        }

    def _check(self, rows: Ints) -> None:
        s = self._scores
        ranked = ~np.isnan(s.value[0])
        assert np.array_equal(ranked, s.score > OUT)
        assert s.now[LIVE] == ranked.sum()
