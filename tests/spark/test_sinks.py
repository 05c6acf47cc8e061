"""Sinks of Spark's own, the quarantine, and what sinks refuse; Kafka and databases have tests of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from change_files import ChangeFiles
from pyspark.sql import SparkSession
from refusal import refused

import topwatch as tw
from topwatch.spark.pipeline.sinks import start, start_quarantine
from topwatch.spark.pipeline.sources import open_source


@pytest.fixture
def changes(spark: SparkSession, tmp_path: Path) -> ChangeFiles:
    return ChangeFiles(spark, tmp_path / "in")


def test_parquet_goes_on_from_its_checkpoint(spark: SparkSession, changes: ChangeFiles, tmp_path: Path) -> None:
    expected = []
    for _ in range(2):
        expected += changes.add()
        settings = {"path": str(tmp_path / "out"), "options": {"compression": "zstd"}}
        query = start(changes.frame(), "parquet", settings, str(tmp_path / "ckpt"), "changes", "once")
        query.awaitTermination()
    assert query.name == "changes"
    written = spark.read.parquet(str(tmp_path / "out"))
    assert written.columns == changes.frame().columns
    assert sorted(row["at"] for row in written.collect()) == expected
    assert all(".zstd." in file.name for file in (tmp_path / "out").glob("*.parquet"))


def test_memory_is_a_table_of_the_session(spark: SparkSession, changes: ChangeFiles) -> None:
    numbers = changes.add()
    start(changes.frame(), "memory", {"table": "answers"}, None, "changes", "once").awaitTermination()
    assert [row["at"] for row in spark.table("answers").collect()] == numbers


def test_console_shows_rows(changes: ChangeFiles, tmp_path: Path) -> None:
    changes.add()
    query = start(changes.frame(), "console", {}, str(tmp_path / "ckpt"), "changes", "once")
    query.awaitTermination()
    # The rows themselves go where the JVM was told to write when it started, out of a test's sight.
    progress = query.recentProgress[0]
    assert "Console" in progress["sink"]["description"]
    assert progress["numInputRows"] == 3


def test_a_trigger_can_be_a_duration(spark: SparkSession, changes: ChangeFiles, tmp_path: Path) -> None:
    numbers = changes.add() + changes.add()
    query = start(changes.frame(), "memory", {}, None, "often", "100 milliseconds")
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
    source = open_source(spark, "files", {"path": str(folder), "format": "json", "schema": "bytes double"})
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
    ("kind", "settings", "patterns"),
    [
        ("parket", {}, ["sink", "accepted are parquet, console", "did you mean 'parquet'"]),
        ("parquet", {}, [r"sink\.parquet\.path"]),
        ("kafka", {"servers": "x"}, [r"sink\.kafka\.topic"]),
        ("jdbc", {"table": "x"}, [r"sink\.jdbc\.url"]),
        ("jdbc", {"url": "jdbc:x", "table": "x", "password_env": "NO_SUCH"}, [r"jdbc\.password_env", "NO_SUCH"]),
        ("jdbc", {"url": "jdbc:x", "table": "x", "options": {"driver": "no.Driver"}}, ["no.Driver", r"spark\.jars"]),
        ("jdbc", {"url": "jdbc:x:y", "table": "x"}, [r"jdbc\.options\.driver", "'x'"]),
        ("parquet", {"path": "x"}, ["checkpoint", r"sink\.parquet"]),
    ],
)
def test_what_makes_no_sense_is_refused(
    changes: ChangeFiles, kind: str, settings: dict[str, Any], patterns: list[str]
) -> None:
    with refused(tw.QueryError, *patterns):
        start(changes.frame(), kind, settings, None, "changes", "once")
