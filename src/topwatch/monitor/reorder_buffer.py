"""Rows out of order: they are buffered until none that belongs before them can come any more, then released by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.core.arrays import times_before
from topwatch.core.saved_state import Fields, Saved
from topwatch.core.schedule import in_unit
from topwatch.monitor.batches import Batch
from topwatch.monitor.snapshot_format import arrow_from_array, ids_to_array, read_time, read_times
from topwatch.query.errors import DataError

if TYPE_CHECKING:
    from topwatch.monitor.ingest import Ingest


class ReorderBuffer:
    """Buffers rows for a span of event time.

    A row is late when its time lies more than the span before the latest time of the rows that came before it; it is
    counted and dropped. All others are released once the latest time is a span past them, by time and then as they
    came. Neither depends on how rows are cut into batches. O(b + n log n) for a batch of n rows with b in the buffer.

    Parameters
    ----------
    span : int
        Nanoseconds.
    """

    def __init__(self, span: int) -> None:
        self.span = span
        self.late = 0
        self.latest: float | None = None  # the latest time of all rows
        self._passed: float | None = None  # up to here, rows were released
        self._held: Batch | None = None

    def __len__(self) -> int:
        return self._held.rows if self._held is not None else 0

    def take(self, batch: Batch, unit: int) -> Batch:
        """Take in rows, whose unit of time has so many nanoseconds; return those that are released, in order."""
        assert batch.times is not None
        self._check_order(batch)
        times = batch.times
        latest = times[:1] if self.latest is None else np.array([self.latest], times.dtype)
        before = np.maximum.accumulate(np.concatenate([latest, times]))
        bounds = times_before(before, in_unit(self.span, unit))
        bound = bounds[:-1]
        if self._passed is not None:
            bound = np.maximum(bound, self._passed)
        late = times < bound
        self.late += int(late.sum())
        self.latest = before[-1].item()
        kept = batch.take(np.flatnonzero(~late)) if late.any() else batch
        return self._release(_joined(self._held, kept), bounds[-1].item())

    @property
    def earliest(self) -> float | None:
        """The earliest time of the buffered rows; None where there are none."""
        held = self._held
        return held.times.min().item() if held is not None and held.times is not None and held.rows else None

    def has_values(self, column: int) -> bool:
        """Return whether a buffered row has a value in a column, given by its index."""
        held = self._held
        return held is not None and column < len(held.columns) and not np.isnan(held.columns[column]).all()

    @property
    def passed(self) -> float | None:
        """The time up to which rows were released."""
        return self._passed

    def pass_to(self, now: float, columns: int) -> Batch | None:
        """Release all rows up to a time, with so many columns, since no more come before it; None if none is held."""
        self.latest = now if self.latest is None else max(self.latest, now)
        self._passed = now if self._passed is None else max(self._passed, now)
        return self._release(_widened(self._held, columns), now) if self._held is not None else None

    def _check_order(self, batch: Batch) -> None:
        held = self._held
        for old, new in zip(held.order if held is not None and held.rows else (), batch.order, strict=False):
            if not new.type.equals(old.type):
                raise DataError(f"batch: order: values were {old.type} so far, now {new.type}; they need one type")

    def _release(self, batch: Batch, bound: float) -> Batch:
        assert batch.times is not None
        self._passed = bound if self._passed is None else max(self._passed, bound)
        ready = batch.times <= bound
        self._held = batch.take(np.flatnonzero(~ready))
        going = np.flatnonzero(ready)
        return batch.take(going[_order(batch.times[going], [column.take(going) for column in batch.order])])

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the state as numbers and arrays."""
        numbers = {"span": self.span, "late": self.late, "latest": self.latest, "passed": self._passed}
        held = self._held
        if held is None or not held.rows:
            return numbers, {}
        arrays: dict[str, Any] = {"waiting columns": np.array(held.columns), "waiting times": held.times}
        if held.ids is not None:
            arrays["waiting ids"] = held.ids
        if held.groups is not None:
            arrays["waiting groups"] = held.groups
        arrays |= {f"waiting order {i}": ids_to_array(column) for i, column in enumerate(held.order)}
        return numbers, arrays

    @classmethod
    def load(cls, numbers: Fields, saved: Saved, ids: Any, ingest: Ingest, groups: int = 0) -> ReorderBuffer:
        """Undo :meth:`save`, for rows as a monitor knows them; ``groups`` is how many there are, 0 for none."""
        named, kind, now = ingest.id is not None, ingest.time_kind, ingest.now
        columns, order = len(ingest.columns), len(ingest.order)
        buffer = cls(numbers.whole("span", 1, 2**62 - 1))
        buffer.late = numbers.count("late")
        buffer.latest, buffer._passed = read_time(numbers, "latest", kind), read_time(numbers, "passed", kind)
        latest, passed = buffer.latest, buffer._passed
        numbers.expect((latest is None) == (passed is None), "passed", "a time where there is a latest one", passed)
        if latest is None or passed is None:
            numbers.expect(now is None, "latest", "a time where rows were released", None)
        elif now is not None:
            numbers.expect(now <= passed <= latest, "passed", f"a time from {now} to {latest}", passed)
        if saved.has("waiting times"):
            times = read_times(saved, "waiting times", None, kind)
            values = saved.floats("waiting columns", None, times.size, nan=True)
            inside = latest is not None and bool(np.all((times >= passed) & (times <= latest)))
            saved.expect(inside, "waiting times", f"times from {passed} to {latest}")
            saved.expect(values.shape[0] <= columns, "waiting columns", f"at most {columns} columns", values.shape)
            fits = len(ids) == times.size if named and ids is not None else not named and ids is None
            saved.expect(fits, "waiting ids", f"{times.size if named else 'no'} ids")
            numbered = saved.ints("waiting groups", times.size, low=0, high=groups - 1) if groups else None
            ranks = tuple(
                arrow_from_array(name, saved.raw(name)) for name in (f"waiting order {i}" for i in range(order))
            )
            saved.expect(all(len(column) == times.size for column in ranks), "waiting order 0", f"{times.size} values")
            saved.expect(_can_be_sorted(times, ranks), "waiting order 0", "values that have an order")
            buffer._held = Batch(times.size, list(values), ids, times, kind, groups=numbered, order=ranks)
        numbers.done()
        return buffer


