"""A monitor's state as plain data and arrays, and back: its queries, the rows it holds, and what it last reported.

What an exact algorithm last reported follows from the rows, and is computed again when the queries are added; only the
other answers are saved. Any state either makes a whole monitor, or is refused with a
:class:`~topwatch.query.errors.DataError`: all is read through :mod:`topwatch.core.saved_state`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.algorithms.options import MOST_ROWS
from topwatch.core.saved_state import Fields, Saved
from topwatch.monitor import planner, snapshot_format
from topwatch.monitor.ingest import Ingest
from topwatch.monitor.reorder_buffer import ReorderBuffer
from topwatch.monitor.serving import Assignment, Serving
from topwatch.monitor.stream_settings import Settings
from topwatch.query.errors import DataError, PlanError, QueryError
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, Skyline, Threshold, TopK
from topwatch.query.scores import Score, distance, expr, linear, product, quadratic
from topwatch.query.windows import LastRows, Latest, Window

if TYPE_CHECKING:
    from topwatch.core.arrays import Floats, Ints
    from topwatch.core.engine import Feed

# Queries allocate room for their answers when they are made. So many rows for all, and so many for each byte.
MOST_KEPT = 16 * MOST_ROWS
KEPT_PER_BYTE = 64
QUERY_BYTES = 100  # that stand for a query, which is no array

_SCORES = {"linear": linear, "product": product, "quadratic": quadratic, "distance": distance}

Part = tuple[dict[str, Any], dict[str, Any]]


@contextmanager
def as_data_errors() -> Iterator[None]:
    """Refuse a state for what a monitor or a query refuses."""
    try:
        yield
    except (QueryError, PlanError) as error:
        raise DataError(f"snapshot: header: {error}") from None


# ---- one window


def save_window(serving: Serving, buffer: ReorderBuffer | None) -> Part:
    """Return the queries, the rows of window and buffer, and what was last reported where the rows do not say."""
    fields, rows = serving.feed.save()
    if "ids" in rows:
        rows["ids"] = snapshot_format.ids_to_array(rows["ids"])
    buffered, held = save_buffer(buffer)
    window = serving.feed.window
    live, order = window.live_slots(), np.full(window.capacity, -1)
    order[live] = np.arange(live.size)
    described, arrays = [], {**rows, **held}
    for i, assigned in enumerate(serving.assigned.values()):
        query = {**describe_query(assigned.query), "name": assigned.name, "grid": bool(assigned.shared.key.columns)}
        described.append(query)
        if not _is_derived(serving, assigned):
            slots, keys = serving.reported(assigned)
            arrays[f"answer {i} rows"], arrays[f"answer {i} keys"] = order[slots], keys
    for path, engine, indices in serving.numbered():
        arrays |= {f"{path}{name}": array for name, array in engine.save(indices).items()}
    if serving.first_only is not None:
        arrays |= serving.first_only.save([one.number for one in serving.assigned.values()], serving.feed.head)
    load = serving.shedder.save() if serving.shedder is not None else None
    header = {"feed": fields, "waiting": buffered, **serving.settings.save(), **serving.ingest.save()}
    return {**header, "queries": described, "load": load, "counts": dict(serving.counts)}, arrays


def load_window(
    header: Fields, saved: Saved, settings: Settings, ingest: Ingest
) -> tuple[Serving, ReorderBuffer | None]:
    """Undo :func:`save_window`."""
    load, counts = header.maybe("load"), header.fields("counts")
    queries = read_queries(header, settings.window, saved)
    ingest.load(header, [query for query, _ in queries])
    columns = saved.floats("columns", len(ingest.columns), None, nan=True)
    serving = Serving(settings, ingest, columns.shape[1])
    if serving.shedder is not None and load is not None:
        serving.shedder.restore(load)
    serving.counts = {name: counts.count(name) for name in serving.counts}
    counts.done()
    slots, buffer = _load_rows(header, saved, columns, serving.feed, settings, ingest)
    serving.expect([query for query, _ in queries])
    for i, (query, grid) in enumerate(queries):
        choice = serving.choose(query, str(query.name))
        key = planner.engine_key(query, choice.algorithm, planner.MANY_QUERIES if grid else 1)
        header.expect(bool(key.columns) == grid, "queries", f"a grid where {choice.algorithm} has one", grid)
        assigned = serving.serve(query, choice, key)
        if not _is_derived(serving, assigned):
            part = saved.part(f"answer {i} ")
            assigned.engine.set_answer(assigned.index, *_read_answer(part, serving, ingest, query, slots))
    serving.resume()
    for path, engine, _ in serving.numbered():
        mine = saved.part(path)
        engine.load(mine)
        mine.done()
    if serving.first_only is not None:
        numbers = [assigned.number for assigned in serving.assigned.values()]
        serving.first_only.load(saved, numbers, serving.feed.head, serving.feed.evaluated)
    return serving, buffer


def _load_rows(
    header: Fields, saved: Saved, columns: np.ndarray, feed: Feed, settings: Settings, ingest: Ingest
) -> tuple[Ints, ReorderBuffer | None]:
    """Fill a new feed; return the slots of the rows in the order they were saved, and the reorder buffer."""
    from topwatch.core.schedule import EveryTime

    rows = columns.shape[1]
    ids = _read_ids(saved, "ids", ingest)
    named = ingest.id is not None and rows > 0
    saved.expect((ids is not None) == named and (ids is None or len(ids) == rows), "ids", f"ids of {rows} rows")
    feed.measure(ingest.unit())
    now, times = ingest.now, None
    header.expect(now is not None or ingest.time is None or rows == 0, "now", "the latest time", None)
    if feed.window.fifo and ingest.time is not None and rows:
        times = snapshot_format.read_times(saved, "times", rows, ingest.time_kind)
        saved.expect(np.all(times[1:] >= times[:-1]) and times[-1] <= now, "times", f"times that rise, up to {now}")
    if isinstance(feed.every, EveryTime):
        header.expect(now is None or abs(now) / feed.every.span < 2**62, "now", "a time that can be evaluated", now)
        feed.every.resume(now)
    buffer = load_buffer(header, saved, settings, ingest)
    return feed.load(header.fields("feed"), saved, columns, ids, times), buffer


def save_buffer(buffer: ReorderBuffer | None) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the counters and the rows of a reorder buffer."""
    if buffer is None:
        return None, {}
    fields, arrays = buffer.save()
    if "waiting ids" in arrays:
        arrays["waiting ids"] = snapshot_format.ids_to_array(arrays["waiting ids"])
    return fields, arrays


