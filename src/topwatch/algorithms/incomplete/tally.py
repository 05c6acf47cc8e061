"""Tally: keep every object's exact score, and the best of them in order above a threshold.

Ours, exact. The papers' algorithms either look for the best objects in sorted lists (SLA) or keep instances that bound
what an object may still become (EAA). Neither is needed for an exact answer: a row or an expiry changes the score of
one object, which its parts give at once; an object below the threshold stays there at the cost of a comparison, and
one above it moves in a short sorted run. When expiries have left fewer than k entries, one scan of the objects fills
the run again; as many entries leave as come in a steady stream, so that this is rare.

Cost per row and per expiry: O(sources), and O(log c) with one move of memory for the c entries, of which there are
about k + √N. A scan is O(N), after at least c − k of them have left. Memory: per row 32 B, per object 104 B and 24 B
for each source; objects are as many as slots.
"""

from __future__ import annotations

from topwatch.algorithms.incomplete.kernels.object_loop import drive_objects
from topwatch.algorithms.incomplete.kernels.object_scores import Objects, Observations
from topwatch.algorithms.incomplete.objects import ObjectTable, TableFactory, margin
from topwatch.core.fifo import FifoFeed
from topwatch.core.kernels.rows import Log, Step
from topwatch.query.incomplete_topk import IncompleteTopK


def design(slack: int | None = None) -> TableFactory:
    """Return a factory of the state of a query; ``slack`` entries are kept beyond k."""

    def make(feed: FifoFeed, query: IncompleteTopK) -> ObjectTable:
        return ObjectTable(feed, query, margin(slack), _Loop())

    return make


class _Loop:
    """Keeps nothing beside the objects and the best of them."""

    def follow(self, objects: Objects, moved_from: Objects | None) -> None:
        """Nothing to do."""

    def drive(self, table: ObjectTable, rows: Observations, step: Step, index: int, log: Log) -> Log:
        """Take a step of the window."""
        return drive_objects(table.objects, table.bests, None, rows, step, index, log)

    def precision(self) -> None:
        """All of the answer is right."""

    def stats(self) -> dict[str, int]:
        """Nothing to add."""
        return {}

    def _check(self, objects: Objects) -> None:
        pass
