"""Latest windows: one live row per id, which a newer row replaces and a deletion removes; and the feed that fills them.

Every arrival gets a fresh slot, so that the row it replaces stays readable until an evaluation has seen it go. An id is
an *entity* number to the kernels. Integer ids are looked up in a compiled hash table, others in a dictionary.

The feed yields steps as that of :mod:`topwatch.core.fifo` does. Ticks count arrivals and deletions; those at which rows
went show, in a saved feed, which of them no evaluation has seen go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints
from topwatch.core.hashing import empty_table, enter, find, forget, resized
from topwatch.core.ids import ArrowIds, Values
from topwatch.core.jit import kernel
from topwatch.core.kernels.rows import Rows, Step
from topwatch.core.saved_state import MOST_TICKS, Fields, Saved
from topwatch.core.schedule import Evaluations, EveryRows, EveryTime, Pace, load_evaluated

NEVER = 2**62


class LatestWindow:
    """Rows by id.

    Parameters
    ----------
    columns : int
        How many columns each row has.
    room : int
        How many rows to make room for at first.
    """

    fifo = False

    def __init__(self, columns: int, room: int = 1024) -> None:
        self.tick = 0
        size = 1 << max(4, (room - 1).bit_length())
        self.columns: Floats = np.full((columns, size), np.nan)
        self.seq: Ints = np.full(size, NEVER)
        self.gone: Ints = np.zeros(size, np.int64)
        self.entity: Ints = np.zeros(size, np.int64)
        self._current: Ints = np.full(size, -1)  # by entity
        self._free: Ints = np.arange(size - 1, -1, -1)
        self._frees = size
        self._spare: Ints = np.arange(size - 1, -1, -1)
        self._spares = size
        self._table = empty_table(4 * size)
        self._names: dict[Hashable, int] = {}
        self._name_of: dict[int, Hashable] = {}  # entity to id, for ids that are deleted
        self._id_of: Ints = np.zeros(size, np.int64)  # entity to id, for whole numbers
        self.ids: np.ndarray | None = None  # where they are numbers
        self.pending: Ints = NO_INTS  # slots of rows that are gone but not yet evaluated to be

    @property
    def capacity(self) -> int:
        """How many slots there are."""
        return int(self.seq.size)

    @property
    def live(self) -> int:
        """How many ids have a row now."""
        return self.capacity - self._frees - self.pending.size

    def rows(self) -> Rows:
        """Return the arrays as kernels take them."""
        return Rows(self.columns, self.seq, self.gone, self.entity, False, self.capacity - 1)

    def live_slots(self) -> Ints:
        """Return the slots of all rows held, also of those that are gone but not yet evaluated, oldest first."""
        held = np.flatnonzero(self.seq != NEVER)
        return held[np.argsort(self.seq[held], kind="stable")]

    def sample(self, count: int) -> Ints:
        """Return about so many slots of rows held."""
        held = np.flatnonzero(self.seq != NEVER)
        return held[:: max(1, held.size // count)]

    def free(self) -> int:
        """Return how many more rows fit."""
        return self._frees

    def fits(self, rows: int) -> bool:
        """Return whether so many rows fit, also with ids that are new."""
        return min(self._frees, self._spares) >= rows

    def has_row(self, entities: Ints) -> np.ndarray:
        """Return which ids have a row now."""
        return (entities >= 0) & (self._current[entities] >= 0)

    def grow(self, rows: int) -> None:
        """Make room for more rows; rows keep their slots."""
        old = self.capacity
        size = max(2 * old, 1 << (rows - 1).bit_length())
        more = size - old
        self.columns = np.hstack([self.columns, np.full((self.columns.shape[0], more), np.nan)])
        self.seq = np.concatenate([self.seq, np.full(more, NEVER)])
        self.gone = np.concatenate([self.gone, np.zeros(more, np.int64)])
        self.entity = np.concatenate([self.entity, np.zeros(more, np.int64)])
        if self.ids is not None:
            self.ids = np.concatenate([self.ids, np.zeros(more, self.ids.dtype)])
        self._current = np.concatenate([self._current, np.full(more, -1)])
        self._id_of = np.concatenate([self._id_of, np.zeros(more, np.int64)])
        fresh = np.arange(size - 1, old - 1, -1)
        self._free = np.concatenate([self._free[: self._frees], fresh, np.zeros(size - self._frees - more, np.int64)])
        self._frees += more
        self._spare = np.concatenate(
            [self._spare[: self._spares], fresh, np.zeros(size - self._spares - more, np.int64)]
        )
        self._spares += more
        self._table = resized(self._table, 4 * size)

    def add_columns(self, count: int) -> None:
        """Add columns whose past values are missing."""
        self.columns = np.ascontiguousarray(np.vstack([self.columns, np.full((count, self.capacity), np.nan)]))

    def entities(self, ids: np.ndarray, known_only: bool = False) -> Ints:
        """Return the entity number of each id; unknown ids get one, or -1 if ``known_only``."""
        out = np.empty(len(ids), np.int64)
        if ids.dtype == np.int64:
            if known_only:
                find(self._table, ids, out)
            else:
                self._spares = enter(self._table, ids, self._spare, self._spares, out)
                self._id_of[out] = ids
            return out
        for i, name in enumerate(ids.tolist()):
            number = self._names.get(name, -1)
            if number < 0 and not known_only:
                self._spares -= 1
                number = int(self._spare[self._spares])
                self._names[name] = number
                self._name_of[number] = name
            out[i] = number
        return out

    def append(
        self, columns: list[Floats], ids: Values, start: int, stop: int, entities: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Write rows of a batch; return their slots, the slots they replaced and at which row each was."""
        if self.ids is None and isinstance(ids, np.ndarray):
            self.ids = np.zeros(self.capacity, ids.dtype)
        n = stop - start
        slots, old, old_row = arrivals = Arrivals(*(np.empty(n, np.int64) for _ in range(3)))
        replaced = replace(self.rows(), self._current, self._free, self._frees, self.tick, entities, arrivals)
        self._frees -= n
        self.tick += n
        for index, column in enumerate(columns):
            self.columns[index, slots] = column[start:stop]
        if self.ids is not None:
            self.ids[slots] = ids[start:stop]
        return slots, old[:replaced], old_row[:replaced]

    def load(self, columns: Floats, ids: Values, entities: Ints, seq: Ints, gone: Ints, saved: Saved) -> Ints:
        """Write saved rows, which came and went at these ticks, into a new window; return their slots."""
        rows = columns.shape[1]
        slots, old, old_row = self.append(list(columns), ids, 0, rows, entities)
        row_of = np.zeros(self.capacity, np.int64)
        row_of[slots] = np.arange(rows)
        saved.expect(np.all(gone[row_of[old]] <= seq[old_row]), "gone", "rows that are gone when their id comes again")
        self.seq[slots], self.gone[slots] = seq, gone
        # Rows of one id were written in the order of their ticks; the last is current unless it is gone itself.
        retired = slots[gone != NEVER]
        self._current[self.entity[retired[self._current[self.entity[retired]] == retired]]] = -1
        self.pending = retired[np.lexsort((seq[gone != NEVER], gone[gone != NEVER]))]
        return slots

    def delete(self, entities: Ints) -> Ints:
        """Retire the rows of known entities; return their slots."""
        self.tick += 1
        slots = np.unique(self._current[entities])
        slots = slots[slots >= 0]
        self.gone[slots] = self.tick
        self._current[self.entity[slots]] = -1
        return slots

    def release(self, slots: Ints) -> None:
        """Free the slots of rows that an evaluation has seen go, and forget ids that have no row any more."""
        for number in np.unique(self.entity[slots[self._current[self.entity[slots]] < 0]]).tolist():
            self._forget(number)
        self.seq[slots] = NEVER
        self.columns[:, slots] = np.nan
        self._free[self._frees : self._frees + slots.size] = slots[::-1]
        self._frees += slots.size

    def _forget(self, number: int) -> None:
        if number in self._name_of:
            del self._names[self._name_of.pop(number)]
        else:
            forget(self._table, self._id_of[number])
        self._spare[self._spares] = number
        self._spares += 1

    def bytes(self) -> int:
        """Size of the arrays."""
        arrays = (self.columns, self.seq, self.gone, self.entity, self._current, self._free, self._spare, *self._table)
        return int(sum(array.nbytes for array in arrays)) + (self.ids.nbytes if self.ids is not None else 0)

    def _check(self) -> None:
        held = self.live_slots()
        assert held.size + self._frees == self.capacity
        assert np.unique(self._free[: self._frees]).size == self._frees
        assert not np.isin(self._free[: self._frees], held).any()
        current = self._current[self._current >= 0]
        assert np.all(self.gone[current] == NEVER)
        assert np.array_equal(np.sort(current), np.sort(held[self.gone[held] == NEVER]))


