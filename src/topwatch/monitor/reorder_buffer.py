"""Rows out of order: they wait until none that belongs before them can come any more, then go on by time."""

from __future__ import annotations

from typing import Any

import numpy as np

from topwatch.core.saved_state import Fields, Saved
from topwatch.monitor.batches import NANOSECONDS, Batch


class ReorderBuffer:
    """Holds rows back for a span of event time.

    A row is late when its time lies more than the span before the latest time of the rows that came before it; it is
    counted and dropped. All others go on once the latest time is a span past them, by time and then as they came. Both
    do not depend on how rows are cut into batches. O(w + n log n) for a batch of n rows while w wait.

    Parameters
    ----------
    span : int
        Nanoseconds.
    """

    def __init__(self, span: int) -> None:
        self.span = span
        self.late = 0
        self.latest: float | None = None  # the latest time of all rows
        self._passed: float | None = None  # up to here, rows have gone on
        self._held: Batch | None = None

    def __len__(self) -> int:
        return self._held.rows if self._held is not None else 0

    def take(self, batch: Batch, unit: int) -> Batch:
        """Take in rows, whose unit of time has so many nanoseconds; return those that go on, in order."""
        assert batch.times is not None
        times = batch.times
        before = np.maximum.accumulate(np.concatenate([[times[0] if self.latest is None else self.latest], times]))
        bound = before[:-1] - self._wait(unit)
        if self._passed is not None:
            bound = np.maximum(bound, self._passed)
        late = times < bound
        self.late += int(late.sum())
        self.latest = before[-1].item()
        kept = _pick(batch, np.flatnonzero(~late)) if late.any() else batch
        return self._release(_joined(self._held, kept), self.latest - self._wait(unit))

    def pass_to(self, now: float, columns: int) -> Batch | None:
        """Let all rows up to a time go on, with so many columns, since no more come before it; None when none waits."""
        self.latest = now if self.latest is None else max(self.latest, now)
        self._passed = now if self._passed is None else max(self._passed, now)
        return self._release(_widened(self._held, columns), now) if self._held is not None else None

    def _wait(self, unit: int) -> float:
        return self.span // unit if unit == 1 else self.span / unit

    def _release(self, batch: Batch, bound: float) -> Batch:
        assert batch.times is not None
        self._passed = bound if self._passed is None else max(self._passed, bound)
        ready = batch.times <= bound
        self._held = _pick(batch, np.flatnonzero(~ready))
        going = np.flatnonzero(ready)
        return _pick(batch, going[np.argsort(batch.times[going], kind="stable")])

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the state as numbers and arrays."""
        numbers = {"span": self.span, "late": self.late, "latest": self.latest, "passed": self._passed}
        held = self._held
        if held is None or not held.rows:
            return numbers, {}
        arrays: dict[str, Any] = {"waiting columns": np.array(held.columns), "waiting times": held.times}
        if held.ids is not None:
            arrays["waiting ids"] = held.ids
        return numbers, arrays

    @classmethod
    def load(
        cls, numbers: Fields, saved: Saved, columns: int, named: bool, ids: Any, kind: str | None, now: float | None
    ) -> ReorderBuffer:
        """Undo :meth:`save`, for rows of so many columns, with ids where they are ``named``.

        ``kind`` is that of their times, and ``now`` the time of the last that has gone on.
        """
        buffer = cls(numbers.whole("span", 1, 2**62 - 1))
        buffer.late = numbers.whole("late")
        buffer.latest, buffer._passed = read_time(numbers, "latest", kind), read_time(numbers, "passed", kind)
        latest, passed = buffer.latest, buffer._passed
        numbers.expect((latest is None) == (passed is None), "passed", "a time where there is a latest one", passed)
        if latest is None or passed is None:
            numbers.expect(now is None, "latest", "a time where rows have gone on", None)
        elif now is not None:
            numbers.expect(now <= passed <= latest, "passed", f"a time from {now} to {latest}", passed)
        if saved.has("waiting times"):
            times = read_times(saved, "waiting times", None, kind)
            values = saved.floats("waiting columns", None, times.size, nan=True)
            inside = latest is not None and bool(np.all((times > passed) & (times <= latest)))
            saved.expect(inside, "waiting times", f"times after {passed}, up to {latest}")
            saved.expect(values.shape[0] <= columns, "waiting columns", f"at most {columns} columns", values.shape)
            fits = len(ids) == times.size if named and ids is not None else not named and ids is None
            saved.expect(fits, "waiting ids", f"{times.size if named else 'no'} ids")
            buffer._held = Batch(times.size, list(values), ids, times, kind)
        numbers.done()
        return buffer


def read_time(fields: Fields, name: str, kind: str | None) -> float | None:
    """Take a time of a kind out of a snapshot, or None where there is none."""
    if fields.missing(name):
        return None
    fields.expect(kind is not None, name, "none, since there have been no times")
    return fields.whole(name, -(2**63), 2**63 - 1) if kind == NANOSECONDS else fields.number(name)


def read_times(saved: Saved, name: str, rows: int | None, kind: str | None) -> np.ndarray:
    """Take the times of rows of a kind out of a snapshot."""
    if kind == NANOSECONDS:
        return saved.ints(name, rows, low=-(2**63), high=2**63 - 1)
    return saved.floats(name, rows, finite=True)


def _pick(batch: Batch, indices: np.ndarray) -> Batch:
    assert batch.times is not None
    ids = batch.ids
    if ids is not None:
        ids = ids[indices] if isinstance(ids, np.ndarray) else ids.take(indices)
    return Batch(
        indices.size, [column[indices] for column in batch.columns], ids, batch.times[indices], batch.time_kind
    )


def _widened(batch: Batch, columns: int) -> Batch:
    """Add the columns of queries that came while rows waited: those rows have no value there."""
    missing = [np.full(batch.rows, np.nan)] * (columns - len(batch.columns))
    return batch._replace(columns=[*batch.columns, *missing])


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
    return Batch(held.rows + new.rows, columns, ids, np.concatenate([held.times, new.times]), new.time_kind)
