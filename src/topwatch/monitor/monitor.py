"""The monitor: batches in, changes out."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np

from topwatch.core.saved_state import Fields, Saved
from topwatch.monitor import planner
from topwatch.monitor.batches import NANOSECONDS, Batch
from topwatch.monitor.changes import Answer, Changes
from topwatch.monitor.display import number_of
from topwatch.monitor.ingest import Ingest, Integrity, changing, reading
from topwatch.monitor.planner import PhysicalPlan, QueryPlan
from topwatch.monitor.reorder_buffer import ReorderBuffer
from topwatch.monitor.serving import Line, Serving
from topwatch.monitor.stream_settings import Settings
from topwatch.monitor.why import LiveRows, Why, explain_object, explain_row, full_answer
from topwatch.query.errors import QueryError
from topwatch.query.queries import KINDS, IncompleteTopK, Query
from topwatch.query.windows import Latest, Window

State = tuple[dict[str, Any], dict[str, np.ndarray]]


class Monitor:
    """Keeps the answers of standing queries over a stream.

    Parameters
    ----------
    queries : query or list of queries
        What to watch: :class:`TopK` or another of :mod:`topwatch.query.queries`.
    window : window
        Which rows count: ``last(n)``, ``last("10 minutes")`` or ``latest()``.
    every : int or str
        When to evaluate: after every so many rows, or at whole multiples of a span of event time.
    algorithm : str
        A paper's name in lower case, or ``"auto"``.
    id, time : str or None
        Names of the id and time columns. With ``id=None`` rows are called by their ordinals.
    emit : {"changes", "first"}
        All changes, or of each row only when it first becomes an answer of a query.
    lateness : str or timedelta, optional
        For how long rows wait for others that belong before them; answers are as of that long ago. Rows that come later
        still are counted and dropped. Without it, times may not decrease.
    max_lag : str or timedelta, optional
        Falling behind the event time by more than that, dominating queries are answered approximately, by AHBA and then
        AMSA, until there is room again.
    by : str or list of str, optional
        Columns; each of their values has its own window and answers. The monitor is then a
        :class:`~topwatch.monitor.grouped.GroupedMonitor`.
    **options
        Options of the algorithm, such as ``cells=12``.

    Examples
    --------
    >>> import topwatch as tw
    >>> m = tw.Monitor(tw.Nearest(k=1, point={"x": 0.0, "y": 0.0}, name="near"), window=tw.last("1 minute"), time="t")
    >>> changes = m.push({"id": ["a", "b"], "t": [0.0, 30.0], "x": [1.0, 3.0], "y": [0.0, 4.0]})
    >>> m.answer("near")
    [Entry(id='a', score=1.0)]
    >>> [(c.op, c.id) for c in m.advance(60.0)]
    [('leave', 'a'), ('enter', 'b')]
    >>> m
    <Monitor: 1 query over the last 1 minute, 2 rows so far>
    """

    def __new__(cls, *_: Any, by: Any = None, **__: Any) -> Self:
        """Make the object: with ``by`` a ``GroupedMonitor``, so that users have one class to call."""
        if by is not None and cls is Monitor:
            from topwatch.monitor.grouped import GroupedMonitor

            return object.__new__(GroupedMonitor)  # type: ignore[return-value]  # it is one, if not of this class
        return object.__new__(cls)

    def __init__(
        self,
        queries: Query | Sequence[Query],
        window: Window,
        every: int | str | datetime.timedelta = 1,
        algorithm: str = "auto",
        id: str | None = "id",
        time: str | None = None,
        *,
        emit: str = "changes",
        lateness: str | datetime.timedelta | None = None,
        max_lag: str | datetime.timedelta | None = None,
        by: str | Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        self._start(queries, Settings(window, every, algorithm, options, id, time, by, emit, lateness, max_lag))

    @classmethod
    def from_settings(
        cls, queries: Query | Sequence[Query], settings: Settings, chosen: Sequence[QueryPlan] | None = None
    ) -> Self:
        """Make a monitor from its settings, which can say more than the arguments of :class:`Monitor`.

        ``chosen`` are the algorithms that serve the queries, where that is planned already.
        """
        monitor = cls.__new__(cls, by=settings.by or None)
        monitor._start(queries, settings, chosen)
        return monitor

    def _start(
        self, queries: Query | Sequence[Query], settings: Settings, chosen: Sequence[QueryPlan] | None = None
    ) -> None:
        """Check and plan the queries, and execute the plan."""
        self._integrity = Integrity()
        self._settings = s = settings
        self._reorder_buffer = None if s.buffered is None else ReorderBuffer(s.buffered)
        self._ingest = Ingest(s.id, s.time, by=s.by, finest=s.finest)
        if s.watermark:
            self._ingest.order, self._ingest.time_kind = tuple(s.order), NANOSECONDS
        by_name = _named([queries] if isinstance(queries, KINDS) else _as_list(queries), ())
        plan = planner.plan(by_name, s, chosen)
        for name, query in by_name.items():
            self._ingest.want(query, name)
        self._execute(plan, by_name)

    def _execute(self, plan: PhysicalPlan, queries: Mapping[str, Query]) -> None:
        """Execute the plan: make the window, and let engines serve the queries."""
        self._serving = Serving(self._settings, self._ingest)
        self._serving.expect(queries.values())
        for one in plan.queries:
            self._serving.serve(queries[one.query], one)

    # ---- what a user calls

    @changing
    def push(self, batch: Any) -> Changes:
        """Take in a batch of rows and return the changes. A batch that is refused changes nothing.

        A batch is a dict of arrays, an Arrow table or record batch, a pandas or polars data frame, a list of rows (each
        a dict; what a row lacks is null), or a single row (a dict of single values).
        """
        read = self._ingest.read(batch, ordered=self._reorder_buffer is None)
        if self._reorder_buffer is not None and read.rows:
            read = self._ingest.released(self._reorder_buffer.take(read, self._ingest.unit()))
        return self._serving.push(read)

    @changing
    def advance(self, time: Any) -> Changes:
        """Advance event time without a row; buffered rows up to then are pushed, and none may come before it."""
        now = self._ingest.moment(time)
        buffer, parts = self._reorder_buffer, []
        held = buffer.pass_to(now, len(self._ingest.columns)) if buffer is not None else None
        if held is not None:
            parts.append(self._serving.push(held))
        return self._serving.join([*parts, self._serving.advance(now)])

    @changing
    def release(self, time: int) -> Changes:
        """Push buffered rows up to a time in nanoseconds, since none will come before it; it is no event time."""
        held = self._released(time)
        return self._serving.push(self._ingest.released(held)) if held is not None else self._serving.join([])

    @property
    def earliest_buffered(self) -> float | None:
        """The earliest time of the buffered rows; None where there are none."""
        return None if self._reorder_buffer is None else self._reorder_buffer.earliest

    @changing
    def delete(self, ids: Any) -> Changes:
        """Remove rows by id from a ``latest()`` window, all at once; ids that have no row are ignored and counted."""
        self._check_deletions()
        values = self._ingest.ids(ids)
        return self._serving.delete(values) if len(values) else self._serving.join([])

    def behind(self, batch: Any) -> np.ndarray:
        """Return which rows lie before the latest time: they would be refused, as coming too late."""
        read = self._ingest.times_and_keys(batch)
        now = self.now if self._reorder_buffer is None else self._reorder_buffer.passed
        if read.times is None or now is None:
            return np.zeros(read.rows, np.bool_)
        result: np.ndarray = read.times < now
        return result

    @overload
    def answer(self, name: str) -> Answer: ...

    @overload
    def answer(self, name: None = None) -> Answer | Any: ...

    def answer(self, name: str | None = None) -> Answer | dict[str, Answer]:
        """Return a query's answer as of the last evaluation, best first.

        Without a name it is that of the only query. Where there are several, or none, it is a dict of their answers by
        name.
        """
        self._integrity.check()
        assigned = self._serving.assigned
        if name is None and len(assigned) != 1:
            return {one: self._answer(one) for one in assigned}
        return self._answer(name)

    @reading
    def lines(self, name: str | None = None) -> list[Line]:
        """Return a query's answer as (id, score, tick); of rows with equal scores the larger tick is the newer one."""
        return self._serving.lines(self._serving.find(name))

    @property
    def queries(self) -> list[Query]:
        """The queries it serves, each with its name."""
        return [dataclasses.replace(one.query, name=one.name) for one in self._serving.assigned.values()]

    @property
    def columns(self) -> list[str]:
        """The numeric columns that the queries need."""
        return [column for column, query in self._ingest.columns.items() if query]

    @property
    def settings(self) -> Settings:
        """What it was made with, its queries left out."""
        return self._settings

    @property
    def plan(self) -> PhysicalPlan:
        """What serves which query, and how."""
        return self._serving.plan()

    @property
    def now(self) -> float | None:
        """The latest event time: nanoseconds for timestamps, seconds for numbers; None before the first row."""
        return self._ingest.now

    @changing
    def add(self, query: Query) -> Changes:
        """Watch one more query; it is evaluated at once over the window as of the last evaluation."""
        name, query = self._new_name(query)
        choice = self._serving.choose(query, name)
        new = self._ingest.want(query, name, self._has_values)
        if new:
            self._serving.feed.window.add_columns(new)
        self._serving.expect([query])
        return self._serving.start(self._serving.serve(query, choice))

    @changing
    def remove(self, name: str | None) -> None:
        """Stop watching a query; with one query its name can be None."""
        query = self._serving.remove(name)
        self._ingest.release(query, {one.name: one.query for one in self._serving.assigned.values()})

    def stats(self) -> dict[str, int]:
        """Return counters since the start.

        ``rows`` seen, ``live`` rows, ``late`` ones that were dropped, those ``waiting``, ``queries``, ``evaluations``,
        ``changes``, ``skipped`` rows, ``unknown_deletes``; ``scores`` computed and ``pruned``, the pairs of a row and a
        query that were never scored; ``kept`` rows over all queries, ``recomputations`` from scratch, ``switches``
        between PA and RAPF, ``influence`` list entries, ``bytes`` of state. Of IncompleteTopK the ``objects``, and rows
        of an ``unknown_source``, ``out_of_bounds`` and ``duplicates``. With ``max_lag`` the ``level`` (0 exact, 1 AHBA,
        2 AMSA), ``switches`` between levels, and ``lag_ms``.
        """
        return {**self._serving.stats(), **self._buffer_stats()}

    def explain(self) -> str:
        """Return the plan in words: which algorithm serves which query, why, and how rows find it."""
        how = {True: "; rows find it by a grid", False: "; it looks at every row", None: ""}
        notes = tuple(how[one.engine.indexed()] for one in self._serving.assigned.values())
        return "\n".join(self.plan.lines(notes))

    @reading
    def why(self, id: Any, name: str | None = None) -> Why:
        """Return why a row is in a query's answer or not, as of the last evaluation."""
        assigned, feed = self._serving.find(name), self._serving.feed
        live, rows, indices = feed.live_slots(), feed.window.rows(), self._ingest.indices
        columns = {column: rows.columns[indices[column], live] for column in assigned.query.columns}
        names = feed.ids_of(live).tolist()
        mine = np.flatnonzero([_same(name, id) for name in names])
        if isinstance(assigned.query, IncompleteTopK):
            return explain_object(id, assigned, live[mine], self.answer(assigned.name))
        row = int(mine[-1]) if mine.size else None
        live_rows = LiveRows(names, rows.seq[live], columns)
        return explain_row(id, assigned.name, assigned.query, live_rows, row, self._serving.lines(assigned))

    @reading
    def state(self) -> State:
        """Return the whole state: plain data, and a flat dict of arrays."""
        from topwatch.monitor import serialization

        return serialization.save_window(self._serving, self._reorder_buffer)

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Undo :meth:`state`. Everything is checked, and a :class:`DataError` says what cannot be so."""
        from topwatch.monitor import serialization

        fields, saved = Fields(header), Saved(arrays)
        with serialization.as_data_errors():
            monitor = cls.from_settings([], Settings.load(fields))
            monitor._load(fields, saved)
        fields.done()
        saved.done()
        return monitor

    def snapshot(self) -> bytes:
        """Return the whole state as bytes."""
        from topwatch.monitor.snapshot_format import pack

        return pack(*self.state())

    @classmethod
    def restore(cls, blob: bytes) -> Self:
        """Make a monitor from a snapshot; it continues as the other one would have."""
        from topwatch.monitor.snapshot_format import unpack

        return cls.from_state(*unpack(blob))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.plan.scope}, {self._so_far}>"

    def _repr_html_(self) -> str:
        return self.plan.html(repr(self)[1:-1])

    # ---- how it is done

    @property
    def _so_far(self) -> str:
        return f"{number_of(self._serving.feed.end, 'row', 'rows')} so far"

    def _load(self, header: Fields, saved: Saved) -> None:
        """Continue from a state, in a monitor without queries."""
        from topwatch.monitor import serialization

        self._serving, self._reorder_buffer = serialization.load_window(header, saved, self._settings, self._ingest)

    def _answer(self, name: str | None) -> Answer:
        """Return the answer of one query."""
        assigned = self._serving.find(name)
        return full_answer(assigned, self._serving.lines(assigned), self._serving.note(assigned))

    def _has_values(self, column: int) -> bool:
        """Return whether a row of the window, or one that is buffered, has a value in a column, given by its index."""
        window, buffer = self._serving.feed.window, self._reorder_buffer
        held = window.columns[column, window.live_slots()]
        return not np.isnan(held).all() or (buffer is not None and buffer.has_values(column))

    def _released(self, time: int) -> Batch | None:
        """Return the buffered rows up to a time in nanoseconds."""
        if self._reorder_buffer is None:
            return None
        unit = self._ingest.unit()
        return self._reorder_buffer.pass_to(time if unit == 1 else time / unit, len(self._ingest.columns))

    def _buffer_stats(self) -> dict[str, int]:
        buffer = self._reorder_buffer
        return {"late": 0, "waiting": 0} if buffer is None else {"late": buffer.late, "waiting": len(buffer)}

    def _new_name(self, query: Query) -> tuple[str, Query]:
        """Return a query that is to be added, with its name."""
        if not isinstance(query, KINDS):
            raise QueryError(f"add: expected a query such as TopK(...), got {query!r}")
        ((name, query),) = _named([query], [str(one.name) for one in self.queries]).items()
        return name, query

    def _check_deletions(self) -> None:
        window = self._settings.window
        if not isinstance(window, Latest):
            raise QueryError(f"delete: rows of a {window} window expire by themselves; only latest() has deletions")

    def _check(self) -> None:
        """Assert the invariants of all structures."""
        self._serving.check()


def _as_list(queries: Any) -> list[Query]:
    """Return queries as a list."""
    if isinstance(queries, str) or not isinstance(queries, Iterable):
        raise QueryError(f"queries: expected a query such as TopK(...) or a list of them, got {queries!r}")
    listed = list(queries)
    for query in listed:
        if not isinstance(query, KINDS):
            raise QueryError(f"queries: expected queries such as TopK(...), got {query!r}")
    return listed


def _named(queries: Iterable[Query], taken: Container[str]) -> dict[str, Query]:
    """Return queries by their names; those without get one that is not taken."""
    known: dict[str, Query] = {}
    counts: dict[str, Iterator[int]] = {}
    for query in queries:
        name = query.name
        if name is None:
            kind = type(query).__name__.lower()
            fresh = (f"{kind}-{number}" for number in counts.setdefault(kind, itertools.count(1)))
            name = next(one for one in fresh if one not in known and one not in taken)
        elif name in known or name in taken:
            raise QueryError(f"name: two queries are called {name!r}; every query needs a name of its own")
        known[name] = query
    return known


def _same(name: Any, id: Any) -> bool:
    """Compare ids; one of a type that cannot be compared is another one."""
    try:
        return bool(name == id)
    except Exception:  # of the library that the type comes from
        return False
