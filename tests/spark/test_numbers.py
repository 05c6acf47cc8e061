"""Groups whose keys are whole numbers are found by a table of their own; null, and groups that are new, too."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.core.group_numbers import KeyNumbers
from topwatch.spark.operator.groups import EngineGroups, MonitorGroups
from topwatch.spark.stream_spec import Spec

RESULT = pa.schema(
    [
        ("g", pa.int64()),
        ("at", pa.int64()),
        ("query", pa.string()),
        ("op", pa.string()),
        ("id", pa.int64()),
        ("score", pa.float64()),
    ]
)
SPEC = Spec(
    queries=(
        tw.TopK(k=2, score=tw.linear(x=1.0), name="top"),
        tw.TopK(k=2, score=tw.linear(id=1e-3, x=1.0), name="an id that counts"),
    ),
    window=tw.last(6),
    every=1,
    algorithm="auto",
    options={},
    id="id",
    time=None,
    by=("g",),
    columns=("x", "id"),
    order=(),
    emit="changes",
    watermark=False,
    buckets=(0,),
    segments=None,
    schema=RESULT,
)


@pytest.mark.parametrize("nulls", [False, True])
def test_a_fleet_says_what_monitors_say(rng: np.random.Generator, nulls: bool) -> None:
    engine, monitors = EngineGroups(SPEC), MonitorGroups(dataclasses.replace(SPEC, algorithm="brute"))
    start, taken = 0, []
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
            saved = engine.save(partial(iter, taken))
            engine, taken = EngineGroups(SPEC), []
            engine.load(saved)
        before = partial(iter, taken)
        result = [sorted(map(str, groups.take(table, before)[0].to_pylist())) for groups in (engine, monitors)]
        taken.append(table)
        assert result[0] == result[1]


@pytest.mark.parametrize("size", [6, 40, 150])
def test_rows_that_are_read_again_are_late_again(rng: np.random.Generator, size: int) -> None:
    """Windows fill over several micro-batches, each of which begins before the end of the one before it."""
    spec = dataclasses.replace(SPEC, window=tw.last(size), time="t", stamped=True)
    engine, monitors = EngineGroups(spec), MonitorGroups(dataclasses.replace(spec, algorithm="brute"))
    taken: list[pa.Table] = []
    dropped, now = 0, 0
    for batch in range(12):
        count = int(rng.integers(1, 200))
        times = np.sort(rng.integers(max(0, now - 40), now + 60, count))
        now = int(times[-1])
        ids = np.arange(1000 * batch, 1000 * batch + count)
        keys = np.minimum(rng.integers(0, 6 + batch, count), rng.integers(0, 6 + batch, count))
        table = pa.table({"g": keys, "id": ids, "x": rng.random(count).round(1), "t": times.astype("datetime64[s]")})
        if rng.random() < 0.2:
            saved = engine.save(partial(iter, taken))
            engine, taken = EngineGroups(spec), []
            engine.load(saved)
        before = partial(iter, taken)
        (result, late), (wanted, too_late) = (groups.take(table, before) for groups in (engine, monitors))
        taken.append(table)
        assert sorted(map(str, result.to_pylist())) == sorted(map(str, wanted.to_pylist()))
        gone = [sorted(part.column("id").to_pylist()) if part is not None else [] for part in (late, too_late)]
        assert gone[0] == gone[1]
        dropped += len(gone[0])
    assert dropped > 0


@pytest.mark.parametrize("kind", [EngineGroups, MonitorGroups])
def test_a_group_that_is_no_number_is_one_group(kind: type[EngineGroups] | type[MonitorGroups]) -> None:
    """Also where a micro-batch brings a new group, and after a restart."""
    spec = dataclasses.replace(SPEC, schema=RESULT.set(0, pa.field("g", pa.float64())))
    groups, at = kind(spec), {"nan": 0, "0.0": 0}
    for turn in range(4):
        g = [np.nan, -0.0, float(turn + 1), np.nan, 0.0]
        ids = np.arange(5 * turn, 5 * turn + 5)
        table = pa.table({"g": pa.array(g, from_pandas=False), "id": ids, "x": 100.0 + ids})
        result = groups.take(table, partial(iter, []))[0].to_pylist()
        for name in at:
            mine = [line["at"] for line in result if str(abs(line["g"])) == name and line["op"] == "enter"]
            assert sorted(set(mine)) == [at[name] + 1, at[name] + 2]
            at[name] += 2
        saved = groups.save(partial(iter, [table]))
        groups = kind(spec)
        groups.load(saved)


def test_many_keys(rng: np.random.Generator) -> None:
    keys = np.unique(rng.integers(-(2**62), 2**62, 5_000) << rng.integers(0, 2, 5_000))
    numbers = rng.permutation(keys.size)
    table = KeyNumbers(keys, numbers)
    asked = rng.integers(0, keys.size, 20_000)
    result = table.look_up([keys[asked[:7]], keys[asked[7:]]])
    assert result is not None
    assert result.tolist() == numbers[asked].tolist()
    assert table.look_up([np.setdiff1d(np.arange(3), keys)]) is None
