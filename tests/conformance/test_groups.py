"""``Monitor(by=...)`` says of each group what a monitor of its own would say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.monitor.stream_settings import Settings

Rows = dict[str, Any]

TOP = [
    tw.TopK(k=3, score=tw.linear(x=1.0, y=-0.5), name="top"),
    tw.Nearest(k=2, point={"x": 1.0, "y": 2.0}, name="near", where={"y": (0.0, 3.0)}),
]
KINDS: dict[str, list[Any]] = {
    "top": TOP,
    "threshold": [tw.Threshold(score=tw.linear(x=1.0), above=2.0, name="above")],
    "dominating": [tw.Dominating(k=3, prefer={"x": "max", "y": "min"}, name="beats")],
    "skyline": [tw.Skyline(prefer={"x": "max", "y": "max"}, name="front"), TOP[0]],
}
STREAMS: dict[str, dict[str, Any]] = {
    "rows": {"window": tw.last(7)},
    "rows, every 3": {"window": tw.last(7), "every": 3},
    "rows with times": {"window": tw.last(5), "time": "t"},
    "time": {"window": tw.last("20 s"), "time": "t"},
    "time, every 7 s": {"window": tw.last("20 s"), "time": "t", "every": "7 s"},
    "latest": {"window": tw.latest()},
    "first": {"window": tw.last(7), "emit": "first"},
    "no ids": {"window": tw.last(7), "id": None},
}
KEYS: dict[str, Callable[[np.random.Generator, int], Rows]] = {
    "words": lambda rng, n: {"g": pa.array([[None, "a", "b", "c"][i] for i in rng.integers(0, 4, n)], pa.string())},
    "whole numbers": lambda rng, n: {"g": rng.integers(-2, 3, n)},
    "odd numbers": lambda rng, n: {"g": np.array([math.nan, 0.0, -0.0, math.inf])[rng.integers(0, 4, n)]},
    "two columns": lambda rng, n: {
        "g": rng.integers(0, 2, n),
        "h": pa.array([["u", "v"][i] for i in rng.integers(0, 2, n)]),
    },
}


def rows(rng: np.random.Generator, keys: str, count: int, first: int, clock: float) -> Rows:
    values = rng.integers(0, 4, (2, count)).astype(float)
    values[rng.random(values.shape) < 0.05] = np.nan
    times = clock + np.cumsum(rng.integers(0, 3, count)).astype(float)
    ids = rng.integers(0, 30, count)
    return {**KEYS[keys](rng, count), "id": ids, "t": times, "x": values[0], "y": values[1]}


def groups_of(batch: Rows, by: list[str]) -> dict[Any, np.ndarray]:
    """Return the rows of each group, in plain Python."""
    columns = [batch[name].to_pylist() if isinstance(batch[name], pa.Array) else batch[name].tolist() for name in by]
    indices: dict[Any, list[int]] = {}
    for row, key in enumerate(zip(*columns, strict=True)):
        key = tuple("NaN" if value != value else value for value in key)  # NaN is a group
        indices.setdefault(key, []).append(row)
    return {key: np.array(rows) for key, rows in indices.items()}


def part(batch: Rows, indices: np.ndarray) -> Rows:
    return {
        name: column.take(pa.array(indices)) if isinstance(column, pa.Array) else column[indices]
        for name, column in batch.items()
    }


def reported(changes: tw.Changes) -> dict[Any, list[str]]:
    """Return the changes of each group, without the group."""
    result: dict[Any, list[str]] = {}
    for change in changes:
        key = change.by if isinstance(change.by, tuple) else (change.by,)
        key = tuple("NaN" if value != value else value for value in key)
        result.setdefault(key, []).append(repr(tw.Change(*change)))
    return result


class Pair:
    """A monitor with groups, and one for each group."""

    def __init__(self, kind: str, stream: str, keys: str) -> None:
        self.by = ["g", "h"] if keys == "two columns" else ["g"]
        self._make = lambda **more: tw.Monitor(KINDS[kind], **STREAMS[stream], **more)
        self.grouped = self._make(by=self.by)
        self.alone: dict[Any, tw.Monitor] = {}

    def push(self, batch: Rows) -> None:
        wanted: dict[Any, list[str]] = {}
        for key, indices in groups_of(batch, self.by).items():
            mine = self.alone.setdefault(key, self._make())
            changes = [repr(change) for change in mine.push(part(batch, indices))]
            if changes:
                wanted[key] = changes
        assert reported(self.grouped.push(batch)) == wanted
        self.check()

    def check(self) -> None:
        self.grouped._check()
        for query in self.grouped.queries:
            answers = self.grouped.answers(query.name)
            for key, answer in answers.items():
                key = key if isinstance(key, tuple) else (key,)
                alone = self.alone[tuple("NaN" if value != value else value for value in key)]
                assert list(answer) == list(alone.answer(query.name))
                assert [line[:2] for line in self.grouped.lines(query.name, by=key if len(key) > 1 else key[0])] == [
                    line[:2] for line in alone.lines(query.name)
                ]
        counted = ("rows", "live", "evaluations", "changes", "skipped")
        stats = [monitor.stats() for monitor in self.alone.values()]
        mine = self.grouped.stats()
        assert {name: mine[name] for name in counted} == {name: sum(s[name] for s in stats) for name in counted}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_group_is_as_a_monitor_of_its_own(kind: str, stream: str, keys: str, rng: np.random.Generator) -> None:
    if stream == "no ids" and keys != "words":
        pytest.skip("once is enough")
    pair, clock = Pair(kind, stream, keys), 0.0
    for step in range(7):
        batch = rows(rng, keys, int(rng.integers(1, 40)), 0, clock)
        clock = float(batch["t"][-1])
        pair.push(batch)
        if step == 2:
            pair.grouped = tw.Monitor.restore(pair.grouped.snapshot())
        if step == 4 and "time" in STREAMS[stream]:
            clock += 5.0
            wanted = {key: [repr(change) for change in one.advance(clock)] for key, one in pair.alone.items()}
            assert reported(pair.grouped.advance(clock)) == {key: changes for key, changes in wanted.items() if changes}
            pair.check()


@pytest.mark.parametrize("stream", ["rows", "rows, every 3", "rows with times", "time", "latest"])
def test_queries_come_and_go(stream: str, rng: np.random.Generator) -> None:
    pair = Pair("top", stream, "words")
    more = tw.Skyline(prefer={"x": "min", "z": "max"}, name="more")
    clock = 0.0
    for step in range(8):
        batch = rows(rng, "words", int(rng.integers(1, 40)), 0, clock)
        batch["z"] = rng.integers(0, 4, len(batch["x"])).astype(float)
        clock = float(batch["t"][-1])
        if step == 3:
            wanted = {key: [repr(change) for change in one.add(more)] for key, one in pair.alone.items()}
            assert reported(pair.grouped.add(more)) == {key: changes for key, changes in wanted.items() if changes}
            pair._make = lambda make=pair._make, **names: with_query(make(**names), more)
        if step == 6:
            for monitor in (pair.grouped, *pair.alone.values()):
                monitor.remove("top")
            pair._make = lambda make=pair._make, **names: without_query(make(**names), "top")
        pair.push(batch)
    assert "a monitor for each group" in pair.grouped.explain()


def with_query(monitor: tw.Monitor, query: Any) -> tw.Monitor:
    monitor.add(query)
    return monitor


def without_query(monitor: tw.Monitor, name: str) -> tw.Monitor:
    monitor.remove(name)
    return monitor


@pytest.mark.parametrize("kind", KINDS)
def test_late_rows_wait_together(kind: str, rng: np.random.Generator) -> None:
    """With ``lateness`` all rows wait in one buffer; the groups then see them in order."""
    settings: dict[str, Any] = {"window": tw.last(6), "time": "t"}
    plain = tw.Monitor(KINDS[kind], by="g", **settings)
    waiting = tw.Monitor(KINDS[kind], by="g", lateness="10 s", **settings)
    batches = []
    clock = 0.0
    for _ in range(6):
        batches.append(rows(rng, "words", 20, 0, clock))
        clock = float(batches[-1]["t"][-1])
    everything = {
        name: pa.concat_arrays([b[name] for b in batches])
        if name == "g"
        else np.concatenate([b[name] for b in batches])
        for name in batches[0]
    }
    jitter = np.argsort(everything["t"] + rng.random(everything["t"].size) * 5.0, kind="stable")
    in_order = jitter[np.argsort(everything["t"][jitter], kind="stable")]
    wanted = reported(plain.push(part(everything, in_order)))
    result: dict[Any, list[str]] = {}
    for cut in np.array_split(jitter, 5):
        for key, changes in reported(waiting.push(part(everything, cut))).items():
            result.setdefault(key, []).extend(changes)
        waiting = tw.Monitor.restore(waiting.snapshot())
    for key, changes in reported(waiting.advance(clock + 100.0)).items():
        result.setdefault(key, []).extend(changes)
    assert result == wanted
    assert waiting.stats()["late"] == 0


def test_a_refused_batch_changes_nothing() -> None:
    m = tw.Monitor(TOP[0], window=tw.last(3), by="g", time="t")
    m.push({"g": ["a"], "id": [1], "t": [5.0], "x": [1.0], "y": [0.0]})
    before = m.snapshot()
    with pytest.raises(tw.DataError, match="goes back from 5 to 4 at row 0 of the group 'a'"):
        m.push({"g": ["new", "a"], "id": [1, 2], "t": [5.0, 4.0], "x": [1.0, 1.0], "y": [0.0, 0.0]})
    with pytest.raises(tw.DataError, match="by column 'g'"):
        m.push({"g": [1, 2], "id": [1, 2], "t": [5.0, 6.0], "x": [1.0, 1.0], "y": [0.0, 0.0]})
    assert m.snapshot() == before
    assert m.groups == ["a"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"by": ""}, "by: expected"),
        ({"by": []}, "by: expected"),
        ({"by": ["g", "g"]}, "names of columns that differ"),
        ({"by": 3}, "by: expected"),
        ({"by": "g", "max_lag": "1 s", "time": "t"}, "max_lag"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(tw.QueryError, match=message):
        tw.Monitor(KINDS["dominating"], window=tw.last(3), **settings)


def test_a_group_has_to_be_named_and_known() -> None:
    m = tw.Monitor(TOP[0], window=tw.last(3), by="g")
    with pytest.raises(tw.DataError, match=r"column 'g' \(a by column\) is missing"):
        m.push({"id": [1], "x": [1.0], "y": [1.0]})
    m.push({"g": ["a"], "id": [1], "x": [1.0], "y": [1.0]})
    with pytest.raises(tw.QueryError, match="say which, by="):
        m.answer("top")
    with pytest.raises(tw.QueryError, match="there is no group 'b'"):
        m.answer("top", by="b")
    assert m.why(1, by="a").answer
    assert m.plan.grouping == "grouped engine"


def test_the_first_timestamps(rng: np.random.Generator) -> None:
    """A window that reaches back to before the earliest time of 64 bits holds all rows, as it would at another time."""
    batch = rows(rng, "words", 60, 0, 0.0)
    seconds = (batch["t"] * 1e9).astype("timedelta64[ns]")
    result = []
    for start in ("1677-09-21T00:12:44", "2024-02-29T23:59:59"):
        settings = Settings(tw.last("20 s"), id="id", time="t", by="g", only_rows=True)
        m = tw.Monitor.from_settings(TOP, settings)
        assert m.plan.grouping == "grouped engine"
        result.append(reported(m.push({**batch, "t": np.datetime64(start, "ns") + seconds})))
    assert result[0] == result[1] != {}


@pytest.mark.parametrize("query", [TOP[0], KINDS["skyline"][0]], ids=["grouped engine", "monitors"])
@pytest.mark.parametrize("stamped", [False, True])
def test_a_group_whose_rows_all_wait(query: Any, stamped: bool) -> None:
    """It comes before a group of which rows have been released, and a query is added then."""
    times = np.array([9.0, 5.0, 11.0, 12.0])
    m = tw.Monitor(query, tw.last(3), time="t", by="g", lateness="4 s")
    batch = {"g": ["waits", "b", "b", "b"], "id": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0], "y": np.zeros(4)}
    m.push({**batch, "t": times.astype("datetime64[s]") if stamped else times})
    assert {key: len(answer) for key, answer in m.answers(query.name).items()} == {"waits": 0, "b": 1}
    assert not m.why(1, by="waits").answer
    m = tw.Monitor.restore(m.snapshot())
    m.add(tw.TopK(k=1, score=tw.linear(x=-1.0), name="least"))
    m = tw.Monitor.restore(m.snapshot())
    m.advance(np.datetime64(20, "s") if stamped else 20.0)
    assert [len(answer) for answer in m.answers("least").values()] == [1, 1]


def test_a_group_of_which_all_rows_wait_comes_alone() -> None:
    m = tw.Monitor(KINDS["skyline"][0], tw.last(3), time="t", by="g", lateness="4 s")
    m.push({"g": ["a"], "id": [1], "x": [1.0], "y": [1.0], "t": [9.0]})
    assert m.answers() == {"a": []}
    m = tw.Monitor.restore(m.snapshot())
    m.add(TOP[0])
    assert [change.query for change in m.advance(9.0)] == ["front", "top"]
