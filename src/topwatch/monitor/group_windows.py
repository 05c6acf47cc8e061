"""What keeps the windows of groups: a monitor for each group, or one grouped engine for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from topwatch.algorithms.registry import GroupedRequest, entry_of
from topwatch.core.arrays import EARLIEST
from topwatch.core.saved_state import Saved
from topwatch.monitor import snapshot_format
from topwatch.monitor.batches import NANOSECONDS, Batch
from topwatch.monitor.changes import Answer, Changes, Entry, Groups, join
from topwatch.monitor.group_keys import GroupKeys
from topwatch.monitor.ingest import Ingest, changing, count_skipped
from topwatch.monitor.monitor import Monitor
from topwatch.monitor.planner import PhysicalPlan
from topwatch.monitor.serving import Line
from topwatch.monitor.stream_settings import Settings
from topwatch.monitor.why import Why
from topwatch.query.queries import Query
from topwatch.query.windows import LastRows, LastTime

_NONE = np.empty(0, np.int64)


class GroupMonitor(Monitor):
    """The monitor of one group: its rows come read and checked."""

    @changing
    def take(self, read: Batch, columns: Sequence[str], kinds: tuple[str | None, str | None]) -> Changes:
        """Take in rows, in order.

        Parameters
        ----------
        read : Batch
            The rows.
        columns : sequence of str
            What its columns are called.
        kinds : tuple of str
            The types of ids and times.
        """
        self._ingest.kinds = kinds
        return self._serving.push(self._ingest.released(read.arranged(columns, self._ingest.columns)))


Make = Callable[[], GroupMonitor]


class MonitorWindows:
    """A monitor for each group.

    Parameters
    ----------
    ingest, keys
        Of the grouped monitor.
    make : function
        Makes the monitor of a new group.
    monitors : iterable of Monitor
        Of the groups that there are already.
    """

    def __init__(self, ingest: Ingest, keys: GroupKeys, make: Make, monitors: Iterable[GroupMonitor] = ()) -> None:
        self._ingest, self._keys, self._make = ingest, keys, make
        self._monitors: list[GroupMonitor] = []
        self._names: list[str] = []  # of all queries that there ever were
        self._append(monitors)

    @property
    def monitors(self) -> list[GroupMonitor]:
        """The monitors of all groups, also of those whose rows were late or wait."""
        self._admit()
        return self._monitors

    def take(self, parts: Sequence[Batch]) -> Changes:
        """Take in rows whose groups are known."""
        monitors = self.monitors
        names = list(self._ingest.columns)
        by_group: dict[int, list[Changes]] = {}
        for part in parts:
            assert part.groups is not None
            order = np.argsort(part.groups, kind="stable")
            sorted_rows = part.take(order) if np.any(order[1:] < order[:-1]) else part
            groups = part.groups[order]
            bounds = np.flatnonzero(np.diff(groups, prepend=-1, append=-1))
            for begin, end in pairwise(bounds.tolist()):
                group = int(groups[begin])
                rows = sorted_rows.take(slice(begin, end))
                by_group.setdefault(group, []).append(monitors[group].take(rows, names, self._ingest.kinds))
        return self.join([self._of_group(group, changes) for group in sorted(by_group) for changes in by_group[group]])

    def advance(self, time: Any) -> Changes:
        """Advance the event time of all groups."""
        return self._of_all(lambda monitor: monitor.advance(time))

    def delete(self, group: int, ids: Any) -> Changes:
        """Remove rows of a group by id."""
        return self.join([self._of_group(group, self.monitors[group].delete(ids))])

    def add(self, query: Query) -> Changes:
        """Watch one more query in all groups."""
        self._learn_names([query])
        return self._of_all(lambda monitor: monitor.add(query))

    def remove(self, name: str) -> None:
        """Stop watching a query."""
        for monitor in self.monitors:
            monitor.remove(name)

    def answer(self, group: int, name: str) -> Answer:
        """Return a query's answer."""
        return self.monitors[group].answer(name)

    def lines(self, group: int, name: str) -> list[Line]:
        """Return a query's answer as (id, score, tick)."""
        return self.monitors[group].lines(name)

    def why(self, group: int, latest: np.ndarray, id: Any, name: str) -> Why:
        """Return why a row is in a query's answer or not."""
        return self.monitors[group].why(id, name)

    def stats(self) -> dict[str, int]:
        """Return counters over all groups."""
        every = [monitor.stats() for monitor in self.monitors or [self._make()]]
        return {name: sum(counts.get(name, 0) for counts in every) for name in every[0]}

    def as_monitors(self, latest: np.ndarray) -> MonitorWindows:
        """Return itself, with a monitor for each group."""
        self._admit()
        return self

    def save(self) -> dict[str, np.ndarray]:
        """Return the state as arrays: the snapshots one after the other, and their sizes."""
        snapshots = [monitor.snapshot() for monitor in self.monitors]
        whole = np.frombuffer(b"".join(snapshots), np.uint8)
        return {"monitors": whole, "monitor sizes": np.array([len(one) for one in snapshots], np.int64)}

    def load(self, saved: Saved, latest: np.ndarray) -> None:
        """Undo :meth:`save`; each monitor has to be as a new one would be, but for its rows.

        ``latest`` is each group's time.
        """
        blob = saved.bytes("monitors")
        sizes = saved.ints("monitor sizes", len(self._keys), low=0, high=len(blob))
        saved.expect(int(sizes.sum()) == len(blob), "monitor sizes", f"{len(blob)} bytes in all", int(sizes.sum()))
        new = self._make()
        names = [*new.settings.save(), "waiting"]
        alike = _meaning(snapshot_format.unpack(new.snapshot())[0], names)
        for end, size, time in zip(np.cumsum(sizes).tolist(), sizes.tolist(), latest.tolist(), strict=True):
            header, arrays = snapshot_format.unpack(blob[end - size : end])
            same = _meaning(header, names) == alike
            saved.expect(same, "monitors", "the queries of the grouped monitor, over its window, in each")
            for name in ("id_kind", "time_kind"):
                known = getattr(self._ingest, name)
                saved.expect(header.get(name) in (None, known), "monitors", f"{name} {known} in each")
            monitor = GroupMonitor.from_state(header, arrays)
            saved.expect(monitor.now is None or monitor.now <= time, "monitors", "no time after the group's latest")
            self._append([monitor])

    def join(self, parts: list[Changes]) -> Changes:
        """Join changes into one."""
        return join(self._names, parts)

    def check(self) -> None:
        """Assert the invariants."""
        for monitor in self.monitors:
            monitor._check()

    def _of_all(self, do: Callable[[Monitor], Changes]) -> Changes:
        return self.join([self._of_group(group, do(monitor)) for group, monitor in enumerate(self.monitors)])

    def _of_group(self, group: int, changes: Changes) -> Changes:
        """Return the changes of a group's monitor as those of the group."""
        groups = Groups(self._keys.names, self._keys.columns or [], np.full(len(changes), group))
        return changes.of_groups(self._names, groups)

    def _admit(self) -> None:
        self._append([self._make() for _ in range(len(self._keys) - len(self._monitors))])

    def _append(self, monitors: Iterable[GroupMonitor]) -> None:
        known = len(self._monitors)
        self._monitors += monitors
        if len(self._monitors) > known:  # all have the same queries
            self._learn_names(self._monitors[-1].queries)

    def _learn_names(self, queries: Sequence[Query]) -> None:
        self._names += [str(query.name) for query in queries if query.name not in self._names]


