"""A monitor as bytes, and back: the rows it holds, what it last reported where that cannot be derived, and what it is.

Any bytes either make a monitor whose state is whole, or are refused with a :class:`~topwatch.query.errors.DataError`.
What is derived needs no check: it is made from the rows by the code that serves queries which are added. All else is
read through :mod:`topwatch.core.saved_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.algorithms.options import MOST_ROWS
from topwatch.core.saved_state import Fields, Saved
from topwatch.monitor import planner, snapshot_format
from topwatch.monitor.batches import NANOSECONDS, SECONDS
from topwatch.monitor.load_shedding import LEVELS, change_engines
from topwatch.monitor.query_fields import (
    describe_every,
    describe_query,
    describe_window,
    read_every,
    read_query,
    read_window,
)
from topwatch.monitor.reorder_buffer import ReorderBuffer, read_time, read_times
from topwatch.query.errors import DataError, PlanError, QueryError
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, TopK
from topwatch.query.windows import LastRows, Latest

if TYPE_CHECKING:
    from topwatch.core.engine import Engine
    from topwatch.core.kernels.scoring import Floats, Ints
    from topwatch.monitor.assignments import Assignment
    from topwatch.monitor.ingest import Ingest
    from topwatch.monitor.monitor import Monitor

# Queries ask for room for their answers when they are made. So many rows for all, and so many for each byte.
MOST_KEPT = 16 * MOST_ROWS
KEPT_PER_BYTE = 64


def save(monitor: Monitor) -> bytes:
    """Return a monitor's state as bytes."""
    from topwatch.core.saved_stream import save_feed

    feed, ingest = monitor._feed, monitor._ingest
    fields, arrays = save_feed(feed)
    live = feed.window.live_slots()
    order = np.full(feed.window.capacity, -1)
    order[live] = np.arange(live.size)
    for i, assigned in enumerate(monitor._assigned.values()):
        if not _is_derived(monitor, assigned):
            slots, keys = assigned.engine.answer(assigned.index, feed.live_slots)
            arrays[f"answer {i} rows"], arrays[f"answer {i} keys"] = order[slots], keys
    for i, (engine, indices) in enumerate(_engines(monitor)):
        arrays |= {f"engine {i} {name}": array for name, array in engine.save(indices).items()}
    if monitor._first_only is not None:
        arrays |= monitor._first_only.save([assigned.number for assigned in monitor._assigned.values()], feed.head)
    buffered = None
    if monitor._reorder_buffer is not None:
        buffered, held = monitor._reorder_buffer.save()
        arrays |= held
    for name in ("ids", "waiting ids"):
        if name in arrays:
            arrays[name] = snapshot_format.ids_to_array(arrays[name])
    grids = {id(engine): bool(group.columns) for group, engine in monitor._engines.items()}
    header = {
        "queries": [
            {**describe_query(assigned.query), "name": assigned.name, "grid": grids[id(assigned.engine)]}
            for assigned in monitor._assigned.values()
        ],
        "window": describe_window(monitor._window),
        "every": describe_every(monitor._every),
        "algorithm": monitor._algorithm,
        "emit": monitor._emit,
        "options": monitor._options,
        "load": monitor._shedder.save() if monitor._shedder is not None else None,
        "id": ingest.id,
        "time": ingest.time,
        "columns": list(ingest.columns),
        "id_kind": ingest.id_kind,
        "time_kind": ingest.time_kind,
        "now": ingest.now,
        "counts": monitor._counts,
        "waiting": buffered,
        "feed": fields,
    }
    return snapshot_format.pack(header, arrays)


def resume(kind: type[Monitor], blob: bytes) -> Monitor:
    """Make a monitor from bytes."""
    header, saved = snapshot_format.unpack(blob)
    try:
        monitor = _monitor(kind, header)
        queries = _queries(header, monitor, MOST_KEPT + KEPT_PER_BYTE * len(blob))
        _read_ingest(header, monitor._ingest, [query for query, _ in queries])
        slots = _feed(header, saved, monitor)
        _serve(header, saved, monitor, queries, slots)
    except (QueryError, PlanError) as error:
        raise DataError(f"snapshot: header: {error}") from None
    header.done()
    saved.done()
    return monitor


