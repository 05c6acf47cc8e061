"""SLA: all valid rows in sorted lists, one for each source, and the best objects found by the threshold algorithm.

Haghani, Michel, Aberer: Evaluating top-k queries over incomplete data streams. CIKM 2009, section 3.1: the sorted list
algorithm, and the baseline. A view holds up to kmax > k objects, so that the lists are searched only when expiries have
left fewer than k of them.

An object's other parts are not looked for in the other lists ("random access"): a table has them. Where a source
has several rows of an object (section 5), its list holds what they make together, in one entry: the threshold would be
too low for a sum if each row stood for itself. Equal scores are told apart by the newest row, so a search goes on
until the threshold is below the last object of the view, and not only equal to it.

Cost per row and per expiry: O(log N) in the list, O(log kmax) in the view; a search reads as much of the lists as
the values demand. Memory: as ``tally``, and 40 B for each source of an object beside the lists' entries.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.tsl import view_size
from topwatch.errors import QueryError
from topwatch.kernels.objects import Objects
from topwatch.kernels.ordered import BUCKET
from topwatch.kernels.rows import Log, Step
from topwatch.kernels.sla import Lists, drive_sla, list_all
from topwatch.kernels.tally import Arrivals
from topwatch.queries import IncompleteTopK
from topwatch.structures.feed import FifoFeed
from topwatch.structures.gatherings import Design
from topwatch.structures.ledger import Ledger
from topwatch.structures.ordered import new_ordered


def design(kmax: int | None = None) -> Design:
    """Return what makes the gathering of a query; the view has at most ``kmax`` objects."""

    def sizes(k: int, slots: int) -> tuple[int, int]:
        keep = max(k, kmax) if kmax else view_size(k)  # a k beyond the window's slots has been cut to them
        return keep, keep + 1

    def make(feed: FifoFeed, query: IncompleteTopK) -> Ledger:
        if kmax is not None and kmax < query.k:
            raise QueryError(f"kmax: expected at least k of every query, got {kmax} for a k of {query.k}")
        return Ledger(feed, query, sizes, _Searching().drive)

    return make


class _Searching:
    """The lists of one query, made anew when they are crowded or the objects have moved."""

    def __init__(self) -> None:
        self._objects: Objects | None = None
        self._lists: Lists

    def drive(self, ledger: Ledger, rows: Arrivals, step: Step, place: int, log: Log) -> Log:
        """Take a step of the window."""
        objects = ledger.objects
        if self._objects is not objects or self._crowded(rows.ordinal.size):
            self._lists = _new_lists(*objects.part.shape)
            self._objects = objects
            list_all(objects, self._lists)
        return drive_sla(objects, ledger.bests, self._lists, rows, step, place, log)

    def _crowded(self, more: int) -> bool:
        """Tell whether the lists could run out of buckets within so many rows."""
        ordered = self._lists.ordered
        return int(ordered.spares[0]) < ordered.buckets.size * (2 * more // BUCKET + 4)


def _new_lists(objects: int, sources: int) -> Lists:
    ordered = new_ordered(sources, 4 * (objects // BUCKET) + 16, objects)
    shape = (objects, sources)
    return Lists(ordered, np.zeros(shape), np.zeros(shape, np.int64), np.zeros(1, np.int64))
