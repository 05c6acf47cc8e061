"""EAA: early aggregation into instances, of which only those are retained that fewer than k objects dominate.

Haghani, Michel, Aberer: Evaluating top-k queries over incomplete data streams. CIKM 2009, section 3.2. An instance of
an object is what is left of it once the rows before one of its rows have gone: its current score counts the sources
that have a row from then on, its best score gives those that have not reported it the largest value. An instance
dominates an older one when its current score is above the other's best score, and that stays so. An instance that k
distinct other objects dominate is given up.

The paper keeps lists by current score (csorted) and by best score (bsorted), and for each instance a counter and the
ids of its dominators. Here one number is enough: k objects dominate an instance if and only if the k-th best score
that the rows after it make is above its best score. A walk over the instances, from the newest back, knows that number
at each of them, and gives up the same instances (``algorithms/incomplete/kernels/eaa_loop.py``). It is done after every
64th part of a window, so that some instances are retained a little longer.

Errata and readings:

- An object's score is that of its oldest valid instance; where that has been given up, the object is no answer.
- Section 3.2.1 gives a source whose row is older than the instance the value 0 in the best score, since an object comes
  once per stream. But it may come again once that row has expired, within the instance's life, and the instance gets
  more than it promised. So an instance that was given up comes back (``instances_revived``) when a row of its object
  raises its best score above what that was. With it answers are exact whatever comes; the rows are still in the
  window.
- Equal scores are ordered by the newest row, which may still come: only a strictly larger score dominates.
- Several rows of one source (section 5): the best score counts m − m_i more rows of a source that has m_i. The query
  gives m as ``most``; else an AMS sketch estimates it. Answers do not depend on m, only what is retained does.
- The parts of all objects are kept, not only of retained instances, to know duplicate rows. ``kept`` counts retained
  instances, as the paper does.

Cost per row: O(sources²) for the object's instances, or the square of its live rows if that is more; a walk is O(N)
after N/64 rows. Memory: as ``tally``, and 24 B a row.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from topwatch.algorithms.incomplete.kernels.eaa_loop import (
    BLOCK,
    Instances,
    InstanceScalars,
    drive_eaa,
    exact_scores,
)
from topwatch.algorithms.incomplete.kernels.object_scores import NO_OBJECT, Objects, Observations
from topwatch.algorithms.incomplete.objects import ObjectTable, TableFactory, margin
from topwatch.algorithms.incomplete.observations import cut_step
from topwatch.algorithms.incomplete.sketches import Appearances, SelfJoin
from topwatch.core.arrays import Ints, size_of
from topwatch.core.fifo import FifoFeed
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Log, Step
from topwatch.query.incomplete_topk import IncompleteTopK


def design(slack: int | None = None, sweep: int | None = None) -> TableFactory:
    """Return a factory of the state of a query, with ``sweep`` rows between two walks over the instances."""

    def make(feed: FifoFeed, query: IncompleteTopK) -> ObjectTable:
        return ObjectTable(feed, query, margin(slack), Aggregation(query, sweep))

    return make


LEAST = 64  # rows between two looks at the statistics
LOOKS = 4  # in a window
BETWEEN = 4  # looks from one audit to the next
AUDITS = 8  # that the estimated precision is a mean of


class Aggregation:
    """The instances of one query, with the statistics that bound what they may become: a loop.

    Parameters
    ----------
    query : IncompleteTopK
        The query.
    apart : int, optional
        Rows between two walks that give up dominated instances; 1/64 of the window if left out.
    bitmaps : int, optional
        Of the sketches that estimate what a silent source will report. Without, it may always report the most, and an
        instance that was given up comes back when its object can get more than was thought: answers are exact.
    """

    def __init__(self, query: IncompleteTopK, apart: int | None, bitmaps: int | None = None) -> None:
        self._query, self._apart, self._bitmaps = query, apart, bitmaps
        self._audits: deque[tuple[int, int]] = deque(maxlen=AUDITS)
        self._right = self._audited = self._looked = 0
        self._instances: Instances = None  # type: ignore[assignment]  # until :meth:`follow`
        self._appearances: Appearances | None = None
        self._join: SelfJoin | None = None

    def follow(self, objects: Objects, moved_from: Objects | None) -> None:
        """Begin with new objects, or follow the rows of known ones to their new slots."""
        slots, sources = objects.part.shape
        approximate = self._bitmaps is not None
        new = _new_instances(slots, sources, min(self._query.k, slots), 1 << sources if approximate else 1)
        if moved_from is not None:
            old, before = self._instances, moved_from.object.size
            rows = np.arange(objects.now.head, objects.now.end + 1)
            for name in ("current", "best", "retained"):
                getattr(new, name)[rows & (slots - 1)] = getattr(old, name)[rows & (before - 1)]
            np.add.at(new.dense, np.flatnonzero(new.retained) // BLOCK, 1)
            new.seen[:before] = old.seen
            new.alive[:before] = old.alive
            new = new._replace(promise=old.promise, now=old.now)
        else:
            now = new.now
            now.apart = self._apart or 0
            now.revives = int(not approximate)
            now.mask = (1 << sources) - 1 if approximate else 0
            now.times = self._query.most or 1
            now.swept = objects.now.head - 1
            if self._instances is not None:
                now.pruned, now.revived = self._instances.now.pruned, self._instances.now.revived
            self._appearances = Appearances(sources, self._bitmaps) if self._bitmaps is not None else None
            several = self._query.occurrences != "single" and self._query.most is None
            self._join = SelfJoin() if several else None
            self._due = int(objects.now.head) + LEAST
        self._instances = new

    def drive(self, table: ObjectTable, rows: Observations, step: Step, index: int, log: Log) -> Log:
        """Take a step of the window."""
        if self._appearances is None and self._join is None:
            return drive_eaa(table.objects, table.bests, self._instances, rows, step, index, log)
        for start, stop, part, due in cut_step(step, rows.ordinal.size, self._looks(rows)):
            if due:
                self._look(table, int(rows.head[start]))
            piece = Observations._make(column[start:stop] for column in rows)
            log = drive_eaa(table.objects, table.bests, self._instances, piece, part, index, log)
            self._add(piece)
        return log

    def _looks(self, rows: Observations) -> Ints:
        """Return the indices of the rows before which the statistics are due."""
        indices = []
        while rows.ordinal.size and self._due <= rows.ordinal[-1]:
            index = self._due - int(rows.ordinal[0])
            indices.append(index)
            self._due += max(LEAST, (self._due - int(rows.head[index])) // LOOKS)
        return np.array(indices, np.int64)

    def _add(self, rows: Observations) -> None:
        if self._appearances is not None:
            self._appearances.add(rows)
        if self._join is not None:
            counting = rows.source != NO_OBJECT
            self._join.add(64 * rows.id[counting] + rows.source[counting], rows.ordinal[counting])

    def _look(self, table: ObjectTable, head: int) -> None:
        """Take the estimates that the statistics give now, and compare the answer with that of all rows."""
        if self._join is not None:
            self._instances.now.times = self._join.repeats(head)
        if self._appearances is not None:
            self._instances.promise[:] = self._appearances.table(head)
            self._looked += 1
            if self._looked % BETWEEN == 1:
                self._audit(table)

    def _audit(self, table: ObjectTable) -> None:
        objects, bests = table.objects, table.bests
        if bests.now.entries < bests.now.k and bests.now.threshold != -np.inf:
            return  # entries are rebuilt at the next evaluation
        scores = np.empty(objects.rows.size)
        scores = scores[: exact_scores(objects, scores)]
        ranked = np.flatnonzero(~np.isnan(scores))
        k = min(int(bests.now.k), ranked.size)
        if k == 0:
            return
        threshold = np.partition(scores[ranked], -k)[-k]
        near = ranked[scores[ranked] >= threshold]
        best = near[np.lexsort((-objects.newest[near], -scores[near]))[:k]]
        right = int(np.isin(best, bests.object[: min(k, int(bests.now.entries))]).sum())
        self._audits.append((right, k))
        self._right += right
        self._audited += k

    def precision(self) -> float | None:
        """Estimate the share of the answer that is right from the last audits; NaN before the first one."""
        if self._appearances is None:
            return None
        right, audited = map(sum, zip(*self._audits, strict=True)) if self._audits else (0, 0)
        return right / audited if audited else float("nan")

    def stats(self) -> dict[str, int]:
        """Counters since the start: ``kept`` are the instances retained."""
        now = self._instances.now
        sketched = self._appearances.bytes() if self._appearances is not None else 0
        counts = {
            "bytes": size_of(self._instances) + sketched,
            "kept": int(now.retained),
            "objects_kept": int(now.objects),
            "instances_pruned": int(now.pruned),
            "instances_revived": int(now.revived),
        }
        if self._appearances is not None:
            counts |= {"audited": self._audited, "audited_right": self._right}
        return counts

    def _check(self, objects: Objects) -> None:
        e = self._instances
        rows = np.arange(objects.now.head, objects.now.end + 1)
        slots = rows[e.retained[rows & (e.retained.size - 1)] != 0] & (e.retained.size - 1)
        assert slots.size == e.now.retained
        assert np.all(objects.object[slots] != NO_OBJECT)
        assert np.all(e.current[slots] <= e.best[slots])
        dense = np.bincount(np.flatnonzero(e.retained) // BLOCK, minlength=e.dense.size)
        assert np.array_equal(dense, e.dense)
        alive = np.bincount(objects.object[slots], minlength=e.alive.size)
        assert np.array_equal(alive, e.alive)
        assert np.count_nonzero(alive) == e.now.objects


def _new_instances(slots: int, sources: int, k: int, sets: int) -> Instances:
    return Instances(
        current=np.full(slots, -np.inf),
        best=np.full(slots, np.inf),
        retained=np.zeros(slots, np.int64),
        dense=np.zeros(slots // BLOCK + 1, np.int64),
        alive=np.zeros(slots, np.int64),
        seen=np.zeros(slots, np.int64),
        promise=np.ones((sets, sources)),
        low=np.zeros(sources),
        high=np.zeros(sources),
        top=np.zeros(k),
        holder=np.zeros(k, np.int64),
        now=record(InstanceScalars),
    )
