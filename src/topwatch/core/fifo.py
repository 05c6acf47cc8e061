"""First-in-first-out windows: the newest rows of a stream, their times, and the feed that fills them.

A row's slot is its ordinal modulo the capacity. Rows stay readable until the evaluation that sees them expire has been
made; then :meth:`RingWindow.release` frees their slots. Appending is O(1) per row, growing O(live rows).

A feed cuts a batch into pieces that fit, and yields for each piece a :class:`~topwatch.core.kernels.rows.Step`: who
arrived, who expired, and when the answer is evaluated. After that it releases the rows that an evaluation has seen
expire. Count windows, time windows and bursts are the same case: an evaluation has a first live ordinal, wherever that
comes from. Where the window has to grow, the feed yields None first: rows have new slots.

A feed is saved as fields and a flat dict of arrays, without what can be derived from the rows: ordinals follow from the
last one, and with ``every`` in rows the last evaluation does too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints, times_before
from topwatch.core.ids import ArrowIds, Values
from topwatch.core.kernels.rows import Rows, Step
from topwatch.core.saved_state import MOST_TICKS, Fields, Saved
from topwatch.core.schedule import Evaluations, EveryRows, EveryTime, Pace, counted, in_unit, load_evaluated

MOST_ROOM = 1 << 22  # rows that there is room for at first; a larger window grows with its rows


def _power_of_two(n: int) -> int:
    return 1 << max(4, (n - 1).bit_length())


class RingWindow:
    """Rows with ordinals from ``head`` to ``end``, both included.

    Parameters
    ----------
    columns : int
        How many columns each row has.
    capacity : int
        How many rows to make room for at first.
    """

    fifo = True

    def __init__(self, columns: int, capacity: int) -> None:
        self.head = 1
        self.end = 0
        size = _power_of_two(capacity)
        self.columns: Floats = np.empty((columns, size), np.float64)
        self.seq: Ints = np.empty(size, np.int64)
        self.ids: np.ndarray | None = None  # where they are numbers

    @property
    def capacity(self) -> int:
        """How many rows fit without growing."""
        return int(self.seq.size)

    @property
    def tick(self) -> int:
        """The moment of the last event."""
        return self.end

    def rows(self) -> Rows:
        """Return the arrays as kernels take them."""
        return Rows(self.columns, self.seq, NO_INTS, NO_INTS, True, self.capacity - 1)

    def slots(self, first: int, last: int) -> Ints:
        """Return the slots of the ordinals ``first`` to ``last``, both included."""
        return np.arange(first, last + 1, dtype=np.int64) & (self.capacity - 1)

    def live_slots(self) -> Ints:
        """Return the slots of all rows held, oldest first."""
        return self.slots(self.head, self.end)

    def sample(self, count: int) -> Ints:
        """Return about so many slots of rows held, spread evenly."""
        step = max(1, (self.end - self.head + 1) // count)
        return np.arange(self.head, self.end + 1, step) & (self.capacity - 1)

    def append(self, columns: list[Floats], ids: Values, start: int, stop: int) -> Ints:
        """Write rows ``start`` to ``stop`` of a batch; return their slots. The rows must fit."""
        if self.ids is None and isinstance(ids, np.ndarray):
            self.ids = np.zeros(self.capacity, ids.dtype)
        count = stop - start
        first = (self.end + 1) & (self.capacity - 1)
        straight = min(count, self.capacity - first)
        for index, column in enumerate(columns):
            self.columns[index, first : first + straight] = column[start : start + straight]
            self.columns[index, : count - straight] = column[start + straight : stop]
        if self.ids is not None:
            self.ids[first : first + straight] = ids[start : start + straight]
            self.ids[: count - straight] = ids[start + straight : stop]
        slots = counted(count) + first
        np.add(slots[:straight], self.end + 1 - first, out=self.seq[first : first + straight])
        np.add(slots[straight:], self.end + 1 - first, out=self.seq[: count - straight])
        self.end += count
        slots[straight:] -= self.capacity
        return slots

    def free(self) -> int:
        """Return how many more rows fit."""
        return self.capacity - (self.end - self.head + 1)

    def release(self, head: int) -> None:
        """Forget the rows before ``head``."""
        self.head = max(self.head, head)

    def grow(self, rows: int) -> None:
        """Make room for ``rows`` live rows; every row gets a new slot."""
        size = _power_of_two(rows)
        old = self.live_slots()
        new = np.arange(self.head, self.end + 1) & (size - 1)
        columns = np.empty((self.columns.shape[0], size), np.float64)
        seq = np.empty(size, np.int64)
        columns[:, new] = self.columns[:, old]
        seq[new] = self.seq[old]
        self.columns, self.seq = columns, seq
        if self.ids is not None:
            ids = np.zeros(size, self.ids.dtype)
            ids[new] = self.ids[old]
            self.ids = ids

    def add_columns(self, count: int) -> None:
        """Add columns whose past values are missing."""
        more = np.full((count, self.capacity), np.nan)
        self.columns = np.ascontiguousarray(np.vstack([self.columns, more]))

    def bytes(self) -> int:
        """Size of the arrays."""
        return int(self.columns.nbytes + self.seq.nbytes + (self.ids.nbytes if self.ids is not None else 0))

    def _check(self) -> None:
        slots = self.live_slots()
        assert slots.size <= self.capacity
        assert self.capacity & (self.capacity - 1) == 0
        assert np.array_equal(self.seq[slots], np.arange(self.head, self.end + 1))


class Times:
    """The times of the rows held, in one piece of memory, so that they can be searched. O(1) amortised per row."""

    def __init__(self) -> None:
        self._buffer: np.ndarray = NO_FLOATS
        self._start = 0
        self._stop = 0
        self._first = 1  # ordinal of the first time held

    def append(self, times: np.ndarray) -> None:
        """Add the times of rows that arrive."""
        live = self.values()
        if self._stop + times.size > self._buffer.size or self._buffer.dtype != times.dtype:
            buffer = np.empty(2 * (live.size + times.size) + 1024, times.dtype)
            buffer[: live.size] = live
            self._buffer, self._start, self._stop = buffer, 0, live.size
        self._buffer[self._stop : self._stop + times.size] = times
        self._stop += times.size

    def values(self) -> np.ndarray:
        """Return the times, oldest first."""
        return self._buffer[self._start : self._stop]

    def after(self, moments: np.ndarray) -> Ints:
        """Return the first ordinal with a time greater than each moment."""
        return self._first + np.searchsorted(self.values(), moments, side="right").astype(np.int64)

    def release(self, head: int) -> None:
        """Forget the times of the rows before ``head``."""
        self._start += head - self._first
        self._first = head

    def restart(self, first: int, times: np.ndarray) -> None:
        """Replace all times by those of the rows from ordinal ``first`` on."""
        self._first = first
        self._start = self._stop = 0
        self.append(times)

    def bytes(self) -> int:
        """Size of the array."""
        return int(self._buffer.nbytes)


class FifoFeed:
    """Feeds a window of the newest ``rows``, or of a span of event time in ``nanoseconds``.

    ``held`` is the number of rows it begins with, after a restore: memory is made for these, not for all that it may
    hold.
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
        self.texts: ArrowIds | None = None  # ids that are no numbers
        self.times = Times()
        self.pace = Pace()
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

    def ids_of(self, slots: Ints) -> Values:
        """Return the ids of rows: their ordinals where they have none."""
        if self.window.ids is not None:
            return self.window.ids[slots]
        ticks = self.window.seq[slots]
        return ticks if self.texts is None else self.texts.read(ticks)

    def push(self, rows: int, columns: list[Floats], ids: Values, times: np.ndarray | None) -> Iterator[Step | None]:
        """Yield the steps of a batch, and None where rows have changed their slots."""
        if self.texts is None and ids is not None and not isinstance(ids, np.ndarray):
            self.texts = ArrowIds()
        done = 0
        while done < rows:
            count = self.pace.next(rows - done)
            if self.window.free() < min(count, 1024):
                self.window.grow(max(2 * self.window.capacity, self.end - self.window.head + 1 + count))
                yield None
            count = min(count, self.window.free())
            part = None if times is None else times[done : done + count]
            evaluated = self.every.plan(self.end, count, part, self.times.values())
            if part is not None:
                self.times.append(part)
            slots = self.window.append(columns, ids, done, done + count)
            if self.texts is not None:
                self.texts.write(self.end - count + 1, ids[done : done + count])
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
        step = self._step(NO_INTS, self.end, evaluated)
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
            heads = np.minimum(self.times.after(times_before(evaluated.now, self.span)), at + 1)
            heads = np.maximum.accumulate(np.concatenate([[self.head], heads]))
        return Step(slots, NO_INTS, at, at, evaluated.rows, heads, np.zeros(at.size, np.int64))

    def _release(self, step: Step) -> None:
        if step.at.size:
            self.head = int(step.heads[-1])
            self.evaluated = int(step.at[-1])
            self.window.release(self.head)
            if self.texts is not None:
                self.texts.release(self.head)
            if self.times.values().size:
                self.times.release(self.head)

    def bytes(self) -> int:
        """Size of the window with ids and times."""
        return self.window.bytes() + (self.texts.bytes() if self.texts is not None else 0) + self.times.bytes()

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return fields and arrays: the rows held, oldest first, and the position of the feed."""
        slots = self.window.live_slots()
        fields: dict[str, Any] = {"end": self.end}
        if isinstance(self.every, EveryTime):
            fields["evaluated"] = self.evaluated
        arrays: dict[str, Any] = {"columns": self.window.columns[:, slots]}
        if slots.size and (self.window.ids is not None or self.texts is not None):
            arrays["ids"] = self.ids_of(slots)
        if self.times.values().size:
            arrays["times"] = self.times.values().copy()
        return fields, arrays

    def load(self, fields: Fields, saved: Saved, columns: np.ndarray, ids: Values, times: np.ndarray | None) -> Ints:
        """Fill a new feed from a saved one; return the slots of the rows in the order they were saved.

        ``columns`` has the values of the rows, ``ids`` and ``times`` what belongs to them; None where there are none.
        """
        rows = columns.shape[1]
        end = fields.whole("end", rows, MOST_TICKS)
        self.evaluated = load_evaluated(self.every, fields.whole, end)
        head = end - rows + 1
        if self.rows is not None:
            wanted = max(1, self.evaluated - self.rows + 1)
            fields.expect(head == wanted, "end", f"{end - wanted + 1} rows in the window", rows)
        fields.expect(head <= self.evaluated + 1, "evaluated", f"at least {head - 1}", self.evaluated)
        if self._nanoseconds is not None and times is not None and head <= self.evaluated:
            moment = self.every.moment(times[self.evaluated - head].item())
            live = times[0] > times_before(np.array([moment], times.dtype), self.span)[0]
            saved.expect(live, "times", "rows that had not expired at the last evaluation")
        self.head = self.window.head = head
        self.window.end = head - 1
        self.times.restart(head, NO_FLOATS if times is None else times)  # also without rows: ordinals go on
        slots = self.window.append(list(columns), ids if rows else None, 0, rows)
        if rows and ids is not None and self.window.ids is None:
            self.texts = ArrowIds()
            self.texts.restore(self.window.seq[slots], ids)
        fields.done()
        return slots

    def _check(self) -> None:
        self.window._check()
        if self.times.values().size:
            assert self.times.values().size == self.end - self.head + 1
            assert np.all(np.diff(self.times.values().astype(np.float64)) >= 0)
