"""The ledger: all objects of a query with what is known of them, and the best in order, as large as the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from topwatch.algorithms.incomplete.kernels.best_objects import (
    ANSWERED,
    KEEP,
    REFILLS,
    SCORES,
    SIZE,
    STAMP,
    THRESHOLD,
    TOUCHED,
    Bests,
    K,
)
from topwatch.algorithms.incomplete.kernels.object_scores import (
    DUPLICATES,
    END,
    EXPRESSION,
    FREES,
    HEAD,
    LIVE,
    NOBODY,
    USED,
    Objects,
)
from topwatch.algorithms.incomplete.kernels.tally_loop import Arrivals
from topwatch.core.engine import Report
from topwatch.core.kernels.latest_rows import FREE, Entities, enter
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import STACK, Floats, Ints
from topwatch.core.per_query_engine import NO_STEP
from topwatch.core.stream import FifoFeed
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

    now = zeros(7)
    now[HEAD], now[FREES] = 1, slots
    program = query.program()
    return Objects(
        object=np.full(slots, NOBODY),
        source=zeros(slots),
        value=np.zeros(slots),
        later=zeros(slots),
        id=zeros(slots),
        rows=zeros(slots),
        newest=zeros(slots),
        score=np.zeros(slots),
        part=np.zeros((slots, sources)),
        first=zeros(slots, sources),
        last=zeros(slots, sources),
        table=Entities(zeros(2 * slots), np.full(2 * slots, FREE)),
        free=np.arange(slots - 1, -1, -1),
        dead=zeros(slots),
        listed=zeros(slots),
        factor=np.array(query.factors()),
        rule=np.array(_rule(query)),
        program=np.array([op for op, _ in program], np.int64),
        argument=np.array([argument for _, argument in program]),
        stack=np.zeros(STACK),
        hope=np.zeros(sources),
        now=now,
    )


def _rule(query: IncompleteTopK) -> list[int]:
    how = COMBINES.index(query.combine) if isinstance(query.combine, str) else EXPRESSION
    return [how, OCCURRENCES.index(query.occurrences), int(query.bounds is not None), query.most or 0]


def _grown_objects(old: Objects, query: IncompleteTopK, slots: int, head: int) -> Objects:
    """Return the objects with more room; rows, held from ``head`` on, have new slots, objects keep their numbers."""
    new = _new_objects(query, slots)
    before = old.object.size
    ordinals = np.arange(head, old.now[END] + 1)
    for name in ("object", "source", "value", "later"):
        getattr(new, name)[ordinals & (slots - 1)] = getattr(old, name)[ordinals & (before - 1)]
    for name in ("id", "rows", "newest", "score", "part", "first", "last", "dead", "listed"):
        getattr(new, name)[:before] = getattr(old, name)
    known = np.flatnonzero(old.table.entity != FREE)
    numbers = old.table.entity[known]
    enter(new.table, old.table.id[known], numbers[::-1].copy(), numbers.size, np.empty(numbers.size, np.int64))
    frees = int(old.now[FREES])
    more = np.arange(slots - 1, before - 1, -1)
    new.free[: more.size] = more
    new.free[more.size : more.size + frees] = old.free[:frees]
    new.now[:] = old.now
    new.now[FREES] = frees + more.size
    return new


def _new_bests(k: int, keep: int, most: int, objects: int) -> Bests:
    """Make room for at most so many entries, of which a cut keeps ``keep``."""

    def zeros(*shape: int) -> Ints:
        return np.zeros(shape, np.int64)

    now = zeros(9)
    now[K], now[KEEP] = k, keep
    return Bests(
        np.zeros(most), zeros(most), zeros(most), zeros(objects), np.full(1, -np.inf),
        zeros(3, k), np.zeros((2, k)), zeros(objects), zeros(objects), now,
    )  # fmt: skip


def _grown_bests(old: Bests, new: Bests) -> Bests:
    """Fill larger bests with what is in smaller ones."""
    n, answered, objects = int(old.now[SIZE]), int(old.now[ANSWERED]), old.seated.size
    for name in ("score", "newest", "object"):
        getattr(new, name)[:n] = getattr(old, name)[:n]
    for name in ("seated", "member", "mark"):
        getattr(new, name)[:objects] = getattr(old, name)
    new.answer[:, :answered] = old.answer[:, :answered]
    new.answered[:, :answered] = old.answered[:, :answered]
    new.threshold[:] = old.threshold
    for counter in (SIZE, TOUCHED, THRESHOLD, STAMP, ANSWERED, REFILLS, SCORES):
        new.now[counter] = old.now[counter]
    return new


def _tell(o: Objects, b: Bests, reported: Reported) -> None:
    """Say what was last reported."""
    n = reported.rows.size
    numbers = o.object[reported.rows & (o.object.size - 1)]
    if np.any(numbers == NOBODY) or np.unique(numbers).size < n:
        raise DataError("snapshot: an answer: expected one row of each object; the snapshot is damaged or forged")
    b.answer[:, :n] = numbers, reported.rows, reported.sources
    b.answered[:, :n] = reported.scores, reported.best
    b.member[numbers] = 1
    b.now[ANSWERED] = n
    b.now[TOUCHED] = 1


def size_of(*structures: tuple[Any, ...]) -> int:
    """Return the bytes of all arrays."""
    return sum(size_of(a) if isinstance(a, tuple) else int(a.nbytes) for arrays in structures for a in arrays)


# From k and the slots to how many entries a cut keeps, and the room for all.
Sizes = Callable[[int, int], tuple[int, int]]


class Loop(Protocol):
    """An algorithm's loop over rows, with what it keeps beside the objects and the best of them."""

    def follow(self, objects: Objects, moved_from: Objects | None) -> None:
        """Begin with new objects, or follow the rows of known ones to their new slots."""

    def drive(self, ledger: Ledger, rows: Arrivals, step: Step, index: int, log: Log) -> Log:
        """Take a step of the window; log the changes at its evaluations."""

    def precision(self) -> float | None:
        """Estimate the share of the answer that is right; None where all of it is."""

    def stats(self) -> dict[str, int]:
        """Return counters of its own, and the ``bytes`` it has beside the objects and the best of them."""

    def _check(self, objects: Objects) -> None:
        """Assert the invariants."""


