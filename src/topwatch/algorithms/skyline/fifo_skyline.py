"""The skyline of a first-in-first-out window: rows that no newer one dominates, each with its youngest dominator.

Retained are the rows that are in the skyline of the window with the arrival as one more column in which newer is
better: about (ln n)^d / d! of n rows with independent columns. An arrival costs as many comparisons as rows came after
its youngest dominator, at most all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.algorithms.skyline.kernels.fifo_loop import (
    BLOCK,
    COMPARED,
    DROPPED,
    DROPS,
    FIRST,
    FRESH,
    GONE,
    LAST,
    Unbeaten,
    begin_unbeaten,
    drive_unbeaten,
)
from topwatch.core.engine import Report
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.preferred_columns import Preferred
from topwatch.core.ring_window import RingWindow
from topwatch.query.queries import Skyline

LEAST = 1024  # rows of capacity to begin with


class UnbeatenRows:
    """A skyline query over a ring window; a contest."""

    def __init__(self, window: RingWindow, query: Skyline, column_of: Mapping[str, int]) -> None:
        self._window = window
        self._preferred = Preferred(window, query, column_of)
        self._rows = _empty(len(self._preferred), LEAST)

    def begin(self, slots: Ints, reported: tuple[Ints, Floats]) -> None:
        """Begin again with these rows; ``reported`` are the slots that were last reported."""
        self._rows = _empty(len(self._preferred), LEAST)
        self._make_room(slots.size)
        marks = np.isin(slots, reported[0]).astype(np.int64)
        begin_unbeaten(self._rows, self._preferred.values(slots), self._window.seq[slots], marks)

    def process(self, step: Step, index: int) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        self._make_room(step.arrived.size)
        log = Log(np.empty((64, 4), np.int64), np.empty(64), np.zeros(1, np.int64))
        log = drive_unbeaten(self._rows, self._window.rows(), self._preferred.values(step.arrived), step, index, log)
        return Report(log.what[: log.size[0]], log.key[: log.size[0]])

    def _make_room(self, more: int) -> None:
        u = self._rows
        held = u.now[LAST] - u.now[FIRST] - u.now[DROPS]
        if held + more <= u.seq.size:
            return
        larger = _empty(len(self._preferred), 1 << int(held + more + LEAST).bit_length())
        indices = np.arange(u.now[FIRST], u.now[LAST])
        for old, new in (
            (u.value, larger.value),
            (u.seq, larger.seq),
            (u.until, larger.until),
            (u.reported, larger.reported),
        ):
            new[..., : indices.size] = old[..., indices]
        larger.gone[: u.gone.size] = u.gone
        larger.now[:] = u.now
        larger.now[[FIRST, LAST]] = 0, indices.size
        larger.now[FRESH] = max(0, u.now[FRESH] - u.now[FIRST])
        self._rows = larger

    def answer(self) -> tuple[Ints, Floats]:
        """Return the slots and scores of the last evaluation's answer, newest first."""
        u = self._rows
        used = slice(u.now[FIRST], u.now[LAST])
        ordinals = np.concatenate([u.seq[used][u.reported[used] == 1], u.gone[: u.now[GONE]]])
        return np.sort(ordinals)[::-1] & (self._window.capacity - 1), np.zeros(ordinals.size)

    def relocate(self) -> None:
        """Rows are known by their ordinals: nothing is to be done."""

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        u = self._rows
        return {
            "scores": 0,
            "comparisons": int(u.now[COMPARED]),
            "kept": int(u.now[LAST] - u.now[FIRST] - u.now[DROPS]),
            "bytes": sum(array.nbytes for array in u),
        }

    def _check(self, rows: Ints) -> None:
        u = self._rows
        used = np.arange(u.now[FIRST], u.now[LAST])
        kept = used[u.until[used] != DROPPED]
        assert used.size - kept.size == u.now[DROPS]
        assert np.isnan(u.value[0, used]).sum() == u.now[DROPS]
        assert np.all(np.diff(u.seq[kept]) > 0)
        for i, index in enumerate(kept[-BLOCK:]):
            older = kept[: max(0, kept.size - BLOCK) + i]
            mine, others = u.value[:, index, None], u.value[:, older]
            le, ge = np.all(others <= mine, axis=0), np.all(others >= mine, axis=0)
            assert not np.any(ge & ~le), "a row is kept that a newer one dominates"
            live = u.seq[older][le & ~ge]
            assert u.until[index] == (live.max() if live.size else u.until[index])
            assert live.size or u.until[index] < self._window.head


def _empty(columns: int, indices: int) -> Unbeaten:
    return Unbeaten(
        np.empty((columns, indices)),
        np.zeros(indices, np.int64),
        np.zeros(indices, np.int64),
        np.zeros(indices, np.int64),
        np.zeros(indices, np.int64),
        np.zeros(6, np.int64),
        np.zeros((2, BLOCK), np.bool_),
    )
