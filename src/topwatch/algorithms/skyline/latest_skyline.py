"""The skyline of a latest window: the front, and for every other row a witness that dominates it.

An arrival is compared with the front, O(d s) for s rows in it, less where one of the first dominates it. So are the
rows of a witness that goes from the front; those of one that was not in the front go to its own witness at once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.algorithms.skyline.kernels.witness_loop import (
    AWAY,
    BLOCK,
    COMPARED,
    FRONT,
    SIZE,
    TOUCHED,
    Witnessed,
    begin_witnessed,
    drive_witnessed,
)
from topwatch.core.engine import Report
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.latest_window import LatestWindow
from topwatch.core.preferred_columns import Preferred
from topwatch.query.queries import FrequentSkyline, Skyline


class WitnessedRows:
    """A skyline query over a latest window; a contest."""

    def __init__(self, window: LatestWindow, query: Skyline | FrequentSkyline, column_of: Mapping[str, int]) -> None:
        self._window = window
        self._preferred = Preferred(window, query, column_of)
        self._rows = _empty(len(self._preferred), window.capacity)

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots that were last reported."""
        self._rows = w = _empty(len(self._preferred), self._window.capacity)
        begin_witnessed(w, self._preferred.values(slots), slots)
        w.reported[reported[0]] = 1
        more = reported[0][w.marked[reported[0]] == 0]
        w.touched[w.now[TOUCHED] : w.now[TOUCHED] + more.size] = more
        w.marked[more] = 1
        w.now[TOUCHED] += more.size

    def process(self, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        log = drive_witnessed(self._rows, self._window.rows(), self._preferred.values(step.arrived), step, index, log)
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, newest first."""
        slots = np.flatnonzero(self._rows.reported == 1)
        slots = slots[np.argsort(-self._window.seq[slots])]
        return slots, np.zeros(slots.size)

    def relocate(self) -> None:
        """Make room where the window has grown; rows keep their slots."""
        old, new = self._rows, _empty(len(self._preferred), self._window.capacity)
        size = old.witness.size
        for before, after in zip(old[:-2], new[:-2], strict=True):
            after[..., :size] = before
        new.now[:] = old.now
        self._rows = new

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        w = self._rows
        return {
            "scores": 0,
            "comparisons": int(w.now[COMPARED]),
            "kept": int(np.count_nonzero(w.witness != AWAY)),
            "bytes": sum(array.nbytes for array in w),
        }

    def _check(self, rows: Ints) -> None:
        w = self._rows
        front = w.front[: w.now[SIZE]]
        assert np.array_equal(np.sort(front), np.flatnonzero(w.witness == FRONT))
        assert np.array_equal(w.front_index[front], np.arange(front.size))
        assert np.array_equal(w.front_value[:, : front.size], w.value[:, front])
        beaten = np.flatnonzero(w.witness >= 0)
        mine, others = w.value[:, beaten], w.value[:, w.witness[beaten]]
        assert np.all(w.witness[w.witness[beaten]] != AWAY)
        assert np.all(np.all(others <= mine, axis=0) & np.any(others < mine, axis=0))
        listed = 0
        for slot in np.flatnonzero(w.child >= 0):
            child = w.child[slot]
            while child >= 0:
                assert w.witness[child] == slot
                listed += 1
                child = w.after[child]
        assert listed == beaten.size
        assert np.isin(np.flatnonzero(w.witness != AWAY), rows).all()


def _empty(columns: int, slots: int) -> Witnessed:
    def numbers(value: int) -> Ints:
        return np.full(slots, value)

    return Witnessed(
        np.full((columns, slots), np.nan),
        numbers(AWAY),
        numbers(-1),
        numbers(-1),
        numbers(-1),
        numbers(-1),
        numbers(-1),
        np.empty((columns, slots)),
        numbers(0),
        numbers(0),
        numbers(0),
        numbers(0),
        numbers(0),
        np.zeros(3, np.int64),
        np.zeros((2, BLOCK), np.bool_),
    )
