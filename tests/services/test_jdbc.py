"""A table of a real PostgreSQL has every row once, whatever crashes and whatever is tried again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.support.change_files import SCHEMA as CHANGES
from tests.support.change_files import ChangeFiles
from tests.support.pipelines import sink_part
from tests.support.servers.maven_jars import UnavailableError
from tests.support.servers.postgres import USER, Server, driver, postgres
from topwatch.spark.pipeline.config.jars import driver_of
from topwatch.spark.pipeline.jdbc import Table
from topwatch.spark.pipeline.sinks import start


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[Server]:
    try:
        driver()
        with postgres() as running:
            yield running
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def changes(spark: SparkSession, tmp_path: Path) -> ChangeFiles:
    return ChangeFiles(spark, tmp_path / "in")


@pytest.fixture
def settings(server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("TOPWATCH_TEST_PASSWORD", server.password)
    access = {"user": USER, "password_env": "TOPWATCH_TEST_PASSWORD"}
    server.sql("DROP TABLE IF EXISTS changes, changes_staging, changes_batches")
    return {"url": server.url, "table": "changes", **access, "options": {"batchsize": 2}}


def run(changes: ChangeFiles, settings: dict[str, Any], checkpoint: Path) -> str:
    query = start(changes.frame(), sink_part("jdbc", **settings), str(checkpoint), "changes", "once")
    query.awaitTermination()
    return query.id


def numbers(server: Server) -> list[int]:
    return [int(row[0]) for row in server.sql("SELECT at FROM changes ORDER BY at")]


def marks(server: Server) -> list[int]:
    return [int(row[0]) for row in server.sql("SELECT _batch_id FROM changes_batches ORDER BY _batch_id")]


def test_rows_and_marks_are_there(
    server: Server, changes: ChangeFiles, settings: dict[str, Any], tmp_path: Path
) -> None:
    expected = changes.add() + changes.add()
    query = run(changes, settings, tmp_path / "ckpt")
    assert numbers(server) == expected
    assert server.sql("SELECT * FROM changes WHERE at = 101") == [["101", "hot", "enter", "r101", "12.625"]]
    assert server.sql("SELECT * FROM changes_batches ORDER BY 2") == [[query, "0"], [query, "1"]]
    assert server.sql("SELECT * FROM changes_staging") == []


def test_a_batch_that_is_replayed_writes_nothing_twice(
    server: Server, changes: ChangeFiles, settings: dict[str, Any], tmp_path: Path
) -> None:
    expected = changes.add() + changes.add()
    run(changes, settings, tmp_path / "ckpt")
    # as after a crash between the table's transaction and Spark's note that the batch is done
    for note in (tmp_path / "ckpt" / "commits").glob("*1*"):
        note.unlink()
    expected += changes.add()
    run(changes, settings, tmp_path / "ckpt")
    assert numbers(server) == expected
    assert marks(server) == [0, 1, 2]


def test_a_crash_between_rows_and_mark_leaves_neither(
    server: Server, changes: ChangeFiles, settings: dict[str, Any], tmp_path: Path
) -> None:
    expected = changes.add()
    run(changes, settings, tmp_path / "ckpt")
    server.sql(
        "CREATE OR REPLACE FUNCTION crash() RETURNS trigger AS $$ BEGIN"
        " IF (SELECT count(*) FROM changes) <> 6 THEN RAISE 'no rows before the mark'; END IF;"
        " PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$ LANGUAGE plpgsql;"
        " CREATE TRIGGER crash BEFORE INSERT ON changes_batches FOR EACH ROW EXECUTE FUNCTION crash()"
    )
    more = changes.add()
    with pytest.raises(StreamingQueryException, match="terminating connection"):
        run(changes, settings, tmp_path / "ckpt")
    assert numbers(server) == expected
    assert marks(server) == [0]
    server.sql("DROP TRIGGER crash ON changes_batches")
    run(changes, settings, tmp_path / "ckpt")
    assert numbers(server) == expected + more
    assert marks(server) == [0, 1]


def test_a_new_start_counts_its_batches_from_zero(
    server: Server, changes: ChangeFiles, settings: dict[str, Any], tmp_path: Path
) -> None:
    expected = changes.add()
    run(changes, settings, tmp_path / "first")
    run(changes, settings, tmp_path / "second")
    assert numbers(server) == sorted(expected * 2)
    assert marks(server) == [0, 0]


class Retried(Table):
    """A table to whose staging each task writes twice, as one does that is lost after its rows were committed."""

    def _append(self, frame: DataFrame, table: str, options: Mapping[str, str] | None = None) -> None:
        for _ in range(2 if table.endswith("_staging") else 1):
            super()._append(frame, table, options)


def test_rows_that_a_task_wrote_twice_count_once(spark: SparkSession, server: Server, settings: dict[str, Any]) -> None:
    table = Retried(
        spark,
        "changes",
        {"url": server.url, "driver": driver_of(server.url), "user": USER, "password": server.password},
    )
    rows = spark.createDataFrame(
        [(1, "Ünïcode 'quoted'", None), (2, "b", 0.5)], 'at long, `the "id"` string, score double'
    )
    table.write(rows, "one query", 0)
    table.write(rows, "one query", 0)
    table.write(rows.limit(0), "one query", 1)
    table.write(rows, "another query", 0)
    assert server.sql("SELECT * FROM changes ORDER BY at") == [
        *[["1", "Ünïcode 'quoted'", ""]] * 2,
        *[["2", "b", "0.5"]] * 2,
    ]
    assert marks(server) == [0, 0, 1]


def test_equal_changes_are_all_there(spark: SparkSession, server: Server, settings: dict[str, Any]) -> None:
    access = {"url": server.url, "driver": driver_of(server.url), "user": USER, "password": server.password}
    # ids may repeat: two rows of one id and score that expire together leave at the same row
    rows = spark.createDataFrame([(9, "hot", "leave", "r1", 0.5)] * 3 + [(9, "hot", "enter", "r2", 0.5)], CHANGES)
    Retried(spark, "changes", access).write(rows.repartition(2), "one query", 0)
    assert server.sql("SELECT id, count(*) FROM changes GROUP BY id ORDER BY id") == [["r1", "3"], ["r2", "1"]]