class Arrivals(NamedTuple):
    """Room for what :func:`replace` writes."""

    slot: Ints  # of each arriving row
    replaced: Ints  # slots of the rows that are replaced
    by: Ints  # for each of these, the index of the arriving row that replaces it


@kernel
def replace(rows: Rows, current: Ints, free: Ints, frees: int, tick: int, entities: Ints, arrivals: Arrivals) -> int:
    """Give each arriving row a free slot and retire the row it replaces; return how many were replaced."""
    replaced = 0
    for i in range(len(entities)):
        entity = entities[i]
        before = current[entity]
        frees -= 1
        slot = free[frees]
        arrivals.slot[i] = slot
        current[entity] = slot
        rows.seq[slot] = tick + 1 + i
        rows.gone[slot] = NEVER
        rows.entity[slot] = entity
        if before >= 0:
            rows.gone[before] = tick + 1 + i
            arrivals.replaced[replaced] = before
            arrivals.by[replaced] = i
            replaced += 1
    return replaced


class LatestFeed:
    """Feeds a window with one live row per id; ``room`` is for how many rows at first."""

    def __init__(self, columns: int, every: EveryRows | EveryTime, room: int = 1024) -> None:
        self.every = every
        self.window = LatestWindow(columns, room)
        self.pace = Pace()
        self.texts: ArrowIds | None = None  # ids that are no numbers
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

    def ids_of(self, slots: Ints) -> Values:
        """Return the ids of rows."""
        if self.window.ids is not None:
            return self.window.ids[slots]
        ticks = self.window.seq[slots]
        return ticks if self.texts is None else self.texts.read(ticks)

    def push(self, rows: int, columns: list[Floats], ids: Values, times: np.ndarray | None) -> Iterator[Step | None]:
        """Yield the steps of a batch, and None where the window has grown."""
        if self.texts is None and not isinstance(ids, np.ndarray):
            self.texts = ArrowIds()
        done = 0
        while done < rows:
            for evaluated in self.every.silence(None if times is None else times[done]):
                yield from self._evaluate(NO_INTS, NO_INTS, NO_INTS, evaluated, self.window.tick)
            count = self.every.fit(self.pace.next(rows - done), None if times is None else times[done:])
            if not self.window.fits(count):
                self.window.grow(2 * self.window.capacity + count)
                yield None
            part = ids[done : done + count]
            passed = None if times is None else times[done : done + count]
            evaluated = self.every.plan(self.end, count, passed, NO_FLOATS)
            entities = self.window.entities(as_keys(part))
            tick = self.window.tick
            slots, old, old_row = self.window.append(columns, ids, done, done + count, entities)
            if self.texts is not None:
                self.texts.write(tick + 1, part)
            yield from self._evaluate(slots, old, old_row, evaluated, tick)
            self.end += count
            done += count

    def advance(self, time: float, evaluate: bool) -> Iterator[Step]:
        """Yield the step that moves event time on: no row expires, so that only passing a boundary is evaluated."""
        if isinstance(self.every, EveryTime):
            for evaluated in self.every.silence(time):
                yield from self._evaluate(NO_INTS, NO_INTS, NO_INTS, evaluated, self.window.tick)
            evaluated = self.every.advance(time, NO_FLOATS)
            yield from self._evaluate(NO_INTS, NO_INTS, NO_INTS, evaluated, self.window.tick)

    def delete(self, ids: Values, evaluate: bool) -> tuple[int, Iterator[Step]]:
        """Remove rows by id; return how many of the ids were unknown, and the step, evaluated if a row went."""
        keys = as_keys(ids)
        entities = self.window.entities(keys, known_only=True)
        known = self.window.has_row(entities)
        unknown = len(set(keys[~known].tolist()))
        slots = self.window.delete(entities[known])
        evaluated = Evaluations(np.zeros(int(evaluate and slots.size > 0), np.int64), None)
        return unknown, self._evaluate(NO_INTS, slots, np.full(slots.size, -1), evaluated, self.window.tick)

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
            if self.texts is not None and self.texts.crowded(self.window.capacity - self.window.free()):
                self.texts.keep(self.window.seq[self.window.live_slots()])

    def bytes(self) -> int:
        """Size of the window with ids."""
        return self.window.bytes() + (self.texts.bytes() if self.texts is not None else 0)

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return fields and arrays: the rows held, oldest first, and the position of the feed."""
        slots = self.window.live_slots()
        fields: dict[str, Any] = {"end": self.end}
        if isinstance(self.every, EveryTime):
            fields["evaluated"] = self.evaluated
        fields |= {"tick": self.window.tick, "evaluated_tick": self.evaluated_tick}
        arrays: dict[str, Any] = {"columns": self.window.columns[:, slots]}
        if slots.size:
            arrays["ids"] = self.ids_of(slots)
        arrays |= {"seq": self.window.seq[slots], "gone": self.window.gone[slots]}
        return fields, arrays

    def load(self, fields: Fields, saved: Saved, columns: np.ndarray, ids: Values, times: np.ndarray | None) -> Ints:
        """Fill a new feed from a saved one; return the slots of the rows in the order they were saved.

        ``columns`` has the values of the rows, and ``ids`` their ids, None where there are no rows.
        """
        rows = columns.shape[1]
        end = fields.whole("end", rows, MOST_TICKS)
        self.evaluated = load_evaluated(self.every, fields.whole, end)
        tick = fields.whole("tick", end, MOST_TICKS)
        evaluated = fields.whole("evaluated_tick", 0, tick)
        seq, gone = saved.rising("seq", rows, low=1, high=tick), saved.ints("gone", rows, low=0, high=NEVER)
        retired = gone != NEVER
        left = gone[retired]
        seen = (left > seq[retired]) & (left > evaluated) & (left <= tick)
        saved.expect(np.all(seen), "gone", "ticks since an evaluation")
        fresh, since = int((seq > evaluated).sum()), end - self.evaluated
        saved.expect(fresh == since, "seq", f"{since} rows since the last evaluation", fresh)
        entities = self._entities(saved, ids) if rows else NO_INTS
        slots = self.window.load(columns, ids if rows else None, entities, seq, gone, saved)
        self.window.tick, self.end, self.evaluated_tick = tick, end, evaluated
        if rows and self.window.ids is None:
            self.texts = ArrowIds()
            self.texts.restore(seq, ids)
        fields.done()
        return slots

    def _entities(self, saved: Saved, ids: Values) -> Ints:
        try:
            return self.window.entities(as_keys(ids))
        except TypeError:  # of ids such as lists, which no monitor takes
            saved.expect(False, "ids", "ids that can be compared", str(getattr(ids, "type", None)))
            raise

    def _check(self) -> None:
        self.window._check()


def as_keys(ids: Values) -> np.ndarray:
    """Return ids as the window looks them up: int64 for whole numbers, else Python objects."""
    if isinstance(ids, np.ndarray):
        return ids
    return np.array(ids.to_pylist(), dtype=object)
