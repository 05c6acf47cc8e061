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

import math

from topwatch.algorithms.incomplete.engine import Design
from topwatch.algorithms.incomplete.kernels.object_scores import Objects
from topwatch.algorithms.incomplete.kernels.tally_loop import Arrivals, drive_tally
from topwatch.algorithms.incomplete.objects import Ledger, Sizes
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.stream import FifoFeed
from topwatch.query.incomplete_topk import IncompleteTopK


def design(slack: int | None = None) -> Design:
    """Return what makes the gathering of a query; ``slack`` entries are kept beyond k."""

    def make(feed: FifoFeed, query: IncompleteTopK) -> Ledger:
        return Ledger(feed, query, margin(slack), _Loop())

    return make


def margin(slack: int | None) -> Sizes:
    """Return how many entries are kept: ``slack`` beyond k, and as many again before they are cut."""

    def sizes(k: int, slots: int) -> tuple[int, int]:
        keep = k + (slack or max(k, 64, math.isqrt(slots)))
        return keep, 2 * keep

    return sizes


class _Loop:
    """Keeps nothing beside the objects and the best of them."""

    def follow(self, objects: Objects, moved_from: Objects | None) -> None:
        """Nothing to do."""

    def drive(self, ledger: Ledger, rows: Arrivals, step: Step, index: int, log: Log) -> Log:
        """Take a step of the window."""
        return drive_tally(ledger.objects, ledger.bests, rows, step, index, log)

    def precision(self) -> None:
        """All of the answer is right."""

    def stats(self) -> dict[str, int]:
        """Nothing to add."""
        return {}

    def _check(self, objects: Objects) -> None:
        pass