def taken_over(blob: bytes, algorithm: str, options: Mapping[str, Any], every: int | None = None) -> Monitor:
    """Make a monitor from bytes that goes on by another algorithm, with the same queries: to compare algorithms."""
    from topwatch.core.schedule import EveryRows
    from topwatch.monitor.monitor import Monitor

    monitor = Monitor.restore(blob)
    saved = [Saved(engine.save(indices)) for engine, indices in _engines(monitor)]
    monitor._algorithm, monitor._options = algorithm, dict(options)
    if every is not None:
        monitor._every, monitor._feed.every = every, EveryRows(every)
    change_engines(monitor)
    for (engine, _), mine in zip(_engines(monitor), saved, strict=False):
        if monitor.queries[0].family == "incomplete":
            engine.load(mine)
    return monitor


def _monitor(kind: type[Monitor], header: Fields) -> Monitor:
    """Make a monitor without queries."""
    load, lag = header.maybe("load"), None
    if load is not None:
        most = load.number("most", 1e-9)
        load.expect(most < 2**32, "most", "fewer seconds", most)
        lag = f"{round(1e9 * most)} ns"
    algorithm, options = header.text("algorithm"), header.raw("options")
    plain = isinstance(options, dict) and all(isinstance(value, int | float | str) for value in options.values())
    header.expect(plain, "options", "names with a number or a word each", options)
    planner.check_algorithm(algorithm, options, LEVELS[1:] if load is not None else ())
    monitor = kind(
        [],
        read_window(header.fields("window")),
        every=read_every(header.fields("every")),
        algorithm=algorithm,
        id=header.raw("id"),
        time=header.raw("time"),
        emit=header.raw("emit"),
        max_lag=lag,
        **options,
    )
    if monitor._shedder is not None and load is not None:
        monitor._shedder.restore(load)
    counts = header.fields("counts")
    monitor._counts = {name: counts.whole(name) for name in monitor._counts}
    counts.done()
    return monitor


def _queries(header: Fields, monitor: Monitor, most_kept: int) -> list[tuple[Query, bool]]:
    """Return the queries, each with whether its group has a grid."""
    result: list[tuple[Query, bool]] = []
    for data in header.each("queries"):
        grid = data.flag("grid")
        result.append((read_query(data), grid))
        data.done()
    names = [query.name for query, _ in result]
    header.expect(len(set(names)) == len(names), "queries", "names that differ", names)
    kept = sum(_most(query, monitor) or 0 for query, _ in result)
    header.expect(kept <= most_kept, "queries", f"answers of at most {most_kept} rows together", kept)
    return result


def _most(query: Query, monitor: Monitor) -> int | None:
    """Return how many rows an answer has at most; None where all may be in it."""
    if not isinstance(query, TopK | Nearest | Dominating | IncompleteTopK):
        return None
    return min(query.k, monitor._window.rows) if isinstance(monitor._window, LastRows) else int(query.k)


def _read_ingest(header: Fields, ingest: Ingest, queries: list[Query]) -> None:
    """Read what a monitor knows of its batches; which query needs a column follows from the queries."""
    ingest.columns = dict.fromkeys(header.texts("columns"), "")
    for query in queries:
        new = ingest.want(query, str(query.name))
        header.expect(new == 0, "columns", f"the columns {query.columns}", list(ingest.columns))
    if not header.missing("id_kind"):
        ingest.id_kind = header.text("id_kind")
        header.expect(ingest.id is not None, "id_kind", "none, since rows have no ids", ingest.id_kind)
    if not header.missing("time_kind"):
        ingest.time_kind = header.text("time_kind")
        known = ingest.time is not None and ingest.time_kind in (NANOSECONDS, SECONDS)
        header.expect(known, "time_kind", f"{NANOSECONDS!r} or {SECONDS!r} of a time column", ingest.time_kind)
    ingest.now = read_time(header, "now", ingest.time_kind)


def _feed(header: Fields, saved: Saved, monitor: Monitor) -> Ints:
    """Make the feed and what waits before it; return the slots of the rows in the order they were saved."""
    from topwatch.core.saved_stream import load_feed
    from topwatch.core.schedule import EveryTime
    from topwatch.core.stream import FifoFeed

    ingest = monitor._ingest
    columns = saved.floats("columns", len(ingest.columns), None, nan=True)
    rows = columns.shape[1]
    ids, buffered_ids = (_ids(saved, name, ingest) for name in ("ids", "waiting ids"))
    named = ingest.id is not None and rows > 0
    saved.expect((ids is not None) == named and (ids is None or len(ids) == rows), "ids", f"ids of {rows} rows")
    monitor._feed = feed = monitor._make_feed(rows)
    feed.measure(ingest.unit())
    now, times = ingest.now, None
    header.expect(now is not None or ingest.time is None or rows == 0, "now", "the latest time", None)
    if isinstance(feed, FifoFeed) and ingest.time is not None and rows:
        times = read_times(saved, "times", rows, ingest.time_kind)
        saved.expect(np.all(times[1:] >= times[:-1]) and times[-1] <= now, "times", f"times that rise, up to {now}")
    if isinstance(feed.every, EveryTime):
        header.expect(now is None or abs(now) / feed.every.span < 2**62, "now", "a time that can be evaluated", now)
        feed.every.resume(now)
    buffered = header.maybe("waiting")
    if buffered is not None:
        fits = ingest.time is not None and not isinstance(monitor._window, Latest)
        header.expect(fits, "waiting", "nothing, since rows do not wait in this window", "something")
        monitor._reorder_buffer = ReorderBuffer.load(
            buffered, saved, len(ingest.columns), ingest.id is not None, buffered_ids, ingest.time_kind, now
        )
    return load_feed(feed, header.fields("feed"), saved, columns, ids, times)


