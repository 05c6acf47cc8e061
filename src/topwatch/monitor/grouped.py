"""A monitor with ``by``: each value of some columns has its own window and answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np

from topwatch.core.arrays import EARLIEST, Ints
from topwatch.core.saved_state import Fields, Saved
from topwatch.monitor import batches, planner
from topwatch.monitor.batches import Batch
from topwatch.monitor.changes import Answer, Changes
from topwatch.monitor.display import number_of
from topwatch.monitor.group_keys import GroupKeys
from topwatch.monitor.group_windows import EngineWindows, GroupMonitor, MonitorWindows, Windows
from topwatch.monitor.ingest import changing, reading
from topwatch.monitor.monitor import Monitor, State
from topwatch.monitor.planner import PhysicalPlan
from topwatch.monitor.serving import Line, known_name
from topwatch.monitor.stream_settings import Settings
from topwatch.monitor.why import Why
from topwatch.query.errors import DataError, QueryError
from topwatch.query.queries import Query
from topwatch.query.windows import LastTime

CHANGED = "queries were added or removed"


class GroupedMonitor(Monitor):
    """Keeps the answers of standing queries in many windows, one for each group of rows.

    It is what ``Monitor(by=...)`` makes, and takes the same arguments. Groups appear with their first row; null and NaN
    are groups of their own. Times may not decrease within a group; with ``lateness`` rows of all groups wait together.
    Changes come group by group, in the order of the groups' first rows, and ``at`` counts the rows of the group.

    Where all queries are top-k queries over the newest rows, one engine serves all groups; else each group has a
    monitor of its own. :attr:`plan` says which.

    Examples
    --------
    >>> import topwatch as tw
    >>> m = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="top"), window=tw.last(2), by="region")
    >>> batch = {"region": ["north", "south", "north"], "id": [1, 2, 3], "x": [5.0, 1.0, 9.0]}
    >>> for change in m.push(batch):
    ...     print(change)
    Change(by='north', at=1, query='top', op='enter', id=1, score=5.0)
    Change(by='north', at=2, query='top', op='leave', id=1, score=5.0)
    Change(by='north', at=2, query='top', op='enter', id=3, score=9.0)
    Change(by='south', at=1, query='top', op='enter', id=2, score=1.0)
    >>> m.answer("top", by="north")
    [Entry(id=3, score=9.0)]
    >>> m.answers("top")
    {'north': [Entry(id=3, score=9.0)], 'south': [Entry(id=2, score=1.0)]}
    >>> m
    <GroupedMonitor: 1 query over the last 2 rows for each region, 2 groups so far>
    """

    def _execute(self, plan: PhysicalPlan, queries: Mapping[str, Query]) -> None:
        self._plan, self._queries = plan, dict(queries)
        self._keys = GroupKeys(self._settings.by)
        self._latest = np.empty(0)  # time of each group
        self._advanced: float | None = None  # the time that all groups were advanced to
        self._windows = self._new_windows()

    # ---- what a user calls

    @changing
    def push(self, batch: Any) -> Changes:
        """Take in a batch of rows and return the changes. A batch that is refused changes nothing."""
        kinds, known = self._ingest.kinds, len(self._keys)
        try:
            parts = [self._read(piece) for piece in batches.pieces(batch)]
            latest = self._latest_after(parts) if self._reorder_buffer is None else None
        except DataError:
            self._ingest.kinds = kinds
            self._keys.forget(known)
            raise
        if self._reorder_buffer is not None:
            parts = [self._reorder_buffer.take(part, self._ingest.unit()) for part in parts if part.rows]
            latest = self._latest_after(parts)
        return self._take_parts(parts, latest)

    @changing
    def advance(self, time: Any) -> Changes:
        """Advance the event time of all groups without a row."""
        now = self._ingest.moment(time)
        parts = []
        if self._reorder_buffer is not None:
            held = self._reorder_buffer.pass_to(now, len(self._ingest.columns))
            if held is not None:
                parts.append(self._take_parts([held], self._latest_after([held])))
        self._advanced = now
        self._latest = np.full(len(self._keys), now)
        if isinstance(self._settings.window, LastTime):
            self._own_monitors("event time was advanced without a row")
        return self._windows.join([*parts, self._windows.advance(time)])

    @changing
    def release(self, time: int) -> Changes:
        """Push buffered rows up to a time in nanoseconds, since none will come before it; it is no event time."""
        held = self._released(time)
        return self._take_parts([held], self._latest_after([held])) if held is not None else self._windows.join([])

    def behind(self, batch: Any) -> np.ndarray:
        """Return which rows lie before the latest time of their group: they would be refused, as coming too late."""
        if self._reorder_buffer is not None:
            return super().behind(batch)
        read = self._ingest.times_and_keys(batch)
        if read.times is None:
            return np.zeros(read.rows, np.bool_)
        known = len(self._keys)
        group = self._keys.number(read.keys)
        result: np.ndarray = read.times < self._latest_of_all(read.times.dtype)[group]
        self._keys.forget(known)
        return result

    @changing
    def delete(self, ids: Any, by: Any = None) -> Changes:
        """Remove rows of a group by id from its ``latest()`` window; ids that have no row are counted."""
        self._check_deletions()
        return self._own_monitors("rows were deleted").delete(self._group(by), ids)

    @overload
    def answer(self, name: str, by: Any = None) -> Answer: ...

    @overload
    def answer(self, name: None = None, by: Any = None) -> Answer | Any: ...

    def answer(self, name: str | None = None, by: Any = None) -> Answer | dict[str, Answer]:
        """Return a query's answer in a group as of its last evaluation.

        Without a name it is that of the only query. Where there are several, or none, it is a dict of their answers by
        name.
        """
        self._integrity.check()
        group = self._group(by)
        if name is None and len(self._queries) != 1:
            return {one: self._windows.answer(group, one) for one in self._queries}
        return self._windows.answer(group, self._named(name))

    @reading
    def answers(self, name: str | None = None) -> dict[Any, Answer]:
        """Return a query's answers by group: by the value of the ``by`` column, or the tuple of several."""
        query = self._named(name)
        return {key: self._windows.answer(group, query) for group, key in enumerate(self.groups)}

    @reading
    def lines(self, name: str | None = None, by: Any = None) -> list[Line]:
        """Return a query's answer in a group as (id, score, tick)."""
        return self._windows.lines(self._group(by), self._named(name))

    @property
    def groups(self) -> list[Any]:
        """The groups, in the order of their first rows: values of the ``by`` column, or tuples of several."""
        return [key[0] for key in self._keys.keys] if len(self._keys.names) == 1 else list(self._keys.keys)

    @property
    def plan(self) -> PhysicalPlan:
        """What serves which query, and how."""
        return self._plan

    @property
    def queries(self) -> list[Query]:
        """The queries it serves, each with its name."""
        return [dataclasses.replace(query, name=name) for name, query in self._queries.items()]

    @changing
    def add(self, query: Query) -> Changes:
        """Watch one more query in all groups; it is evaluated at once over each window as of its last evaluation."""
        name, query = self._new_name(query)
        planner.choose(query, name, self._settings)
        windows = self._own_monitors(CHANGED)
        self._ingest.want(query, name, self._has_values)
        self._queries[name] = query
        self._replan()
        return windows.add(dataclasses.replace(query, name=name))

    @changing
    def remove(self, name: str | None) -> None:
        """Stop watching a query."""
        name = self._named(name)
        query = self._queries[name]
        self._own_monitors(CHANGED).remove(name)
        del self._queries[name]
        self._ingest.release(query, self._queries)
        self._replan()

    def stats(self) -> dict[str, int]:
        """Return counters since the start, over all groups, and how many ``groups`` there are; see :class:`Monitor`."""
        numbers = {"groups": len(self._keys), "queries": len(self._queries)}
        return {**self._windows.stats(), **self._buffer_stats(), **numbers}

    def explain(self) -> str:
        """Return the plan in words: which algorithm serves which query, why, and what keeps the windows."""
        return str(self._plan)

    @reading
    def why(self, id: Any, name: str | None = None, by: Any = None) -> Why:
        """Return why a row is in a query's answer in a group or not, as of the last evaluation."""
        return self._windows.why(self._group(by), self._latest, id, self._named(name))

    @reading
    def state(self) -> State:
        """Return the whole state: plain data, and a flat dict of arrays."""
        from topwatch.monitor import serialization

        fields, held = serialization.save_buffer(self._reorder_buffer)
        header = {
            **self._settings.save(),
            **self._ingest.save(),
            "queries": [{**serialization.describe_query(query), "grid": False} for query in self.queries],
            "engine": self._plan.grouping == "grouped engine",
            "grouping_reason": self._plan.grouping_reason,
            "advanced": self._advanced,
            "waiting": fields,
        }
        latest = self._latest
        if not latest.size:  # times may be known of buffered rows only
            latest = latest.astype(np.int64 if self._ingest.time_kind == batches.NANOSECONDS else np.float64)
        arrays = {**self._keys.save(), "latest": latest, **held}
        return header, {**arrays, **{f"windows {name}": array for name, array in self._windows.save().items()}}

    # ---- how it is done

    @property
    def _so_far(self) -> str:
        return f"{number_of(len(self._keys), 'group', 'groups')} so far"

    def _load(self, header: Fields, saved: Saved) -> None:
        from topwatch.monitor import serialization
        from topwatch.monitor.snapshot_format import read_time, read_times

        self._keys.load(saved)
        read = serialization.read_queries(header, self._settings.window, saved, groups=max(1, len(self._keys)))
        self._queries = {str(query.name): query for query, _ in read}
        self._ingest.load(header, list(self._queries.values()))
        self._plan = planner.plan(self._queries, self._settings)
        engine, reason = header.flag("engine"), header.text("grouping_reason")
        header.expect(not engine or self._plan.grouping == "grouped engine", "engine", self._plan.grouping, engine)
        if not engine:
            self._plan = self._plan.with_grouping("a monitor for each group", reason)
        kind = self._ingest.time_kind
        self._advanced = read_time(header, "advanced", kind)
        self._latest = read_times(saved, "latest", None, kind, finite=False)
        saved.expect(self._latest.size <= len(self._keys), "latest", "one time for each group")
        latest, now = self._latest_of_all(self._latest.dtype), self._ingest.now
        lowest = now if now is not None else EARLIEST if kind == batches.NANOSECONDS else -np.inf
        saved.expect(np.all(latest <= lowest), "latest", f"times up to {now}")
        self._reorder_buffer = serialization.load_buffer(
            header, saved, self._settings, self._ingest, groups=max(1, len(self._keys))
        )
        self._windows = self._new_windows()
        mine = saved.part("windows ")
        self._windows.load(mine, latest)
        mine.done()

    def _new_windows(self) -> Windows:
        if self._plan.grouping == "grouped engine":
            return EngineWindows(self._plan, self._settings, self._queries, self._ingest, self._keys, self._new_monitor)
        return MonitorWindows(self._ingest, self._keys, self._new_monitor)

    def _new_monitor(self) -> GroupMonitor:
        """Make the monitor of one group."""
        s = self._settings
        settings = Settings(s.window, s.every, s.algorithm, s.options, s.id, s.time, emit=s.emit)
        return GroupMonitor.from_settings(self.queries, settings)

    def _replan(self) -> None:
        """Plan the queries again; what keeps the windows stays as it is."""
        kept = self._plan.grouping, self._plan.grouping_reason
        self._plan = planner.plan(self._queries, self._settings).with_grouping(*kept)

    def _own_monitors(self, reason: str) -> MonitorWindows:
        """Give each group a monitor of its own, with the rows it has: what the grouped engine serves is fixed."""
        windows = self._windows.as_monitors(self._latest)
        if windows is not self._windows:
            self._windows, self._plan = windows, self._plan.with_grouping("a monitor for each group", reason)
        return windows

    def _read(self, piece: Any) -> Batch:
        read = self._ingest.read(piece, ordered=False)
        return read._replace(groups=self._keys.number(read.keys), keys=()) if read.rows else read

    def _latest_of_all(self, dtype: Any) -> np.ndarray:
        """Return the latest time of each group, also of those without a row so far."""
        if self._latest.dtype != dtype and not self._latest.size:
            self._latest = self._latest.astype(dtype)
        lowest = EARLIEST if np.dtype(dtype).kind == "i" else -np.inf
        new = len(self._keys) - self._latest.size
        return np.concatenate([self._latest, np.full(new, lowest if self._advanced is None else self._advanced, dtype)])

    def _latest_after(self, parts: Sequence[Batch]) -> np.ndarray | None:
        """Return the latest time of each group after some rows; times that decrease within a group are refused."""
        latest: np.ndarray | None = None
        for part in parts:
            if part.times is None or part.groups is None or not part.rows:
                continue
            latest = self._latest_of_all(part.times.dtype) if latest is None else latest
            self._check_order(part.groups, part.times, latest, str(part.time_kind))
            np.maximum.at(latest, part.groups, part.times)
        return latest

    def _check_order(self, group: Ints, times: np.ndarray, latest: np.ndarray, kind: str) -> None:
        if np.all(times[1:] >= times[:-1]) and np.all(times >= latest[group]):
            return
        order = np.argsort(group, kind="stable")
        bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1)).tolist()
        for a, b in pairwise(bounds):
            number = int(group[order[a]])
            now = latest[number].item()
            began = np.isfinite(now) and now != EARLIEST
            of = f" of the group {self.groups[number]!r}"
            self._ingest.check_order(times[order[a:b]], kind, now if began else None, of)

    def _has_values(self, column: int) -> bool:
        """Return whether a buffered row has a value in a column; the windows of groups call columns by their names."""
        return self._reorder_buffer is not None and self._reorder_buffer.has_values(column)

    def _take_parts(self, parts: Sequence[Batch], latest: np.ndarray | None) -> Changes:
        if latest is not None and latest.size:
            self._latest = latest
            self._ingest.now = max(latest.max().item(), self._ingest.now or latest.max().item())
        return self._windows.take([part for part in parts if part.rows])

    def _group(self, by: Any) -> int:
        if by is None and self._keys.find(None) is None:
            names = " and ".join(self._keys.names)
            raise QueryError(f"by: this monitor has a window for each {names}; say which, by=")
        number = self._keys.find(by)
        if number is None:
            raise QueryError(f"by: there is no group {by!r}; there are {len(self._keys):,}")
        return number

    def _named(self, name: str | None) -> str:
        return known_name(name, self._queries)

    def _check(self) -> None:
        """Assert the invariants of all structures."""
        self._windows.check()
