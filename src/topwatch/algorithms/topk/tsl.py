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

from topwatch.algorithms.options import view_size
from topwatch.algorithms.topk.designs import Design
from topwatch.algorithms.topk.engine import StandingEngine
from topwatch.algorithms.topk.kernels.threshold_algorithm import SortedColumns, run_by_sorted_lists
from topwatch.algorithms.topk.kernels.topk_loop import new_work
from topwatch.core.engine import Window
from topwatch.core.kernels.rows import Report, Step, new_log, report_of
from topwatch.core.sorted_lists import OrderedColumns


class TSL(StandingEngine):
    """A group of top-k queries over one window, whose views are refilled from sorted lists."""

    def __init__(self, window: Window, axes: list[int], expected: int, kmax: int | None = None) -> None:
        def sizes(k: int) -> tuple[int, int, int]:
            return (kmax or view_size(k),) * 3

        super().__init__(window, [], expected, Design(sizes, False, False, lists=lambda *_: False, walked=False))
        self._lists = OrderedColumns(axes)
        self._built = False

    def resume(self, head: int, evaluated: int) -> None:
        """Fill all views again from the window."""
        super().resume(head, evaluated)
        self._built = False

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        rows = self.window.rows()
        if not self._built or self._lists.crowded(step.arrived.size):
            live = self.window.live_slots()
            self._lists.build(rows, live[: live.size - step.arrived.size])
            self._built = True
        work = new_work(self.pool.runs.threshold.size, self._counts)
        expired = None if rows.fifo else step.expired
        columns = SortedColumns(self._lists.arrays, self._lists.columns)
        log = run_by_sorted_lists(rows, self._state(), expired, columns, step, new_log(), work)
        return report_of(log)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        self._built = False

    def indexed(self) -> None:
        """Nothing is indexed by queries."""

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        stats = super().stats()
        return {**stats, "bytes": stats["bytes"] + self._lists.bytes()}

    def _check(self) -> None:
        super()._check()
        if self._built:
            self._lists._check(self.window.rows(), self.window.live_slots())
