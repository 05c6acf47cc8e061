"""The state of a query over incomplete objects: what is known of each object, and the best in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from topwatch.algorithms.incomplete.kernels.best_objects import Bests, BestScalars
from topwatch.algorithms.incomplete.kernels.object_scores import (
    EXPRESSION,
    NO_OBJECT,
    Objects,
    ObjectScalars,
    Observations,
    Rule,
)
from topwatch.core.arrays import Floats, Ints, size_of
from topwatch.core.engine import NO_STEP
from topwatch.core.fifo import FifoFeed
from topwatch.core.hashing import empty_table, resized
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Log, Report, Step, new_log, report_of
from topwatch.core.kernels.scoring import STACK
from topwatch.query.errors import DataError
from topwatch.query.incomplete_topk import COMBINES, OCCURRENCES, IncompleteTopK


class Reported(NamedTuple):
    """What was last reported of some objects, best first."""

    rows: Ints  # the newest of each, as ordinals
    scores: Floats
    sources: Ints  # a bit for each that had a live row
    best: Floats  # the score that could still be got


def _new_objects(query: IncompleteTopK, slots: int) -> Objects:
    """Make room for the objects of a window with so many slots."""
    sources = len(query.sources)

    def zeros(*shape: int) -> Ints:
        return np.zeros(shape, np.int64)

    program = query.program()
    return Objects(
        object=np.full(slots, NO_OBJECT),
        source=zeros(slots),
        value=np.zeros(slots),
        next_row=zeros(slots),
        id=zeros(slots),
        rows=zeros(slots),
        newest=zeros(slots),
        score=np.zeros(slots),
        part=np.zeros((slots, sources)),
        first=zeros(slots, sources),
        last=zeros(slots, sources),
        table=empty_table(2 * slots),
        free=np.arange(slots - 1, -1, -1),
        dead=zeros(slots),
        listed=zeros(slots),
        factor=np.array(query.factors()),
        rule=_rule(query),
        program=np.array([op for op, _ in program], np.int64),
        argument=np.array([argument for _, argument in program]),
        stack=np.zeros(STACK),
        highest=np.zeros(sources),
        now=record(ObjectScalars, head=1, freed=slots),
    )


def _rule(query: IncompleteTopK) -> Rule:
    return record(
        Rule,
        combine=COMBINES.index(query.combine) if isinstance(query.combine, str) else EXPRESSION,
        occurrences=OCCURRENCES.index(query.occurrences),
        bounded=int(query.bounds is not None),
        most=query.most or 0,
    )


def _grown_objects(old: Objects, query: IncompleteTopK, slots: int, head: int) -> Objects:
    """Return the objects with more room; rows, held from ``head`` on, have new slots, objects keep their numbers."""
    new = _new_objects(query, slots)
    before = old.object.size
    ordinals = np.arange(head, old.now.end + 1)
    for name in ("object", "source", "value", "next_row"):
        getattr(new, name)[ordinals & (slots - 1)] = getattr(old, name)[ordinals & (before - 1)]
    for name in ("id", "rows", "newest", "score", "part", "first", "last", "dead", "listed"):
        getattr(new, name)[:before] = getattr(old, name)
    freed = int(old.now.freed)
    more = np.arange(slots - 1, before - 1, -1)
    new.free[: more.size] = more
    new.free[more.size : more.size + freed] = old.free[:freed]
    old.now.freed = freed + more.size
    return new._replace(table=resized(old.table, 2 * slots), now=old.now)


def _new_bests(k: int, keep: int, most: int, objects: int) -> Bests:
    """Make room for at most so many entries, of which a cut leaves ``keep``."""

    def zeros(*shape: int) -> Ints:
        return np.zeros(shape, np.int64)

    return Bests(
        score=np.zeros(most),
        newest=zeros(most),
        object=zeros(most),
        entry_row=zeros(objects),
        answer=zeros(3, k),
        answered=np.zeros((2, k)),
        member=zeros(objects),
        mark=zeros(objects),
        now=record(BestScalars, k=k, keep=keep, threshold=-np.inf),
    )


def _grown_bests(old: Bests, new: Bests) -> Bests:
    """Fill larger bests with what is in smaller ones."""
    n, answered, objects = int(old.now.entries), int(old.now.answered), old.entry_row.size
    for name in ("score", "newest", "object"):
        getattr(new, name)[:n] = getattr(old, name)[:n]
    for name in ("entry_row", "member", "mark"):
        getattr(new, name)[:objects] = getattr(old, name)
    new.answer[:, :answered] = old.answer[:, :answered]
    new.answered[:, :answered] = old.answered[:, :answered]
    for name in ("entries", "touched", "threshold", "threshold_row", "stamp", "answered", "refills", "scores"):
        setattr(new.now, name, getattr(old.now, name))
    return new


def _set_reported(o: Objects, b: Bests, reported: Reported) -> None:
    """Set what was last reported."""
    n = reported.rows.size
    numbers = o.object[reported.rows & (o.object.size - 1)]
    if np.any(numbers == NO_OBJECT) or np.unique(numbers).size < n:
        raise DataError("snapshot: an answer: expected one row of each object; the snapshot is damaged or forged")
    b.answer[:, :n] = numbers, reported.rows, reported.sources
    b.answered[:, :n] = reported.scores, reported.best
    b.member[numbers] = 1
    b.now.answered = n
    b.now.touched = 1


# From k and the slots to how many entries a cut leaves, and the room for all.
Sizes = Callable[[int, int], tuple[int, int]]


def margin(slack: int | None) -> Sizes:
    """Return how many entries are kept: ``slack`` beyond k, and as many again before they are cut."""

    def sizes(k: int, slots: int) -> tuple[int, int]:
        keep = k + (slack or max(k, 64, math.isqrt(slots)))
        return keep, 2 * keep

    return sizes


class Loop(Protocol):
    """An algorithm's loop over rows, with what it keeps beside the objects and the best of them."""

    def follow(self, objects: Objects, moved_from: Objects | None) -> None:
        """Begin with new objects, or follow the rows of known ones to their new slots."""

    def drive(self, table: ObjectTable, rows: Observations, step: Step, index: int, log: Log) -> Log:
        """Take a step of the window; log the changes at its evaluations."""

    def precision(self) -> float | None:
        """Estimate the share of the answer that is right; None where all of it is."""

    def stats(self) -> dict[str, int]:
        """Return counters of its own, and the ``bytes`` it has beside the objects and the best of them."""

    def _check(self, objects: Objects) -> None:
        """Assert the invariants."""


