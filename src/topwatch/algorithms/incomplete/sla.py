"""SLA: all valid rows in sorted lists, one for each source, and the best objects by the threshold algorithm.

Haghani, Michel, Aberer: Evaluating top-k queries over incomplete data streams. CIKM 2009, section 3.1: the sorted list
algorithm, and the baseline. A view holds up to kmax > k objects, so that the lists are searched only when expiries have
left fewer than k of them. With ``view=False`` there is none, and every evaluation searches.

An object's other parts are not looked for in the other lists ("random access"): a table has them. Where a source
has several rows of an object (section 5), its list holds what they make together, in one entry: the threshold would be
too low for a sum if each row had its own entry. Equal scores are ordered by the newest row, so a search continues
until the threshold is below the last object of the view, and not only equal to it.

Cost per row and per expiry: O(log N) in the list, O(log kmax) in the view; a search reads as much of the lists as
the values demand. Memory: as ``tally``, and 40 B for each source of an object beside the lists' entries.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.incomplete.kernels.object_loop import drive_objects
from topwatch.algorithms.incomplete.kernels.object_scores import Objects, Observations
from topwatch.algorithms.incomplete.kernels.source_lists import ListScalars, SourceLists, list_all
from topwatch.algorithms.incomplete.objects import ObjectTable, TableFactory
from topwatch.algorithms.options import view_size
from topwatch.core.arrays import size_of
from topwatch.core.fifo import FifoFeed
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.sorted_lists import BUCKET, crowded, new_ordered
from topwatch.query.incomplete_topk import IncompleteTopK


def design(kmax: int | None = None, view: bool = True) -> TableFactory:
    """Return a factory of the state of a query; the view, if there is one, has at most ``kmax`` objects."""

    def sizes(k: int, slots: int) -> tuple[int, int]:
        keep = k if not view else max(k, kmax) if kmax else view_size(k)  # a k beyond the slots has been cut to them
        return keep, keep + 1

    def make(feed: FifoFeed, query: IncompleteTopK) -> ObjectTable:
        return ObjectTable(feed, query, sizes, _Searching(view))

    return make


class _Searching:
    """The lists of one query, rebuilt when they are crowded or the objects have moved."""

    def __init__(self, view: bool) -> None:
        self._now = record(ListScalars, always=int(not view))
        self._lists: SourceLists

    def follow(self, objects: Objects, moved_from: Objects | None) -> None:
        """Rebuild the lists."""
        slots, sources = objects.part.shape
        ordered = new_ordered(sources, 4 * (slots // BUCKET) + 16, slots)
        self._lists = SourceLists(ordered, np.zeros((slots, sources)), np.zeros((slots, sources), np.int64), self._now)
        list_all(objects, self._lists)

    def drive(self, table: ObjectTable, rows: Observations, step: Step, index: int, log: Log) -> Log:
        """Take a step of the window."""
        # An expiry moves the entry of an object that has more rows of the source: it may take a bucket as a row does.
        expiring = int(max(step.heads[-1], rows.head[-1] if rows.head.size else 0) - table.objects.now.head)
        if crowded(self._lists.ordered, rows.ordinal.size + max(0, expiring)):
            self.follow(table.objects, None)
        return drive_objects(table.objects, table.bests, self._lists, rows, step, index, log)

    def precision(self) -> None:
        """All of the answer is right."""

    def stats(self) -> dict[str, int]:
        """How many entries of the lists have been read, and the size of the lists."""
        return {"entries_read": int(self._now.read), "bytes": size_of(self._lists)}

    def _check(self, objects: Objects) -> None:
        assert np.array_equal(self._lists.tick, objects.last)
