"""Pruned streams say what a monitor over all rows says, whatever the cut into batches, partitions and blocks."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from tests.support import specs
from topwatch.spark.operator import pruning
from topwatch.spark.operator.bucket import Bucket
from topwatch.spark.operator.ordering import Piece
from topwatch.spark.operator.pruning import Pruner
from topwatch.spark.planner import Spec, monitor_of, pruning_refusal

COLUMNS = ("x0", "x1", "x2")


def spec_of(queries: list[tw.TopK], window: int, every: int = 1) -> Spec:
    return specs.spec_of(queries, tw.last(window), pruned=True, every=every, columns=COLUMNS, order=("block",))


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


def pieces(rng: np.random.Generator, spec: Spec, table: pa.Table, first: int) -> tuple[list[Piece], int]:
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
    monkeypatch.setattr(pruning, "SLACK", int(rng.choice([0, 10, 4096])))
    count, every = int(rng.integers(50, 2000)), int(rng.choice([1, 1, 2, 7, 50, 1000]))
    spec = spec_of(queries(rng), int(rng.integers(1, 1500)), every)
    values = rows(rng, count)
    table = pa.table({"id": np.arange(count), **dict(zip(COLUMNS, values, strict=True))})
    bucket, result, start, blocks = Bucket(spec), [], 0, 0
    while start < count:
        batch = table.slice(start, int(rng.integers(1, 800)))
        cut, more = pieces(rng, spec, batch, blocks)
        result += [tuple(row.values()) for row in bucket.take(cut, None)[0].to_pylist()]
        bucket._windows._engine._check()
        if rng.random() < 0.3:
            saved, bucket = bucket.save(), Bucket(spec)
            bucket.load(saved)
        start, blocks = start + batch.num_rows, blocks + more
    monitor = tw.Monitor(list(spec.queries), spec.settings.window, every=every, algorithm="brute")
    assert result == [tuple(change) for change in monitor.push(table)]


def test_little_is_left_and_little_is_kept(rng: np.random.Generator) -> None:
    queries = [tw.TopK(k=10, score=tw.linear(x0=1.0, x1=float(i)), name=f"q{i}") for i in range(3)]
    spec = spec_of(queries, 20_000)
    bucket, left = Bucket(spec), 0
    for block in range(10):
        values = rng.random((3, 20_000))
        table = pa.table({"id": np.arange(20_000), **dict(zip(COLUMNS, values, strict=True))})
        pruner = Pruner(spec)
        pruner.take(table.append_column("block", pa.array([block] * 20_000)))
        cut = list(pruner.pieces())
        left += sum(kept.num_rows for _, kept in cut)
        bucket.take(cut, None)
    expected = 3 * 2 * 10 * (1 + np.log(20_000 / 10))
    assert left / 10 < 1.1 * expected
    assert bucket.status().live < 2 * expected + pruning.SLACK
    assert len(bucket.save()) < 1_000_000


def test_ids_of_rows_that_have_left_the_window_are_given_back(rng: np.random.Generator) -> None:
    schema = specs.RESULT.set(3, pa.field("id", pa.string()))
    spec = dataclasses.replace(spec_of([tw.TopK(k=10, score=tw.linear(x0=1.0), name="q")], 100), schema=schema)
    bucket, sizes = Bucket(spec), []
    for block in range(400):
        values = rng.random((3, 100))
        table = pa.table(
            {"id": [f"id {100 * block + i}" for i in range(100)], **dict(zip(COLUMNS, values, strict=True))}
        )
        pruner = Pruner(spec)
        pruner.take(table.append_column("block", pa.array([block] * 100)))
        bucket.take(list(pruner.pieces()), None)
        sizes.append(bucket._windows._ids.bytes())
    assert bucket.status().bytes > sizes[-1], "they count"
    assert max(sizes[200:]) < 2 * max(sizes[:100])


@pytest.mark.parametrize(
    ("change", "pruned_then"),
    [
        ({}, True),
        ({"window": tw.last(50)}, False),
        ({"window": tw.last("1 minute"), "time": "ts"}, False),
        ({"by": ("g",)}, False),
        ({"algorithm": "sma"}, False),
        ({"every": "1 minute", "time": "ts"}, False),
        ({"queries": [tw.Threshold(score=tw.linear(x0=1.0), above=0.5, name="t")]}, False),
        ({"emit": "first"}, False),
    ],
    ids=str,
)
def test_what_is_pruned(change: dict[str, Any], pruned_then: bool) -> None:
    queries = [tw.TopK(k=3, score=tw.linear(x0=1.0), name="q")]
    given = {"queries": queries, "window": tw.last(1000), "emit": "changes", "id": "id", **change}
    assert (pruning_refusal(monitor_of(**given)) == "") is pruned_then
