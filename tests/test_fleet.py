"""A grouped engine says for each group what a monitor of its own would say."""

from __future__ import annotations

import mmap
import os
import resource
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.algorithms.topk.grouped_engine import GroupedEngine, Reported
from topwatch.algorithms.topk.grouped_ids import GroupedIds

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
@pytest.mark.parametrize("unmaterialised", [False, True])
def test_each_group_is_as_a_monitor_of_its_own(
    rng: np.random.Generator, timed: bool, every: int, number: int, unmaterialised: bool
) -> None:
    count, groups = int(rng.integers(200, 900)), int(rng.integers(1, 25))
    size, asked, values = int(rng.integers(1, 60)), queries(rng), rows(rng, count)
    group = rng.integers(0, groups, count)
    time = np.cumsum(rng.integers(0, 20, count)) * 10**9
    window = tw.last(f"{40 * size} s") if timed else tw.last(size)

    def new() -> GroupedEngine:
        indices = {column: index for index, column in enumerate(COLUMNS)}
        return GroupedEngine(
            asked, indices, 0 if timed else size, 40 * size * 10**9 if timed else 0, every, unmaterialised
        )

    engine, monitors = new(), {}
    pushed: list[Any] = []
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
            past=lambda: iter(pushed),
        )
        pushed.append((group[start:stop], pieces))
        order = start + np.argsort(index)
        assert order.tolist() == (start + np.argsort(group[start:stop], kind="stable")).tolist()
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        row_of |= {tick + i: int(row) for i, row in enumerate(order)}
        wanted = []
        for one in group[order][first].tolist():
            if one not in monitors:
                monitors[one] = tw.Monitor(
                    asked, window, every=every, algorithm="brute", time="t" if timed else None, id="id"
                )
            mine = order[group[order] == one]
            batch: dict[str, Any] = {"id": mine, **{c: values[i, mine] for i, c in enumerate(COLUMNS)}}
            if timed:
                batch["t"] = time[mine].astype("datetime64[ns]")
            wanted += [(one, *change) for change in monitors[one].push(batch)]
        assert spelled(result, row_of) == wanted
        if rng.random() < 0.5:
            engine.prepare()
            engine._check()
        if rng.random() < 0.3:
            engine.recall_all(lambda: iter(pushed))
            engine._check()
            saved = {name: array.copy() for name, array in engine.save().items()}
            pushed.clear()
            if rng.random() < 0.7:
                engine = new()
                engine.load(saved)
        start = stop


@pytest.mark.parametrize("size", [3, 100, 700, 1_500, 10_000])
@pytest.mark.parametrize("columns", [1, 4, 6])
def test_long_blocks_and_any_number_of_columns(rng: np.random.Generator, size: int, columns: int) -> None:
    names = [f"c{i}" for i in range(columns)]
    asked = [
        tw.TopK(k=k, score=tw.linear({name: float(rng.normal()) for name in names}), name=f"q{i}")
        for i, k in enumerate((1, 5, 12))
    ]
    engine = GroupedEngine(asked, {name: index for index, name in enumerate(names)}, size, 0, 1)
    monitors = [tw.Monitor(asked, tw.last(size), algorithm="brute") for _ in range(2)]
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


def pushes(rng: np.random.Generator, groups: list[np.ndarray], size: int) -> tuple[GroupedEngine, list[int], list[int]]:
    """Push rows of some groups; return the grouped engine, and after each push how many pages it has used and has
    read again.
    """
    engine = GroupedEngine([tw.TopK(k=2, score=tw.linear(x=1.0), name="q0")], {"x": 0}, size, 0, 1, unmaterialised=True)
    pushed: list[Any] = []
    used, read = [], [0]

    def past() -> Any:
        for group, pieces in pushed:
            read[-1] += group.size
            yield group, pieces

    for group in groups:
        values = rng.random((1, group.size))
        engine.push(group, values, np.empty(0, np.int64), past=past)
        pushed.append((group, [[values[0]]]))
        engine._check()
        used.append(int(engine.pages.free[2]))
        read.append(0)
    return engine, used, read[:-1]