class Ledger:
    """A query whose algorithm knows all objects; a gathering.

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
        return int(self.objects.now[DUPLICATES])

    @duplicates.setter
    def duplicates(self, count: int) -> None:
        self.objects.now[DUPLICATES] = count

    def begin(self, head: int, rows: Arrivals, reported: Reported) -> None:
        """Begin again with these rows, the first of which is ``head``; ``reported`` is what was last reported."""
        before = self.bests.now
        self.objects, self.bests = _new_objects(self._query, self._feed.window.capacity), self._no_bests()
        self.bests.now[[SCORES, REFILLS]] = before[[SCORES, REFILLS]]
        self.objects.now[HEAD] = head
        self._loop.follow(self.objects, None)
        self.process(rows, NO_STEP, 0)
        _tell(self.objects, self.bests, reported)

    def process(self, rows: Arrivals, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        log = self._loop.drive(self, rows, step, index, log)
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def answer(self) -> Reported:
        """Return the last evaluation's answer."""
        n = int(self.bests.now[ANSWERED])
        _, rows, sources = self.bests.answer[:, :n].copy()
        scores, best = self.bests.answered[:, :n].copy()
        return Reported(rows, scores, sources, best)

    def taken(self, ordinals: Ints) -> np.ndarray:
        """Tell which rows count, or have counted until they expired."""
        taken: np.ndarray = self.objects.object[ordinals & (self.objects.object.size - 1)] != NOBODY
        return taken

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
            "scores": int(now[SCORES]),
            "recomputations": int(now[REFILLS]),
            "objects": int(self.objects.now[LIVE]),
            "kept": int(now[SIZE]),
            **more,
            "bytes": size_of(self.objects, self.bests) + more.get("bytes", 0),
        }

    def _check(self) -> None:
        o, b = self.objects, self.bests
        mask = o.object.size - 1
        ordinals = np.arange(o.now[HEAD], o.now[END] + 1)
        counting = ordinals[o.object[ordinals & mask] != NOBODY]
        slots = counting & mask
        rows = np.bincount(o.object[slots], minlength=o.rows.size)
        assert np.array_equal(rows, o.rows)
        live = np.flatnonzero(rows)
        assert live.size == o.now[LIVE]
        assert live.size == 0 or live.max() < o.now[USED]
        newest = np.zeros(o.rows.size, np.int64)
        np.maximum.at(newest, o.object[slots], counting)
        assert np.array_equal(newest[live], o.newest[live])
        assert o.now[DUPLICATES] == 0 or self._query.occurrences == "single"
        n = int(b.now[SIZE])
        assert np.array_equal(b.seated[b.object[:n]], b.newest[:n])
        assert np.count_nonzero(b.seated) == n
        assert np.array_equal(o.score[b.object[:n]], b.score[:n])
        order = np.lexsort((-o.newest[live], -o.score[live]))
        ranked = live[order][~np.isnan(o.score[live][order])]
        assert np.array_equal(ranked[:n], b.object[:n])
        if ranked.size > n:
            after = ranked[n]
            assert (o.score[after], o.newest[after]) < (b.threshold[0], b.now[THRESHOLD])
        self._loop._check(o)
