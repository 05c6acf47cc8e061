"""What a monitor returns: the entries of an answer, and the changes from one evaluation to the next."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, overload

import numpy as np

from topwatch.core.arrays import NO_FLOATS, NO_INTS
from topwatch.core.saved_state import Saved
from topwatch.monitor import data_frames
from topwatch.monitor.display import SHOWN, html_table, number_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_OPS = ("leave", "enter")
_TICK_BITS = 42  # of a row's tick; the query's number stands above


class Entry(NamedTuple):
    """One row of an answer."""

    id: Any
    score: float


class ObjectEntry(Entry):
    """An object of an answer of IncompleteTopK: as a tuple its id and score, with what is known of it beside.

    Attributes
    ----------
    sources : tuple of str or int
        Those that have a live row of it, in the order of the query.
    current : float
        The score that they make: another word for ``score``.
    best : float
        The best score that it can get while its rows live: sources that are silent so far say the most that the bounds
        allow. Infinite where nothing bounds them.
    """

    sources: tuple[Any, ...] = ()
    best: float = math.inf

    @property
    def current(self) -> float:
        """The score."""
        return self.score

    def __repr__(self) -> str:
        return f"Entry(id={self.id!r}, score={self.score!r})"


class Answer(list[Entry]):
    """The rows of an answer, best first: a list, with a note on how it was made.

    Attributes
    ----------
    note : str
        Empty for an exact answer, else such as ``"approximate: amsa"``.

    Examples
    --------
    >>> Answer([Entry("b", 30.0), Entry("c", 20.0)]).to_pandas()
       rank id  score
    0     1  b   30.0
    1     2  c   20.0
    """

    def __init__(self, entries: Iterable[Entry] = (), note: str = "") -> None:
        super().__init__(entries)
        self.note = note

    @property
    def exact(self) -> bool:
        """Whether it is the answer, and not near it."""
        return not self.note

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns rank, id and score, and of objects also sources and best."""
        import pyarrow as pa

        names, rows = self._table()
        large = any(isinstance(entry.id, int) and entry.id >= 1 << 63 for entry in self)  # of uint64
        types = {"rank": pa.int64(), "id": pa.uint64() if large else None, "score": pa.float64(), "best": pa.float64()}
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        arrays = [pa.array(list(column), types.get(name)) for name, column in zip(names, columns, strict=True)]
        return pa.table(arrays, names=names)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with the columns of :meth:`to_arrow`."""
        return data_frames.to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return a polars data frame with the columns of :meth:`to_arrow`."""
        return data_frames.to_polars(self.to_arrow())

    def _table(self, most: int | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns and at most so many rows."""
        entries = self[:most]
        objects = [one for one in entries if isinstance(one, ObjectEntry)]
        if objects:
            detailed = [(rank, *one, one.sources, one.best) for rank, one in enumerate(objects, 1)]
            return ["rank", "id", "score", "sources", "best"], detailed
        return ["rank", "id", "score"], [(rank, *one) for rank, one in enumerate(entries, 1)]

    def _repr_html_(self) -> str:
        caption = number_of(len(self), "row", "rows") + (f", {self.note}" if self.note else "")
        return html_table(caption, *self._table(SHOWN), more=len(self) - SHOWN)


class Change(NamedTuple):
    """A row that entered or left an answer; ``at`` is the ordinal of the row after which that holds."""

    at: int
    query: str
    op: Literal["enter", "leave"]
    id: Any
    score: float

    @property
    def note(self) -> str:
        """How the answer was made that the row entered or left: empty for an exact one. No part of the tuple."""
        return ""

    @property
    def by(self) -> Any:
        """The group, of a monitor with ``by``: its value, or a tuple of several. No part of the tuple."""
        return None


class _DetailedChange(Change):
    """A change of an answer that is not exact, or of a group."""

    _note = ""
    _by: Any = None
    _grouped = False

    @property
    def note(self) -> str:
        return self._note

    @property
    def by(self) -> Any:
        return self._by

    def __repr__(self) -> str:
        group = f"by={self.by!r}, " if self._grouped else ""
        note = f", note={self.note!r}" if self.note else ""
        return f"Change({group}{repr(Change(*self))[7:-1]}{note})"


class Groups(NamedTuple):
    """The group of each change: its number among keys, which are Arrow arrays, a column of ``by`` each."""

    names: tuple[str, ...]
    keys: list[Any]
    number: np.ndarray

    def values(self) -> list[Any]:
        """Return the group of each change: a value, or a tuple where there are several columns."""
        import pyarrow as pa

        taken = [column.take(pa.array(self.number)).to_pylist() for column in self.keys]
        return taken[0] if len(taken) == 1 else list(zip(*taken, strict=True))


class Changes:
    """Changes in order, as arrays; iterating makes one :class:`Change` at a time.

    An index gives one change, a slice the changes there as arrays.

    Examples
    --------
    >>> import topwatch as tw
    >>> m = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="top"), window=tw.last(2))
    >>> list(m.push({"id": [7, 8], "x": [1.0, 3.0]}))  # doctest: +NORMALIZE_WHITESPACE
    [Change(at=1, query='top', op='enter', id=7, score=1.0),
     Change(at=2, query='top', op='leave', id=7, score=1.0),
     Change(at=2, query='top', op='enter', id=8, score=3.0)]
    >>> more = m.push({"id": [9], "x": [5.0]})
    >>> more[-1]
    Change(at=3, query='top', op='enter', id=9, score=5.0)
    >>> more[1:]
    <Changes: 1 in 1 query>
    """

    def __init__(
        self,
        names: list[str],
        at: Any,
        query: Any,
        op: Any,
        ids: Any,
        score: Any,
        ticks: Any,
        groups: Groups | None = None,
    ) -> None:
        self._names = names
        self.at: np.ndarray = at
        self._query: np.ndarray = query  # number in names
        self._op: np.ndarray = op
        self._ids = ids
        self.score: np.ndarray = score
        self.ticks: np.ndarray = ticks  # of rows with equal scores the one with the larger tick is newer
        self.groups = groups
        self._notes: list[tuple[int, str]] = []  # how many changes, and their note; empty where none is kept

    def __len__(self) -> int:
        return int(self.at.size)

    def __iter__(self) -> Iterator[Change]:
        ids = self._ids.tolist() if isinstance(self._ids, np.ndarray) else self._ids.to_pylist()
        lines = zip(self.at.tolist(), self._query.tolist(), self._op.tolist(), ids, self.score.tolist(), strict=True)
        notes = itertools.chain.from_iterable(itertools.repeat(note, times) for times, note in self._notes)
        by = iter(self.groups.values()) if self.groups is not None else None
        for at, query, op, name, score in lines:
            note = next(notes, "")
            if not note and by is None:
                yield Change(at, self._names[query], _OPS[op], name, score)  # type: ignore[arg-type]
                continue
            change = _DetailedChange(at, self._names[query], _OPS[op], name, score)  # type: ignore[arg-type]
            change._note = note
            if by is not None:
                change._by, change._grouped = next(by), True
            yield change

    @overload
    def __getitem__(self, key: SupportsIndex) -> Change: ...

    @overload
    def __getitem__(self, key: slice) -> Changes: ...

    def __getitem__(self, key: SupportsIndex | slice) -> Change | Changes:
        if isinstance(key, slice):
            return self._slice(key)
        index, size = operator.index(key), len(self)
        if not -size <= index < size:
            raise IndexError(f"changes: expected an index from {-size} to {size - 1}, got {index}")
        return next(iter(self._slice(slice(index % size, index % size + 1))))

    def _slice(self, key: slice) -> Changes:
        """Return some of the changes; the arrays are views where that can be."""
        groups = None if self.groups is None else self.groups._replace(number=self.groups.number[key])
        at, query, op = self.at[key], self._query[key], self._op[key]
        result = Changes(self._names, at, query, op, self._ids[key], self.score[key], self.ticks[key], groups)
        if self._notes:
            ends = np.cumsum([times for times, _ in self._notes])
            runs = np.searchsorted(ends, np.arange(*key.indices(len(self))), side="right").tolist()
            result._notes = [(len(list(same)), self._notes[run][1]) for run, same in itertools.groupby(runs)]
        return result

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns at, query, op, id and score.

        Before them the columns of ``by``, if there are groups; after them a note, of a monitor with ``max_lag``.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        def words(numbers: np.ndarray, known: list[str]) -> pa.Array:
            return pc.take(pa.array(known or [""], pa.string()), pa.array(numbers, pa.int64()), boundscheck=False)

        ids = pa.array(self._ids) if isinstance(self._ids, np.ndarray) else self._ids
        columns = [
            pa.array(self.at, pa.int64()),
            words(self._query, self._names),
            words(self._op, list(_OPS)),
            ids,
            pa.array(self.score, pa.float64()),
        ]
        names = ["at", "query", "op", "id", "score"]
        if self._notes:
            columns.append(pa.array([note for times, note in self._notes for _ in range(times)], pa.string()))
            names.append("note")
        if self.groups is not None:
            numbers = pa.array(self.groups.number)
            columns = [*(pc.take(keys, numbers, boundscheck=False) for keys in self.groups.keys), *columns]
            names = [*self.groups.names, *names]
        return pa.table(columns, names=names)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with the columns of :meth:`to_arrow`."""
        return data_frames.to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return a polars data frame with the columns of :meth:`to_arrow`."""
        return data_frames.to_polars(self.to_arrow())

    def noted(self, note: str) -> Changes:
        """Return the changes with a note, where they have none yet."""
        if not self._notes:
            self._notes = [(len(self), note)]
        return self

    def of_groups(self, names: list[str], groups: Groups) -> Changes:
        """Return the changes as those of groups; ``names`` are of the queries of all of them."""
        query = self._query
        if self._names != names[: len(self._names)]:
            query = np.array([names.index(name) for name in self._names], np.int64)[query]
        result = Changes(names, self.at, query, self._op, self._ids, self.score, self.ticks, groups)
        result._notes = self._notes
        return result

    def __repr__(self) -> str:
        return f"<Changes: {len(self):,} in {number_of(len(np.unique(self._query)), 'query', 'queries')}>"

    def _repr_html_(self) -> str:
        by = [] if self.groups is None else list(self.groups.names)
        note = ["note"] if self._notes else []
        rows = []
        for change in self[:SHOWN]:
            group = change.by if len(by) > 1 else (change.by,) * len(by)
            rows.append((*group, *change, *(change.note for _ in note)))
        return html_table(repr(self)[1:-1], [*by, *Change._fields, *note], rows, len(self) - SHOWN)


def join(names: list[str], parts: list[Changes]) -> Changes:
    """Join the changes of several steps into one."""
    parts = [part for part in parts if len(part)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Changes(names, NO_INTS, NO_INTS, NO_INTS, NO_INTS, NO_FLOATS, NO_INTS)
    if isinstance(parts[0]._ids, np.ndarray):
        ids: Any = np.concatenate([part._ids for part in parts])
    else:
        import pyarrow as pa

        ids = pa.concat_arrays([part._ids for part in parts])

    def together(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    groups = parts[-1].groups  # it has the keys of all groups so far
    if groups is not None:
        numbers = [part.groups.number for part in parts if part.groups is not None]
        groups = groups._replace(number=np.concatenate(numbers))
    joined = Changes(
        names, together("at"), together("_query"), together("_op"), ids, together("score"), together("ticks"), groups
    )
    joined._notes = [run for part in parts for run in part._notes]
    return joined


class FirstOnly:
    """Passes on of each row only its first entry into an answer: the result stream of TODS'15, Definition 3.6.

    It remembers which live rows were reported, one number per row and query until the row expires. Cost per step:
    O(c log c) for c changes, and a look-up of each.
    """

    def __init__(self) -> None:
        self._known = NO_INTS  # sorted

    def choose(self, query: np.ndarray, op: np.ndarray, ticks: np.ndarray, head: int) -> np.ndarray:
        """Return the indices of the changes to report; rows older than ``head`` have expired after them."""
        names = (query << _TICK_BITS) | ticks
        entered = np.flatnonzero(op == _OPS.index("enter"))
        _, first = np.unique(names[entered], return_index=True)
        fresh = entered[np.sort(first)]
        index = np.minimum(np.searchsorted(self._known, names[fresh]), max(0, self._known.size - 1))
        if self._known.size:
            fresh = fresh[self._known[index] != names[fresh]]
        known = np.union1d(self._known, names[fresh])
        self._known = known[(known & ((1 << _TICK_BITS) - 1)) >= head]
        return fresh

    def renumber(self, numbers: Sequence[int]) -> None:
        """Queries with these numbers are counted from 0 now, in the same order; forget those that are gone."""
        queries, ticks = self._known >> _TICK_BITS, self._known & ((1 << _TICK_BITS) - 1)
        kept = np.isin(queries, numbers)
        self._known = (np.searchsorted(numbers, queries[kept]) << _TICK_BITS) | ticks[kept]

    def save(self, numbers: Sequence[int], head: int) -> dict[str, np.ndarray]:
        """Return what is remembered of the queries with these numbers, by their order, and of rows from ``head`` on."""
        queries, ticks = self._known >> _TICK_BITS, self._known & ((1 << _TICK_BITS) - 1)
        order = {number: i for i, number in enumerate(numbers)}
        indices = np.array([order.get(int(query), -1) for query in queries], np.int64)
        kept = (indices >= 0) & (ticks >= head)
        return {"reported queries": indices[kept], "reported ticks": ticks[kept]}

    def load(self, saved: Saved, numbers: Sequence[int], head: int, evaluated: int) -> None:
        """Take back what was saved of rows from ``head`` to the last evaluated; the queries have these numbers now."""
        indices = saved.ints("reported queries", None, low=0, high=len(numbers) - 1)
        ticks = saved.ints("reported ticks", indices.size, low=head, high=min(evaluated, (1 << _TICK_BITS) - 1))
        self._known = np.unique((np.array(numbers, np.int64)[indices] << _TICK_BITS) | ticks)
        saved.expect(self._known.size == ticks.size, "reported ticks", "each row once for a query")
