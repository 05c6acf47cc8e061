"""A grouped engine says for each group what a monitor of its own would say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.algorithms.topk.grouped_engine import GroupedEngine, Reported
from topwatch.algorithms.topk.grouped_ids import GroupedIds
from topwatch.algorithms.topk.kernels.pages import PAGE, USED
from topwatch.core.saved_state import Saved

COLUMNS = ["x0", "x1", "x2"]


def queries(rng: np.random.Generator) -> list[tw.TopK]:
    result = []
    for i in range(int(rng.integers(1, 5))):
        make = [tw.linear, tw.quadratic, tw.distance][rng.integers(0, 3)]
        score = make({column: float(rng.normal()) for column in COLUMNS})
        where = {"x0": (0.1, 0.9)} if rng.random() < 0.2 else {}
        result.append(tw.TopK(k=int(rng.integers(1, 12)), score=score, name=f"q{i}", where=where))
    return result


def rows(rng: np.random.Generator, count: int) -> np.ndarray:
    values = rng.random((3, count)) if rng.random() < 0.6 else rng.integers(0, 4, (3, count)).astype(float)
    values[rng.random(values.shape) < 0.02] = np.nan
    return values


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("number", range(4))
def test_each_group_is_as_a_monitor_of_its_own(rng: np.random.Generator, timed: bool, every: int, number: int) -> None:
    count, groups = int(rng.integers(200, 900)), int(rng.integers(1, 25))
    size, chosen, values = int(rng.integers(1, 60)), queries(rng), rows(rng, count)
    group = rng.integers(0, groups, count)
    time = np.cumsum(rng.integers(0, 20, count)) * 10**9
    window = tw.last(f"{40 * size} s") if timed else tw.last(size)

    def new() -> GroupedEngine:
        indices = {column: index for index, column in enumerate(COLUMNS)}
        return GroupedEngine(chosen, indices, 0 if timed else size, 40 * size * 10**9 if timed else 0, every)

    engine, monitors = new(), {}
    row_of: dict[int, int] = {}
    start = 0
    while start < count:
        stop = min(count, start + int(rng.integers(1, 300)))
        tick = engine.tick + 1
        columns = np.ascontiguousarray(values[:, start:stop])
        cuts = np.sort(rng.integers(0, stop - start + 1, int(rng.integers(0, 3))))
        pieces = [np.split(column, cuts) for column in columns]
        index, result = engine.push(
            group[start:stop],
            pieces if cuts.size else columns,
            time[start:stop] if timed else np.empty(0, np.int64),
        )
        order = start + np.argsort(group[start:stop], kind="stable")
        assert np.sort(index).tolist() == list(range(stop - start)), "each row has a tick of its own"
        ticks = index[order - start]
        assert np.all((np.diff(ticks) > 0) | (np.diff(group[order]) > 0)), "rows of a group are in order"
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        row_of |= {tick + i: int(row) for i, row in zip(ticks.tolist(), order, strict=True)}
        wanted = []
        for one in group[order][first].tolist():
            if one not in monitors:
                monitors[one] = tw.Monitor(
                    chosen, window, every=every, algorithm="brute", time="t" if timed else None, id="id"
                )
            mine = order[group[order] == one]
            batch: dict[str, Any] = {"id": mine, **{c: values[i, mine] for i, c in enumerate(COLUMNS)}}
            if timed:
                batch["t"] = time[mine].astype("datetime64[ns]")
            wanted += [(one, *change) for change in monitors[one].push(batch)]
        assert spelled(result, row_of) == wanted
        engine._check()
        if rng.random() < 0.3:
            saved = Saved(engine.save())
            engine = new()
            engine.load(saved, groups)
            saved.done()
        start = stop


@pytest.mark.parametrize("size", [3, 100, 700, 1_500, 10_000])
@pytest.mark.parametrize("columns", [1, 4, 6])
def test_long_blocks_and_any_number_of_columns(rng: np.random.Generator, size: int, columns: int) -> None:
    names = [f"c{i}" for i in range(columns)]
    chosen = [
        tw.TopK(k=k, score=tw.linear({name: float(rng.normal()) for name in names}), name=f"q{i}")
        for i, k in enumerate((1, 5, 12))
    ]
    engine = GroupedEngine(chosen, {name: index for index, name in enumerate(names)}, size, 0, 1)
    monitors = [tw.Monitor(chosen, tw.last(size), algorithm="brute") for _ in range(2)]
    row_of: dict[int, int] = {}
    for _ in range(3):
        values, group = rng.integers(0, 50, (columns, 1_400)).astype(float), rng.integers(0, 2, 1_400)
        tick = engine.tick + 1
        index, result = engine.push(group, values, np.empty(0, np.int64))
        row_of |= {tick + int(to): row for row, to in enumerate(index)}
        wanted = []
        for one, monitor in enumerate(monitors):
            mine = np.flatnonzero(group == one)
            batch = {"id": mine, **{name: values[i, mine] for i, name in enumerate(names)}}
            wanted += [(one, *change[:3], change.score) for change in monitor.push(batch)]
        assert [(*line[:4], line[5]) for line in spelled(result, row_of)] == wanted
        engine._check()


@pytest.mark.parametrize("whole", [True, False])
def test_ids_are_looked_up_by_tick(rng: np.random.Generator, whole: bool) -> None:
    ids, known, tick = GroupedIds(), np.empty(0, np.int64), 1
    for cycle in range(12):
        count = int(rng.integers(1, 2_000))
        index = rng.permutation(count)
        numbers = rng.integers(0, 1 << 60, count)
        column = pa.chunked_array(np.split(numbers, np.sort(rng.integers(0, count + 1, 2))))
        ids.write_in_order(tick, column if whole else column.cast(pa.string()), index)
        known = np.append(known, np.empty(count, np.int64))
        known[known.size - count + index] = numbers
        tick += count
        if cycle == 5:
            gone = np.sort(rng.choice(np.arange(1, tick), 3 * known.size // 4, replace=False))
            ids.keep(np.setdiff1d(np.arange(1, tick), gone))
            live = np.setdiff1d(np.arange(1, tick), gone)
        elif cycle < 5:
            live = np.arange(1, tick)
        else:
            live = np.append(live, np.arange(tick - count, tick))
        chosen = rng.choice(live, 500)
        assert [int(one) for one in ids.read(chosen).to_pylist()] == known[chosen - 1].tolist()


def spelled(result: Reported, row_of: dict[int, int]) -> list[tuple[Any, ...]]:
    lines = zip(*(part.tolist() for part in result), strict=True)
    return [
        (group, at, f"q{query}", ("leave", "enter")[op], row_of[tick], score)
        for group, at, query, op, tick, score in lines
    ]


def test_windows_grow_and_pages_come_back(rng: np.random.Generator) -> None:
    engine = GroupedEngine([tw.TopK(k=2, score=tw.linear(x=1.0), name="q0")], {"x": 0}, 10_000, 0, 1)
    total = 0
    for cycle in range(6):
        count = 40 * 3**cycle
        total += count
        engine.push(np.repeat([0, 5], count // 2), rng.random((1, count)), np.empty(0, np.int64))
        assert engine.live() == engine.live_ticks().size == total, "no window is full yet"
        engine._check()
    for _ in range(20):
        engine.push(rng.choice([0, 5, 7], 3_000), rng.random((1, 3_000)), np.empty(0, np.int64))
        engine._check()
    assert engine.pages.free[USED] * PAGE < 1.2 * 30_000 + 3_000, "pages of rows that are gone are used again"
