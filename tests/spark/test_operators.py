"""Whether a stream's state is in files or in Spark's store (decision 17), told by its plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import topwatch as tw

FULL = "TransformWithStateInPySpark"
HOT = tw.TopK(k=3, score=tw.linear(x=1.0), name="hot")


def plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().analyzed().toString())


def in_the_store(df: DataFrame) -> bool:
    return FULL in plan(df)


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema("id long, g string, x double, t timestamp").parquet(str(tmp_path))


@pytest.mark.parametrize("options", [{}, {"by": "g"}, {"algorithm": "reserve"}], ids=str)
def test_where_a_folder_is_known_state_is_in_files(rows: DataFrame, tmp_path: Path, options: dict) -> None:
    assert not in_the_store(tw.spark.watch(rows, HOT, tw.last(10), segments=str(tmp_path / "s"), **options))


@pytest.mark.parametrize("options", [{}, {"by": "g"}, {"algorithm": "reserve"}], ids=str)
def test_without_a_folder_it_is_in_the_store(rows: DataFrame, options: dict) -> None:
    assert in_the_store(tw.spark.watch(rows, HOT, tw.last(100_000), **options))


def test_a_watermark_needs_timers(rows: DataFrame, tmp_path: Path) -> None:
    late = rows.withWatermark("t", "1 minute")
    watched = tw.spark.watch(late, HOT, tw.last("1 hour"), time="t", segments=str(tmp_path / "s"))
    assert in_the_store(watched)