def load_buffer(
    header: Fields, saved: Saved, settings: Settings, ingest: Ingest, groups: int = 0
) -> ReorderBuffer | None:
    """Undo :func:`save_buffer`; ``groups`` is how many groups of rows there are, 0 for none."""
    buffered = header.maybe("waiting")
    if buffered is None:
        return None
    fits = ingest.time is not None and (settings.watermark or not isinstance(settings.window, Latest))
    header.expect(fits, "waiting", "nothing, since rows do not wait in this window", "something")
    ids = _read_ids(saved, "waiting ids", ingest)
    return ReorderBuffer.load(buffered, saved, ids, ingest, groups)


def _read_ids(saved: Saved, name: str, ingest: Ingest) -> Any:
    """Return ids of the type that a monitor has seen; None where there are none."""
    if not saved.has(name):
        return None
    saved.expect(ingest.id_kind is not None, name, "no ids, since there have been none")
    return snapshot_format.ids_from_array(name, saved.raw(name), str(ingest.id_kind))


def _read_answer(saved: Saved, serving: Serving, ingest: Ingest, query: Query, slots: Ints) -> tuple[Ints, Floats]:
    """Read what was last reported for a query: ranked rows that the last evaluation saw, each once, best first."""
    feed, kept = serving.feed, serving.feed.window
    rows = saved.ints("rows", None, low=0, high=slots.size - 1)
    keys = saved.floats("keys", rows.size)
    most = _most(query, serving.settings.window)
    saved.expect(most is None or rows.size <= most, "rows", f"at most {most} rows", rows.size)
    result = slots[rows]
    saved.expect(np.isin(result, feed.live_slots()).all(), "rows", "rows that the last evaluation saw")
    seq = kept.seq[result]
    after = (keys[:-1] > keys[1:]) | ((keys[:-1] == keys[1:]) & (seq[:-1] > seq[1:]))
    saved.expect(after.all() and np.unique(rows).size == rows.size, "rows", "rows that differ, best first")
    index = ingest.indices
    for column in query.columns:
        low, high = query.where.get(column, (-np.inf, np.inf))
        values = kept.columns[index[column], result]
        saved.expect(np.all((values >= low) & (values <= high)), "rows", "rows that the query ranks")
    if isinstance(query, Dominating):
        whole = np.all((keys == np.floor(keys)) & (np.abs(keys) <= 2**53))
        saved.expect(whole, "keys", "whole numbers")
    if isinstance(query, FrequentSkyline):
        saved.expect(np.all((keys > 0) & (keys <= 1)), "keys", "shares from 0 to 1")
    saved.done()
    return result, keys


def _is_derived(serving: Serving, assigned: Assignment) -> bool:
    """Return whether what was last reported follows from the rows: no other algorithm can have served the query."""
    return serving.shedder is None and planner.is_derived(assigned.query, assigned.choice.algorithm)


def _most(query: Query, window: Window) -> int | None:
    """Return how many rows an answer has at most; None where all may be in it."""
    if not isinstance(query, TopK | Nearest | Dominating | IncompleteTopK):
        return None
    return min(query.k, window.rows) if isinstance(window, LastRows) else int(query.k)


# ---- queries


