"""A bucket that is read again from its segments goes on as if it had stayed warm; no Spark is needed for that."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from tests.support import specs
from tests.support.specs import references
from topwatch.spark.operator import stateful as keeping
from topwatch.spark.operator.stateful import StatefulOperator, Task
from topwatch.spark.planner import Spec
from topwatch.spark.state.backends import FolderBackend
from topwatch.spark.state.manifest import Manifest
from topwatch.spark.state.segments import Folder


def spec_of(window: Any, every: int = 1, **given: Any) -> Spec:
    return specs.spec_of(window=window, every=every, **{"algorithm": "reserve", "retain": 2, **given})


@pytest.mark.parametrize("number", range(8))
def test_cold_and_warm_say_the_same(
    rng: np.random.Generator, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "MANY", int(rng.choice([4, 256])))
    monkeypatch.setattr(keeping, "LEAST_REPLAY", 100)
    size, every = int(rng.integers(1, 300)), int(rng.choice([1, 7, 50]))
    spec = spec_of(tw.last(size) if number % 4 else tw.latest(), every)
    folder = Folder(str(tmp_path))
    operator = StatefulOperator(spec, number, FolderBackend(folder, number, every=1))
    monitor = tw.Monitor(list(spec.queries), spec.settings.window, every=every, algorithm="brute")
    state, rows, most = None, 0, 0
    for batch in range(60):
        count = int(rng.integers(1, 60))
        table = pa.table({"id": np.arange(rows, rows + count), "x": rng.random(count).round(2)})
        rows += count
        half = count // 2
        lines = references(folder, batch, [table.slice(0, half), table.slice(half)])
        if rng.random() < 0.3:
            keeping._warm.clear()
        done = operator.advance(Task(state, lines))
        operator.publish(done)
        state = done.state
        result = [tuple(row.values()) for row in done.result.to_pylist()]
        assert result == [tuple(change) for change in monitor.push(table)]
        manifest = Manifest.from_bytes(state)
        most = max(most, len(manifest.log))
        assert {path.name for path in tmp_path.glob("*.seg")} >= manifest.names()
        if spec.replayable:
            assert manifest.base is not None or manifest.rows < spec.replayable + 60 or manifest.skipped == 0
    assert most <= 60
    held = sum(1 for _ in tmp_path.glob("*.seg"))
    assert held <= most + 10, "segments of rows that are gone are removed"
    keeping._warm.clear()


@pytest.mark.parametrize(
    ("algorithm", "options"), [("ahba", {}), ("amsa", {}), ("pa", {"max_error": 0.5}), ("pa", {"sigma": 0.5})], ids=str
)
def test_approximate_answers_do_not_depend_on_restarts(
    rng: np.random.Generator, tmp_path: Path, algorithm: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their state has a history: what was reported last is kept with it, and what follows is the same cold and warm."""
    monkeypatch.setattr(keeping, "MANY", 8)
    query = tw.Dominating(k=3, prefer={"x": "max", "y": "max"}, name="top")
    query = tw.TopK(k=3, score=tw.linear(x=1.0, y=1.0), name="top") if algorithm == "pa" else query
    tables = [
        pa.table({"id": np.arange(20 * i, 20 * i + 20), **{c: rng.random(20).round(1) for c in "xy"}})
        for i in range(40)
    ]
    results, bytes_of = [], []
    for restarts in (0.0, 0.5, 1.0):
        folder = Folder(str(tmp_path / str(restarts)))
        spec = specs.spec_of(query, tw.last(50), every=3, algorithm=algorithm, options=options, segments=folder.uri)
        operator = StatefulOperator(spec, 0, FolderBackend(folder, 0))
        state, result, answer = None, [], set()
        for batch, table in enumerate(tables):
            if rng.random() < restarts:
                keeping._warm.clear()
            done = operator.advance(Task(state, references(folder, batch, [table])))
            operator.publish(done)
            state, lines = done.state, done.result.to_pylist()
            result += lines
        for line in result:
            assert (line["id"] in answer) == (line["op"] == "leave"), "what leaves has entered"
            answer ^= {line["id"]}
        results.append(result)
        bytes_of.append(Manifest.from_bytes(state).base is not None)
    assert results[0] == results[1] == results[2]
    assert all(bytes_of), "there has been a snapshot"
    keeping._warm.clear()


