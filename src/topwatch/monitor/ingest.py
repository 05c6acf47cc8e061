"""The way in: a batch is read and checked whole before any of it counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from topwatch.monitor import batches
from topwatch.query.errors import DataError, QueryError
from topwatch.query.queries import IncompleteTopK, Query


@dataclass
class Ingest:
    """What a monitor knows of the batches it takes: their columns, the types of ids and times, and the latest time.

    Attributes
    ----------
    id, time : str or None
        Names of the id and time columns.
    columns : dict of column to query name
        Numeric columns in the order of the window's, each with a query that needs it, or "" once none does.
    id_kind, time_kind : str or None
        Types of the ids and times so far.
    now : number or None
        The latest time.
    words : dict of column to (column of the batch, words)
        Columns that are made from words: which column of a batch holds them, and the words that have a number.
    """

    id: str | None
    time: str | None
    columns: dict[str, str] = field(default_factory=dict)
    id_kind: str | None = None
    time_kind: str | None = None
    now: float | None = None
    words: dict[str, tuple[str, tuple[str | int, ...]]] = field(default_factory=dict)

    def want(self, query: Query, name: str) -> int:
        """Note the columns that a query needs; return how many of them are new."""
        if isinstance(query, IncompleteTopK):
            if self.id is None:
                raise QueryError("id: IncompleteTopK needs id=, the name of the column that tells objects apart")
            self.words[query.coded] = (query.source, tuple(query.sources))
        new = [column for column in query.columns if column not in self.columns]
        for column in query.columns:
            self.columns[column] = self.columns.get(column) or name
        return len(new)

    def read(self, batch: Any, ordered: bool = True) -> batches.Batch:
        """Read a batch, whose times may have to be in order; nothing is remembered when it is refused."""
        needed = {column: query for column, query in self.columns.items() if query}
        read = batches.read(batch, needed, self.id, self.time, self.words)
        if len(needed) < len(self.columns):
            missing = np.full(read.rows, np.nan)
            known = dict(zip(needed, read.columns, strict=True))
            read = read._replace(columns=[known.get(column, missing) for column in self.columns])
        if read.rows == 0:
            return read
        id_kind = None if read.ids is None else self._same_ids(read.ids, f"batch: id column {self.id!r}")
        if read.times is not None and read.time_kind is not None:
            self._same_times(read.time_kind, f"batch: time column {self.time!r}")
            if ordered:
                self._not_back(read.times, read.time_kind)
                self.now = read.times[-1].item()
            self.time_kind = read.time_kind
        self.id_kind = id_kind
        return read

    def released(self, batch: batches.Batch) -> batches.Batch:
        """Record the time of rows that the reorder buffer has released."""
        if batch.rows and batch.times is not None:
            self.now = batch.times[-1].item()
        return batch

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
        if isinstance(ids, set | frozenset | tuple):
            ids = list(ids)
        values = batches.as_ids("ids", batches.native("ids", ids))
        whole = isinstance(values, np.ndarray) and values.dtype == np.int64
        if self.id_kind == "uint64" and whole and len(values) and values.min() >= 0:
            values = values.astype(np.uint64)  # a list of small numbers does not say which type it is of
        if len(values):
            self._same_ids(values, "delete: ids")
        return values

    def unit(self) -> int:
        """Return how many nanoseconds a unit of time has."""
        return 1 if self.time_kind == batches.NANOSECONDS else 1_000_000_000

    def _same_ids(self, ids: Any, path: str) -> str:
        kind = ids.dtype.name if isinstance(ids, np.ndarray) else str(ids.type)
        if self.id_kind not in (None, kind):
            raise DataError(f"{path}: ids were {self.id_kind} so far, now {kind}; they need one type")
        return kind

    def _same_times(self, kind: str, path: str) -> None:
        if self.time_kind not in (None, kind):
            raise DataError(f"{path}: times were {self.time_kind} so far, now {kind}; they need one kind")

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


def count_skipped(columns: Iterable[np.ndarray]) -> int:
    """Count rows that lack a value in at least one of the columns that queries need."""
    # A sum that is a number has no NaN in it: the common case costs one pass.
    with np.errstate(all="ignore"):
        odd = [np.isnan(column) for column in columns if np.isnan(column.sum())]
    return int(np.logical_or.reduce(odd).sum()) if odd else 0


def _show(time: Any, kind: str) -> str:
    return str(np.datetime64(int(time), "ns")) if kind == batches.NANOSECONDS else f"{time:g}"
