"""Pruned streams say what a monitor over all rows says, whatever the cut into batches, partitions and blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.spark.operator import pruned_bucket
from topwatch.spark.operator.pruned_bucket import PrunedBucket
from topwatch.spark.operator.pruning import Pruner, worthwhile
from topwatch.spark.stream_spec import Spec

COLUMNS = ("x0", "x1", "x2")
RESULT = pa.schema(
    [("at", pa.int64()), ("query", pa.string()), ("op", pa.string()), ("id", pa.int64()), ("score", pa.float64())]
)


def spec_of(queries: list[tw.TopK], window: int, every: int = 1, **more: Any) -> Spec:
    given = {
        "queries": tuple(queries),
        "window": tw.last(window),
        "every": every,
        "algorithm": "auto",
        "options": {},
        "id": "id",
        "time": None,
        "by": (),
        "columns": COLUMNS,
        "order": ("block",),
        "emit": "changes",
        "watermark": False,
        "buckets": (0,),
        "segments": None,
        "schema": RESULT,
        "pruned": True,
    }
    return Spec(**{**given, **more})


def queries(rng: np.random.Generator) -> list[tw.TopK]:
    result = []
    for i in range(int(rng.integers(1, 4))):
        make = [tw.linear, tw.quadratic, tw.distance][rng.integers(0, 3)]
        score = make({column: float(rng.normal()) for column in COLUMNS})
        where = {"x0": (0.1, 0.9)} if rng.random() < 0.2 else {}
        result.append(tw.TopK(k=int(rng.integers(1, 8)), score=score, name=f"q{i}", where=where))
    return result


def rows(rng: np.random.Generator, count: int) -> np.ndarray:
    values = rng.integers(0, 5, (3, count)).astype(float) if rng.random() < 0.4 else rng.random((3, count))
    if rng.random() < 0.3:
        values[rng.random(values.shape) < 0.05] = np.nan
    if rng.random() < 0.3:
        values += np.linspace(0, rng.choice([-3, 3]), count)
    return values


def pieces(rng: np.random.Generator, spec: Spec, table: pa.Table, first: int) -> tuple[list[tuple[int, pa.Table]], int]:
    """Cut a micro-batch into blocks, spread them over two partitions and prune them; count the blocks."""
    cuts = np.unique([0, *rng.integers(0, table.num_rows + 1, int(rng.integers(0, 4))), table.num_rows])
    blocks = [
        table.slice(a, b - a).append_column("block", pa.array([first + i] * int(b - a)))
        for i, (a, b) in enumerate(itertools.pairwise(cuts))
    ]
    pruners = [Pruner(spec), Pruner(spec)]
    for i in rng.permutation(len(blocks)):
        half = int(rng.integers(0, blocks[i].num_rows + 1))
        pruner = pruners[rng.integers(0, 2)]
        for part in (blocks[i].slice(0, half), blocks[i].slice(half)):
            if part.num_rows:
                pruner.take(part)
    return [piece for pruner in pruners for piece in pruner.pieces()], len(blocks)


@pytest.mark.parametrize("number", range(24))
def test_a_pruned_stream_is_as_a_monitor(
    rng: np.random.Generator, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruned_bucket, "ROOM", int(rng.choice([0, 10, 4096])))
    count, every = int(rng.integers(50, 2000)), int(rng.choice([1, 1, 2, 7, 50, 1000]))
    spec = spec_of(queries(rng), int(rng.integers(1, 1500)), every)
    values = rows(rng, count)
    table = pa.table({"id": np.arange(count), **dict(zip(COLUMNS, values, strict=True))})
    bucket, result, start, blocks = PrunedBucket(spec), [], 0, 0
    while start < count:
        batch = table.slice(start, int(rng.integers(1, 800)))
        cut, more = pieces(rng, spec, batch, blocks)
        result += [tuple(row.values()) for row in bucket.take(cut).to_pylist()]
        bucket._engine._check()
        if rng.random() < 0.3:
            bucket = PrunedBucket.load(spec, bucket.save())
        start, blocks = start + batch.num_rows, blocks + more
    monitor = tw.Monitor(list(spec.queries), spec.window, every=every, algorithm="brute")
    assert result == [tuple(change) for change in monitor.push(table)]


def test_little_is_left_and_little_is_kept(rng: np.random.Generator) -> None:
    asked = [tw.TopK(k=10, score=tw.linear(x0=1.0, x1=float(i)), name=f"q{i}") for i in range(3)]
    spec = spec_of(asked, 20_000)
    bucket, left = PrunedBucket(spec), 0
    for block in range(10):
        values = rng.random((3, 20_000))
        table = pa.table({"id": np.arange(20_000), **dict(zip(COLUMNS, values, strict=True))})
        pruner = Pruner(spec)
        pruner.take(table.append_column("block", pa.array([block] * 20_000)))
        cut = list(pruner.pieces())
        left += sum(kept.num_rows for _, kept in cut)
        bucket.take(cut)
    expected = 3 * 2 * 10 * (1 + np.log(20_000 / 10))
    assert left / 10 < 1.1 * expected
    assert bucket.status().live < 2 * expected + pruned_bucket.ROOM
    assert len(bucket.save()) < 1_000_000


@pytest.mark.parametrize(
    ("change", "pruned_then"),
    [
        ({}, True),
        ({"window": tw.last(50)}, False),
        ({"window": tw.last("1 minute"), "time": "ts"}, False),
        ({"by": ("g",)}, False),
        ({"algorithm": "sma"}, False),
        ({"every": "1 minute"}, False),
        ({"queries": (tw.Threshold(score=tw.linear(x0=1.0), above=0.5, name="t"),)}, False),
    ],
    ids=str,
)
def test_what_is_pruned(change: dict[str, Any], pruned_then: bool) -> None:
    asked = [tw.TopK(k=3, score=tw.linear(x0=1.0), name="q")]
    spec = spec_of(asked, 1000)
    given = {**spec.__dict__, **change}
    assert worthwhile(Spec(**given)) is pruned_then
