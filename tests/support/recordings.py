"""Recorded runs: what monitors of every kind of query, window and algorithm reported, kept as digests.

A change that moves or renames code leaves every one of them as it is. The oracle says what is right; a recording says
that nothing has changed, approximate answers and counters of rows included.

    python -m tests.support.recordings > tests/recordings/monitors.json    # records again: only where a change is meant
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import topwatch as tw

ROWS = 900
SOURCES = ("x", "y", "z")
PREFER: dict[str, Any] = {"a": "min", "b": "max", "c": "min"}
EVERY: tuple[int | str, ...] = (1, 7, "5 seconds")


@dataclass(frozen=True)
class Case:
    """A monitor and how it is used."""

    name: str
    queries: list[Any]
    window: Any
    options: dict[str, Any] = field(default_factory=dict)


def queries() -> dict[str, list[Any]]:
    """Return queries of each family; names are fixed, since they are recorded."""
    return {
        "topk": [
            tw.TopK(k=5, score=tw.linear(a=0.7, b=-0.3), name="linear"),
            tw.TopK(k=3, score=tw.product(a=0.5, c=0.25), name="product", where={"b": (2.0, 7.0)}),
            tw.TopK(k=40, score=tw.quadratic(b=0.1, c=0.4), name="quadratic"),
            tw.TopK(k=4, score=tw.expr("a / (1 + c)", increasing=["a"], decreasing=["c"]), name="expr"),
            tw.Nearest(k=6, point={"a": 4.0, "b": 4.5}, name="nearest"),
            tw.Threshold(score=tw.linear(a=1.0, b=1.0), above=15.0, name="threshold"),
        ],
        "dominating": [
            tw.Dominating(k=5, prefer=PREFER, name="dominating"),
            tw.Dominating(k=2, prefer={"a": "max", "b": "max"}, where={"c": (1.0, 8.0)}, name="two"),
        ],
        "skyline": [
            tw.Skyline(prefer=PREFER, name="skyline"),
            tw.Skyline(prefer={"a": "max", "b": "min"}, where={"c": (1.0, 8.0)}, name="two"),
        ],
        "frequent": [tw.FrequentSkyline(prefer=PREFER, share=0.5, snapshots=20, name="frequent")],
        "incomplete": [
            tw.IncompleteTopK(
                k=4, sources=list(SOURCES), combine="sum", bounds=dict.fromkeys(SOURCES, (0.0, 1.0)), name="sum"
            ),
            tw.IncompleteTopK(
                k=3, sources=list(SOURCES), combine="max", bounds=dict.fromkeys(SOURCES, (0.0, 1.0)), name="max"
            ),
        ],
    }


ALGORITHMS = {
    "topk": [
        "auto",
        "brute",
        "scan",
        "tsl",
        "tma",
        "sma",
        "reserve",
        "sa",
        "ra",
        "pa",
        "sasf",
        "sarf",
        "sapf",
        "rasf",
        "rarf",
        "rapf",
    ],
    "dominating": ["auto", "brute", "bfa", "eva", "ada", "ahba", "amsa", "floor"],
    "skyline": ["auto", "brute", "witness"],
    "frequent": ["auto", "witness", "sampling"],
    "incomplete": ["auto", "sla", "eaa", "approx", "tally"],
}
WINDOWS = {"rows": tw.last(120), "time": tw.last("12 seconds"), "latest": tw.latest()}


def cases() -> Iterator[Case]:
    """Yield every combination that the planner accepts."""
    families = queries()
    for family, algorithms in ALGORITHMS.items():
        for algorithm in algorithms:
            for kind, window in WINDOWS.items():
                for every in EVERY:
                    able = [query for query in families[family] if _accepted(query, window, algorithm)]
                    if able:
                        options = {"every": every, "algorithm": algorithm, "time": "time"}
                        yield Case(f"{family} {algorithm} {kind} {every}", able, window, options)
    nearest = [tw.Nearest(k=6, point={"a": 4.0, "b": 4.5}, name="nearest")]
    for algorithm in ("cpm", "snn"):
        yield Case(f"topk {algorithm} rows 1", nearest, tw.last(120), {"algorithm": algorithm, "time": "time"})
    for emit, extra in (("first", {}), ("changes", {"lateness": "2 seconds"})):
        options = {"emit": emit, "time": "time", **extra}
        yield Case(f"topk auto rows {emit} {'late' if extra else ''}".strip(), families["topk"], tw.last(120), options)


def _accepted(query: Any, window: Any, algorithm: str) -> bool:
    try:
        tw.Monitor([query], window=window, algorithm=algorithm, time="time")
    except tw.TopwatchError:
        return False
    return True


def stream(seed: int, late: bool = False) -> dict[str, Any]:
    """Return rows with ties, duplicates, missing and infinite values, gaps in time, and ids that come again."""
    rng = np.random.default_rng(seed)
    steps = np.where(rng.random(ROWS) < 0.02, rng.integers(3, 30, ROWS), rng.random(ROWS) < 0.2)
    values = {
        name: rng.integers(0, 10, ROWS) + np.where(rng.random(ROWS) < 0.5, rng.random(ROWS), 0.0) for name in "abc"
    }
    values["a"][rng.random(ROWS) < 0.02] = np.nan
    values["c"][rng.random(ROWS) < 0.01] = np.inf
    time = np.cumsum(steps).astype(float)
    if late:
        time = np.maximum(0.0, time - rng.integers(0, 3, ROWS))
    return {
        "id": rng.integers(0, 150, ROWS),
        "time": time,
        **values,
        "source": np.array(SOURCES)[rng.integers(0, 3, ROWS)],
        "value": rng.random(ROWS).round(2),
    }


def digest(case: Case) -> dict[str, Any]:
    """Run a case: batches of all sizes, a query that comes and goes, deletions, a restart; return what it reported."""
    rng = np.random.default_rng(2006)
    rows = stream(1, "lateness" in case.options)
    monitor = tw.Monitor(case.queries, window=case.window, **case.options)
    recorded = hashlib.sha256()
    changes = 0

    def note(result: Any) -> None:
        nonlocal changes
        for change in result:
            changes += 1
            recorded.update(f"{change.at} {change.query} {change.op} {change.id} {float(change.score)!r}\n".encode())

    done = 0
    number = 0
    name = case.queries[0].name
    while done < ROWS:
        size = int(rng.choice([1, 2, 30, 90]))
        note(monitor.push({column: values[done : done + size] for column, values in rows.items()}))
        done += size
        number += 1
        if number % 9 == 4 and len(case.queries) > 1:
            monitor.remove(name)
        elif number % 9 == 7 and len(case.queries) > 1:
            note(monitor.add(case.queries[0]))
        if number % 5 == 3 and case.window == tw.latest():
            note(monitor.delete(rng.integers(0, 200, 3).tolist()))
        if number % 11 == 6:
            monitor = tw.Monitor.restore(monitor.snapshot())
        for query in monitor.queries:
            for entry in monitor.answer(query.name):
                recorded.update(f"{query.name} {entry.id} {float(entry.score)!r}\n".encode())
    note(monitor.advance(float(rows["time"].max()) + 60.0))
    counted = {key: int(value) for key, value in monitor.stats().items() if key in ("rows", "skipped", "late")}
    return {"digest": recorded.hexdigest()[:32], "changes": changes, **counted}


if __name__ == "__main__":
    json.dump({case.name: digest(case) for case in cases()}, sys.stdout, indent=1)
    print()
