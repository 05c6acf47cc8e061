"""Each step from a data set to a stream, on made-up rows with known results."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import topwatch as tw
from tests.support.dataset_samples import START
from topwatch.spark.datasets import steps
from topwatch.spark.datasets.writing import About


@pytest.fixture
def about() -> About:
    return About("test")


def column(frame: DataFrame, name: str, by: str = "n") -> list[Any]:
    return [row[0] for row in frame.orderBy(by).select(name).collect()]


class TestSteps:
    def test_numbers_and_what_is_none(self, spark: SparkSession, about: About) -> None:
        values = [1.0, math.nan, None, math.inf, -math.inf, -2.0]
        frame = spark.createDataFrame(list(enumerate(values)), "n int, x float")
        assert column(steps.numbers(frame, ["x"], about), "x") == [1.0, None, None, None, None, -2.0]
        assert about.nulls == {"x": 4}

    def test_missing_rows_count_once(self, spark: SparkSession, about: About) -> None:
        rows = [(0, "a", 1.0), (1, None, None), (2, "b", None), (3, None, 1.0)]
        frame = steps.drop_missing(spark.createDataFrame(rows, "n int, id string, x double"), ["id", "x"], about)
        assert column(frame, "n") == [0]
        assert about.dropped == {"id is null": 2, "x is null": 1}

    def test_clip_and_normalise(self, spark: SparkSession, about: About) -> None:
        rows = [(n, float(n), 5.0, None) for n in range(101)] + [(101, None, 5.0, None)]
        frame = spark.createDataFrame(rows, "n int, x double, same double, none double").repartition(3)
        names = ["x", "same", "none"]
        clipped = steps.clip(frame, names, 90.0, about)
        assert column(clipped, "x") == [*map(float, range(91)), *[90.0] * 10, None]
        assert about.clipped == {"x": {"above": 90.0, "values": 10}, "same": {"above": 5.0, "values": 0}}
        scaled = steps.normalise(clipped, names, about)
        assert column(scaled, "x") == [*(n / 90 for n in range(91)), *[1.0] * 10, None]
        assert set(column(scaled, "same")) == {0.0}
        assert set(column(scaled, "none")) == {None}
        assert about.ranges == {"x": [0.0, 90.0], "same": [5.0, 5.0]}

    def test_logarithm(self, spark: SparkSession, about: About) -> None:
        frame = spark.createDataFrame([(0, 0.0), (1, math.e - 1), (2, None)], "n int, x double")
        assert column(steps.logarithm(frame, ["x"], about), "x") == [0.0, 1.0, None]
        below = spark.createDataFrame([(0, -0.5)], "n int, x double")
        with pytest.raises(tw.DataError, match=r"column 'x' has -0\.5; log\(1 \+ x\) needs values of at least 0"):
            steps.logarithm(below, ["x"], about)

    @pytest.mark.parametrize("kind", ["ns", "us", "zone"])
    def test_times(self, spark: SparkSession, tmp_path: Path, kind: str) -> None:
        from topwatch.spark.datasets.writing import settings

        unit = "ns" if kind == "ns" else "us"
        micros = [1_167_609_600_000_001, -1]
        raw = pa.array(micros, pa.timestamp("us")).cast(pa.timestamp(unit, "UTC" if kind == "zone" else None))
        pq.write_table(pa.table({"n": [0, 1], "time": raw}), tmp_path / "t.parquet")
        with settings(spark):
            frame = steps.times(spark.read.parquet(str(tmp_path / "t.parquet")), "time")
            assert frame.schema["time"].dataType.simpleString() == "timestamp"
            assert column(frame.withColumn("us", sf.unix_micros("time")), "us") == micros

    def test_times_that_are_none(self, spark: SparkSession) -> None:
        with pytest.raises(tw.DataError, match="column 'time' is string; expected timestamps"):
            steps.times(spark.createDataFrame([("noon",)], "time string"), "time")

    def test_sums_do_not_depend_on_partitions(self, spark: SparkSession, about: About) -> None:
        # Added as they stand, these give 0.0 or 2.0 or 1.0; from the smallest to the largest they give one result.
        rows = [(START, "a", x) for x in (1e16, 1.0, -1e16, 1.0)]
        sums = []
        for partitions in (1, 2, 4):
            frame = spark.createDataFrame(rows, "time timestamp, id string, x double").repartition(partitions)
            sums.append(steps.chunks(frame, ["id"], "x", "1 min", "sum", about).first()["x"])  # type: ignore[index]
        assert sums == [((-1e16 + 1.0) + 1.0) + 1e16] * 3
