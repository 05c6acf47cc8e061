"""A bucket that is read again from its segments goes on as if it had stayed warm; no Spark is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.spark import keeper as keeping
from topwatch.spark.bulk import ROWS
from topwatch.spark.homes import FolderHome
from topwatch.spark.keeper import Keeper, Task
from topwatch.spark.manifest import Manifest
from topwatch.spark.segments import Folder, pack
from topwatch.spark.spec import Spec

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
    keeper = Keeper(spec, "query", number, FolderHome(folder, "-", number, every=1))
    monitor = tw.Monitor(list(spec.queries), spec.window, every=every, algorithm="brute")
    state, rows, most = None, 0, 0
    for batch in range(60):
        count = int(rng.integers(1, 60))
        table = pa.table({"id": np.arange(rows, rows + count), "x": rng.random(count).round(2)})
        rows += count
        segment = folder.create(batch)
        half = count // 2
        parts = [segment.add(pack(part), part.num_rows) for part in (table.slice(0, half), table.slice(half))]
        segment.close()
        lines = [{"kind": ROWS, "part": 0, "piece": i, "data": None, **part._asdict()} for i, part in enumerate(parts)]
        if rng.random() < 0.3:
            keeping._warm.clear()
        done = keeper.advance(Task(state, lines, batch))
        done.note()
        state = done.state
        found = [tuple(row.values()) for row in done.found.to_pylist()]
        assert found == [tuple(change) for change in monitor.push(table)]
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
    home = FolderHome(Folder(str(tmp_path)), "-", 0)
    state = Keeper(spec_of(tw.last(10), 1), "other", 0, home).advance(Task(None, [], 0)).state
    Keeper(spec_of(tw.last(10), 1), "other", 0, home).advance(Task(state, [], 1))
    with pytest.raises(tw.DataError, match="state: the checkpoint was begun with other queries"):
        Keeper(spec_of(tw.last(11), 1), "other", 0, home).advance(Task(state, [], 1))
    keeping._warm.clear()


def test_buckets_that_nothing_comes_for_are_let_go(tmp_path: Path) -> None:
    spec, folder = spec_of(tw.last(10), 1), Folder(str(tmp_path))
    rows = [pa.table({"id": [1, 2], "x": [3.0, 1.0]}), pa.table({"id": [3], "x": [2.0]})]
    keeper = Keeper(spec, "waiting", 0, FolderHome(folder, "-", 0))
    done = keeper.advance(Task(None, [_line(folder, 0, rows[0])], 0))
    token = Manifest.from_bytes(done.state).token
    keeping.forget(idle=60.0)
    assert keeper.warm(token)
    keeping.forget(idle=-1.0)
    assert not keeper.warm(token)
    found = keeper.advance(Task(done.state, [_line(folder, 1, rows[1])], 1)).found
    assert found.select(["at", "op", "id"]).to_pylist() == [{"at": 3, "op": "enter", "id": 3}]


def _line(folder: Folder, batch: int, table: pa.Table) -> dict[str, Any]:
    segment = folder.create(batch)
    part = segment.add_table(table)
    segment.close()
    where = {"bucket": 0, "kind": ROWS, "part": 0, "piece": 0, "data": None}
    return {**where, "segment": part.segment, "start": part.start, "size": part.size, "rows": part.rows}
