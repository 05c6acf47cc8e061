"""EAA: early aggregation into instances, of which only those are retained that fewer than k objects dominate.

Haghani, Michel, Aberer: Evaluating top-k queries over incomplete data streams. CIKM 2009, section 3.2. An instance of
an object is what is left of it once the rows before one of its rows have gone: its current score counts the sources
that have a row from then on, its best score gives the others the largest value. An instance dominates an older one when
its current score is above the other's best score, and that stays so. An instance that k distinct other objects dominate
is given up. Lists by current score (csorted) and by best score (bsorted) tell whom a row makes dominate whom.

Errata and readings:

- Section 3.2.1 gives a source whose row is older than the instance the value 0 in the best score, since an object comes
  once per stream. Here it may come again once that row has expired, within the instance's life; so such a
  source counts with the largest value too, and answers are exact under re-arrival. Many more instances are retained for
  it; ``once=True`` promises that no source tells of an object twice while it lives, and has the paper's best scores.
- Dominators are counted by object. No list of their ids is kept: an object had been counted before if and only if an
  instance of it, newer than the one it dominates, had a current score above its best one.
- Equal scores are told apart by the newest row, which may still come: only a strictly larger score dominates.
- The parts of all objects are kept, not only of retained instances, to know duplicate rows. ``kept`` counts
  retained instances, as the paper does.

Several rows of one source (section 5) are not served: they need a bound on how many there can be.

Cost per row: O(sources log N) for the lists, and a look at the instances between the old and the new scores.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from topwatch.algorithms.topk.tsl import view_size
from topwatch.errors import QueryError
from topwatch.kernels.eaa import COMPARED, ONCE, PRUNED, RETAINED, Instances, drive_eaa, list_retained
from topwatch.kernels.objects import END, Objects
from topwatch.kernels.ordered import BUCKET, Ordered
from topwatch.kernels.rows import Log, Step
from topwatch.kernels.tally import Arrivals
from topwatch.queries import IncompleteTopK
from topwatch.structures.feed import FifoFeed
from topwatch.structures.gatherings import Design
from topwatch.structures.ledger import Ledger
from topwatch.structures.ordered import new_ordered


def design(kmax: int | None = None, once: bool = False) -> Design:
    """Return what makes the gathering of a query; the view has at most ``kmax`` objects."""

    def sizes(k: int, slots: int) -> tuple[int, int]:
        keep = max(k, kmax) if kmax else view_size(k)
        return keep, keep + 1

    def make(feed: FifoFeed, query: IncompleteTopK) -> Ledger:
        if kmax is not None and kmax < query.k:
            raise QueryError(f"kmax: expected at least k of every query, got {kmax} for a k of {query.k}")
        aggregation = _Aggregation(lambda: feed.window.head, once)
        return Ledger(feed, query, sizes, aggregation.drive, whole=False, stats=aggregation.stats)

    return make


class _Aggregation:
    """The instances of one query."""

    def __init__(self, head: Callable[[], int], once: bool) -> None:
        self._head = head  # of the rows held
        self._once = once
        self._objects: Objects | None = None
        self._instances: Instances

    def drive(self, ledger: Ledger, rows: Arrivals, step: Step, place: int, log: Log) -> Log:
        """Take a step of the window."""
        objects = ledger.objects
        if self._objects is not objects:
            self._follow(objects)
        elif self._crowded(rows.ordinal.size, objects.factor.size):
            self._list(objects)
        return drive_eaa(objects, ledger.bests, self._instances, rows, step, place, log)

    def _follow(self, objects: Objects) -> None:
        """Make instances for objects that are new, or move them to where the rows are now."""
        slots, sources = objects.part.shape
        new = _new_instances(slots, sources)
        ordinals = np.arange(self._head(), objects.now[END] + 1)
        if self._objects is not None and ordinals.size:
            old, before = self._instances, self._objects.object.size
            for name in ("current", "best", "dominators", "retained"):
                getattr(new, name)[ordinals & (slots - 1)] = getattr(old, name)[ordinals & (before - 1)]
            new.now[:] = old.now
            new.seen[: old.seen.size] = old.seen
        new.now[ONCE] = self._once
        self._instances, self._objects = new, objects
        self._list(objects)

    def _list(self, objects: Objects) -> None:
        slots, sources = objects.part.shape
        self._instances = self._instances._replace(ordered=_new_lists(slots, sources))
        list_retained(objects, self._instances)

    def _crowded(self, more: int, sources: int) -> bool:
        """Tell whether the lists could run out of buckets: each row moves an entry for each source."""
        return int(self._instances.ordered.spares[0]) < 2 * (2 * sources * more // BUCKET + 4)

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        now = self._instances.now if self._objects is not None else np.zeros(5, np.int64)
        return {
            "kept": int(now[RETAINED]),
            "instances_pruned": int(now[PRUNED]),
            "comparisons": int(now[COMPARED]),
        }


def _new_lists(slots: int, sources: int) -> Ordered:
    return new_ordered(2, (2 * sources + 4) * (slots // BUCKET + 4), 0)


def _new_instances(slots: int, sources: int) -> Instances:
    ints = [np.zeros(slots, np.int64) for _ in range(6)]
    dominators, retained, met, counted, seen, doomed = ints
    return Instances(
        new_ordered(2, 1, 0),
        np.zeros(slots),
        np.zeros(slots),
        dominators,
        retained,
        met,
        counted,
        seen,
        np.zeros((2, sources)),
        doomed,
        np.zeros(5, np.int64),
    )
