"""Tally: keep every object's exact score, and the best of them in order above a bar.

Ours, exact. The papers' algorithms either look for the best objects in sorted lists (SLA) or keep instances that bound
what an object may still become (EAA). Neither is needed for an exact answer: a row or an expiry changes the score of
one object, which its parts give at once; an object below the bar stays there at the cost of a comparison, and
one above it moves in a short sorted run. When expiries have left fewer than k entries, one scan of the objects fills
the run again; as many entries leave as come in a steady stream, so that this is rare.

Cost per row and per expiry: O(sources), and O(log c) with one move of memory for the c entries, of which there are
about k + √N. A scan is O(N), after at least c − k of them have left. Memory: per row 32 B, per object 104 B and 24 B
for each source; objects are as many as slots.
"""

from __future__ import annotations

import math

import numpy as np

from topwatch.kernels.bests import ANSWERED, REFILLS, SCORES, SIZE, Bests, K
from topwatch.kernels.objects import DUPLICATES, HEAD, LIVE, NOBODY, Objects
from topwatch.kernels.rows import Log, Step
from topwatch.kernels.scoring import Floats, Ints
from topwatch.kernels.tally import Arrivals, drive_tally
from topwatch.queries import IncompleteTopK
from topwatch.structures.contest import NO_STEP
from topwatch.structures.engine import Found
from topwatch.structures.feed import FifoFeed
from topwatch.structures.gatherings import Design
from topwatch.structures.ledger import check, grown_bests, grown_objects, new_bests, new_objects, size_of, tell


def design(slack: int | None = None) -> Design:
    """Return what makes the gathering of a query; ``slack`` entries are kept beyond k."""

    def make(feed: FifoFeed, query: IncompleteTopK) -> TallyGathering:
        return TallyGathering(feed, query, slack)

    return make


class TallyGathering:
    """A query served by ``tally``."""

    def __init__(self, feed: FifoFeed, query: IncompleteTopK, slack: int | None) -> None:
        self._feed = feed
        self._query = query
        self._slack = slack
        self._objects, self._bests = self._empty()

    def _empty(self) -> tuple[Objects, Bests]:
        slots = self._feed.window.capacity
        k = min(self._query.k, slots)
        keep = k + (self._slack or max(k, 64, math.isqrt(slots)))
        return new_objects(self._query, slots), new_bests(k, keep, 2 * keep, slots)

    @property
    def duplicates(self) -> int:
        """Rows refused because their source has told of the object already."""
        return int(self._objects.now[DUPLICATES])

    @duplicates.setter
    def duplicates(self, count: int) -> None:
        self._objects.now[DUPLICATES] = count

    def begin(self, head: int, rows: Arrivals, told: tuple[Ints, Floats]) -> None:
        """Begin anew with these rows; ``told`` is what was last reported."""
        self._objects, self._bests = self._empty()
        self._objects.now[HEAD] = head
        self.process(rows, NO_STEP, 0)
        tell(self._objects, self._bests, *told)

    def process(self, rows: Arrivals, step: Step, place: int) -> Found:
        """Take a step of the window; return the changes at its judgements."""
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        log = drive_tally(self._objects, self._bests, rows, step, place, log)
        return Found(log.what[: log.size[0]], log.key[: log.size[0]])

    def answer(self) -> tuple[Ints, Floats]:
        """Return the newest rows of the objects of the last judgement's answer and their scores, best first."""
        n = int(self._bests.now[ANSWERED])
        return self._bests.answer[1, :n].copy(), self._bests.answered[:n].copy()

    def taken(self, ordinals: Ints) -> np.ndarray:
        """Tell which rows count, or have counted until they expired."""
        taken: np.ndarray = self._objects.object[ordinals & (self._objects.object.size - 1)] != NOBODY
        return taken

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        window = self._feed.window
        self._objects = grown_objects(self._objects, self._query, window.capacity, window.head)
        self._bests = grown_bests(self._bests, self._empty()[1])

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        now = self._bests.now
        return {
            "scores": int(now[SCORES]),
            "recomputations": int(now[REFILLS]),
            "objects": int(self._objects.now[LIVE]),
            "kept": int(now[SIZE]),
            "bytes": size_of(self._objects, self._bests),
        }

    def _check(self) -> None:
        assert self._bests.now[K] <= self._query.k
        check(self._objects, self._bests, self._query)
