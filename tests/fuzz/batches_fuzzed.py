"""Batches of odd types: taken, or refused by our own error and then without a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import topwatch as tw
from tests.fuzz.cases import Case, Target
from tests.fuzz.columns_fuzzed import COLUMNS, GOOD
from tests.fuzz.random_queries import pick

HOLDERS = ["dict", "dict", "dict", "table", "batch", "pandas", "polars", "rows", "rows", "other"]
OTHERS = ["number", "none", "word", "lists", "records", "pandas", "arrow", "two-dimensions", "mappings", "generator"]
WINDOWS = ["rows", "time", "latest"]
IDS = ["int64", "text", "uint64", "float64", "arrow-large-text"]
TIMES = ["float64", "int64", "stamps", "arrow-stamps"]


def make(rng: np.random.Generator) -> Case:
    window = pick(rng, WINDOWS)
    usual = {"id": pick(rng, IDS), "t": pick(rng, TIMES), "x": "float64", "y": "float64"}
    if rng.random() < 0.2:
        usual["source"] = "digits"
    steps: list[Any] = []
    for _ in range(int(rng.integers(1, 8))):
        columns = dict(usual)
        for name in columns:
            if rng.random() < 0.25:
                columns[name] = pick(rng, list(COLUMNS))
            elif name in "xy":
                columns[name] = pick(rng, GOOD)
        if rng.random() < 0.1:
            del columns[pick(rng, list(columns))]
        verb = pick(rng, ["push", "push", "push", "push", "delete", "advance", "why"])
        what = columns if verb == "push" else pick(rng, list(COLUMNS) if rng.random() < 0.6 else [usual["id"]])
        steps.append([verb, pick(rng, HOLDERS), what, int(pick(rng, [0, 1, 2, 5, 20])), float(rng.integers(0, 50))])
    return {"window": window, "source": "source" in usual, "steps": steps}


def monitor(case: Case) -> tw.Monitor:
    queries: list[Any] = [
        tw.TopK(k=3, score=tw.linear(x=1.0, y=0.5), name="q0"),
        tw.Skyline({"x": "max", "y": "min"}, name="q1"),
    ]
    if case["source"] and case["window"] != "latest":
        queries.append(tw.IncompleteTopK(k=2, sources=["0", "1"], value="x", name="q2"))
    windows = {"rows": tw.last(7), "time": tw.last("10 seconds"), "latest": tw.latest()}
    return tw.Monitor(queries, windows[case["window"]], time="t" if case["window"] == "time" else None)


def run(case: Case) -> None:
    watched, twin = monitor(case), monitor(case)
    for step in case["steps"]:
        before = state(watched)
        try:
            changes = tuple(do(watched, step))
        except tw.TopwatchError as error:
            message = str(error)
            assert "\n" not in message, f"more than a line: {message!r}"
            assert 10 < len(message) < 4000, f"{len(message)} characters: {message[:80]}"
            assert state(watched) == before, f"{message}: but something has changed"
            continue
        except _NotMadeError:
            continue
        assert repr(tuple(do(twin, step))) == repr(changes), "a refused batch has left a trace"
        watched._check()
    assert state(watched) == state(twin)


def state(watched: tw.Monitor) -> Any:
    stats = {name: value for name, value in watched.stats().items() if name != "bytes"}
    return stats, watched.now, [repr(watched.answer(query.name)) for query in watched.queries]


class _NotMadeError(Exception):
    """Other libraries refuse to make such a batch."""


def do(watched: tw.Monitor, step: list[Any]) -> Any:
    verb, holder, what, size, clock = step
    if verb == "push":
        return watched.push(_held(holder, what, size, clock))
    value = _made(COLUMNS[what], size)
    if verb == "delete":
        return watched.delete(value)
    if verb == "why":
        str(watched.why(_first(value), "q0"))
        return []
    return watched.advance(_first(value))


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, np.ndarray | list | tuple) and np.ndim(value) == 1 and len(value) else value


def _made(make: Any, *what: Any) -> Any:
    try:
        return make(*what)
    except BaseException as error:  # polars panics, too
        raise _NotMadeError from error


def _held(holder: str, kinds: dict[str, str], size: int, clock: float) -> Any:
    if holder == "other":
        return _made(COLUMNS[OTHERS[int(clock) % len(OTHERS)]], size)
    columns = {name: _made(COLUMNS[kind], size) for name, kind in kinds.items()}
    if isinstance(columns.get("t"), np.ndarray) and kinds["t"] == "float64":
        columns["t"] = columns["t"] + clock
    return columns if holder == "dict" else _made(_MAKERS[holder], columns)


def _table(columns: dict[str, Any]) -> pa.Table:
    return pa.table({name: _arrow(column) for name, column in columns.items()})


def _arrow(column: Any) -> Any:
    return column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)


def _rows(columns: dict[str, Any]) -> Any:
    """Rows, of which one in five lacks its last column; a single one is no list."""
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for row in rows[4::5]:
        row.popitem()
    return rows[0] if len(rows) == 1 else rows


_MAKERS = {
    "rows": _rows,
    "table": _table,
    "batch": lambda columns: _table(columns).combine_chunks().to_batches()[0],
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
}
TARGET = Target("batches", make, run, short=100)
