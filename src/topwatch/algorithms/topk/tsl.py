"""TSL, the threshold sorted list algorithm: the benchmark that SIGMOD'06 puts together from earlier work.

All rows are kept sorted by each column. Each query keeps a view of between k and kmax rows: every arrival is scored
for every query and enters the views it belongs to; when expiries leave fewer than k, the threshold algorithm (TA,
Fagin et al., PODS 2001) reads the sorted lists and refills the view with kmax rows (Yi et al., ICDE 2003).

Mouratidis, Bakiras, Papadias: Continuous monitoring of top-k queries over sliding windows. SIGMOD 2006, section 3.2.

Cost per arrival: O(Q d + d log N). Memory: O(N d + Q kmax) and d sorted lists of N rows.

Ours differs: lists are sorted buckets, not trees; arrivals are scored by the fused loop of ``scan``; a row enters a
view when it reaches the threshold of the last refill (the paper: the last row of the view, which refills sooner).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from topwatch.algorithms.topk.engine import Design, Standing
from topwatch.algorithms.topk.grid import unindexed
from topwatch.algorithms.topk.kernels.report import Answers
from topwatch.algorithms.topk.kernels.route import Index, new_hits, route_by_scan
from topwatch.algorithms.topk.kernels.sorted_runs import Runs
from topwatch.algorithms.topk.kernels.threshold_algorithm import fill_by_threshold
from topwatch.algorithms.topk.kernels.topk_loop import (
    HIT,
    STALE,
    age,
    begin,
    evaluate,
    new_index,
    put_in_order,
    release,
    take_in,
)
from topwatch.algorithms.topk.kernels.walk_cells import FILLS
from topwatch.core.engine import Report, Window
from topwatch.core.jit import ZERO, kernel
from topwatch.core.kernels.rows import Log, Rows, Step, with_room
from topwatch.core.kernels.scoring import BLOCK, Floats, Ints, Queries
from topwatch.core.kernels.sorted_lists import Ordered
from topwatch.core.saved_state import Saved
from topwatch.core.sorted_columns import OrderedColumns, put_row, take_row, view_size
from topwatch.query.queries import Query


class TSL:
    """A group of top-k queries over one window, refilled from sorted lists."""

    in_order = True

    def __init__(self, window: Window, axes: list[int], expected: int, kmax: int | None = None) -> None:
        self._kmax = kmax
        design = Design(
            sizes=lambda k: (kmax or view_size(k),) * 3,
            banded=False,
            unsorted=False,
            lists=lambda *_: False,
            walked=False,
        )
        self._standing = Standing(window, [], expected, design)
        self._lists = OrderedColumns(axes)
        self._built = False
        self.window = window
        self.pool = self._standing.pool
        self._counters = np.zeros(8, np.int64)

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Write a query into the tables; :meth:`start` gives it its first answer."""
        return self._standing.add(query, column_of)

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation."""
        return self._standing.start(index, head, moment, at)

    def resume(self, head: int, evaluated: int) -> None:
        """Fill all views again from the window."""
        self._standing.resume(head, evaluated)
        self._built = False

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Nothing: all is derived from the window."""
        return {}

    def load(self, saved: Saved) -> None:
        """Nothing was saved."""

    def remove(self, index: int) -> None:
        """Take a query out."""
        self._standing.remove(index)

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        rows = self.window.rows()
        if not self._built or self._lists.crowded(step.arrived.size):
            live = self.window.live_slots()
            self._lists.build(rows, live[: live.size - step.arrived.size])
            self._built = True
        table, pool = self._standing.table, self.pool
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        log = _drive(
            rows,
            table.arrays,
            pool.runs,
            pool.answers,
            unindexed(table.indices),
            self._lists.arrays,
            self._lists.columns,
            step,
            log,
            self._counters,
        )
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return the slots and keys of the last evaluation's answer, best first."""
        return self._standing.answer(index, live)

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Set what was last reported, after a restore."""
        self._standing.set_answer(index, slots, keys)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        self._standing.relocate()
        self._built = False

    def indexed(self) -> None:
        """Nothing is indexed by queries."""

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        stats = self._standing.stats()
        stats["scores"] += int(self._counters[0])
        stats["recomputations"] += int(self._counters[FILLS])
        stats["bytes"] += self._lists.bytes()
        return stats

    def _check(self) -> None:
        self._standing._check()
        if self._built:
            self._lists._check(self.window.rows(), self.window.live_slots())


@kernel
def _drive(
    rows: Rows,
    table: Queries,
    runs: Runs,
    answers: Answers,
    none: Index,
    lists: Ordered,
    axes: Ints,
    step: Step,
    log: Log,
    counters: Ints,
) -> Log:
    """Take a step: the loop of ``algorithms/topk/kernels/topk_loop.py`` with sorted lists for a grid."""
    hits = new_hits(len(runs.threshold))
    stale = np.empty(len(runs.threshold), np.int64)
    here = new_index(len(runs.threshold))
    begin(runs, answers, stale, here)
    block = BLOCK
    i = ZERO
    j = ZERO
    while True:
        stop = min(len(step.arrived), i + block)
        hits.size[0] = 0
        if i < stop and not route_by_scan(table, runs.threshold, rows.columns, step.arrived, i, stop, hits, counters):
            block = max(1, block // 4)
            continue
        block = min(BLOCK, 2 * block)
        here[HIT] = 0
        fell = False
        while not fell:
            until = min(stop, step.arrivals[j]) if j < len(step.at) else stop
            for r in range(i, until):
                put_row(lists, axes, rows.columns, rows.seq, step.arrived[r])
            take_in(rows, table, runs, answers, none, step, j, i, until, hits, stale, here, counters)
            i = until
            if j == len(step.at) or step.arrivals[j] > i:
                break
            release(rows, table, runs, answers, none, step, j, stale, here)
            put_in_order(answers, stale, here)
            if rows.fifo:
                for ordinal in range(step.heads[j], step.heads[j + 1]):
                    take_row(lists, axes, rows.columns, rows.seq, ordinal & rows.mask)
            else:
                for e in range(step.expiries[j - 1] if j > 0 else 0, step.expiries[j]):
                    take_row(lists, axes, rows.columns, rows.seq, step.expired[e])
            t = ZERO
            while t < here[STALE]:
                t = evaluate(rows, table, runs, answers, none, stale, t, here[STALE], step.at[j], log)
                if t == here[STALE]:
                    break
                q = stale[t]
                if runs.size[q] < table.k[q] and runs.whole[q] == 0:
                    before = runs.threshold[q]
                    counters[FILLS] += 1
                    fill_by_threshold(table, q, rows, lists, runs, counters)
                    age(here, q, runs.oldest[q])
                    fell = fell or runs.threshold[q] < before
                log = with_room(log, 2 * table.k[q])
            here[STALE] = 0
            j += 1
        if i == len(step.arrived) and j == len(step.at):
            return log