def _meaning(header: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """Return what the snapshots of all groups' monitors have in common: the fields of these names, and the queries."""
    queries = header.get("queries")
    if isinstance(queries, list):
        queries = [{**query, "grid": None} if isinstance(query, dict) else query for query in queries]
    return [*map(header.get, names), queries]


class EngineWindows:
    """One grouped engine for all groups.

    Parameters
    ----------
    plan, settings, queries
        What is watched, and how.
    ingest, keys
        Of the grouped monitor.
    make : function
        Makes a monitor that serves one group.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        settings: Settings,
        queries: dict[str, Query],
        ingest: Ingest,
        keys: GroupKeys,
        make: Make,
    ) -> None:
        from topwatch.algorithms.topk.grouped_ids import GroupedIds

        window = settings.window
        assert isinstance(settings.every, int)
        assert isinstance(window, LastRows | LastTime)
        self._settings, self._ingest, self._keys, self._make = settings, ingest, keys, make
        self._names = list(queries)
        self._timed = isinstance(window, LastTime)
        self._skipped = self._changes = self._advanced = 0
        rows = window.rows if isinstance(window, LastRows) else 0
        span = window.nanoseconds if isinstance(window, LastTime) else 0
        make_engine = entry_of(plan.queries[0].algorithm).grouped
        assert make_engine is not None, "the plan says so"
        self._engine = make_engine(GroupedRequest(list(queries.values()), ingest.indices, rows, span, settings.every))
        self._ids = GroupedIds()

    def take(self, parts: Sequence[Batch]) -> Changes:
        """Take in rows whose groups are known."""
        import pyarrow as pa

        if not parts:
            return self.join([])
        self._ids.tidy(self._engine)
        columns = list(zip(*(part.columns for part in parts), strict=True))
        self._skipped += sum(count_skipped(part.columns) for part in parts)
        group = np.concatenate([part.groups for part in parts if part.groups is not None])
        times = [part.times for part in parts if part.times is not None] if self._timed else []
        first = self._engine.tick + 1
        index, result = self._engine.push(group, columns, np.concatenate(times) if times else _NONE)
        self._ids.write_in_order(first, pa.chunked_array([pa.array(part.ids) for part in parts]), index)
        if not result.at.size:
            return self.join([])
        self._changes += result.at.size
        groups = Groups(self._keys.names, self._keys.columns or [], result.group)
        ids = self._ids.read(result.tick)
        return Changes(self._names, result.at, result.query, result.op, ids, result.score, result.tick, groups)

    def join(self, parts: list[Changes]) -> Changes:
        """Join changes into one."""
        return join(self._names, parts)

    def advance(self, time: Any) -> Changes:
        """Count an evaluation: it changes no window of a number of rows, and windows of time have monitors then."""
        self._advanced += self._engine.groups if self._settings.every == 1 else 0
        return self.join([])

    def answer(self, group: int, name: str) -> Answer:
        """Return a query's answer."""
        return Answer(Entry(id, score) for id, score, _ in self.lines(group, name))

    def lines(self, group: int, name: str) -> list[Line]:
        """Return a query's answer as (id, score, tick)."""
        if group >= self._engine.groups:
            return []
        ticks, scores = self._engine.answer(group, self._names.index(name))
        ids = self._ids.read(ticks).to_pylist() if ticks.size else []
        return list(zip(ids, scores.tolist(), ticks.tolist(), strict=True))

    def why(self, group: int, latest: np.ndarray, id: Any, name: str) -> Why:
        """Return why a row is in a query's answer or not."""
        return next(self._monitors(latest, [group])).why(id, name)

    def stats(self) -> dict[str, int]:
        """Return counters over all groups."""
        size = self._engine.bytes() + self._ids.bytes()
        every, window = self._settings.every, self._settings.window
        assert isinstance(every, int)
        evaluations = self._engine.pages.end[: self._engine.groups] // every
        live = self._engine.live()
        if isinstance(window, LastRows):  # those that the last evaluation has seen
            live = int(np.minimum(evaluations * every, window.rows).sum())
        counts = {"rows": self._engine.tick, "live": live, "evaluations": int(evaluations.sum()) + self._advanced}
        return {**counts, "changes": self._changes, "skipped": self._skipped, "unknown_deletes": 0, "bytes": size}

    def save(self) -> dict[str, np.ndarray]:
        """Return the state as arrays."""
        arrays = {f"engine {name}": array for name, array in self._engine.save().items()}
        counts = np.array([self._skipped, self._changes, self._advanced])
        if self._engine.live():
            ids = self._plain(self._ids.read(self._engine.live_ticks()))
            arrays["ids"] = snapshot_format.ids_to_array(ids)
        return {**arrays, "counts": counts}

    def load(self, saved: Saved, latest: np.ndarray) -> None:
        """Undo :meth:`save`; ``latest`` is each group's time."""
        mine, ingest = saved.part("engine "), self._ingest
        self._engine.load(mine, len(self._keys))
        mine.done()
        self._skipped, self._changes, self._advanced = saved.counts("counts", 3)
        _, ticks, times = self._engine.gathered()
        if not ticks.size:
            return
        saved.expect(ingest.id_kind is not None, "ids", "none, since there have been no rows")
        ids = _arrow(snapshot_format.ids_from_array("ids", saved.raw("ids"), str(ingest.id_kind)))
        self._ids.restore(np.sort(ticks), ids)
        if ingest.time is None:
            return
        timed = ingest.time_kind == NANOSECONDS or (ingest.time_kind is not None and not self._timed)
        saved.expect(timed, "engine ticks", "none, since there have been no times of this kind")
        held = self._engine.pages.held[: self._engine.groups]
        group = np.repeat(np.arange(held.size), held)
        began = np.isfinite(latest) & (latest != EARLIEST)
        saved.expect(began[group].all(), "engine count", "rows of groups that have a latest time")
        saved.expect(not self._timed or np.all(times <= latest[group]), "engine times", "no time after the latest")

    def as_monitors(self, latest: np.ndarray) -> MonitorWindows:
        """Return windows with a monitor for each group that continues from here; ``latest`` is each group's time."""
        monitors = self._monitors(latest, range(len(self._keys)))
        return MonitorWindows(self._ingest, self._keys, self._make, monitors)

    def check(self) -> None:
        """Assert the invariants."""
        self._engine._check()

    def _monitors(self, latest: np.ndarray, groups: Sequence[int]) -> Iterator[GroupMonitor]:
        """Yield a monitor for each group, with the rows that its window has, as of the latest times."""
        engine, ingest = self._engine, self._ingest
        assert isinstance(self._settings.every, int)
        columns, ticks, times = engine.gathered()
        ends = np.cumsum(engine.pages.held[: engine.groups])
        ids = self._plain(self._ids.read(ticks)) if ticks.size else np.empty(0)
        for group in groups:
            if group >= engine.groups or not engine.pages.end[group]:  # its rows came too late, or wait
                yield self._make()
                continue
            count, end = int(engine.pages.held[group]), int(ends[group])
            rows, seen = slice(end - count, end), int(engine.pages.end[group])
            header, arrays = self._make().state()
            # A column may be one that no query needs, in another order than that of a new monitor.
            header |= {"columns": list(ingest.columns), "feed": {"end": seen}}
            header |= {"id_kind": ingest.id_kind, "time_kind": ingest.time_kind}
            counts = {"evaluations": seen // self._settings.every}
            if group == 0:  # what is not counted by group
                counts["evaluations"] += self._advanced
                counts |= {"skipped": self._skipped, "changes": self._changes}
            header["counts"] |= counts
            arrays["columns"] = columns[:, rows]
            if count:
                arrays["ids"] = snapshot_format.ids_to_array(ids[rows])
            if ingest.time is not None:
                header["now"] = latest[group].item()
                # The times of rows that expire by their number are not kept; none lies after the latest.
                arrays["times"] = times[rows] if self._timed else np.full(count, header["now"])
            yield GroupMonitor.from_state(header, arrays)

    def _plain(self, ids: Any) -> Any:
        """Return ids as a monitor has them: numbers as NumPy's, others as Arrow's."""
        numbers = self._ingest.id_kind in ("int64", "uint64", "float64")
        return ids.to_numpy(zero_copy_only=False) if numbers else ids


Windows: TypeAlias = MonitorWindows | EngineWindows


def _arrow(ids: Any) -> Any:
    import pyarrow as pa

    return pa.array(ids) if isinstance(ids, np.ndarray) else ids
