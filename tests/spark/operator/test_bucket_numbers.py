"""Rows apart by bucket: the fast ways agree with the general ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.support.specs import spec_of
from topwatch.spark.operator.bucket_numbers import apart, bucket_numbers
from topwatch.spark.operator.ordering import merged
from topwatch.spark.operator.partition_writer import _Writer
from topwatch.spark.operator.references import COUNT
from topwatch.spark.state.manifest import CENSUS
from topwatch.spark.state.segments import Folder, unpack


@pytest.mark.parametrize("buckets", [1, 2, 7, 300])
def test_whole_numbers_have_the_buckets_they_had(buckets, rng):
    keys = rng.integers(-(1 << 62), 1 << 62, 1000)
    chunked = pa.chunked_array([pa.array(keys[:300]), pa.array(keys[300:])])
    fast = bucket_numbers(pa.table({"g": chunked}), ("g",), buckets)
    # A null in the column takes the general way.
    general = bucket_numbers(pa.table({"g": pa.array([*keys.tolist(), None], pa.int64())}), ("g",), buckets)
    assert fast.tolist() == general[:-1].tolist()


def test_rows_keep_their_order_and_all_that_belongs_to_them(rng):
    n = 500
    table = pa.table(
        {
            "g": pa.chunked_array([rng.integers(0, 9, 200), rng.integers(0, 9, n - 200)]),
            "x": rng.random(n),
            "when": pa.array(rng.integers(0, 1 << 40, n), pa.timestamp("us", "UTC")),
            "maybe": pa.array([None if i % 7 == 0 else i for i in range(n)], pa.int64()),
            "short": rng.integers(0, 99, n).astype(np.int32),
            "name": [f"n{i}" for i in range(n)],
        }
    ).slice(13)
    number = bucket_numbers(table, ("g",), 3)
    for bucket, part in enumerate(apart(table, number, 3)):
        assert part.equals(table.filter(pa.array(number == bucket)))


def test_no_rows():
    table = pa.table({"g": pa.array([], pa.int64())})
    assert [part.num_rows for part in apart(table, bucket_numbers(table, ("g",), 2), 2)] == [0, 0]


def test_a_column_that_is_needed_is_not_taken_out_as_constant(tmp_path):
    spec = spec_of(by="g", order=("id", "place"), buckets=(0, 1), segments=str(tmp_path))
    writer = _Writer(spec, 0, 0)
    writer.rows(pa.table({"g": [4], "id": [7], "x": [1.0], "place": [3]}))
    line, count = writer.close()
    assert (count.bucket, count.kind) == (CENSUS, COUNT)
    rows = unpack(Folder(str(tmp_path)).read(line.in_folder()))
    assert merged([rows], spec).to_pylist() == [{"g": 4, "id": 7, "x": 1.0}]