def _widened(batch: Batch, columns: int) -> Batch:
    """Add the columns of queries that were added meanwhile: buffered rows have no value there."""
    return batch.arranged(range(len(batch.columns)), range(columns))


def _joined(held: Batch | None, new: Batch) -> Batch:
    if held is None or not held.rows:
        return new
    assert new.times is not None
    held = _widened(held, len(new.columns))
    assert held.times is not None
    columns = [np.concatenate(pair) for pair in zip(held.columns, new.columns, strict=True)]
    ids = new.ids
    if ids is not None:
        if isinstance(ids, np.ndarray):
            ids = np.concatenate([held.ids, ids])
        else:
            import pyarrow as pa

            ids = pa.concat_arrays([held.ids, ids])
    groups = None
    if held.groups is not None and new.groups is not None:
        groups = np.concatenate([held.groups, new.groups])
    times = np.concatenate([held.times, new.times])
    order = ()
    if new.order:
        import pyarrow as pa

        order = tuple(pa.concat_arrays(pair) for pair in zip(held.order, new.order, strict=True))
    return Batch(held.rows + new.rows, columns, ids, times, new.time_kind, groups=groups, order=order)


def _can_be_sorted(times: np.ndarray, columns: Sequence[Any]) -> bool:
    import pyarrow as pa

    try:
        _order(times, columns)
    except pa.ArrowException:
        return False
    return True


def _order(times: np.ndarray, columns: Sequence[Any]) -> np.ndarray:
    """Return the order of rows: by time, then by some columns, then as they came."""
    if not columns:
        return np.argsort(times, kind="stable")
    import pyarrow as pa
    import pyarrow.compute as pc

    named = {str(i): column for i, column in enumerate([pa.array(times), *columns])}
    indices = pc.sort_indices(pa.table(named), sort_keys=[(name, "ascending") for name in named])
    result: np.ndarray = indices.to_numpy().astype(np.int64)
    return result