class ObjectTable:
    """The state of a query: all objects that it has seen, and the best of them. Rows are called by their ordinals.

    Parameters
    ----------
    feed : FifoFeed
        Owns the rows.
    query : IncompleteTopK
        The query.
    sizes : Sizes
        How many of the best are kept.
    loop : Loop
        The algorithm's.
    """

    def __init__(self, feed: FifoFeed, query: IncompleteTopK, sizes: Sizes, loop: Loop) -> None:
        self._feed = feed
        self._query = query
        self._sizes = sizes
        self._loop = loop
        self.objects, self.bests = _new_objects(query, feed.window.capacity), self._no_bests()
        loop.follow(self.objects, None)

    def _no_bests(self) -> Bests:
        slots = self._feed.window.capacity
        k = min(self._query.k, slots)
        return _new_bests(k, *self._sizes(k, slots), slots)

    @property
    def duplicates(self) -> int:
        """Rows refused because their source has reported the object already."""
        return int(self.objects.now.duplicates)

    @duplicates.setter
    def duplicates(self, count: int) -> None:
        self.objects.now.duplicates = count

    def begin(self, head: int, rows: Observations, reported: Reported) -> None:
        """Begin again with these rows, the first of which is ``head``; ``reported`` is what was last reported."""
        before = self.bests.now
        self.objects, self.bests = _new_objects(self._query, self._feed.window.capacity), self._no_bests()
        self.bests.now.scores, self.bests.now.refills = before.scores, before.refills
        self.objects.now.head = head
        self._loop.follow(self.objects, None)
        self.process(rows, NO_STEP, 0)
        _set_reported(self.objects, self.bests, reported)

    def process(self, rows: Observations, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        return report_of(self._loop.drive(self, rows, step, index, new_log()))

    def answer(self) -> Reported:
        """Return the last evaluation's answer."""
        n = int(self.bests.now.answered)
        _, rows, sources = self.bests.answer[:, :n].copy()
        scores, best = self.bests.answered[:, :n].copy()
        return Reported(rows, scores, sources, best)

    def counted(self, ordinals: Ints) -> np.ndarray:
        """Return which rows count, or have counted until they expired."""
        counted: np.ndarray = self.objects.object[ordinals & (self.objects.object.size - 1)] != NO_OBJECT
        return counted

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        window = self._feed.window
        before = self.objects
        self.objects = _grown_objects(before, self._query, window.capacity, window.head)
        self.bests = _grown_bests(self.bests, self._no_bests())
        self._loop.follow(self.objects, before)

    def precision(self) -> float | None:
        """Estimate the share of the answer that is right; None where all of it is."""
        return self._loop.precision()

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        now = self.bests.now
        more = self._loop.stats()
        return {
            "scores": int(now.scores),
            "recomputations": int(now.refills),
            "objects": int(self.objects.now.live),
            "kept": int(now.entries),
            **more,
            "bytes": size_of(self.objects, self.bests) + more.get("bytes", 0),
        }

    def _check(self) -> None:
        o, b = self.objects, self.bests
        mask = o.object.size - 1
        ordinals = np.arange(o.now.head, o.now.end + 1)
        counting = ordinals[o.object[ordinals & mask] != NO_OBJECT]
        slots = counting & mask
        rows = np.bincount(o.object[slots], minlength=o.rows.size)
        assert np.array_equal(rows, o.rows)
        live = np.flatnonzero(rows)
        assert live.size == o.now.live
        assert live.size == 0 or live.max() < o.now.used
        newest = np.zeros(o.rows.size, np.int64)
        np.maximum.at(newest, o.object[slots], counting)
        assert np.array_equal(newest[live], o.newest[live])
        assert o.now.duplicates == 0 or self._query.occurrences == "single"
        n = int(b.now.entries)
        assert np.array_equal(b.entry_row[b.object[:n]], b.newest[:n])
        assert np.count_nonzero(b.entry_row) == n
        assert np.array_equal(o.score[b.object[:n]], b.score[:n])
        order = np.lexsort((-o.newest[live], -o.score[live]))
        ranked = live[order][~np.isnan(o.score[live][order])]
        assert np.array_equal(ranked[:n], b.object[:n])
        if ranked.size > n:
            after = ranked[n]
            assert (o.score[after], o.newest[after]) < (b.now.threshold, b.now.threshold_row)
        self._loop._check(o)


TableFactory = Callable[[FifoFeed, IncompleteTopK], ObjectTable]
