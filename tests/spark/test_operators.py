"""Which of Spark's stateful operators serves a stream (decision 14), told by its plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import topwatch as tw

LEAN, FULL = "FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark"
HOT = tw.TopK(k=3, score=tw.linear(x=1.0), name="hot")


def plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().analyzed().toString())


def served_by(df: DataFrame) -> list[str]:
    return [name for name in (LEAN, FULL) if name in plan(df)]


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema("id long, g string, x double, t timestamp").parquet(str(tmp_path))


@pytest.mark.parametrize("options", [{}, {"by": "g"}, {"algorithm": "reserve"}], ids=str)
def test_segments_in_a_folder_are_served_by_the_lean_one(rows: DataFrame, tmp_path: Path, options: dict) -> None:
    assert served_by(tw.spark.watch(rows, HOT, tw.last(10), segments=str(tmp_path / "s"), **options)) == [LEAN]


def test_pruned_streams_need_no_folder(rows: DataFrame) -> None:
    assert served_by(tw.spark.watch(rows, HOT, tw.last(100_000))) == [LEAN]


def test_segments_in_the_state_store_need_a_map(rows: DataFrame) -> None:
    assert served_by(tw.spark.watch(rows, HOT, tw.last(10), by="g")) == [FULL]


def test_a_watermark_needs_timers(rows: DataFrame, tmp_path: Path) -> None:
    late = rows.withWatermark("t", "1 minute")
    watched = tw.spark.watch(late, HOT, tw.last("1 hour"), time="t", segments=str(tmp_path / "s"))
    assert served_by(watched) == [FULL]
