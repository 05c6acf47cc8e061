"""Instances of objects beside a ledger: what EAA and its approximate form keep."""

from __future__ import annotations

from collections import deque

import numpy as np

from topwatch.algorithms.incomplete.appearances import Appearances
from topwatch.algorithms.incomplete.kernels.best_objects import SIZE, K
from topwatch.algorithms.incomplete.kernels.eaa_loop import (
    APART,
    BLOCK,
    MASK,
    OBJECTS,
    PRUNED,
    RETAINED,
    REVIVED,
    REVIVES,
    SWEPT,
    TIMES,
    Instances,
    drive_eaa,
    exact_scores,
)
from topwatch.algorithms.incomplete.kernels.object_scores import END, HEAD, NOBODY, Objects
from topwatch.algorithms.incomplete.kernels.tally_loop import Arrivals
from topwatch.algorithms.incomplete.objects import Ledger, size_of
from topwatch.algorithms.incomplete.pieces import cut_step
from topwatch.algorithms.incomplete.self_join import SelfJoin
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import Ints
from topwatch.query.incomplete_topk import IncompleteTopK

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
        Of the sketches that estimate what a silent source will say. Without, it may always say the most, and an
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
            rows = np.arange(objects.now[HEAD], objects.now[END] + 1)
            for name in ("current", "best", "retained"):
                getattr(new, name)[rows & (slots - 1)] = getattr(old, name)[rows & (before - 1)]
            np.add.at(new.dense, np.flatnonzero(new.retained) // BLOCK, 1)
            new.seen[:before] = old.seen
            new.alive[:before] = old.alive
            new.promise[:] = old.promise
            new.now[:] = old.now
        else:
            new.now[APART] = self._apart or 0
            new.now[REVIVES] = int(not approximate)
            new.now[MASK] = (1 << sources) - 1 if approximate else 0
            new.now[TIMES] = self._query.most or 1
            new.now[SWEPT] = objects.now[HEAD] - 1
            if self._instances is not None:
                new.now[[PRUNED, REVIVED]] = self._instances.now[[PRUNED, REVIVED]]
            self._appearances = Appearances(sources, self._bitmaps) if self._bitmaps is not None else None
            several = self._query.occurrences != "single" and self._query.most is None
            self._join = SelfJoin() if several else None
            self._due = int(objects.now[HEAD]) + LEAST
        self._instances = new

    def drive(self, ledger: Ledger, rows: Arrivals, step: Step, index: int, log: Log) -> Log:
        """Take a step of the window."""
        if self._appearances is None and self._join is None:
            return drive_eaa(ledger.objects, ledger.bests, self._instances, rows, step, index, log)
        for start, stop, part, due in cut_step(step, rows.ordinal.size, self._looks(rows)):
            if due:
                self._look(ledger, int(rows.head[start]))
            piece = Arrivals._make(column[start:stop] for column in rows)
            log = drive_eaa(ledger.objects, ledger.bests, self._instances, piece, part, index, log)
            self._add(piece)
        return log

    def _looks(self, rows: Arrivals) -> Ints:
        """Return the indices of the rows before which the statistics are due."""
        indices = []
        while rows.ordinal.size and self._due <= rows.ordinal[-1]:
            index = self._due - int(rows.ordinal[0])
            indices.append(index)
            self._due += max(LEAST, (self._due - int(rows.head[index])) // LOOKS)
        return np.array(indices, np.int64)

    def _add(self, rows: Arrivals) -> None:
        if self._appearances is not None:
            self._appearances.add(rows)
        if self._join is not None:
            counting = rows.source != NOBODY
            self._join.add(64 * rows.id[counting] + rows.source[counting], rows.ordinal[counting])

    def _look(self, ledger: Ledger, head: int) -> None:
        """Take the estimates that the statistics give now, and compare the answer with that of all rows."""
        if self._join is not None:
            self._instances.now[TIMES] = self._join.repeats(head)
        if self._appearances is not None:
            self._instances.promise[:] = self._appearances.table(head)
            self._looked += 1
            if self._looked % BETWEEN == 1:
                self._audit(ledger)

    def _audit(self, ledger: Ledger) -> None:
        objects, bests = ledger.objects, ledger.bests
        if bests.now[SIZE] < bests.now[K] and bests.threshold[0] != -np.inf:
            return  # entries are rebuilt at the next evaluation
        scores = np.empty(objects.rows.size)
        scores = scores[: exact_scores(objects, scores)]
        ranked = np.flatnonzero(~np.isnan(scores))
        k = min(int(bests.now[K]), ranked.size)
        if k == 0:
            return
        threshold = np.partition(scores[ranked], -k)[-k]
        near = ranked[scores[ranked] >= threshold]
        best = near[np.lexsort((-objects.newest[near], -scores[near]))[:k]]
        right = int(np.isin(best, bests.object[: min(k, int(bests.now[SIZE]))]).sum())
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
            "kept": int(now[RETAINED]),
            "objects_kept": int(now[OBJECTS]),
            "instances_pruned": int(now[PRUNED]),
            "instances_revived": int(now[REVIVED]),
        }
        if self._appearances is not None:
            counts |= {"audited": self._audited, "audited_right": self._right}
        return counts

    def _check(self, objects: Objects) -> None:
        e = self._instances
        rows = np.arange(objects.now[HEAD], objects.now[END] + 1)
        slots = rows[e.retained[rows & (e.retained.size - 1)] != 0] & (e.retained.size - 1)
        assert slots.size == e.now[RETAINED]
        assert np.all(objects.object[slots] != NOBODY)
        assert np.all(e.current[slots] <= e.best[slots])
        dense = np.bincount(np.flatnonzero(e.retained) // BLOCK, minlength=e.dense.size)
        assert np.array_equal(dense, e.dense)
        alive = np.bincount(objects.object[slots], minlength=e.alive.size)
        assert np.array_equal(alive, e.alive)
        assert np.count_nonzero(alive) == e.now[OBJECTS]


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
        now=np.zeros(9, np.int64),
    )