def read_queries(header: Fields, window: Window, saved: Saved, groups: int = 1) -> list[tuple[Query, bool]]:
    """Return the queries, each with whether its engine has a grid; each of so many groups of rows has its answers."""
    result: list[tuple[Query, bool]] = []
    for data in header.each("queries"):
        grid = data.flag("grid")
        result.append((_read_query(data), grid))
        data.done()
    names = [query.name for query, _ in result]
    header.expect(len(set(names)) == len(names), "queries", "names that differ", names)
    kept = groups * sum(_most(query, window) or 0 for query, _ in result)
    most = MOST_KEPT + KEPT_PER_BYTE * (saved.size + QUERY_BYTES * len(result))
    header.expect(kept <= most, "queries", f"answers of at most {most} rows together", kept)
    return result


def describe_query(query: Query) -> dict[str, Any]:
    """Return a query as plain data."""
    common: dict[str, Any] = {"name": query.name, "where": dict(query.where)}
    if isinstance(query, Dominating):
        return {"kind": "dominating", "k": int(query.k), "prefer": dict(query.prefer), **common}
    if isinstance(query, IncompleteTopK):
        return {"kind": "incomplete", **_describe_incomplete(query), **common}
    if isinstance(query, Skyline):
        return {"kind": "skyline", "prefer": dict(query.prefer), **common}
    if isinstance(query, FrequentSkyline):
        often = {"share": query.share, "snapshots": int(query.snapshots)}
        return {"kind": "frequent", "prefer": dict(query.prefer), **often, **common}
    common["score"] = _describe_score(query.score)
    if isinstance(query, Threshold):
        return {"kind": "threshold", "above": query.above, **common}
    return {"kind": "nearest" if isinstance(query, Nearest) else "topk", "k": int(query.k), **common}


def _read_query(data: Fields) -> Query:
    """Undo :func:`describe_query`; a query checks itself what it is made of."""
    kind = data.text("kind")
    common: dict[str, Any] = {"name": data.text("name"), "where": data.raw("where")}
    if kind == "dominating":
        return Dominating(k=data.raw("k"), prefer=data.raw("prefer"), **common)
    if kind == "incomplete":
        return _read_incomplete(data, common)
    if kind == "skyline":
        return Skyline(prefer=data.raw("prefer"), **common)
    if kind == "frequent":
        often = {"share": data.raw("share"), "snapshots": data.raw("snapshots")}
        return FrequentSkyline(prefer=data.raw("prefer"), **often, **common)
    score = _read_score(data.fields("score"))
    if kind == "threshold":
        return Threshold(score=score, above=data.raw("above"), **common)
    if kind == "nearest":
        data.expect(score.kind == "distance", "score", "a distance", score.kind)
        return Nearest(k=data.raw("k"), point=dict(zip(score.columns, score.coefficients, strict=True)), **common)
    data.expect(kind == "topk", "kind", "a kind of query", kind)
    return TopK(k=data.raw("k"), score=score, **common)


def _describe_incomplete(query: IncompleteTopK) -> dict[str, Any]:
    ranges = query.ranges()
    combine = query.combine
    return {
        "k": int(query.k),
        "sources": list(query.sources),
        "weights": None if query.weights is None else query.factors(),
        "bounds": query.bounds if ranges is None else [list(pair) for pair in ranges],
        "combine": combine if isinstance(combine, str) else _describe_score(combine),
        **{part: getattr(query, part) for part in ("occurrences", "source", "value", "most")},
    }


def _read_incomplete(data: Fields, common: Mapping[str, Any]) -> IncompleteTopK:
    sources, weights, bounds, combine = (data.raw(part) for part in ("sources", "weights", "bounds", "combine"))
    plain = isinstance(sources, list) and all(isinstance(source, str | int) for source in sources)
    data.expect(plain, "sources", "a list of names", sources)

    def by_source(name: str, values: Any) -> dict[str | int, Any]:
        each = isinstance(values, list) and len(values) == len(sources)
        data.expect(each, name, "one for each source", values)
        return dict(zip(sources, values, strict=True))

    return IncompleteTopK(
        **{part: data.raw(part) for part in ("k", "occurrences", "source", "value", "most")},
        sources=sources,
        combine=combine if isinstance(combine, str) else _read_score(Fields(combine, "combine")),
        weights=None if weights is None else by_source("weights", weights),
        bounds=bounds if bounds is None or isinstance(bounds, str) else by_source("bounds", bounds),
        **common,
    )


def _describe_score(score: Score) -> dict[str, Any]:
    if score.expression is not None:
        return {
            "expr": score.expression.text,
            "increasing": sorted(score.increasing),
            "decreasing": sorted(score.decreasing),
        }
    return {score.kind: dict(zip(score.columns, score.coefficients, strict=True))}


def _read_score(data: Fields) -> Score:
    if data.has("expr"):
        score = expr(data.text("expr"), data.texts("increasing"), data.texts("decreasing"))
    else:
        kind = next(filter(data.has, _SCORES), "linear")
        score = _SCORES[kind](data.raw(kind))
    data.done()
    return score
