"""From a batch to steps: who arrived, who expired, and when the answer is evaluated.

A feed owns a window and its ids. It cuts a batch into pieces that fit, and yields for each piece a :class:`Step` that
all algorithms take alike; after that, rows that an evaluation has seen expire are given back. Count windows, time
windows and bursts are the same case: an evaluation has a first live ordinal, wherever that comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from topwatch.core.constant_arrays import zeros
from topwatch.core.ids import ArrowIds, Ids, Values, ids_for
from topwatch.core.kernels.rows import Step
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.latest_window import LatestWindow
from topwatch.core.ring_window import RingWindow
from topwatch.core.schedule import Evaluations, EveryRows, EveryTime, in_unit

PIECE = 65_536
MOST_ROOM = 1 << 22  # rows that there is room for at first; a larger window grows with its rows
_NONE = np.empty(0, np.int64)
_NEVER = np.empty(0)  # times of rows that do not expire by time


class _Times:
    """The times of the rows held, in one piece of memory, so that they can be searched."""

    def __init__(self) -> None:
        self._buffer: np.ndarray = np.empty(0)
        self._start = 0
        self._stop = 0
        self._first = 1  # ordinal of the first time held

    def append(self, times: np.ndarray) -> None:
        live = self.values()
        if self._stop + times.size > self._buffer.size or self._buffer.dtype != times.dtype:
            buffer = np.empty(2 * (live.size + times.size) + 1024, times.dtype)
            buffer[: live.size] = live
            self._buffer, self._start, self._stop = buffer, 0, live.size
        self._buffer[self._stop : self._stop + times.size] = times
        self._stop += times.size

    def values(self) -> np.ndarray:
        return self._buffer[self._start : self._stop]

    def after(self, moments: np.ndarray) -> Ints:
        """Return the first ordinal with a time greater than each moment."""
        return self._first + np.searchsorted(self.values(), moments, side="right").astype(np.int64)

    def release(self, head: int) -> None:
        self._start += head - self._first
        self._first = head

    def restart(self, first: int, times: np.ndarray) -> None:
        self._first = first
        self._start = self._stop = 0
        self.append(times)


class FifoFeed:
    """Feeds a window of the newest ``rows``, or of a span of event time in ``nanoseconds``.

    ``held`` says how many rows it will begin with, after a restore: memory goes by them, and not by what it may hold.
    """

    def __init__(
        self,
        columns: int,
        rows: int | None,
        nanoseconds: int | None,
        every: EveryRows | EveryTime,
        held: int | None = None,
    ) -> None:
        self.rows = rows
        self.span: float = 0  # in the unit of the times
        self._nanoseconds = nanoseconds
        self.every = every
        room = min(every.rows, 1 << 20) if isinstance(every, EveryRows) else 1
        size = rows + max(room, min(max(rows // 16, 256), 16_384)) if rows is not None else 4_096
        size = min(size, MOST_ROOM) if held is None else max(held, min(size, 2 * held))
        self.window = RingWindow(columns, size)
        self.ids: Ids | None = None
        self.times = _Times()
        self.head = 1  # first live ordinal at the last evaluation
        self.evaluated = 0  # ordinal of the last row that an evaluation has seen

    @property
    def end(self) -> int:
        """Ordinal of the last row."""
        return self.window.end

    @property
    def evaluated_tick(self) -> int:
        """Moment of the last evaluation."""
        return self.evaluated

    def measure(self, unit: int) -> None:
        """Take the unit of the times, in nanoseconds, once it is known."""
        if self._nanoseconds is not None:
            self.span = in_unit(self._nanoseconds, unit)
        if isinstance(self.every, EveryTime):
            self.every.measure(unit)

    def live(self) -> int:
        """How many rows the last evaluation saw."""
        return max(0, self.evaluated - self.head + 1)

    def live_slots(self) -> Ints:
        """Return the slots of the rows that the last evaluation saw, oldest first."""
        return self.window.slots(self.head, self.evaluated)

    def push(
        self,
        rows: int,
        columns: list[Floats],
        ids: Values,
        times: np.ndarray | None,
        moved: Callable[[], None],
    ) -> Iterator[Step]:
        """Yield the steps of a batch; ``moved`` is called when rows have changed their slots."""
        total = rows
        done = 0
        while done < total:
            count = min(PIECE, total - done)
            if self.window.free() < min(count, 1024):
                self._grow(count, moved)
            count = min(count, self.window.free())
            part = None if times is None else times[done : done + count]
            evaluated = self.every.plan(self.end, count, part, self.times.values())
            if part is not None:
                self.times.append(part)
            slots = self.window.append(columns, done, done + count)
            if self.ids is None:
                self.ids = ids_for(ids, self.window.capacity, ring=True)
            self.ids.write(slots, self.end - count + 1, None if ids is None else ids[done : done + count])
            step = self._step(slots, self.end - count, evaluated)
            yield step
            self._release(step)
            done += count

    def advance(self, time: float, evaluate: bool) -> Iterator[Step]:
        """Yield the step that moves event time on; with ``evaluate``, evaluated at once."""
        if isinstance(self.every, EveryTime):
            evaluated = self.every.advance(time, self.times.values())
        else:
            evaluated = Evaluations(np.zeros(int(evaluate), np.int64), np.full(int(evaluate), time))
        step = self._step(_NONE, self.end, evaluated)
        yield step
        self._release(step)

    def _step(self, slots: Ints, end: int, evaluated: Evaluations) -> Step:
        at = end + evaluated.rows
        if self.rows is not None:
            heads = np.empty(at.size + 1, np.int64)
            heads[0] = self.head
            np.subtract(at, self.rows - 1, out=heads[1:])
            np.maximum(heads, self.head, out=heads)
        else:
            assert evaluated.now is not None
            # An evaluation at a boundary has not seen the rows after it, which may have expired already by then.
            heads = np.minimum(self.times.after(evaluated.now - self.span), at + 1)
            heads = np.maximum.accumulate(np.concatenate([[self.head], heads]))
        return Step(slots, _NONE, at, at, evaluated.rows, heads, zeros(at.size))

    def _release(self, step: Step) -> None:
        if step.at.size:
            self.head = int(step.heads[-1])
            self.evaluated = int(step.at[-1])
            self.window.release(self.head)
            if isinstance(self.ids, ArrowIds):
                self.ids.release(self.head)
            if self.times.values().size:
                self.times.release(self.head)

    def _grow(self, count: int, moved: Callable[[], None]) -> None:
        old, ordinals = self.window.live_slots(), np.arange(self.window.head, self.window.end + 1)
        self.window.grow(max(2 * self.window.capacity, old.size + count))
        if self.ids is not None:
            self.ids.move(old, ordinals & (self.window.capacity - 1), self.window.capacity)
        moved()

    def bytes(self) -> int:
        """Size of the window with ids and times."""
        return self.window.bytes() + (self.ids.bytes() if self.ids else 0) + self.times._buffer.nbytes

    def _check(self) -> None:
        self.window._check()
        if self.times.values().size:
            assert self.times.values().size == self.end - self.head + 1
            assert np.all(np.diff(self.times.values().astype(np.float64)) >= 0)


class LatestFeed:
    """Feeds a window with one live row per id; ``room`` is for how many rows at first."""

    def __init__(self, columns: int, every: EveryRows | EveryTime, room: int = 1024) -> None:
        self.every = every
        self.window = LatestWindow(columns, room)
        self.ids: Ids | None = None
        self.end = 0
        self.head = 1
        self.evaluated = 0
        self.evaluated_tick = 0

    def measure(self, unit: int) -> None:
        """Take the unit of the times, in nanoseconds, once it is known."""
        if isinstance(self.every, EveryTime):
            self.every.measure(unit)

    def live(self) -> int:
        """How many rows the last evaluation saw."""
        return int(self.live_slots().size)

    def live_slots(self) -> Ints:
        """Return the slots of the rows that the last evaluation saw, oldest first."""
        slots = self.window.live_slots()
        seen = (self.window.seq[slots] <= self.evaluated_tick) & (self.window.gone[slots] > self.evaluated_tick)
        return slots[seen]

    def push(
        self,
        rows: int,
        columns: list[Floats],
        ids: Values,
        times: np.ndarray | None,
        moved: Callable[[], None],
    ) -> Iterator[Step]:
        """Yield the steps of a batch; ``moved`` is called when the window has grown."""
        total = rows
        done = 0
        while done < total:
            for evaluated in self.every.silence(None if times is None else times[done]):
                yield from self._evaluate(_NONE, _NONE, _NONE, evaluated, self.window.tick)
            count = self.every.fit(min(PIECE, total - done), None if times is None else times[done:])
            if self.window.free() < count or self.window._spares < count:
                self._grow(count, moved)
            part = ids[done : done + count]
            evaluated = self.every.plan(self.end, count, None if times is None else times[done : done + count], _NEVER)
            entities = self.window.entities(as_keys(part))
            tick = self.window.tick
            slots, old, old_row = self.window.append(columns, done, done + count, entities)
            if self.ids is None:
                self.ids = ids_for(ids, self.window.capacity, ring=False)
            self.ids.write(slots, tick + 1, part)
            yield from self._evaluate(slots, old, old_row, evaluated, tick)
            self.end += count
            done += count

    def advance(self, time: float, evaluate: bool) -> Iterator[Step]:
        """Yield the step that moves event time on: no row expires, so that only passing a boundary is evaluated."""
        if isinstance(self.every, EveryTime):
            for evaluated in self.every.silence(time):
                yield from self._evaluate(_NONE, _NONE, _NONE, evaluated, self.window.tick)
            evaluated = self.every.advance(time, _NEVER)
            yield from self._evaluate(_NONE, _NONE, _NONE, evaluated, self.window.tick)

    def delete(self, ids: Values, evaluate: bool) -> tuple[int, Iterator[Step]]:
        """Remove rows by id; return how many of the ids were unknown, and the step, evaluated if a row went."""
        keys = as_keys(ids)
        entities = self.window.entities(keys, known_only=True)
        known = (entities >= 0) & (self.window._current[entities] >= 0)
        unknown = len(set(keys[~known].tolist()))
        slots = self.window.delete(entities[known])
        evaluated = Evaluations(np.zeros(int(evaluate and slots.size > 0), np.int64), None)
        return unknown, self._evaluate(_NONE, slots, np.full(slots.size, -1), evaluated, self.window.tick)

    def _evaluate(self, slots: Ints, old: Ints, old_row: Ints, evaluated: Evaluations, tick: int) -> Iterator[Step]:
        pending = self.window.pending.size
        expired = np.concatenate([self.window.pending, old])
        expiries = pending + np.searchsorted(old_row, evaluated.rows, side="left")
        at = self.end + evaluated.rows
        step = Step(slots, expired, at, tick + evaluated.rows, evaluated.rows, np.ones(at.size + 1, np.int64), expiries)
        yield step
        self.window.pending = expired
        if at.size:
            done = int(expiries[-1])
            self.evaluated, self.evaluated_tick = int(at[-1]), int(step.moment[-1])
            self.window.pending = expired[done:]
            self.window.release(expired[:done])
            if isinstance(self.ids, ArrowIds) and self.ids.crowded(self.window.capacity - self.window.free()):
                self.ids.keep(self.window.seq[self.window.live_slots()])

    def _grow(self, count: int, moved: Callable[[], None]) -> None:
        old = np.arange(self.window.capacity)
        self.window.grow(2 * self.window.capacity + count)
        if self.ids is not None:
            self.ids.move(old, old, self.window.capacity)
        moved()

    def bytes(self) -> int:
        """Size of the window with ids."""
        return self.window.bytes() + (self.ids.bytes() if self.ids else 0)

    def _check(self) -> None:
        self.window._check()


def as_keys(ids: Values) -> np.ndarray:
    """Return ids as the latest window looks them up: int64 for whole numbers, else Python objects."""
    if isinstance(ids, np.ndarray):
        return ids
    return np.array(ids.to_pylist(), dtype=object)


Feed = FifoFeed | LatestFeed
