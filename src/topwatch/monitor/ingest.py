"""The way in: a batch is read and checked whole before any of it counts.

It counts whole or not at all: a monitor whose state an exception such as that of Ctrl-C has left half changed is not
used again, since compiled code trusts the arrays that it is given (:class:`Integrity`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from topwatch.core.saved_state import Fields
from topwatch.monitor import batches
from topwatch.monitor.batch_times import moment
from topwatch.monitor.snapshot_format import read_time
from topwatch.query.errors import DataError, QueryError, TopwatchError
from topwatch.query.queries import IncompleteTopK, Query
from topwatch.query.windows import in_words

EXACT = 2.0**51  # spans that seconds may lie from zero

P = ParamSpec("P")
T = TypeVar("T")


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
        Needed columns that are made from words: which column of a batch holds them, and the words that have a number.
    by : tuple of str
        Columns whose values have windows of their own. The order of times is then the matter of each group.
    order : tuple of str
        Columns that say which row comes first where times are equal.
    finest : int or None
        The shortest span of time that matters, in nanoseconds: times that are numbers must be exact enough for it.
    """

    id: str | None
    time: str | None
    columns: dict[str, str] = field(default_factory=dict)
    id_kind: str | None = None
    time_kind: str | None = None
    now: float | None = None
    words: dict[str, tuple[str, tuple[str | int, ...]]] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    finest: int | None = None

    def want(self, query: Query, name: str, has_values: Callable[[int], bool] | None = None) -> int:
        """Note the columns that a query needs; return how many more columns the window needs for them.

        A column that no query needs is replaced where no row has a value in it; ``has_values`` says that of its index.
        """
        if isinstance(query, IncompleteTopK):
            if self.id is None:
                raise QueryError("id: IncompleteTopK needs id=, the name of the column that tells objects apart")
            self.words[query.coded] = (query.source, tuple(query.sources))
        new = [column for column in query.columns if column not in self.columns]
        if new and has_values is not None:
            free = [
                column
                for index, (column, needy) in enumerate(self.columns.items())
                if not needy and column not in query.columns and not has_values(index)
            ]
            replaced = dict(zip(free, new, strict=False))
            self.columns = {replaced.get(column, column): needy for column, needy in self.columns.items()}
            new = new[len(replaced) :]
        for column in query.columns:
            self.columns[column] = self.columns.get(column) or name
        return len(new)

    def release(self, query: Query, others: Mapping[str, Query]) -> None:
        """Note that a query needs its columns no more; ``others`` still do."""
        for column in query.columns:
            needy = (name for name, other in others.items() if column in other.columns)
            self.columns[column] = next(needy, "")
            if not self.columns[column]:
                self.words.pop(column, None)

    @property
    def indices(self) -> dict[str, int]:
        """The index of each column in the window."""
        return {column: index for index, column in enumerate(self.columns)}

    @property
    def kinds(self) -> tuple[str | None, str | None]:
        """The types of ids and times, once they are known."""
        return self.id_kind, self.time_kind

    @kinds.setter
    def kinds(self, kinds: tuple[str | None, str | None]) -> None:
        self.id_kind, self.time_kind = kinds

    def times_and_keys(self, batch: Any) -> batches.Batch:
        """Read only the times and the groups of a batch; nothing is remembered."""
        return batches.read(batch, {}, None, self.time, None, self.by)

    def read(self, batch: Any, ordered: bool = True) -> batches.Batch:
        """Read a batch, whose times may have to be in order; nothing is remembered when it is refused."""
        needed = {column: query for column, query in self.columns.items() if query}
        read = batches.read(batch, needed, self.id, self.time, self.words, self.by, self.order)
        read = read.arranged(needed, self.columns)
        if read.rows == 0:
            return read
        id_kind = None if read.ids is None else self._same_ids(read.ids, f"batch: id column {self.id!r}")
        if read.times is not None and read.time_kind is not None:
            self._same_times(read.time_kind, f"batch: time column {self.time!r}")
            self._check_exact(read.times, read.time_kind, f"batch: time column {self.time!r}")
            if ordered:
                self.check_order(read.times, read.time_kind, self.now)
                self.now = read.times[-1].item()
            self.time_kind = read.time_kind
        self.id_kind = id_kind
        return read

    def save(self) -> dict[str, Any]:
        """Return what is known of batches as plain data."""
        return {
            "columns": list(self.columns),
            "id_kind": self.id_kind,
            "time_kind": self.time_kind,
            "now": self.now,
        }

    def load(self, header: Fields, queries: Sequence[Query]) -> None:
        """Undo :meth:`save`; which query needs a column follows from the queries."""
        self.columns = dict.fromkeys(header.texts("columns"), "")
        for query in queries:
            new = self.want(query, str(query.name))
            header.expect(new == 0, "columns", f"the columns {query.columns}", list(self.columns))
        if not header.missing("id_kind"):
            self.id_kind = header.text("id_kind")
            header.expect(self.id is not None, "id_kind", "none, since rows have no ids", self.id_kind)
        if not header.missing("time_kind"):
            self.time_kind = header.text("time_kind")
            known = self.time is not None and self.time_kind in (batches.NANOSECONDS, batches.SECONDS)
            header.expect(known, "time_kind", "a kind of times, of a time column", self.time_kind)
        self.now = read_time(header, "now", self.time_kind)
        if self.now is not None and self.time_kind == batches.SECONDS:
            header.expect(abs(self.now) <= self._farthest(), "now", "a time that is exact enough", self.now)

    def released(self, batch: batches.Batch) -> batches.Batch:
        """Record the time of rows that the reorder buffer has released."""
        if batch.rows and batch.times is not None:
            self.now = batch.times[-1].item()
        return batch

    def moment(self, time: Any) -> float:
        """Read the time to which ``advance`` moves on."""
        if self.time is None:
            raise DataError("advance: this monitor has no event time; give time=, the name of the time column")
        now, kind = moment("advance", time)
        self._same_times(kind, "advance")
        self._check_exact(np.array([now]), kind, "advance")
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

    def _farthest(self) -> float:
        """Return how far from zero seconds may be, so that the finest span makes a difference to all of them."""
        return np.inf if self.finest is None else self.finest * 1e-9 * EXACT

    def _check_exact(self, times: np.ndarray, kind: str, path: str) -> None:
        if kind == batches.SECONDS and self.finest is not None:
            farthest = times[np.argmax(np.abs(times))]
            if abs(farthest) > self._farthest():
                raise DataError(
                    f"{path}: {farthest:g} seconds are too far from zero to tell times {in_words(self.finest)} apart;"
                    f" accepted are {self._farthest():.3g} at most, or timestamps"
                )

    def check_order(self, times: np.ndarray, kind: str, now: float | None, of: str = "") -> None:
        """Refuse times that decrease, or begin before ``now``; ``of`` says which rows they are of."""
        if now is not None and times[0] < now:
            row, before, after = 0, now, times[0]
        elif np.all(times[1:] >= times[:-1]):
            return
        else:
            row = int(np.argmax(times[1:] < times[:-1])) + 1
            before, after = times[row - 1], times[row]
        raise DataError(
            f"batch: time column {self.time!r} goes back from {_show(before, kind)} to {_show(after, kind)}"
            f" at row {row}{of}; times may not decrease"
        )