def test_a_slow_trigger_leaves_the_other_buckets_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(keeping.time, "monotonic", lambda: now)
    monkeypatch.setattr(keeping, "_warm", {})
    folder = Folder(str(tmp_path))
    operators = [StatefulOperator(spec_of(tw.last(10)), bucket, FolderBackend(folder, bucket)) for bucket in range(4)]
    states: list[bytes | None] = [None] * 4
    for batch in range(3):
        for bucket, operator in enumerate(operators):
            state = states[bucket]
            assert batch == 0 or operator.warm(Manifest.from_bytes(state))
            states[bucket] = operator.advance(Task(state, [])).state
        now += 300.0
    while len(keeping._warm) > 1:  # the others' query has stopped
        now += 20.0
        assert now < 3000.0
        states[0] = operators[0].advance(Task(states[0], [])).state


def test_a_state_that_was_made_for_other_queries_is_refused(tmp_path: Path) -> None:
    backend = FolderBackend(Folder(str(tmp_path)), 0)
    state = StatefulOperator(spec_of(tw.last(10), 1), 0, backend).advance(Task(None, [])).state
    StatefulOperator(spec_of(tw.last(10), 1), 0, backend).advance(Task(state, []))
    spec = spec_of(tw.last(10), 1)
    changed = [{"order": ("x",)}, {"types": ("bigint", "string")}, {"by": "g"}, {"watermark": True, "time": "t"}]
    others = [spec_of(tw.last(11), 1), *(spec_of(tw.last(10), 1, **change) for change in changed)]
    for other in others:
        with pytest.raises(tw.DataError, match="state: the checkpoint was begun with other queries"):
            StatefulOperator(other, 0, backend).advance(Task(state, []))
    with pytest.raises(tw.DataError, match=r"begun with spark.sql.shuffle.partitions=1 and cannot go on with 2"):
        StatefulOperator(dataclasses.replace(spec, buckets=(0, 1)), 0, backend).advance(Task(state, []))
    keeping._warm.clear()


def test_buckets_that_nothing_comes_for_are_released(tmp_path: Path) -> None:
    spec, folder = spec_of(tw.last(10), 1), Folder(str(tmp_path))
    rows = [pa.table({"id": [1, 2], "x": [3.0, 1.0]}), pa.table({"id": [3], "x": [2.0]})]
    operator = StatefulOperator(spec, 0, FolderBackend(folder, 0))
    done = operator.advance(Task(None, references(folder, 0, rows[:1])))
    manifest = Manifest.from_bytes(done.state)
    keeping.forget(idle=60.0)
    assert operator.warm(manifest)
    keeping.forget(idle=-1.0)
    assert not operator.warm(manifest)
    result = operator.advance(Task(done.state, references(folder, 1, rows[1:]))).result
    assert result.select(["at", "op", "id"]).to_pylist() == [{"at": 3, "op": "enter", "id": 3}]


def test_a_micro_batch_that_is_run_again_begins_with_the_version_before(tmp_path: Path) -> None:
    """Also where the first attempt has got to its end, and in the same worker."""
    spec, folder = spec_of(tw.last(10), 1), Folder(str(tmp_path))
    operator = StatefulOperator(spec, 0, FolderBackend(folder, 0))
    first = operator.advance(Task(None, references(folder, 0, [pa.table({"id": [1], "x": [3.0]})])))
    again = Task(first.state, references(folder, 1, [pa.table({"id": [2], "x": [4.0]})]))
    result = [operator.advance(again).result for _ in range(3)]
    assert result[0].num_rows == 1
    assert result[0] == result[1] == result[2]
    with pytest.raises(tw.DataError, match=r"has the rows of 0000001-p00000-.* already"):
        operator.advance(Task(operator.advance(again).state, again.references))
    keeping._warm.clear()
