"""A monitor in mid-stream for each algorithm and kind of window, of which snapshots can be taken."""

from __future__ import annotations

from typing import Any

import numpy as np

import topwatch as tw
from topwatch.algorithms.registry import algorithms

DOMINATING = ("bfa", "eva", "ada", "ahba", "amsa", "floor")
INCOMPLETE = ("tally", "sla", "eaa", "approx")
SOURCES = ["EWR", "JFK", "LGA"]
COLUMNS = ("x", "y", "z")
WINDOWS: dict[str, Any] = {"rows": tw.last(40), "time": tw.last("30 seconds"), "latest": tw.latest()}


def _scored(k: int = 4) -> list[Any]:
    return [
        tw.TopK(k=k, score=tw.linear(x=1.0, y=0.5), name="sum"),
        tw.Nearest(k=3, point={"x": 4.0, "y": 4.0}, name="near", where={"z": (0, 7)}),
        tw.TopK(k=60, score=tw.expr("x * y + 1", increasing=["x", "y"]), name="all"),
        tw.Threshold(score=tw.product(x=1.0, y=1.0), above=30.0, name="far"),
    ]


def _preferring() -> list[Any]:
    prefer = {"x": "min", "y": "max"}
    return [
        tw.Dominating(k=5, prefer=prefer, name="many"),
        tw.Dominating(k=2, prefer={"z": "min"}, name="few", where={"x": (1, 9)}),
    ]


def _skylines(window: Any, algorithm: str) -> list[Any]:
    often = [tw.FrequentSkyline(prefer={"x": "min", "y": "max"}, share=0.2, snapshots=20, name="often")]
    if algorithm == "sampling":
        return often
    return [tw.Skyline(prefer={"x": "min", "z": "max"}, name="front"), *(often if window == tw.latest() else [])]


def _incomplete(algorithm: str) -> list[Any]:
    bounded = [
        tw.IncompleteTopK(k=3, sources=SOURCES, bounds="learn", name="learnt"),
        tw.IncompleteTopK(k=2, sources=SOURCES, bounds=(0, 9), occurrences="sum", most=3, name="several"),
    ]
    free = tw.IncompleteTopK(k=4, sources=SOURCES, combine="max", weights={"JFK": 2.0}, name="free")
    return bounded if algorithm in ("eaa", "approx") else [*bounded, free]


def _queries(algorithm: str, window: Any) -> list[Any]:
    if algorithm == "brute":
        return [*_scored(), *_preferring(), tw.Skyline(prefer={"x": "min", "z": "max"}, name="front")]
    if algorithm in INCOMPLETE:
        return _incomplete(algorithm)
    if algorithm in DOMINATING:
        return _preferring()
    return _skylines(window, algorithm) if algorithm in ("witness", "sampling") else _scored()


def _names() -> list[str]:
    result = []
    for algorithm, known in algorithms().items():
        for kind in WINDOWS:
            if kind == "latest" and not known.latest:
                continue
            if kind != "latest" and algorithm == "sampling":
                continue
            result.append(f"{algorithm}-{kind}")
    return [
        *result,
        "auto-first",
        "auto-late",
        "auto-load",
        "auto-strings",
        "auto-ordinals",
        "auto-nothing",
        "auto-empty",
        "pa-error",
    ]


SPECIMENS = _names()


def batch(rng: np.random.Generator, start: int, rows: int, strings: bool = False) -> dict[str, Any]:
    """Rows with few values and few ids, so that there are ties, duplicates and replaced rows."""
    result: dict[str, Any] = {column: rng.integers(0, 9, rows).astype(float) for column in COLUMNS}
    result["z"][rng.random(rows) < 0.1] = np.nan
    ids = rng.integers(0, 25, rows)
    result["id"] = [f"id {id}" for id in ids] if strings else ids
    result["t"] = (start + np.arange(rows)) * 0.9
    result["source"] = rng.choice(np.array([*SOURCES, "BOS"]), rows)
    result["value"] = rng.integers(0, 10, rows).astype(float)
    return result


def specimen(name: str, rng: np.random.Generator) -> Any:
    """Return the monitor of that name, some rows after an evaluation; queries have come and gone."""
    algorithm, _, kind = name.partition("-")
    window = WINDOWS.get(kind, WINDOWS["time"])
    options: dict[str, Any] = {"every": 7, "time": "t"}
    if kind == "nothing":
        return tw.Monitor(_scored(), window=window, **options)
    queries = _queries(algorithm, window)
    if kind == "latest":
        options["time"] = None
    elif kind == "first":
        options["emit"] = "first"
    elif kind == "late":
        options["lateness"] = "8 seconds"
    elif kind == "load":
        queries, options["max_lag"], options["every"] = _preferring(), "1 second", 1
        options["_clock"] = iter(np.arange(0.0, 1e6, 5.0)).__next__  # each look at the clock finds it far behind
    elif kind == "ordinals":
        options["id"] = None
    elif kind == "error":
        options["max_error"] = 0.01
    elif kind == "time":
        options["every"] = "5 seconds"
    monitor = tw.Monitor(queries, window=window, algorithm=algorithm, **options)
    more = queries[0]
    for part in range(4):
        rows = batch(rng, 40 * part, 38, strings=kind == "strings")
        if kind == "late":
            rows["t"] = rows["t"] + 6.0 * rng.random(38)
        monitor.push(rows)
        if kind == "latest":
            monitor.delete([3, 4])
        if part == 1:
            monitor.remove(more.name)
        if part == 2:
            monitor.add(more)
    if kind == "empty":
        monitor.advance(1000.0)
    return monitor