def _ids(saved: Saved, name: str, ingest: Ingest) -> Any:
    if not saved.has(name):
        return None
    saved.expect(ingest.id_kind is not None, name, "no ids, since there have been none")
    return snapshot_format.ids_from_array(name, saved.raw(name), str(ingest.id_kind))


def _serve(header: Fields, saved: Saved, monitor: Monitor, queries: list[tuple[Query, bool]], slots: Ints) -> None:
    """Let engines serve the queries from where they were."""
    feed = monitor._feed
    monitor._count_alike(query for query, _ in queries)
    for i, (query, grid) in enumerate(queries):
        choice = monitor._choose(query, str(query.name))
        group = planner.group_of(query, choice.algorithm, planner.MANY_QUERIES if grid else 1)
        header.expect(bool(group.columns) == grid, "queries", f"a grid where {choice.algorithm} has one", grid)
        monitor._serve(query, choice, group)
        assigned = monitor._assigned[choice.query]
        if not _is_derived(monitor, assigned):
            assigned.engine.set_answer(assigned.index, *_answer(saved.part(f"answer {i} "), monitor, query, slots))
    for i, (engine, _) in enumerate(_engines(monitor)):
        engine.resume(feed.head, feed.evaluated_tick)
        mine = saved.part(f"engine {i} ")
        engine.load(mine)
        mine.done()
    if monitor._first_only is not None:
        numbers = [assigned.number for assigned in monitor._assigned.values()]
        monitor._first_only.load(saved, numbers, feed.head, feed.evaluated)


def _answer(saved: Saved, monitor: Monitor, query: Query, slots: Ints) -> tuple[Ints, Floats]:
    """Read what was last reported for a query: ranked rows that the last evaluation saw, each once, best first."""
    feed, window = monitor._feed, monitor._feed.window
    rows = saved.ints("rows", None, low=0, high=slots.size - 1)
    keys = saved.floats("keys", rows.size)
    most = _most(query, monitor)
    saved.expect(most is None or rows.size <= most, "rows", f"at most {most} rows", rows.size)
    result = slots[rows]
    saved.expect(np.isin(result, feed.live_slots()).all(), "rows", "rows that the last evaluation saw")
    seq = window.seq[result]
    after = (keys[:-1] > keys[1:]) | ((keys[:-1] == keys[1:]) & (seq[:-1] > seq[1:]))
    saved.expect(after.all() and np.unique(rows).size == rows.size, "rows", "rows that differ, best first")
    index = {column: i for i, column in enumerate(monitor._ingest.columns)}
    for column in query.columns:
        low, high = query.where.get(column, (-np.inf, np.inf))
        values = window.columns[index[column], result]
        saved.expect(np.all((values >= low) & (values <= high)), "rows", "rows that the query ranks")
    if isinstance(query, Dominating):
        whole = np.all((keys == np.floor(keys)) & (np.abs(keys) <= 2**53))
        saved.expect(whole, "keys", "whole numbers")
    if isinstance(query, FrequentSkyline):
        saved.expect(np.all((keys > 0) & (keys <= 1)), "keys", "shares from 0 to 1")
    saved.done()
    return result, keys


def _is_derived(monitor: Monitor, assigned: Assignment) -> bool:
    """Tell whether what was last reported follows from the rows; an exact algorithm may have followed another."""
    return monitor._shedder is None and planner.is_derived(assigned.query, assigned.choice.algorithm)


def _engines(monitor: Monitor) -> list[tuple[Engine, list[int]]]:
    """Return the engines in the order of the first query of each, with the indices of its queries in their order."""
    result: dict[int, tuple[Engine, list[int]]] = {}
    for assigned in monitor._assigned.values():
        result.setdefault(id(assigned.engine), (assigned.engine, []))[1].append(assigned.index)
    return list(result.values())
