"""When a monitor judges: after every so many rows, or at whole multiples of a span of event time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.kernels.scoring import Ints
from topwatch.structures.constants import counted


class Judgements(NamedTuple):
    """Judgements within a piece of a batch: how many of its rows each has seen, and the event time it stands for."""

    rows: Ints
    now: np.ndarray | None


class EveryRows:
    """Judge after rows m, 2m, 3m ..."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def plan(self, end: int, count: int, times: np.ndarray | None) -> Judgements:
        """Plan the judgements of the ``count`` rows after ordinal ``end``."""
        first = self.rows - end % self.rows
        rows = counted(1, count + 1) if self.rows == 1 else np.arange(first, count + 1, self.rows, dtype=np.int64)
        return Judgements(rows, None if times is None else times[rows - 1])


class EveryTime:
    """Judge at whole multiples of a span of event time, before the rows at or after the boundary.

    Boundaries that fall into a long gap without rows are judged only until the last row has expired: later ones could
    report nothing.
    """

    def __init__(self, nanoseconds: int, window: int | None) -> None:
        self.nanoseconds = nanoseconds
        self.span: float = nanoseconds  # in the unit of the times
        self._steps = 1 if window is None else -(-window // nanoseconds) + 1
        self.last: int | None = None  # number of the last boundary at or before now

    def resume(self, now: float | None) -> None:
        """Go on at a moment, as after a restore; None before the first one."""
        self.last = None if now is None else int((np.array([now]) // self.span).astype(np.int64)[0])

    def plan(self, end: int, count: int, times: np.ndarray | None) -> Judgements:
        """Plan the judgements among rows with these times."""
        assert times is not None
        return self._between((times // self.span).astype(np.int64))

    def advance(self, time: float) -> Judgements:
        """Plan the judgements up to a moment without rows."""
        judged = self._between(np.array([time // self.span], np.int64))
        return Judgements(np.zeros_like(judged.rows), judged.now)

    def _between(self, numbers: Ints) -> Judgements:
        if numbers.size == 0:
            return Judgements(np.empty(0, np.int64), np.empty(0))
        last = int(numbers[0]) if self.last is None else self.last
        before = np.concatenate([[last], numbers[:-1]])
        crossed = np.minimum(numbers - before, self._steps)
        rows = np.repeat(np.arange(numbers.size), crossed)
        ordinal = np.arange(rows.size) - np.repeat(np.cumsum(crossed) - crossed, crossed)
        self.last = int(numbers[-1])
        return Judgements(rows.astype(np.int64), (before[rows] + 1 + ordinal) * self.span)


def in_unit(nanoseconds: int, unit: int) -> float:
    """Return a span in units of so many nanoseconds."""
    return nanoseconds if unit == 1 else nanoseconds / unit
