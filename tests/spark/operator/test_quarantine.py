"""Rows that cannot be used: one of them does not stop a stream."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topwatch as tw
from tests.support.specs import RESULT, spec_of
from topwatch.spark.operator.bucket import Bucket
from topwatch.spark.operator.ordering import Piece
from topwatch.spark.operator.quarantine import split, write_refused

FAR = "time is outside the years 1678 to 2261"
BORDER = (2**63 - 1) // 1000  # microseconds


@pytest.mark.parametrize(
    ("times", "reasons"),
    [
        (pa.array([1.0, math.nan, 2.0, math.inf, None, -math.inf]), ["time is null", *3 * ["time is not finite"]]),
        (pa.array([1.0, 1.5, 2.0, 2.5, 3.0, 9.0], pa.float32()), []),
        (
            pa.array([0, -BORDER - 1, 1, BORDER + 1, None, BORDER], pa.timestamp("us", "UTC")),
            ["time is null", FAR, FAR],
        ),
        (pa.array([-BORDER, 2**63 - 1, 0, 1, 2, 3], pa.timestamp("us")), [FAR]),
        (pa.array([1, 2, 3, 4, None, 6]), ["time is null"]),
    ],
    ids=str,
)
def test_unusable_times(times: pa.Array, reasons: list[str], tmp_path: Path) -> None:
    stamped = pa.types.is_timestamp(times.type)
    spec = spec_of(window=tw.last("1 minute"), time="t", only_rows=stamped, quarantine=str(tmp_path))
    table = pa.table({"id": np.arange(6), "x": np.arange(6.0), "t": times})
    good, bad = split(table, spec)
    assert bad.num_rows == 0 or bad.column("reason").to_pylist() == reasons
    assert good.num_rows + len(reasons) == 6
    bucket = Bucket(spec)
    bucket.take([Piece(good.num_rows, good.select(["id", "x", "t"]))], None)
    assert bucket.status().rows == good.num_rows
    write_refused(spec, 1, 0, [bad])
    written = [line for path in tmp_path.iterdir() for line in pq.read_table(path).to_pylist()]
    assert [line["reason"] for line in written] == reasons


def test_a_row_without_an_id_and_a_time_is_refused_once() -> None:
    spec = spec_of(window=tw.last(5), time="t")
    good, bad = split(pa.table({"id": pa.array([None, 1]), "x": [1.0, 2.0], "t": [math.nan, math.nan]}), spec)
    assert good.num_rows == 0
    assert bad.column("reason").to_pylist() == ["id is null", "time is not finite"]


@pytest.mark.parametrize("emit", ["changes", "answers"])
@pytest.mark.parametrize("window", [tw.last(2), tw.latest()], ids=str)
def test_ids_that_are_no_numbers_are_ids(emit: Any, window: Any) -> None:
    """NaN is a value, as Spark has it."""
    third = pa.field("rank", pa.int64()) if emit == "answers" else RESULT.field(2)
    schema = RESULT.set(2, third).set(3, pa.field("id", pa.float64()))
    spec = spec_of(window=window, emit=emit, pruned=False, schema=schema)
    bucket = Bucket(spec)
    ids = [math.nan, 1.0, math.nan, 2.0, math.nan]
    good, _ = split(pa.table({"id": ids, "x": [1.0, 3.0, 2.0, 5.0, 4.0]}), spec)
    result = [bucket.take([Piece(1, good.slice(i, 1))], None)[0] for i in range(good.num_rows)]
    lines = pa.concat_tables([table for table in result if table.num_rows]).to_pylist()
    last = [line["id"] for line in lines if line["at"] == 5 and line.get("op") != "leave"]
    assert any(map(math.isnan, last))


def test_times_are_shown_as_they_came() -> None:
    spec = spec_of(window=tw.last(5), time="t", only_rows=True)
    old = pa.array([datetime.datetime(1500, 1, 1)], pa.timestamp("us"))
    _, bad = split(pa.table({"id": [1], "x": [1.0], "t": old}), spec)
    assert '"t": "1500-01-01 00:00:00"' in bad.column("raw")[0].as_py()
