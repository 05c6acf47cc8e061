"""The grouped engine: for each group it reports what a monitor of its own would report."""

from __future__ import annotations

from typing import Any

import numpy as np

import topwatch as tw
from tests.fuzz.cases import Case, Target
from tests.fuzz.random_queries import COMMON, ODD, pick
from topwatch.algorithms.topk.grouped_engine import GroupedEngine
from topwatch.core.saved_state import Saved

COLUMNS = ("x0", "x1", "x2")
MAKERS = {"linear": tw.linear, "quadratic": tw.quadratic, "distance": tw.distance, "product": tw.product}


def make(rng: np.random.Generator) -> Case:
    queries = []
    for number in range(int(rng.integers(1, 4))):
        weights = {name: float(pick(rng, [1.0, -1.0, 0.5, 0.0, 2.0])) for name in COLUMNS}
        where = {"x0": [0.25, 1.0]} if rng.random() < 0.2 else {}
        queries.append(
            [f"q{number}", pick(rng, ["linear", "quadratic", "distance"]), weights, int(rng.integers(1, 8)), where]
        )
    shape, groups, clock = pick(rng, ["ties", "uniform", "odd"]), int(pick(rng, [1, 3, 20])), 0
    steps: list[Any] = []
    for _ in range(int(rng.integers(1, 9))):
        count = int(pick(rng, [1, 3, 20, 80]))
        pauses = rng.integers(0, 20, count) * (rng.random(count) < 0.7)
        rows = {"group": rng.integers(0, groups, count).tolist(), "time": (clock + np.cumsum(pauses)).tolist()}
        clock = rows["time"][-1]
        for name in COLUMNS:
            values = [float(pick(rng, COMMON if shape == "ties" or rng.random() < 0.8 else ODD)) for _ in range(count)]
            rows[name] = rng.random(count).tolist() if shape == "uniform" else values
        steps.append(
            [
                rows,
                bool(rng.random() < 0.3),
                sorted(rng.integers(0, count + 1, int(rng.integers(0, 3))).tolist()),
            ]
        )
    return {
        "queries": queries,
        "size": int(pick(rng, [1, 2, 5, 30])),
        "timed": bool(rng.random() < 0.5),
        "every": int(pick(rng, [1, 1, 3, 7])),
        "steps": steps,
    }


def run(case: Case) -> None:
    queries = [
        tw.TopK(k=k, score=MAKERS[kind](weights), name=name, where={c: tuple(r) for c, r in where.items()})
        for name, kind, weights, k, where in case["queries"]
    ]
    names = [query.name for query in queries]
    timed, size, every = case["timed"], case["size"], case["every"]
    window = tw.last(f"{size} seconds") if timed else tw.last(size)

    def new() -> GroupedEngine:
        indices = {column: index for index, column in enumerate(COLUMNS)}
        return GroupedEngine(queries, indices, 0 if timed else size, size * 10**9 if timed else 0, every)

    engine, monitors, row_of, seen = new(), {}, {}, 0
    for rows, save, cuts in case["steps"]:
        group, time = np.array(rows["group"]), np.array(rows["time"], dtype=np.int64) * 10**9
        values = np.array([rows[name] for name in COLUMNS], dtype=float)
        cuts = [cut for cut in cuts if cut <= group.size]
        pieces = [np.split(column, cuts) for column in values]
        tick = engine.tick + 1
        index, result = engine.push(
            group,
            pieces if cuts else values,
            time if timed else np.empty(0, np.int64),
        )
        assert np.sort(index).tolist() == list(range(group.size)), "each row gets a tick"
        row_of |= {tick + int(number): seen + row for row, number in enumerate(index)}
        wanted: list[Any] = []
        for one in np.unique(group).tolist():
            mine = np.flatnonzero(group == one)
            assert np.all(np.diff(index[mine]) > 0), "rows of a group are taken as they came"
            monitor = monitors.setdefault(one, _monitor(queries, window, every, timed))
            batch: dict[str, Any] = {"id": seen + mine, **{name: values[i, mine] for i, name in enumerate(COLUMNS)}}
            batch |= {"t": time[mine].astype("datetime64[ns]")} if timed else {}
            wanted += [(one, *change) for change in monitor.push(batch)]
        lines = zip(*(part.tolist() for part in result), strict=True)
        got = [(g, at, names[q], ("leave", "enter")[op], row_of[t], score) for g, at, q, op, t, score in lines]
        assert got == wanted, f"after {seen} rows:\n  got      {got[:5]}\n  expected {wanted[:5]}"
        seen += group.size
        engine._check()
        if save:
            saved = Saved(engine.save())
            engine = new()
            engine.load(saved, 20)


def _monitor(queries: list[tw.TopK], window: Any, every: int, timed: bool) -> tw.Monitor:
    return tw.Monitor(queries, window, every=every, algorithm="brute", time="t" if timed else None)


TARGET = Target("groups", make, run, short=15)
