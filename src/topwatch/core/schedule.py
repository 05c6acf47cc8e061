"""When a monitor evaluates, after every so many rows or at whole multiples of a span of event time; and its pace.

The pace is how many rows of a batch are taken at once: many, but few as long as a kernel is interpreted. An interpreted
kernel takes as long for some hundred rows as a compiled one for all of a batch. Between two pieces it can give way to
the compiled one. How a batch is cut changes no exact answer, but it may change approximate ones. So for approximate
algorithms, whose answers must not depend on time, pieces are always large. Kernels that are not compiled are waited for
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import NO_FLOATS, NO_INTS, Ints

FEW = 1024  # evaluations, of which unneeded ones are not left out
MOST = 1 << 20  # that are planned at once

PIECE = 65_536  # rows that are taken at once
FIRST = 64  # rows, as long as it is not known whether kernels are compiled
MOST_INTERPRETED = 4_096  # rows; a kernel that is not compiled when a larger piece comes is waited for
SECONDS = 0.02  # that a piece may take while a kernel is interpreted


_counted = np.arange(1 << 10)


def counted(count: int) -> Ints:
    """Return so many whole numbers from 0 on, to be read only: made once, they cost a large push 5 % less."""
    global _counted
    if count > _counted.size:
        _counted = np.arange(2 * count)
    return _counted[:count]


class Evaluations(NamedTuple):
    """Evaluations within a piece of a batch: how many of its rows each has seen, and its event time."""

    rows: Ints
    now: np.ndarray | None


class EveryRows:
    """Evaluate after rows m, 2m, 3m ..."""

    repeats = 1  # of an evaluation without rows between

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def moment(self, time: float) -> float:
        """Return the time of the last evaluation at least, which was after a row of this time."""
        return time

    def silence(self, time: float | None) -> Iterator[Evaluations]:
        """Nothing is evaluated without rows."""
        return iter(())

    def fit(self, count: int, times: np.ndarray | None) -> int:
        """Return how many of the next rows can be taken at once."""
        return count

    def plan(self, end: int, count: int, times: np.ndarray | None, held: np.ndarray) -> Evaluations:
        """Plan the evaluations of the ``count`` rows after ordinal ``end``."""
        first = self.rows - end % self.rows
        rows = counted(count + 1)[1:] if self.rows == 1 else np.arange(first, count + 1, self.rows, dtype=np.int64)
        return Evaluations(rows, None if times is None else times[rows - 1])


class EveryTime:
    """Evaluate at whole multiples of a span of event time, before the rows at or after the boundary.

    Of the boundaries in a gap without rows those are left out that can report nothing: in a window of time where no row
    expires, in other windows after the first, or after the first ``repeats``, where a query counts evaluations.
    """

    def __init__(self, nanoseconds: int, window: int | None) -> None:
        self.nanoseconds = nanoseconds
        self.window = window
        self.span: float = nanoseconds  # in the unit of the times
        self.reach: float = window or 0  # of the window, in that unit
        self.repeats = 1
        self.last: int | None = None  # number of the last boundary at or before now

    def measure(self, unit: int) -> None:
        """Take the unit of the times, in nanoseconds."""
        self.span, self.reach = in_unit(self.nanoseconds, unit), in_unit(self.window or 0, unit)

    def resume(self, now: float | None) -> None:
        """Continue from a moment, as after a restore; None before the first one."""
        self.last = None if now is None else int((np.array([now]) // self.span).astype(np.int64)[0])

    def moment(self, time: float) -> float:
        """Return the time of the last evaluation, which was after a row of this time."""
        return time if self.last is None else max(time, self.last * self.span)

    def silence(self, time: float | None) -> Iterator[Evaluations]:
        """Yield evaluations of a silence up to a moment that has more of them than can be planned at once."""
        assert time is not None
        number = int(time // self.span)
        left = min(number - self.last, self.repeats) if self.last is not None and self.window is None else 0
        while left > MOST:
            yield Evaluations(np.zeros(MOST, np.int64), None)
            left -= MOST
            self.last = number - left

    def fit(self, count: int, times: np.ndarray | None) -> int:
        """Return how many of the next rows can be taken at once, so that the evaluations among them find room."""
        assert times is not None
        if self.repeats == 1:
            return count
        numbers = self._numbers(times[:count])
        crossed = np.minimum(np.diff(numbers, prepend=self._before(numbers)), self.repeats)
        return max(1, int(np.searchsorted(np.cumsum(crossed), MOST, side="right")))

    def plan(self, end: int, count: int, times: np.ndarray | None, held: np.ndarray) -> Evaluations:
        """Plan the evaluations among rows with these times; ``held`` are the times of earlier rows."""
        assert times is not None
        return self._between(self._numbers(times), held, times)

    def advance(self, time: float, held: np.ndarray) -> Evaluations:
        """Plan the evaluations up to a moment without rows."""
        evaluated = self._between(self._numbers(np.array([time])), held, held[:0])
        return Evaluations(np.zeros_like(evaluated.rows), evaluated.now)

    def _numbers(self, times: np.ndarray) -> Ints:
        """Return the last boundary at or before each time."""
        numbers: Ints = (times // self.span).astype(np.int64)
        return numbers

    def _before(self, numbers: Ints) -> int:
        return int(numbers[0]) if self.last is None else self.last

    def _between(self, numbers: Ints, held: np.ndarray, new: np.ndarray) -> Evaluations:
        if numbers.size == 0:
            return Evaluations(NO_INTS, NO_FLOATS)
        before = np.concatenate([[self._before(numbers)], numbers[:-1]])
        self.last = int(numbers[-1])
        # After as many as a window of time has, its last row has expired.
        most = self.repeats if self.window is None else -(-self.window // self.nanoseconds) + 1
        crossed = np.minimum(numbers - before, most)
        if self.window is not None and crossed.sum() > FEW + 4 * numbers.size:
            return self._needed(numbers, before, np.concatenate([held, new]) if held.size else new)
        rows = np.repeat(np.arange(numbers.size), crossed)
        ordinal = np.arange(rows.size) - np.repeat(np.cumsum(crossed) - crossed, crossed)
        return Evaluations(rows.astype(np.int64), (before[rows] + 1 + ordinal) * self.span)

    def _needed(self, numbers: Ints, before: Ints, times: np.ndarray) -> Evaluations:
        """Plan those evaluations among many that see a row first, or see one expire."""
        gone = -(-(times + self.reach) // self.span).astype(np.int64)
        wanted = [before + 1, gone - 1, gone, gone + 1]  # sums of times may be rounded: one more does no harm
        passed = np.unique(np.concatenate(wanted))
        passed = passed[(passed > before[0]) & (passed <= numbers[-1])]
        return Evaluations(np.searchsorted(numbers, passed).astype(np.int64), passed * self.span)


def load_evaluated(every: EveryRows | EveryTime, saved: Callable[[str, int, int], int], end: int) -> int:
    """Return the ordinal of the last row that an evaluation has seen, of a saved feed whose last row is ``end``.

    ``saved`` takes out a number of the feed, by its name, the least and the most that it may be.
    """
    return end - end % every.rows if isinstance(every, EveryRows) else saved("evaluated", 0, end)


def in_unit(nanoseconds: int, unit: int) -> float:
    """Return a span in units of so many nanoseconds."""
    return nanoseconds if unit == 1 else nanoseconds / unit


class Pace:
    """The size of the pieces of a stream.

    Attributes
    ----------
    rows : int
        Of the piece that is being taken.
    interpreted : float
        Seconds for which kernels were interpreted since that piece began.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.interpreted = 0.0
        self._cuts = True

    def restart(self, exact: bool) -> None:
        """Begin with few rows again: there is a new engine, whose kernels may not be compiled."""
        self.rows = 0
        self._cuts &= exact

    def next(self, left: int, piece: int = PIECE) -> int:
        """Begin the next piece; return how many of the rows that are left it has, at most ``piece``."""
        global _active
        _active = self
        spent, self.interpreted = self.interpreted, 0.0
        most = FIRST if not self.rows else piece
        if not self._cuts:
            most = piece
        elif self.rows and spent:
            most = max(1, min(MOST_INTERPRETED, int(min(2.0, SECONDS / spent) * self.rows)))
        self.rows = min(most, left)
        return self.rows


_active = Pace()  # that of the stream whose piece is being taken
_total = 0.0


def piece_rows() -> int:
    """Return how many rows the piece has that is being taken."""
    return _active.rows


def spend(seconds: float) -> None:
    """Count time for which a kernel was interpreted."""
    global _total
    _active.interpreted += seconds
    _total += seconds


def interpreted_seconds() -> float:
    """Return for how long kernels were interpreted in this process."""
    return _total
