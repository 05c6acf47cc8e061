"""The way in: a batch is read and checked whole before any of it counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from topwatch import batches
from topwatch.errors import DataError
from topwatch.queries import Query


@dataclass
class Intake:
    """What a monitor knows of the batches it takes: their columns, the types of ids and times, and the latest time.

    Attributes
    ----------
    id, time : str or None
        Names of the id and time columns.
    columns : dict of column to query name
        Numeric columns in the order of the window's, each with a query that needs it.
    id_kind, time_kind : str or None
        Types of the ids and times so far.
    now : number or None
        The latest time.
    """

    id: str | None
    time: str | None
    columns: dict[str, str] = field(default_factory=dict)
    id_kind: str | None = None
    time_kind: str | None = None
    now: float | None = None

    def read(self, batch: Any, end: int) -> batches.Batch:
        """Read a batch that follows row ``end``; nothing is remembered when it is refused."""
        read = batches.read(batch, self.columns, self.id, self.time, end)
        if read.rows == 0:
            return read
        id_kind = self._same_ids(read.ids, f"batch: id column {self.id!r}")
        if read.times is not None and read.time_kind is not None:
            self._same_times(read.time_kind, f"batch: time column {self.time!r}")
            self._not_back(read.times, read.time_kind)
            self.time_kind, self.now = read.time_kind, read.times[-1].item()
        self.id_kind = id_kind
        return read

    def moment(self, time: Any) -> float:
        """Read the time to which ``advance`` moves on."""
        if self.time is None:
            raise DataError("advance: this monitor has no event time; give time=, the name of the time column")
        now, kind = batches.moment("advance", time)
        self._same_times(kind, "advance")
        if self.now is not None and now < self.now:
            raise DataError(
                f"advance: {time!r} is before the latest time {_show(self.now, kind)}; time may not go back"
            )
        self.time_kind, self.now = kind, now
        return now

    def ids(self, ids: Any) -> Any:
        """Read the ids of rows to delete."""
        if isinstance(ids, str | bytes) or not hasattr(ids, "__len__"):
            ids = [ids]
        values = batches.as_ids("ids", ids if isinstance(ids, np.ndarray) or hasattr(ids, "type") else list(ids))
        if len(values):
            self._same_ids(values, "delete: ids")
        return values

    def unit(self) -> int:
        """Return how many nanoseconds a unit of time has."""
        return 1 if self.time_kind == batches.NANOSECONDS else 1_000_000_000

    def _same_ids(self, ids: Any, place: str) -> str:
        kind = ids.dtype.name if isinstance(ids, np.ndarray) else str(ids.type)
        if self.id_kind not in (None, kind):
            raise DataError(f"{place}: ids were {self.id_kind} so far, now {kind}; they need one type")
        return kind

    def _same_times(self, kind: str, place: str) -> None:
        if self.time_kind not in (None, kind):
            raise DataError(f"{place}: times were {self.time_kind} so far, now {kind}; they need one kind")

    def _not_back(self, times: np.ndarray, kind: str) -> None:
        if self.now is not None and times[0] < self.now:
            row, before, after = 0, self.now, times[0]
        elif np.all(times[1:] >= times[:-1]):
            return
        else:
            row = int(np.argmax(times[1:] < times[:-1])) + 1
            before, after = times[row - 1], times[row]
        raise DataError(
            f"batch: time column {self.time!r} goes back from {_show(before, kind)} to {_show(after, kind)}"
            f" at row {row}; times may not decrease"
        )


def count_skipped(columns: Mapping[str, np.ndarray], queries: Iterable[Query]) -> int:
    """Count rows that at least one query cannot rank."""
    # A sum that is finite has no NaN and no infinity in it: the common case costs one pass.
    with np.errstate(all="ignore"):
        odd = [column for column in columns.values() if not np.isfinite(column.sum())]
    if not odd:
        return 0
    strange = ~np.isfinite(odd[0])
    for column in odd[1:]:
        strange |= ~np.isfinite(column)
    rows = np.flatnonzero(strange)
    named = {name: column[rows] for name, column in columns.items()}
    skipped = np.zeros(rows.size, np.bool_)
    for query in queries:
        for name in query.columns:
            skipped |= np.isnan(named[name])
        skipped |= np.isnan(query.score.evaluate(named))
    return int(skipped.sum())


def _show(time: Any, kind: str) -> str:
    return str(np.datetime64(int(time), "ns")) if kind == batches.NANOSECONDS else f"{time:g}"
