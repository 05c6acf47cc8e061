"""Queries, windows and settings with odd values: taken, and then the monitor works, or refused by our own errors."""

# ruff: noqa: E501 - a table of odd words is read at a glance, a column of them is not

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import topwatch as tw
from tests.fuzz.cases import Case, Target
from tests.fuzz.random_queries import pick
from topwatch.algorithms.registry import algorithms

ODD = [
    None, True, False, 0, 1, 2, 3, -1, 1.5, 0.5, float("nan"), float("inf"), 2**31, 2**63, 10**30, -(10**30), "", "x", "1", "10 minutes",
    "5 seconds", "0 seconds", "999999999999 weeks", "a\nb", "x" * 3000, [], [1], ["x"], ["x", "x"], {}, {"x": 1}, {"x": "min"}, {"x": "max", "y": "min"},
    {"x": [0, 1]}, {"x": [1, 0]}, {"x": None}, {"": 1}, {"1": 2}, [[]], [None], "auto", "min", "first", "lists",
]  # fmt: skip
GOOD: dict[str, Any] = {
    "TopK": {"k": 2, "score": {"linear": {"x": 1.0}}, "name": "q", "where": {"y": [0, 1]}},
    "Nearest": {"k": 2, "point": {"x": 0.5, "y": 0.5}, "name": "q", "where": {}},
    "Threshold": {"score": {"product": {"x": 1.0}}, "above": 0.5, "name": "q", "where": {}},
    "Dominating": {"k": 2, "prefer": {"x": "min", "y": "max"}, "name": "q", "where": {}},
    "Skyline": {"prefer": {"x": "min"}, "name": "q", "where": {}},
    "FrequentSkyline": {"prefer": {"x": "min"}, "share": 0.5, "snapshots": 3, "name": "q", "where": {}},
    "IncompleteTopK": {"k": 2, "sources": ["a", "b"], "combine": "sum", "weights": {"a": 2}, "bounds": [0, 1], "occurrences": "single",
                       "source": "source", "value": "x", "name": "q", "where": {}, "most": None},
}  # fmt: skip
MONITOR = {
    "last": 5,
    "every": 1,
    "algorithm": "auto",
    "id": "id",
    "time": None,
    "emit": "changes",
    "lateness": None,
    "max_lag": None,
}
OPTIONS = sorted({option for known in algorithms().values() for option in known.options})


def make(rng: np.random.Generator) -> Case:
    kind = pick(rng, list(GOOD))
    query, monitor = dict(GOOD[kind]), dict(MONITOR)
    if kind == "FrequentSkyline" or rng.random() < 0.15:
        monitor["last"] = "latest"
    if rng.random() < 0.2:
        monitor |= {"last": "10 seconds", "time": "t"}
    if rng.random() < 0.3:
        monitor["algorithm"] = pick(rng, list(algorithms()))
    steps: list[Any] = []
    for _ in range(int(rng.integers(1, 4))):
        part = pick(rng, ["query", "query", "monitor", "option"])
        if part == "option":
            known = algorithms()[monitor["algorithm"]].options if monitor["algorithm"] in algorithms() else OPTIONS
            steps.append(["option", pick(rng, list(known) or OPTIONS), pick(rng, ODD)])
        else:
            steps.append([part, pick(rng, list(query if part == "query" else monitor)), pick(rng, ODD)])
    return {"kind": kind, "query": query, "monitor": monitor, "steps": steps}


def run(case: Case) -> None:
    query, monitor, options = dict(case["query"]), dict(case["monitor"]), {}
    for part, name, value in case["steps"]:
        {"query": query, "monitor": monitor, "option": options}[part][name] = value
    try:
        made = _query(case["kind"], query)
        extent = monitor.pop("last")
        window = tw.latest() if extent == "latest" else tw.last(extent)
        watched = tw.Monitor(made, window, **monitor, **options)
    except tw.TopwatchError as error:
        message = str(error)
        assert "\n" not in message, f"more than a line: {message!r}"
        assert 10 < len(message) <= 1000, f"{len(message)} characters"
        return
    except (MemoryError, OverflowError) as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    for part in range(3):
        with contextlib.suppress(tw.DataError):  # of a time column that is another one as well
            watched.push(_batch(watched, part))
    watched._check()
    again = tw.Monitor.restore(watched.snapshot())
    assert again.answer() == watched.answer()
    assert watched.explain()
    watched.stats()


def _query(kind: str, fields: dict[str, Any]) -> Any:
    fields = dict(fields)
    if isinstance(fields.get("score"), dict):
        for name, weights in fields["score"].items():
            fields["score"] = getattr(tw, name)(weights) if name in ("linear", "product") else fields["score"]
            break
    return getattr(tw, kind)(**fields)


def _batch(watched: tw.Monitor, part: int) -> dict[str, Any]:
    rng = np.random.default_rng(part)
    rows = {name: np.round(rng.random(4), 1) for name in watched.columns}
    for query in watched.queries:
        if isinstance(query, tw.IncompleteTopK):
            rows[query.source] = [query.sources[0]] * 4
            rows[query.value] = rng.random(4)
    for name, values in ((watched._ingest.id, np.arange(4)), (watched._ingest.time, 10.0 * part + np.arange(4))):
        if name is not None and name not in rows:
            rows[name] = values
    return rows


TARGET = Target("configurations", make, run, short=60)
