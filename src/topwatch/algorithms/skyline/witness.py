"""witness: every row that is not in the skyline knows one that dominates it, and is compared again when that one goes.

In windows that rows leave in the order they came, that is the youngest dominator: a row that a newer one dominates can
never come into the skyline and is dropped, and where all dominators are older, the row comes into it when the youngest
has expired. So the moment is known when the row arrives (:class:`UnbeatenRows`). In ``latest()`` windows, where rows
move and go at any time, any dominator will do (:class:`WitnessedRows`).

This is not in the five papers. For first-in-first-out windows the idea is that of the eager algorithm of Tao and
Papadias, "Maintaining sliding window skylines on data streams", TKDE 18(3), 2006; comparing from the newest row on, and
stopping at the first dominator, replaces their search tree.

Exact. Retained: the rows that no newer one dominates, of ``latest()`` windows all rows. ``FrequentSkyline`` counts over
the changes of the skyline, O(ids) at each evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.algorithms.preferred import Preferred
from topwatch.algorithms.skyline.frequent import Frequent
from topwatch.algorithms.skyline.kernels.dominance import BLOCK
from topwatch.algorithms.skyline.kernels.fifo_loop import (
    DROPPED,
    Unbeaten,
    UnbeatenScalars,
    begin_unbeaten,
    drive_unbeaten,
)
from topwatch.algorithms.skyline.kernels.witness_loop import (
    FRONT,
    NO_ROW,
    Witnessed,
    WitnessScalars,
    begin_witnessed,
    drive_witnessed,
)
from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints, size_of
from topwatch.core.engine import QueryState, StateFactory, Window
from topwatch.core.fifo import RingWindow
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import ENTER, NOTHING, Report, Step, new_log, report_of
from topwatch.core.latest import LatestWindow
from topwatch.query.queries import FrequentSkyline, Skyline

LEAST = 1024  # rows of capacity to begin with


def witness() -> StateFactory:
    """Return what makes the state of a query."""

    def make(
        window: Window, query: Skyline | FrequentSkyline, column_of: Mapping[str, int], expected: int
    ) -> QueryState:
        if isinstance(query, FrequentSkyline):
            assert isinstance(window, LatestWindow)
            return Frequent(window, query, column_of, EverySkyline(window, query, column_of))
        if isinstance(window, LatestWindow):
            return WitnessedRows(window, query, column_of)
        return UnbeatenRows(window, query, column_of)

    return make


class UnbeatenRows:
    """A skyline query over a first-in-first-out window: the rows that no newer one dominates.

    Each knows its youngest dominator.

    Retained are the rows that are in the skyline of the window with the arrival as one more column in which newer is
    better: about (ln n)^d / d! of n rows with independent columns. An arrival costs as many comparisons as rows came
    after its youngest dominator, at most all of them.
    """

    def __init__(self, window: RingWindow, query: Skyline, column_of: Mapping[str, int]) -> None:
        self._window = window
        self._preferred = Preferred(window, query, column_of)
        self._rows = _no_rows(len(self._preferred), LEAST)

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots that were last reported."""
        self._rows = _no_rows(len(self._preferred), LEAST)
        self._make_room(slots.size)
        marks = np.isin(slots, reported[0]).astype(np.int64)
        begin_unbeaten(self._rows, self._preferred.values(slots), self._window.seq[slots], marks)

    def process(self, step: Step, index: int) -> Report:
        """Process a step of the window; return the changes at its evaluations."""
        self._make_room(step.arrived.size)
        rows, fresh = self._window.rows(), self._preferred.values(step.arrived)
        log = drive_unbeaten(self._rows, rows, fresh, step, index, new_log())
        return report_of(log)

    def _make_room(self, more: int) -> None:
        u = self._rows
        held = u.now.last - u.now.first - u.now.drops
        if held + more <= u.seq.size:
            return
        larger = _no_rows(len(self._preferred), 1 << int(held + more + LEAST).bit_length())
        indices = np.arange(u.now.first, u.now.last)
        for old, new in zip(u[:4], larger[:4], strict=True):
            new[..., : indices.size] = old[..., indices]
        larger.gone[: u.gone.size] = u.gone
        now = larger.now
        now.last, now.fresh = indices.size, max(0, u.now.fresh - u.now.first)
        now.drops, now.gone, now.compared = u.now.drops, u.now.gone, u.now.compared
        self._rows = larger

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, newest first."""
        u = self._rows
        used = slice(u.now.first, u.now.last)
        ordinals = np.concatenate([u.seq[used][u.reported[used] == 1], u.gone[: u.now.gone]])
        return np.sort(ordinals)[::-1] & (self._window.capacity - 1), np.zeros(ordinals.size)

    def relocate(self) -> None:
        """Nothing is to be done: rows are known by their ordinals."""

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        u = self._rows
        return {
            "scores": 0,
            "comparisons": int(u.now.compared),
            "kept": int(u.now.last - u.now.first - u.now.drops),
            "bytes": size_of(u),
        }

    def _check(self, rows: Ints) -> None:
        u = self._rows
        used = np.arange(u.now.first, u.now.last)
        kept = used[u.until[used] != DROPPED]
        assert used.size - kept.size == u.now.drops
        assert np.isnan(u.value[0, used]).sum() == u.now.drops
        assert np.all(np.diff(u.seq[kept]) > 0)
        for i, index in enumerate(kept[-BLOCK:]):
            older = kept[: max(0, kept.size - BLOCK) + i]
            mine, others = u.value[:, index, None], u.value[:, older]
            le, ge = np.all(others <= mine, axis=0), np.all(others >= mine, axis=0)
            assert not np.any(ge & ~le), "a row is kept that a newer one dominates"
            live = u.seq[older][le & ~ge]
            assert u.until[index] == (live.max() if live.size else u.until[index])
            assert live.size or u.until[index] < self._window.head


def _no_rows(columns: int, indices: int) -> Unbeaten:
    seq, until, reported, gone = np.zeros((4, indices), np.int64)
    flags = np.zeros((2, BLOCK), np.bool_)
    return Unbeaten(np.empty((columns, indices)), seq, until, reported, gone, record(UnbeatenScalars), flags)


class WitnessedRows:
    """A skyline query over a latest window: the front, and for every other row a witness that dominates it.

    An arrival is compared with the front, O(d s) for s rows in it, less where one of the first dominates it. So are the
    rows of a witness that leaves the front; those of one that was not in the front go to its own witness at once.
    """

    def __init__(self, window: LatestWindow, query: Skyline | FrequentSkyline, column_of: Mapping[str, int]) -> None:
        self._window = window
        self._preferred = Preferred(window, query, column_of)
        self._rows = _no_front(len(self._preferred), window.capacity)

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots that were last reported."""
        self._rows = w = _no_front(len(self._preferred), self._window.capacity)
        begin_witnessed(w, self._preferred.values(slots), slots)
        w.reported[reported[0]] = 1
        more = reported[0][w.marked[reported[0]] == 0]
        w.touched[w.now.touched : w.now.touched + more.size] = more
        w.marked[more] = 1
        w.now.touched += more.size

    def process(self, step: Step, index: int) -> Report:
        """Process a step of the window; return the changes at its evaluations."""
        rows, fresh = self._window.rows(), self._preferred.values(step.arrived)
        log = drive_witnessed(self._rows, rows, fresh, step, index, new_log())
        return report_of(log)

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, newest first."""
        slots = np.flatnonzero(self._rows.reported == 1)
        slots = slots[np.argsort(-self._window.seq[slots])]
        return slots, np.zeros(slots.size)

    def relocate(self) -> None:
        """Make room where the window has grown; rows keep their slots."""
        old, new = self._rows, _no_front(len(self._preferred), self._window.capacity)
        size = old.witness.size
        for before, after in zip(old[:-2], new[:-2], strict=True):
            after[..., :size] = before
        self._rows = new._replace(now=old.now)

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        w = self._rows
        return {
            "scores": 0,
            "comparisons": int(w.now.compared),
            "kept": int(np.count_nonzero(w.witness != NO_ROW)),
            "bytes": size_of(w),
        }

    def _check(self, rows: Ints) -> None:
        w = self._rows
        front = w.front[: w.now.front]
        assert np.array_equal(np.sort(front), np.flatnonzero(w.witness == FRONT))
        assert np.array_equal(w.front_index[front], np.arange(front.size))
        assert np.array_equal(w.front_value[:, : front.size], w.value[:, front])
        beaten = np.flatnonzero(w.witness >= 0)
        mine, others = w.value[:, beaten], w.value[:, w.witness[beaten]]
        assert np.all(w.witness[w.witness[beaten]] != NO_ROW)
        assert np.all(np.all(others <= mine, axis=0) & np.any(others < mine, axis=0))
        listed = 0
        for slot in np.flatnonzero(w.child >= 0):
            child = w.child[slot]
            while child >= 0:
                assert w.witness[child] == slot
                listed += 1
                child = w.after[child]
        assert listed == beaten.size
        assert np.isin(np.flatnonzero(w.witness != NO_ROW), rows).all()


def _no_front(columns: int, slots: int) -> Witnessed:
    child, after, before, front_index, front = np.full((5, slots), -1)
    reported, touched, marked, leaving, hit = np.zeros((5, slots), np.int64)
    value, front_value = np.full((columns, slots), np.nan), np.empty((columns, slots))
    return Witnessed(
        value, np.full(slots, NO_ROW), child, after, before, front_index, front, front_value,
        reported, touched, marked, leaving, hit, record(WitnessScalars), np.zeros((2, BLOCK), np.bool_),
    )  # fmt: skip


class EverySkyline:
    """The skyline at every evaluation, kept up to date by its changes."""

    def __init__(self, window: LatestWindow, query: FrequentSkyline, column_of: Mapping[str, int]) -> None:
        self._window = window
        self._rows = WitnessedRows(window, query, column_of)
        self._members = NO_INTS
        self._left = np.zeros(window.capacity, np.bool_)  # by entity, room for an evaluation
        self._result = NOTHING

    def begin(self, slots: Ints) -> None:
        """Begin again with these rows; all members will be reported as new ones."""
        self._rows.begin(slots, (NO_INTS, NO_FLOATS))
        self._members = NO_INTS
        self._left = np.zeros(self._window.capacity, np.bool_)  # a first batch may have made the window grow before

    def take(self, step: Step) -> None:
        """Process a step of the window."""
        self._result = self._rows.process(step._replace(at=np.arange(step.at.size)), 0)

    def members(self, number: int, evaluation: int, live: Ints) -> Ints:
        """Return the entities in the skyline at an evaluation of the step."""
        first, last = np.searchsorted(self._result.what[:, 0], [evaluation, evaluation + 1])
        what = self._result.what[first:last]
        entities, entered = self._window.entity[what[:, 3]], what[:, 2] == ENTER
        self._left[entities[~entered]] = True
        stay = self._members[~self._left[self._members]]
        self._left[entities[~entered]] = False
        self._members = np.concatenate([stay, entities[entered]])
        return self._members

    def relocate(self) -> None:
        """Make room where the window has grown."""
        self._rows.relocate()
        self._left = np.zeros(self._window.capacity, np.bool_)

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        return self._rows.stats()

    def _check(self, rows: Ints) -> None:
        self._rows._check(rows)
        assert np.unique(self._members).size == self._members.size
