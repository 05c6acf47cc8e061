"""A bucket that is read again from its segments goes on as if it had stayed warm; no Spark is needed for that."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.spark.operator import stateful as keeping
from topwatch.spark.operator.partition_writer import ROWS
from topwatch.spark.operator.stateful import StatefulOperator, Task
from topwatch.spark.state.backends import FolderBackend
from topwatch.spark.state.manifest import Manifest
from topwatch.spark.state.segments import Folder
from topwatch.spark.stream_spec import Spec

RESULT = pa.schema(
    [("at", pa.int64()), ("query", pa.string()), ("op", pa.string()), ("id", pa.int64()), ("score", pa.float64())]
)


def spec_of(window: Any, every: int) -> Spec:
    return Spec(
        queries=(tw.TopK(k=3, score=tw.linear(x=1.0), name="top"),),
        window=window,
        every=every,
        algorithm="reserve",
        options={},
        id="id",
        time=None,
        by=(),
        columns=("x",),
        order=(),
        emit="changes",
        watermark=False,
        buckets=(0,),
        segments="-",
        retain=2,
        schema=RESULT,
    )


@pytest.mark.parametrize("number", range(8))
def test_cold_and_warm_say_the_same(
    rng: np.random.Generator, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "MANY", int(rng.choice([4, 256])))
    monkeypatch.setattr(keeping, "LEAST_REPLAY", 100)
    size, every = int(rng.integers(1, 300)), int(rng.choice([1, 7, 50]))
    spec = spec_of(tw.last(size) if number % 4 else tw.latest(), every)
    folder = Folder(str(tmp_path))
    keeper = StatefulOperator(spec, number, FolderBackend(folder, number, every=1))
    monitor = tw.Monitor(list(spec.queries), spec.window, every=every, algorithm="brute")
    state, rows, most = None, 0, 0
    for batch in range(60):
        count = int(rng.integers(1, 60))
        table = pa.table({"id": np.arange(rows, rows + count), "x": rng.random(count).round(2)})
        rows += count
        half = count // 2
        lines = _lines(folder, batch, [table.slice(0, half), table.slice(half)])
        if rng.random() < 0.3:
            keeping._warm.clear()
        done = keeper.advance(Task(state, lines))
        done.publish()
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


def test_a_state_that_was_made_for_other_queries_is_refused(tmp_path: Path) -> None:
    backend = FolderBackend(Folder(str(tmp_path)), 0)
    state = StatefulOperator(spec_of(tw.last(10), 1), 0, backend).advance(Task(None, [])).state
    StatefulOperator(spec_of(tw.last(10), 1), 0, backend).advance(Task(state, []))
    spec = spec_of(tw.last(10), 1)
    changed = [{"order": ("x",)}, {"types": ("bigint", "string")}, {"by": ("g",)}, {"watermark": True}]
    others = [spec_of(tw.last(11), 1), *(dataclasses.replace(spec, **change) for change in changed)]
    for other in others:
        with pytest.raises(tw.DataError, match="state: the checkpoint was begun with other queries"):
            StatefulOperator(other, 0, backend).advance(Task(state, []))
    with pytest.raises(tw.DataError, match=r"begun with spark.sql.shuffle.partitions=1 and cannot go on with 2"):
        StatefulOperator(dataclasses.replace(spec, buckets=(0, 1)), 0, backend).advance(Task(state, []))
    keeping._warm.clear()


def test_buckets_that_nothing_comes_for_are_let_go(tmp_path: Path) -> None:
    spec, folder = spec_of(tw.last(10), 1), Folder(str(tmp_path))
    rows = [pa.table({"id": [1, 2], "x": [3.0, 1.0]}), pa.table({"id": [3], "x": [2.0]})]
    keeper = StatefulOperator(spec, 0, FolderBackend(folder, 0))
    done = keeper.advance(Task(None, _lines(folder, 0, rows[:1])))
    manifest = Manifest.from_bytes(done.state)
    keeping.forget(idle=60.0)
    assert keeper.warm(manifest)
    keeping.forget(idle=-1.0)
    assert not keeper.warm(manifest)
    result = keeper.advance(Task(done.state, _lines(folder, 1, rows[1:]))).result
    assert result.select(["at", "op", "id"]).to_pylist() == [{"at": 3, "op": "enter", "id": 3}]


def test_a_micro_batch_that_is_run_again_begins_with_the_version_before(tmp_path: Path) -> None:
    """Also where the first attempt has got to its end, and in the same worker."""
    spec, folder = spec_of(tw.last(10), 1), Folder(str(tmp_path))
    keeper = StatefulOperator(spec, 0, FolderBackend(folder, 0))
    first = keeper.advance(Task(None, _lines(folder, 0, [pa.table({"id": [1], "x": [3.0]})])))
    again = Task(first.state, _lines(folder, 1, [pa.table({"id": [2], "x": [4.0]})]))
    result = [keeper.advance(again).result for _ in range(3)]
    assert result[0].num_rows == 1
    assert result[0] == result[1] == result[2]
    with pytest.raises(tw.DataError, match=r"has the rows of 0000001-p00000-.* already"):
        keeper.advance(Task(keeper.advance(again).state, again.references))
    keeping._warm.clear()


def _lines(folder: Folder, batch: int, tables: list[pa.Table]) -> list[dict[str, Any]]:
    segment = folder.create(f"{batch:07d}-p00000")
    parts = [segment.add_table(table) for table in tables]
    name = segment.close()
    where = {"bucket": 0, "kind": ROWS, "part": 0, "data": None}
    return [{**where, "piece": i, **part._asdict(), "segment": name} for i, part in enumerate(parts)]