def test_rows_are_away_until_their_window_is_full(rng: np.random.Generator) -> None:
    even = np.repeat(np.arange(5), 10)
    # Group 0 is full in the fourth push, and all others are half full then.
    groups = [even, even, even, np.zeros(10, np.int64), np.ones(5, np.int64), np.full(5, 2), np.full(1, 2)]
    engine, used, read = pushes(rng, groups, 35)
    assert used[:3] == [0, 0, 0]
    assert read == [0, 0, 0, 150, 0, 0, 0]
    assert engine.pages.unmaterialised[:5].tolist() == [0, 0, 0, 0, 0]
    assert engine.live() == 35 + 35 + 35 + 30 + 30
    engine, used, read = pushes(rng, [even, np.zeros(30, np.int64), np.full(26, 1), np.full(20, 2)], 35)
    assert read == [0, 50, 80, 0]
    assert engine.pages.unmaterialised[:5].tolist() == [0, 0, 1, 1, 1]


def test_rows_are_kept_where_windows_fill_all_the_time(rng: np.random.Generator) -> None:
    _, _, read = pushes(rng, [np.repeat([turn, turn + 1], 6) for turn in range(60)], 10)
    assert sum(read) <= 2 * 60 * 12
    assert sum(read[30:]) == 0


@pytest.mark.parametrize("whole", [True, False])
def test_ids_are_found_by_tick(rng: np.random.Generator, whole: bool) -> None:
    ids, known, tick = GroupedIds(), np.empty(0, np.int64), 1
    for turn in range(12):
        count = int(rng.integers(1, 2_000))
        index = rng.permutation(count)
        numbers = rng.integers(0, 1 << 60, count)
        column = pa.chunked_array(np.split(numbers, np.sort(rng.integers(0, count + 1, 2))))
        ids.write_in_order(tick, column if whole else column.cast(pa.string()), index)
        known = np.append(known, np.empty(count, np.int64))
        known[known.size - count + index] = numbers
        tick += count
        if turn == 5:
            gone = np.sort(rng.choice(np.arange(1, tick), 3 * known.size // 4, replace=False))
            ids.keep(np.setdiff1d(np.arange(1, tick), gone))
            live = np.setdiff1d(np.arange(1, tick), gone)
        elif turn < 5:
            live = np.arange(1, tick)
        else:
            live = np.append(live, np.arange(tick - count, tick))
        asked = rng.choice(live, 500)
        assert [int(one) for one in ids.read(asked).to_pylist()] == known[asked - 1].tolist()
        ids.prepare()


def spelled(result: Reported, row_of: dict[int, int]) -> list[tuple[Any, ...]]:
    lines = zip(*(part.tolist() for part in result), strict=True)
    return [
        (group, at, f"q{query}", ("leave", "enter")[op], row_of[tick], score)
        for group, at, query, op, tick, score in lines
    ]


def asks_ahead() -> bool:
    """Tell whether the system takes the advice: Linux from 5.14 on."""
    return sys.platform == "linux" and tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 14)


@pytest.mark.skipif(not asks_ahead(), reason="this system does not find memory ahead")
def test_memory_for_the_next_push_is_there_before_it(rng: np.random.Generator) -> None:
    engine = GroupedEngine([tw.TopK(k=2, score=tw.linear(x=1.0), name="q0")], {"x": 0}, 10_000_000, 0, 1)
    batch = np.repeat(np.arange(64), 4_096), rng.random((1, 64 * 4_096)), np.empty(0, np.int64)
    engine.push(*batch)
    engine.prepare()
    engine._wait()
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    used = int(engine.pages.free[2])
    engine.pages.values[used : 2 * used] = 0.0
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    assert faults < engine.pages.values[used : 2 * used].nbytes // mmap.PAGESIZE // 10
    engine.push(*batch)
    engine._check()


def test_windows_grow_and_pages_come_back(rng: np.random.Generator) -> None:
    engine = GroupedEngine([tw.TopK(k=2, score=tw.linear(x=1.0), name="q0")], {"x": 0}, 10_000, 0, 1)
    total = 0
    for turn in range(6):
        count = 40 * 3**turn
        total += count
        engine.push(np.repeat([0, 5], count // 2), rng.random((1, count)), np.empty(0, np.int64))
        assert engine.live() == engine.live_ticks().size == total, "no window is full yet"
        engine._check()
    for _ in range(20):
        engine.push(rng.choice([0, 5, 7], 3_000), rng.random((1, 3_000)), np.empty(0, np.int64))
        engine._check()
    assert engine.pages.free[2] * 32 < 1.2 * 30_000 + 3_000, "pages of rows that are gone are used again"
