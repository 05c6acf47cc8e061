"""The state after each micro-batch: which version a micro-batch begins with, and what is refused in its place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from python_workers import kill_workers

import topwatch as tw
from topwatch.spark.versions import Versions, begin, drop_old

NOTHING: dict[str, int] | None = None


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(str(tmp_path), "abc", 3)


def said(batch: int, before: int) -> Any:
    return lambda: {"batch": batch, "before": before}


@pytest.mark.parametrize("kept", [None, b"", b"rows"])
def test_a_version_is_read_as_it_was_written(versions: Versions, kept: bytes | None) -> None:
    versions.write(4, (b"manifest", kept))
    assert versions.before(5, lambda: NOTHING) == (b"manifest", kept)


def test_before_the_first_there_is_none(versions: Versions) -> None:
    assert versions.before(0, lambda: NOTHING) is None
    assert versions.before(7, lambda: NOTHING) is None, "the bucket has had no row so far"


def test_a_bucket_without_rows_goes_on_from_its_last_version(versions: Versions) -> None:
    for batch in (2, 3):
        versions.write(batch, (b"%d" % batch, None))
    assert versions.before(9, said(3, 2)) == (b"3", None)


def test_a_micro_batch_that_is_run_again_does_not_begin_with_what_it_has_left(versions: Versions) -> None:
    for batch in (2, 5):
        versions.write(batch, (b"%d" % batch, None))
    assert versions.before(5, said(5, 2)) == (b"2", None)
    versions.write(5, (b"again", None))
    assert versions.before(6, said(5, 2)) == (b"again", None)


def test_an_attempt_that_ends_late_does_not_turn_back_the_state(versions: Versions) -> None:
    for batch in (4, 5):
        versions.write(batch, (b"%d" % batch, None))
    versions.write(4, (b"late", None))
    assert versions.before(6, said(4, 3)) == (b"5", None)


def test_a_checkpoint_that_was_turned_back_goes_on_from_the_version_it_had_then(versions: Versions) -> None:
    for batch in range(9):
        versions.write(batch, (b"%d" % batch, None))
    assert versions.before(4, said(8, 7)) == (b"3", None)


@pytest.mark.parametrize(("batch", "noted"), [(5, (4, 3)), (9, (4, 3)), (4, (4, 3))])
def test_a_missing_version_is_an_error_and_not_an_older_state(
    versions: Versions, tmp_path: Path, batch: int, noted: tuple[int, int]
) -> None:
    for number in range(5):
        versions.write(number, (b"%d" % number, None))
    lost = 4 if batch > 4 else 3
    (tmp_path / f"abc-3-{lost:010d}.state").unlink()
    with pytest.raises(tw.DataError, match=f"abc-3-{lost:010d}.state is missing from .* micro-batch {batch} goes on"):
        versions.before(batch, said(*noted))


@pytest.mark.parametrize(("place", "message"), [(0, "no state"), (9, "damaged"), (-1, "damaged"), (None, "damaged")])
def test_a_damaged_version_is_an_error(versions: Versions, tmp_path: Path, place: int | None, message: str) -> None:
    versions.write(0, (b"manifest", b"kept"))
    (path,) = tmp_path.glob("*.state")
    content = bytearray(path.read_bytes())
    if place is None:
        content = content[:20]
    else:
        content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(tw.DataError, match=message):
        versions.before(1, lambda: NOTHING)


def test_old_versions_go_but_for_the_last_of_each_bucket(tmp_path: Path) -> None:
    for bucket, batches in {3: range(8), 30: (1, 2), 4: (5,)}.items():
        for batch in batches:
            Versions(str(tmp_path), "abc", bucket).write(batch, (b"", None))
    drop_old(str(tmp_path), 6)
    left = {bucket: Versions(str(tmp_path), "abc", bucket).numbers() for bucket in (3, 30, 4)}
    assert left == {3: [5, 6, 7], 30: [2], 4: [5]}


def test_what_was_begun_goes_on_as_it_was(tmp_path: Path) -> None:
    uri = str(tmp_path)
    begin(uri, "abc", 2, 0)
    begin(uri, "abc", 2, 5)
    with pytest.raises(tw.DataError, match=r"begun with spark.sql.shuffle.partitions=2 and cannot go on with 3"):
        begin(uri, "abc", 3, 5)
    with pytest.raises(tw.DataError, match="the checkpoint was begun with other queries"):
        begin(uri, "def", 2, 5)
    with pytest.raises(tw.DataError, match=r"state: there is none in .*, though micro-batch 5 goes on from one"):
        begin(f"{uri}/elsewhere", "abc", 2, 5)


# ---- on Spark

HOT = tw.TopK(k=2, score=tw.linear(x=1.0), name="hot")
COLD = tw.TopK(k=3, score=tw.linear(x=-1.0), name="cold")


class Rows:
    """Files that come one by one, and queries over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.count = spark, folder, 0
        (folder / "in").mkdir()

    def add(self) -> None:
        ids = list(range(self.count * 50, self.count * 50 + 50))
        table = pa.table({"id": ids, "x": [(i * 7919) % 1009 / 8 for i in ids]})
        path = self.folder / "in" / f"{self.count:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + self.count,) * 2)  # files come in the order of their times
        self.count += 1

    def watched(self, query: tw.TopK = HOT, **options: Any) -> DataFrame:
        reader = self.spark.readStream.schema("id long, x double").option("maxFilesPerTrigger", 1)
        rows = reader.parquet(str(self.folder / "in"))
        asked: dict[str, Any] = {"window": tw.last(60), "algorithm": "sma", **options}
        return tw.spark.watch(rows, query, segments=str(self.folder / "segments"), order="id", **asked)

    def run(self, frame: DataFrame) -> list[tuple[Any, ...]]:
        out, checkpoint = str(self.folder / "out"), str(self.folder / "ck")
        writer = frame.writeStream.option("path", out).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(map(tuple, self.spark.read.parquet(out).collect()))

    def wanted(self, query: tw.TopK = HOT) -> list[tuple[Any, ...]]:
        monitor = tw.Monitor(query, tw.last(60), algorithm="brute")
        tables = [pq.read_table(path) for path in sorted((self.folder / "in").iterdir())]
        return sorted(tuple(change) for table in tables for change in monitor.push(table))


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> Rows:
    made = Rows(spark, tmp_path)
    made.add()
    made.add()
    return made


def test_two_watched_streams_of_one_query_have_a_state_each(rows: Rows) -> None:
    def both() -> DataFrame:
        return rows.watched(HOT).union(rows.watched(COLD))

    rows.run(both())
    rows.add()
    assert kill_workers(rows.spark), "the state is read again"
    assert rows.run(both()) == sorted(rows.wanted(HOT) + rows.wanted(COLD))


def test_the_same_stream_twice_in_one_query(rows: Rows) -> None:
    rows.run(rows.watched().union(rows.watched()))
    rows.add()
    assert rows.run(rows.watched().union(rows.watched())) == sorted(2 * rows.wanted())


@pytest.mark.parametrize(("lost", "message"), [("*", "state: there is none in"), ("*/*.state", "is missing from")])
def test_a_state_that_is_lost_is_an_error(rows: Rows, lost: str, message: str) -> None:
    before = rows.run(rows.watched())
    for path in list((rows.folder / "segments").glob(lost)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    rows.add()
    with pytest.raises(StreamingQueryException, match=message):
        rows.run(rows.watched())
    assert sorted(map(tuple, rows.spark.read.parquet(str(rows.folder / "out")).collect())) == before
