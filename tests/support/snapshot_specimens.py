"""A monitor in mid-stream for each algorithm and kind of window, of which snapshots can be taken."""

from __future__ import annotations

from typing import Any

import numpy as np

import topwatch as tw
from topwatch.algorithms.registry import algorithms
from topwatch.monitor.stream_settings import Settings

DOMINATING = ("bfa", "eva", "ada", "ahba", "amsa", "floor")
INCOMPLETE = ("tally", "sla", "eaa", "approx")
SOURCES = ["EWR", "JFK", "LGA"]
COLUMNS = ("x", "y", "z")
WINDOWS: dict[str, Any] = {"rows": tw.last(40), "time": tw.last("30 seconds"), "latest": tw.latest()}
# With groups: in one engine, and with a monitor for each.
GROUPED: dict[str, dict[str, Any]] = {
    "grouped-rows": {"window": tw.last(12), "every": 7},
    "grouped-rows with times": {"window": tw.last(12)},
    "grouped-late": {"window": tw.last(12), "lateness": "8 seconds"},
    "grouped-stamped": {"window": tw.last("30 seconds"), "every": 3, "only_rows": True},
    "grouped-watermark": {"window": tw.last(12), "watermark": True, "order": ["source"]},
    "monitors-rows": {"window": tw.last(12), "every": 7, "algorithm": "sma"},
    "monitors-late": {"window": tw.last("30 seconds"), "lateness": "8 seconds"},
    "monitors-latest": {"window": tw.latest(), "time": None},
    "monitors-incomplete": {"window": tw.last(20), "every": "5 seconds"},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "latest": {"time": None},
    "first": {"emit": "first"},
    "late": {"lateness": "8 seconds"},
    "load": {"max_lag": "1 second", "every": 1},
    "ordinals": {"id": None},
    "error": {"max_error": 0.01},
    "time": {"every": "5 seconds"},
}
STAMPED = ("auto-watermark", "grouped-stamped", "grouped-watermark")  # timestamps, not numbers


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
        "auto-watermark",
        *GROUPED,
    ]


SPECIMENS = _names()


def batch(rng: np.random.Generator, start: int, rows: int, name: str = "") -> dict[str, Any]:
    """Rows for a specimen with few values and few ids, so that there are ties, duplicates and replaced rows."""
    result: dict[str, Any] = {column: rng.integers(0, 9, rows).astype(float) for column in COLUMNS}
    result["z"][rng.random(rows) < 0.1] = np.nan
    ids = rng.integers(0, 25, rows)
    result["id"] = [f"id {id}" for id in ids] if name == "auto-strings" else ids
    result["t"] = (start + np.arange(rows)) * 0.9
    if name.endswith("late"):
        result["t"] += 6.0 * rng.random(rows)
    if name in STAMPED:
        result["t"] = (result["t"] * 1e9).astype("M8[ns]")
    result["source"] = rng.choice(np.array([*SOURCES, "BOS"]), rows)
    result["value"] = rng.integers(0, 10, rows).astype(float)
    result["g"] = rng.choice(np.array(["north", "south", None], object), rows)
    result["h"] = rng.integers(0, 2, rows)
    return result


def _far_behind(monitor: Any) -> Any:
    """Return the monitor; where it has a clock, each look at that finds it far behind."""
    if monitor._serving.shedder is not None:
        monitor._serving.shedder.clock = iter(np.arange(0.0, 1e6, 5.0)).__next__
    return monitor


def _grouped(name: str, rng: np.random.Generator) -> Any:
    given: dict[str, Any] = {"id": "id", "time": "t", "by": ["g", "h"], **GROUPED[name]}
    queries = _scored()[:2]
    if name == "monitors-late":
        queries = _preferring()
    elif name == "monitors-incomplete":
        queries = _incomplete("tally")
    monitor = tw.Monitor.from_settings(queries, Settings(**given))
    for part in range(4):
        monitor.push(batch(rng, 40 * part, 38, name))
        if name == "grouped-watermark":
            monitor.release(40 * part * 10**9)
        if name == "monitors-latest":
            monitor.delete([3, 4], by=("north", 1))
    return monitor


def specimen(name: str, rng: np.random.Generator) -> Any:
    """Return the monitor of that name, some rows after an evaluation; queries have come and gone."""
    if name in GROUPED:
        return _grouped(name, rng)
    algorithm, _, kind = name.partition("-")
    window = WINDOWS.get(kind, WINDOWS["time"])
    options: dict[str, Any] = {"every": 7, "time": "t"}
    if kind == "nothing":
        return tw.Monitor(_scored(), window=window, **options)
    queries = _queries(algorithm, window)
    options |= OPTIONS.get(kind, {})
    if kind == "load":
        queries = _preferring()
    if kind == "watermark":
        settings = Settings(window, id="id", **options, watermark=True, order=["source"])
        monitor = tw.Monitor.from_settings(queries, settings)
    else:
        monitor = _far_behind(tw.Monitor(queries, window=window, algorithm=algorithm, **options))
    more = queries[0]
    for part in range(4):
        monitor.push(batch(rng, 40 * part, 38, name))
        if kind == "watermark":
            monitor.release(40 * part * 10**9)
        if kind == "latest":
            monitor.delete([3, 4])
        if part == 1:
            monitor.remove(more.name)
        if part == 2:
            monitor.add(more)
    if kind == "empty":
        monitor.advance(1000.0)
    return monitor
