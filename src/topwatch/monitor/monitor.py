"""The monitor: batches in, changes out."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.core.constant_arrays import counted
from topwatch.monitor import incomplete_answers, planner
from topwatch.monitor.assignments import Assignment, Assignments, explained
from topwatch.monitor.batches import Batch
from topwatch.monitor.changes import Answer, Changes, Entry, join
from topwatch.monitor.first_only import FirstOnly
from topwatch.monitor.ingest import Ingest, count_skipped
from topwatch.monitor.load_shedding import LEVELS, check_query, checked_shedder, note_of
from topwatch.monitor.reorder_buffer import ReorderBuffer
from topwatch.monitor.validation import (
    as_list,
    checked_emit,
    checked_lateness,
    checked_window,
    column_name,
    named,
    schedule_of,
)
from topwatch.monitor.why import Why, explain_row
from topwatch.query.errors import QueryError, nearest_name
from topwatch.query.queries import KINDS, IncompleteTopK, Query, snapshots_of
from topwatch.query.windows import LastRows, Latest, Window

if TYPE_CHECKING:
    from topwatch.core.engine import Engine, Report
    from topwatch.core.kernels.rows import Step
    from topwatch.core.stream import Feed


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
    """

    def __init__(
        self,
        queries: Query | Sequence[Query],
        window: Window,
        every: int | str | datetime.timedelta = 1,
        algorithm: str = "auto",
        id: str | None = "id",
        time: str | None = None,
        emit: str = "changes",
        lateness: str | datetime.timedelta | None = None,
        max_lag: str | datetime.timedelta | None = None,
        _clock: Callable[[], float] | None = None,
        **options: Any,
    ) -> None:
        planner.check_algorithm(algorithm, options, LEVELS[1:] if max_lag is not None else ())
        self._shedder = checked_shedder(max_lag, algorithm, time, _clock)
        listed = [queries] if isinstance(queries, KINDS) else as_list(queries)
        self._window, self._algorithm, self._options = checked_window(window, id, time), algorithm, options
        planner.check_window(self._window, options)
        self._emit = checked_emit(emit, self._window)
        self._first_only = FirstOnly() if emit == "first" else None
        span = checked_lateness(lateness, self._window, time)
        self._reorder_buffer = ReorderBuffer(span) if span is not None else None
        self._ingest = Ingest(column_name("id", id), column_name("time", time))
        self._every = every
        self._engines: dict[planner.Group, Engine] = {}
        self._assigned: dict[str, Assignment] = {}
        self._assignments = Assignments()
        self._alike: dict[tuple[str, ...], int] = {}  # how many queries read the same columns
        self._counts = dict.fromkeys(("skipped", "evaluations", "changes", "unknown_deletes", "pairs"), 0)
        by_name = named(listed, ())
        self._count_alike(by_name.values())
        choices = {name: self._choose(query, name) for name, query in by_name.items()}
        for name, query in by_name.items():
            self._ingest.want(query, name)
        self._feed = self._make_feed()
        for name, query in by_name.items():
            self._serve(query, choices[name])

    # ---- what a user calls

    def push(self, batch: Any) -> Changes:
        """Take in a batch of rows and return the changes. A batch that is refused changes nothing."""
        read = self._ingest.read(batch, ordered=self._reorder_buffer is None)
        if self._reorder_buffer is not None and read.rows:
            read = self._ingest.released(self._reorder_buffer.take(read, self._ingest.unit()))
        return self._push(read)

    def _push(self, read: Batch) -> Changes:
        if read.rows == 0:
            return self._join([])
        if read.times is not None:
            self._feed.measure(self._ingest.unit())
        needed = [c for c, name in zip(read.columns, self._ingest.columns.values(), strict=True) if name]
        self._counts["skipped"] += count_skipped(needed)
        return self._take(self._feed.push(read.rows, read.columns, read.ids, read.times, self._moved))

    def advance(self, time: Any) -> Changes:
        """Advance event time without a row; buffered rows up to then go on, and none may come before it."""
        now = self._ingest.moment(time)
        self._feed.measure(self._ingest.unit())
        parts = []
        if self._reorder_buffer is not None:
            held = self._reorder_buffer.pass_to(now, len(self._ingest.columns))
            parts += [self._push(held)] if held is not None else []
        return self._join([*parts, self._take(self._feed.advance(now, evaluate=self._every == 1))])

    def delete(self, ids: Any) -> Changes:
        """Remove rows by id from a ``latest()`` window, all at once; ids that have no row are ignored and counted."""
        from topwatch.core.stream import LatestFeed

        if not isinstance(self._feed, LatestFeed):
            why = f"rows of a {self._window} window expire by themselves; only latest() has deletions"
            raise QueryError(f"delete: {why}")
        values = self._ingest.ids(ids)
        if len(values) == 0:
            return self._join([])
        unknown, steps = self._feed.delete(values, evaluate=self._every == 1)
        self._counts["unknown_deletes"] += unknown
        return self._take(steps)

    def answer(self, name: str | None = None) -> Answer:
        """Return a query's answer as of the last evaluation, best first; with one query its name can be left out."""
        assigned, lines = self._find(name), self.lines(name)
        if isinstance(assigned.query, IncompleteTopK):
            return incomplete_answers.answer(assigned, lines)
        return Answer((Entry(id, score) for id, score, _ in lines), note_of(assigned, self._shedder))

    def lines(self, name: str | None = None) -> list[tuple[Any, float, int]]:
        """Return a query's answer as (id, score, tick); of rows with equal scores the larger tick is the newer one."""
        assigned = self._find(name)
        slots, keys = assigned.engine.answer(assigned.index, self._feed.live_slots)
        ticks = self._feed.window.seq[slots]
        ids = self._ids(slots, ticks)
        names = ids.tolist() if isinstance(ids, np.ndarray) else ids.to_pylist()
        scores = -keys if assigned.query.smaller_is_better else keys
        return list(zip(names, scores.tolist(), ticks.tolist(), strict=True))

    @property
    def queries(self) -> list[Query]:
        """The queries it serves, each with its name."""
        return [dataclasses.replace(assigned.query, name=assigned.name) for assigned in self._assigned.values()]

    @property
    def columns(self) -> list[str]:
        """The numeric columns that the queries need."""
        return [column for column, query in self._ingest.columns.items() if query]

    @property
    def now(self) -> float | None:
        """The latest event time: nanoseconds for timestamps, seconds for numbers; None before the first row."""
        return self._ingest.now

    def add(self, query: Query) -> Changes:
        """Watch one more query; it is evaluated at once over the window as of the last evaluation."""
        if not isinstance(query, KINDS):
            raise QueryError(f"add: expected a query such as TopK(...), got {query!r}")
        ((name, query),) = named([query], self._assigned).items()
        choice = self._choose(query, name)
        new = self._ingest.want(query, name)
        if new:
            self._feed.window.add_columns(new)
        self._count_alike([query])
        self._serve(query, choice)
        assigned = self._assigned[name]
        result = assigned.engine.start(assigned.index, self._feed.head, self._feed.evaluated_tick, 0)
        return self._join([self._changes([(assigned.engine, result)], np.array([self._feed.evaluated]))])

    def remove(self, name: str) -> None:
        """Stop watching a query."""
        assigned = self._find(name)
        assigned.engine.remove(assigned.index)
        self._alike[assigned.query.reads] -= 1
        del self._assigned[assigned.name]
        for column in assigned.query.columns:
            needy = (other.name for other in self._assigned.values() if column in other.query.columns)
            self._ingest.columns[column] = next(needy, "")
        self._feed.every.repeats = max((snapshots_of(one.query) for one in self._assigned.values()), default=1)
        self._close_empty()

    def stats(self) -> dict[str, int]:
        """Return counters since the start.

        ``rows`` seen, ``live`` rows, ``late`` ones that were dropped, those ``buffered``, ``queries``, ``evaluations``,
        ``changes``, ``skipped`` rows, ``unknown_deletes``; ``scores`` computed and ``pruned``, the pairs of a row and a
        query that were never scored; ``kept`` rows over all queries, ``recomputations`` from scratch, ``switches``
        between PA and RAPF, ``influence`` list entries, ``bytes`` of state. Of IncompleteTopK the ``objects``, and rows
        of an ``unknown_source``, ``out_of_bounds`` and ``duplicates``. With ``max_lag`` the ``level`` (0 exact, 1 AHBA,
        2 AMSA), ``switches`` between levels, and ``lag_ms``.
        """
        totals: dict[str, int] = {"switches": 0}
        for engine in self._engines.values():
            for key, value in engine.stats().items():
                totals[key] = totals.get(key, 0) + value
        counts = dict(self._counts)
        pairs = counts.pop("pairs")
        return {
            "rows": self._feed.end,
            "live": self._feed.live(),
            "late": self._reorder_buffer.late if self._reorder_buffer is not None else 0,
            "waiting": len(self._reorder_buffer) if self._reorder_buffer is not None else 0,
            "queries": len(self._assigned),
            **counts,
            **totals,
            "pruned": max(0, pairs - totals.get("scores", 0)),
            "bytes": totals.get("bytes", 0) + self._feed.bytes(),
            **(self._shedder.stats() if self._shedder is not None else {}),
        }

    def explain(self) -> str:
        """Say which algorithm serves which query, why, and how rows find it."""
        return explained(self._window, self._assigned.values())

    def why(self, id: Any, name: str | None = None) -> Why:
        """Say why a row is in a query's answer or not, as of the last evaluation."""
        assigned = self._find(name)
        live = self._feed.live_slots()
        rows = self._feed.window.rows()
        number = {column: index for index, column in enumerate(self._ingest.columns)}
        columns = {column: rows.columns[number[column], live] for column in assigned.query.columns}
        ids = self._ids(live, rows.seq[live])
        names = ids.tolist() if isinstance(ids, np.ndarray) else ids.to_pylist()
        answer = self.answer(assigned.name)
        mine = np.flatnonzero([_same(name, id) for name in names])
        if isinstance(assigned.query, IncompleteTopK):
            return incomplete_answers.explain(id, assigned, live[mine], answer)
        row = int(mine[-1]) if mine.size else None
        return explain_row(id, assigned.name, assigned.query, columns, rows.seq[live], row, answer, names)

    def snapshot(self) -> bytes:
        """Return the whole state as bytes."""
        from topwatch.monitor.serialization import save

        return save(self)

    @classmethod
    def restore(cls, blob: bytes) -> Monitor:
        """Make a monitor from a snapshot; it goes on as the other one would have."""
        from topwatch.monitor.serialization import resume

        return resume(cls, blob)

    # ---- how it is done

    def _make_feed(self, held: int | None = None) -> Feed:
        """Make a feed; ``held`` is how many rows it begins with, after a restore."""
        from topwatch.core.stream import FifoFeed, LatestFeed

        window, columns = self._window, len(self._ingest.columns)
        schedule = schedule_of(self._every, window, self._ingest.time)
        if isinstance(window, Latest):
            return LatestFeed(columns, schedule) if held is None else LatestFeed(columns, schedule, held)
        if isinstance(window, LastRows):
            return FifoFeed(columns, window.rows, None, schedule, held)
        return FifoFeed(columns, None, window.nanoseconds, schedule, held)

    def _count_alike(self, queries: Iterable[Query]) -> None:
        for query in queries:
            self._alike[query.reads] = self._alike.get(query.reads, 0) + 1

    def _choose(self, query: Query, name: str) -> planner.Choice:
        if self._first_only is not None and isinstance(query, IncompleteTopK):
            raise QueryError("emit: 'first' is of rows, and IncompleteTopK of objects; accepted is 'changes'")
        if self._shedder is not None:
            check_query(query, name, self._window)
        planner.check_cells(query, name, self._options)
        choice = planner.choose(query, name, self._window, self._algorithm, self._options)
        return choice if self._shedder is None else self._shedder.load.choice(choice)

    def _serve(self, query: Query, choice: planner.Choice, group: planner.Group | None = None) -> None:
        self._assigned[choice.query] = Assignment(query, choice.query, *self._seat(query, choice, group), choice)
        self._feed.every.repeats = max(self._feed.every.repeats, snapshots_of(query))
        self._assignments.add(self._assigned[choice.query])

    def _seat(self, query: Query, choice: planner.Choice, known: planner.Group | None = None) -> tuple[Engine, int]:
        """Find or make the engine that serves a query, and add the query to it; its group may be known."""
        group = known or planner.group_of(query, choice.algorithm, self._alike[query.reads])
        number = {column: index for index, column in enumerate(self._ingest.columns)}
        if group not in self._engines:
            self._engines[group] = planner.build(group, self._feed, self._window, number, self._options)
            if group.columns and known is None:
                self._gather(group, number)
        return self._engines[group], self._engines[group].add(query, number)

    def _gather(self, group: planner.Group, number: dict[str, int]) -> None:
        """Move queries that read the columns of a new group into it from the one without a grid."""
        engine = self._engines[group]
        odd = self._engines.get(group._replace(columns=()))
        for assigned in self._assigned.values():
            if assigned.engine is odd and assigned.query.reads == group.columns:
                assigned.engine.remove(assigned.index)
                assigned.engine, assigned.index = engine, engine.add(assigned.query, number)
                engine.start(assigned.index, self._feed.head, self._feed.evaluated_tick, 0)
                self._assignments.move(assigned)
        self._close_empty(keep=engine)

    def _close_empty(self, keep: Engine | None = None) -> None:
        """Close engines that serve no query any more."""
        busy = {id(assigned.engine) for assigned in self._assigned.values()}
        self._engines = {
            group: engine for group, engine in self._engines.items() if engine is keep or id(engine) in busy
        }

    def _take(self, steps: Iterator[Step]) -> Changes:
        began = self._shedder.before(self) if self._shedder is not None else 0.0
        parts = []
        rows = evaluations = 0
        for step in steps:
            evaluations += step.at.size
            rows += step.arrived.size
            # Several evaluations may stand at one row: they are told apart by their numbers until all is in order.
            numbered = step._replace(at=counted(0, step.at.size))
            result = [(engine, engine.process(numbered)) for engine in self._engines.values()]
            parts.append(self._changes(result, step.at))
        self._counts["evaluations"] += evaluations
        self._counts["pairs"] += rows * len(self._assigned)
        if self._shedder is not None:
            self._shedder.after(self, began, rows, evaluations > 0)
        return self._join(parts)

    def _changes(self, result: list[tuple[Engine, Report]], at_of: np.ndarray) -> Changes:
        """Put the reports of the engines in order; ``at_of`` gives each evaluation's row."""
        result = [(engine, part) for engine, part in result if part.key.size]
        if not result:
            return join(self._assignments.names, [])
        what = np.concatenate([part.what for _, part in result])
        key = np.concatenate([part.key for _, part in result])
        query = np.concatenate([self._assignments.numbers(engine, part.what[:, 1]) for engine, part in result])
        number, op, slot = what[:, 0], what[:, 2], what[:, 3]
        seq = self._feed.window.seq[slot]
        score = key * self._assignments.signs[query]
        if len(result) > 1 or not self._assignments.in_order(result[0][0]):
            order = np.lexsort((-seq, -key, op, query, number))
            number, query, op, slot, seq, score = (part[order] for part in (number, query, op, slot, seq, score))
        if self._first_only is not None:
            chosen = self._first_only.choose(query, op, seq, self._feed.head)
            number, query, op, slot, seq, score = (part[chosen] for part in (number, query, op, slot, seq, score))
        self._counts["changes"] += number.size
        return Changes(self._assignments.names, at_of[number], query, op, self._ids(slot, seq), score, seq)

    def _join(self, parts: list[Changes]) -> Changes:
        changes = join(self._assignments.names, parts)
        return changes if self._shedder is None else self._shedder.noted(changes)

    def _ids(self, slots: np.ndarray, ticks: np.ndarray) -> Any:
        return np.empty(0) if self._feed.ids is None else self._feed.ids.read(slots, ticks)

    def _moved(self) -> None:
        for engine in self._engines.values():
            engine.relocate()

    def _find(self, name: str | None) -> Assignment:
        if name is None:
            if len(self._assigned) == 1:
                return next(iter(self._assigned.values()))
            raise QueryError(
                f"name: this monitor has {len(self._assigned)} queries; say which: {', '.join(self._assigned)}"
            )
        if name not in self._assigned:
            raise QueryError(
                f"name: no query is called {name!r}; there are {', '.join(self._assigned) or 'none'}"
                + nearest_name(str(name), self._assigned)
            )
        return self._assigned[name]

    def _check(self) -> None:
        """Assert the invariants of all structures."""
        self._feed._check()
        for engine in self._engines.values():
            engine._check()


def _same(name: Any, id: Any) -> bool:
    """Compare ids; one of a type that cannot be compared is another one."""
    try:
        return bool(name == id)
    except Exception:  # of the library that the type comes from
        return False
