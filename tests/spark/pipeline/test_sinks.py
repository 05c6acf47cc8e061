"""Sinks of Spark's own, the quarantine, and what sinks refuse; Kafka and databases have tests of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import topwatch as tw
from tests.support.change_files import ChangeFiles
from tests.support.pipelines import sink_part, source_part
from tests.support.refusal import refused
from topwatch.spark.pipeline.jdbc import numbered
from topwatch.spark.pipeline.sinks import start, start_quarantine
from topwatch.spark.pipeline.sources import open_source


@pytest.fixture
def changes(spark: SparkSession, tmp_path: Path) -> ChangeFiles:
    return ChangeFiles(spark, tmp_path / "in")


def test_parquet_goes_on_from_its_checkpoint(spark: SparkSession, changes: ChangeFiles, tmp_path: Path) -> None:
    expected = []
    for _ in range(2):
        expected += changes.add()
        sink = sink_part("parquet", path=str(tmp_path / "out"), options={"compression": "zstd"})
        query = start(changes.frame(), sink, str(tmp_path / "ckpt"), "changes", "once")
        query.awaitTermination()
    assert query.name == "changes"
    written = spark.read.parquet(str(tmp_path / "out"))
    assert written.columns == changes.frame().columns
    assert sorted(row["at"] for row in written.collect()) == expected
    assert all(".zstd." in file.name for file in (tmp_path / "out").glob("*.parquet"))


def test_rows_have_the_same_numbers_in_any_order_and_equal_rows_numbers_of_their_own(spark: SparkSession) -> None:
    rows = [(7, "b", None), (7, "a", 0.5), (3, "b", float("nan")), (7, "a", 0.5), (7, "a", -0.0)]

    def of(rows: list[Any]) -> list[tuple[int, str]]:
        frame = numbered(spark.createDataFrame(rows, "at long, `the.id` string, score double").coalesce(1), "_row")
        return sorted((row["_row"], str(row)) for row in frame.collect())

    assert of(rows) == of(rows[::-1])
    assert len({number for number, _ in of(rows)}) == len(rows)


def test_memory_is_a_table_of_the_session(spark: SparkSession, changes: ChangeFiles) -> None:
    numbers = changes.add()
    start(changes.frame(), sink_part("memory", table="answers"), None, "changes", "once").awaitTermination()
    assert [row["at"] for row in spark.table("answers").collect()] == numbers


def test_console_shows_rows(changes: ChangeFiles, tmp_path: Path) -> None:
    changes.add()
    query = start(changes.frame(), sink_part("console"), str(tmp_path / "ckpt"), "changes", "once")
    query.awaitTermination()
    # The rows themselves go where the JVM has written since it started, out of a test's sight.
    progress = query.recentProgress[0]
    assert "Console" in progress["sink"]["description"]
    assert progress["numInputRows"] == 3


def test_a_trigger_can_be_a_duration(spark: SparkSession, changes: ChangeFiles, tmp_path: Path) -> None:
    numbers = changes.add() + changes.add()
    query = start(changes.frame(), sink_part("memory", table="often"), None, "often", "100 milliseconds")
    try:
        query.processAllAvailable()
        assert query.isActive
    finally:
        query.stop()
    assert sorted(row["at"] for row in spark.table("often").collect()) == numbers


def test_rows_that_cannot_be_used_are_in_the_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_bytes(b'{"bytes": 1}\n{"bytes": "x"}\nno\xff\n')
    source = open_source(spark, source_part("files", path=str(folder), format="json", schema="bytes double"))
    for _ in range(2):  # the second run finds nothing new
        start_quarantine(source.frame, str(tmp_path / "out"), str(tmp_path / "ckpt"), "once").awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "out"))
    assert rows.columns == ["reason", "raw", "batch_time"]
    assert {(row["reason"], row["raw"]) for row in rows.collect()} == {
        ("column 'bytes': expected double, got 'x'", '{"bytes": "x"}'),
        ("unparsable JSON", "no\ufffd"),
    }
    assert rows.count() == 2


@pytest.mark.parametrize(
    ("settings", "patterns"),
    [
        ({"url": "jdbc:x", "password_env": "NO_SUCH"}, [r"jdbc\.password_env", "NO_SUCH"]),
        ({"url": "jdbc:x", "options": {"driver": "no.Driver"}}, ["no.Driver", r"spark\.jars"]),
        ({"url": "jdbc:x:y"}, [r"jdbc\.options\.driver", "'x'"]),
    ],
)
def test_a_database_that_cannot_be_reached_is_refused(
    changes: ChangeFiles, settings: dict[str, Any], patterns: list[str]
) -> None:
    with refused(tw.QueryError, *patterns):
        start(changes.frame(), sink_part("jdbc", table="x", **settings), None, "changes", "once")