def count_skipped(columns: Iterable[np.ndarray]) -> int:
    """Count rows that lack a value in at least one of the columns that queries need."""
    # A sum that is a number has no NaN in it: the common case costs one pass.
    with np.errstate(all="ignore"):
        odd = [np.isnan(column) for column in columns if np.isnan(column.sum())]
    return int(np.logical_or.reduce(odd).sum()) if odd else 0


def _show(time: Any, kind: str) -> str:
    return str(np.datetime64(int(time), "ns")) if kind == batches.NANOSECONDS else f"{time:g}"


class Integrity:
    """A context in which state is changed. What is refused changes nothing; any other exception leaves it not whole."""

    def __init__(self) -> None:
        self._whole = True

    def check(self) -> None:
        """Refuse to use a state that is not whole."""
        if not self._whole:
            raise DataError(
                "monitor: it was interrupted while it took in rows, and is not whole any more; restore it from a"
                " snapshot, or begin again"
            )

    def __enter__(self) -> None:
        self.check()
        self._whole = False

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        self._whole = kind is None or issubclass(kind, TopwatchError)


class HasIntegrity(Protocol):
    """What has state that may not be whole."""

    _integrity: Integrity


S = TypeVar("S", bound=HasIntegrity)


def changing(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one that changes the state, all of it or none."""

    @wraps(method)
    def change(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._integrity:
            return method(self, *args, **kwargs)

    return change


def reading(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one that needs a whole state."""

    @wraps(method)
    def read(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._integrity.check()
        return method(self, *args, **kwargs)

    return read
