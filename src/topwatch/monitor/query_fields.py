"""Queries, scores and windows as plain data, and back."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from topwatch.core.saved_state import Fields
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, Skyline, Threshold, TopK
from topwatch.query.scores import Score, distance, expr, linear, product, quadratic
from topwatch.query.windows import LastRows, LastTime, Latest, Window, duration

_SCORES = {"linear": linear, "product": product, "quadratic": quadratic, "distance": distance}
_LONGEST = 2**62 - 1  # nanoseconds


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


def read_query(data: Fields) -> Query:
    """Undo :func:`describe_query`. Queries check what they are made of; here it is only read."""
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


def describe_window(window: Window) -> dict[str, int]:
    """Return a window as plain data."""
    if isinstance(window, LastRows):
        return {"rows": window.rows}
    return {"nanoseconds": window.nanoseconds} if isinstance(window, LastTime) else {}


def read_window(data: Fields) -> Window:
    """Undo :func:`describe_window`."""
    if data.has("rows"):
        window: Window = LastRows(data.whole("rows", 1, _LONGEST))
    else:
        window = LastTime(data.whole("nanoseconds", 1, _LONGEST)) if data.has("nanoseconds") else Latest()
    data.done()
    return window


def describe_every(every: int | str | datetime.timedelta) -> dict[str, int]:
    """Return when a monitor evaluates as plain data."""
    if isinstance(every, str | datetime.timedelta):
        return {"nanoseconds": duration("every", every)}
    return {"rows": int(every)}


def read_every(data: Fields) -> int | str:
    """Undo :func:`describe_every`."""
    every: int | str
    every = data.whole("rows", 1, _LONGEST) if data.has("rows") else f"{data.whole('nanoseconds', 1, _LONGEST)} ns"
    data.done()
    return every
