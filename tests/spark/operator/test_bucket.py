"""Buckets: groups of all kinds of keys, late rows, and rows that wait for the watermark."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from tests.support import specs
from topwatch.core.grouping import KeyNumbers
from topwatch.spark.operator.bucket import Bucket
from topwatch.spark.operator.ordering import Piece
from topwatch.spark.planner import Spec

QUERIES = [
    tw.TopK(k=2, score=tw.linear(x=1.0), name="top"),
    tw.TopK(k=2, score=tw.linear(id=1e-3, x=1.0), name="an id that counts"),
]
RESULT = specs.RESULT.insert(0, pa.field("g", pa.int64()))


def spec_of(**given: Any) -> Spec:
    return specs.spec_of(QUERIES, **{"window": tw.last(6), "by": "g", "schema": RESULT, "pruned": False, **given})


SPEC = spec_of()
BRUTE = spec_of(algorithm="brute")  # which has a monitor for each group


def came(table: pa.Table) -> list[Piece]:
    return [Piece(table.num_rows, table)]


def saved_and_loaded(bucket: Bucket, spec: Spec) -> Bucket:
    other = Bucket(spec)
    other.load(bucket.save())
    return other


@pytest.mark.parametrize("nulls", [False, True])
def test_a_grouped_engine_reports_what_monitors_report(rng: np.random.Generator, nulls: bool) -> None:
    engine, monitors = Bucket(SPEC), Bucket(BRUTE)
    assert (SPEC.monitor().plan.grouping, BRUTE.monitor().plan.grouping) == (
        "grouped engine",
        "a monitor for each group",
    )
    start = 0
    for batch in range(12):
        count = int(rng.integers(1, 200))
        keys = rng.choice(np.array([-(2**63), 2**63 - 1, -1, 0, 1, *range(5, 5 + 3 * batch)]), count)
        mask = rng.random(count) < 0.1 if nulls and batch % 3 == 1 else None
        ids = np.arange(start, start + count)
        table = pa.table({"g": pa.array(keys, mask=mask), "id": ids, "x": rng.random(count).round(1)})
        cut = int(rng.integers(0, count + 1))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        start += count
        if rng.random() < 0.3:
            engine = saved_and_loaded(engine, SPEC)
        result = [sorted(map(str, bucket.take(came(table), None)[0].to_pylist())) for bucket in (engine, monitors)]
        assert result[0] == result[1]
        status = [bucket.status() for bucket in (engine, monitors)]
        assert [(s.rows, s.live, s.late) for s in status] == 2 * [(start, status[0].live, 0)]


@pytest.mark.parametrize("size", [6, 40, 150])
def test_late_rows(rng: np.random.Generator, size: int) -> None:
    """Each micro-batch begins before the end of the one before it."""
    spec, brute = (
        spec_of(window=tw.last(size), time="t", only_rows=True, algorithm=name) for name in ("auto", "brute")
    )
    engine, monitors = Bucket(spec), Bucket(brute)
    dropped, now = 0, 0
    for batch in range(12):
        count = int(rng.integers(1, 200))
        times = np.sort(rng.integers(max(0, now - 40), now + 60, count))
        now = int(times[-1])
        ids = np.arange(1000 * batch, 1000 * batch + count)
        keys = np.minimum(rng.integers(0, 6 + batch, count), rng.integers(0, 6 + batch, count))
        table = pa.table({"g": keys, "id": ids, "x": rng.random(count).round(1), "t": times.astype("datetime64[s]")})
        if rng.random() < 0.2:
            engine = saved_and_loaded(engine, spec)
        (result, late), (wanted, too_late) = (bucket.take(came(table), None) for bucket in (engine, monitors))
        assert sorted(map(str, result.to_pylist())) == sorted(map(str, wanted.to_pylist()))
        assert late.to_pylist() == too_late.to_pylist()
        assert set(late.column("reason").to_pylist() if late.num_rows else []) <= {"too late"}
        dropped += late.num_rows
    assert dropped > 0


@pytest.mark.parametrize("spec", [SPEC, BRUTE])
def test_a_group_that_is_no_number_is_one_group(spec: Spec) -> None:
    """Also where a micro-batch brings a new group, and after a restart."""
    spec = dataclasses.replace(spec, schema=RESULT.set(0, pa.field("g", pa.float64())))
    bucket, at = Bucket(spec), {"nan": 0, "0.0": 0}
    for repetition in range(4):
        g = [np.nan, -0.0, float(repetition + 1), np.nan, 0.0]
        ids = np.arange(5 * repetition, 5 * repetition + 5)
        table = pa.table({"g": pa.array(g, from_pandas=False), "id": ids, "x": 100.0 + ids})
        result = bucket.take(came(table), None)[0].to_pylist()
        for name in at:
            mine = [line["at"] for line in result if str(abs(line["g"])) == name and line["op"] == "enter"]
            assert sorted(set(mine)) == [at[name] + 1, at[name] + 2]
            at[name] += 2
        bucket = saved_and_loaded(bucket, spec)


def test_the_groups_that_changed_last_are_shown() -> None:
    bucket = Bucket(SPEC)
    table = pa.table({"g": np.arange(500), "id": np.arange(500), "x": np.ones(500)})
    bucket.take(came(table), None)
    assert list(dict.fromkeys(answer.by for answer in bucket.status().answers)) == [(499,), (498,), (497,)]
    bucket.take(came(pa.table({"g": [7, 3], "id": [501, 502], "x": [2.0, 2.0]})), None)
    assert list(dict.fromkeys(answer.by for answer in bucket.status().answers)) == [(7,), (3,), (499,)]


@pytest.mark.parametrize("by", [(), ("g",)])
def test_rows_wait_for_the_watermark(rng: np.random.Generator, by: tuple[str, ...]) -> None:
    """However rows are cut into micro-batches, they count by time, then by the order columns."""
    schema = RESULT if by else RESULT.remove(0)
    spec = spec_of(by=by or None, time="t", order=("o",), watermark=True, only_rows=True, schema=schema)
    count = 120
    times = rng.integers(0, 30, count)
    table = pa.table(
        {
            "g": rng.integers(0, 3, count),
            "id": np.arange(count),
            "x": rng.random(count).round(1),
            "t": pa.array(times.astype("datetime64[s]")),
            "o": rng.permutation(count),
        }
    )
    results = []
    for cuts in ([], sorted(rng.integers(0, count, 5).tolist())):
        bucket, lines = Bucket(spec), []
        for start, stop in pairwise([0, *cuts, count]):
            part = table.slice(start, stop - start).sort_by([("t", "ascending"), ("o", "ascending")])
            lines += bucket.take(came(part), 0)[0].to_pylist() if part.num_rows else []
            assert bucket.next_time is not None or not part.num_rows
            bucket = saved_and_loaded(bucket, spec)
        for watermark in (7_000, 20_500, 40_000):
            lines += bucket.take([], watermark)[0].to_pylist()
        assert bucket.next_time is None
        results.append(lines)
    if by:  # what each release reports comes group by group
        results = [sorted(lines, key=lambda line: (line["g"], line["at"])) for lines in results]
    assert results[0] == results[1]
    late, refused = bucket.take(came(table.slice(0, 3)), 40_000)
    assert late.num_rows == 0
    assert refused.column("reason").to_pylist() == ["too late"] * 3


def test_many_keys(rng: np.random.Generator) -> None:
    keys = np.unique(rng.integers(-(2**62), 2**62, 5_000) << rng.integers(0, 2, 5_000))
    numbers = rng.permutation(keys.size)
    table = KeyNumbers(keys, numbers)
    looked_up = rng.integers(0, keys.size, 20_000)
    result = table.look_up([keys[looked_up[:7]], keys[looked_up[7:]]])
    assert result is not None
    assert result.tolist() == numbers[looked_up].tolist()
    assert table.look_up([np.setdiff1d(np.arange(3), keys)]) is None
