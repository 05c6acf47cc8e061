"""SLA: all valid rows in sorted lists, one for each source, and the best objects found by the threshold algorithm.

Haghani, Michel, Aberer: Evaluating top-k queries over incomplete data streams. CIKM 2009, section 3.1: the sorted list
algorithm, and the baseline. A view holds up to kmax > k objects, so that the lists are searched only when expiries have
left fewer than k of them. With ``view=False`` there is none, and every evaluation searches.

An object's other parts are not looked for in the other lists ("random access"): a table has them. Where a source
has several rows of an object (section 5), its list holds what they make together, in one entry: the threshold would be
too low for a sum if each row stood for itself. Equal scores are told apart by the newest row, so a search goes on
until the threshold is below the last object of the view, and not only equal to it.

Cost per row and per expiry: O(log N) in the list, O(log kmax) in the view; a search reads as much of the lists as
the values demand. Memory: as ``tally``, and 40 B for each source of an object beside the lists' entries.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.incomplete.engine import Design
from topwatch.algorithms.incomplete.kernels.object_scores import HEAD, Objects
from topwatch.algorithms.incomplete.kernels.sla_loop import ALWAYS, READ, Lists, drive_sla, list_all
from topwatch.algorithms.incomplete.kernels.tally_loop import Arrivals
from topwatch.algorithms.incomplete.objects import Ledger, size_of
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.sorted_lists import BUCKET
from topwatch.core.sorted_columns import new_ordered, view_size
from topwatch.core.stream import FifoFeed
from topwatch.query.incomplete_topk import IncompleteTopK


def design(kmax: int | None = None, view: bool = True) -> Design:
    """Return what makes the gathering of a query; the view, if there is one, has at most ``kmax`` objects."""

    def sizes(k: int, slots: int) -> tuple[int, int]:
        keep = k if not view else max(k, kmax) if kmax else view_size(k)  # a k beyond the slots has been cut to them
        return keep, keep + 1

    def make(feed: FifoFeed, query: IncompleteTopK) -> Ledger:
        return Ledger(feed, query, sizes, _Searching(view))

    return make


class _Searching:
    """The lists of one query, rebuilt when they are crowded or the objects have moved."""

    def __init__(self, view: bool) -> None:
        self._counters = np.array([0, int(not view)])
        self._lists: Lists

    def follow(self, objects: Objects, moved_from: Objects | None) -> None:
        """Rebuild the lists."""
        slots, sources = objects.part.shape
        ordered = new_ordered(sources, 4 * (slots // BUCKET) + 16, slots)
        self._lists = Lists(ordered, np.zeros((slots, sources)), np.zeros((slots, sources), np.int64), self._counters)
        list_all(objects, self._lists)

    def drive(self, ledger: Ledger, rows: Arrivals, step: Step, index: int, log: Log) -> Log:
        """Take a step of the window."""
        # An expiry moves the entry of an object that has more rows of the source: it may take a bucket as a row does.
        expiring = int(max(step.heads[-1], rows.head[-1] if rows.head.size else 0) - ledger.objects.now[HEAD])
        if self._crowded(rows.ordinal.size + max(0, expiring)):
            self.follow(ledger.objects, None)
        return drive_sla(ledger.objects, ledger.bests, self._lists, rows, step, index, log)

    def _crowded(self, more: int) -> bool:
        """Tell whether the lists could run out of buckets within so many rows and expiries."""
        ordered = self._lists.ordered
        return int(ordered.spares[0]) < ordered.buckets.size * (2 * more // BUCKET + 4)

    def precision(self) -> None:
        """All of the answer is right."""

    def stats(self) -> dict[str, int]:
        """How many entries of the lists have been read, and the size of the lists."""
        return {"entries_read": int(self._counters[READ]), "bytes": size_of(self._lists)}

    def _check(self, objects: Objects) -> None:
        lists = self._lists
        assert np.array_equal(lists.tick, objects.last)
        assert self._counters[ALWAYS] in (0, 1)
