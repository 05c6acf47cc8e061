"""Spark's store owns every version: whatever is evaluated twice, in part, elsewhere or not at all.

Equal to a monitor, or an error; each case with segments in a folder and in the store.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import topwatch as tw
from tests.support.python_workers import kill_workers

HOT = tw.TopK(k=2, score=tw.linear(x=1.0), name="hot")
COLD = tw.TopK(k=3, score=tw.linear(x=-1.0), name="cold")
FILES = 5
Line = tuple[Any, ...]


class Rows:
    """Files that come one by one, a micro-batch each, and what is watched over them."""

    def __init__(self, spark: SparkSession, folder: Path, backend: str) -> None:
        self.spark, self.folder, self.count = spark, folder, 0
        self.segments = str(folder / "segments") if backend == "folder" else None

    def add(self, files: int = 1, source: str = "in") -> None:
        (self.folder / source).mkdir(exist_ok=True)
        for _ in range(files):
            ids = list(range(self.count * 50, self.count * 50 + 50))
            salt = sum(map(ord, source))
            table = pa.table({"id": ids, "g": [f"g{i % 7}" for i in ids], "x": [(i * salt) % 1009 / 8 for i in ids]})
            path = self.folder / source / f"{self.count:03d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_000_000_000 + self.count,) * 2)  # files come in the order of their times
            self.count += 1

    def watched(self, query: tw.TopK = HOT, source: str = "in", **options: Any) -> DataFrame:
        reader = self.spark.readStream.schema("id long, g string, x double").option("maxFilesPerTrigger", 1)
        rows = reader.parquet(str(self.folder / source))
        given: dict[str, Any] = {"window": tw.last(60), "algorithm": "sma", "order": "id", **options}
        return tw.spark.watch(rows, query, segments=self.segments, **given)

    def run(self, frame: DataFrame, write: Callable[[DataFrame, int], None] | None = None) -> list[Line]:
        out = self.folder / "out"
        writer = frame.writeStream.option("checkpointLocation", str(self.folder / "ck"))
        writer = writer.option("path", str(out)) if write is None else writer.foreachBatch(write)
        writer.trigger(availableNow=True).start().awaitTermination()
        return lines(self.spark.read.parquet(str(out)))

    def wanted(self, query: tw.TopK = HOT, source: str = "in", by: str | None = None) -> list[Line]:
        table = pa.concat_tables(pq.read_table(path) for path in sorted((self.folder / source).iterdir()))
        result: list[Line] = []
        for group in sorted(set(table.column("g").to_pylist())) if by else [None]:
            part = table if group is None else table.filter(pa.array([g == group for g in table["g"].to_pylist()]))
            monitor = tw.Monitor(query, tw.last(60), algorithm="brute")
            result += [(*((group,) if by else ()), *change) for change in monitor.push(part)]
        return sorted(result, key=str)


def lines(frame: DataFrame) -> list[Line]:
    return sorted(map(tuple, frame.collect()), key=str)


@pytest.fixture(params=["folder", "store"])
def rows(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Rows:
    return Rows(spark, tmp_path, request.param)


WHOLE: dict[str, Any] = {}
GROUPED: dict[str, Any] = {"by": "g"}
PRUNED: dict[str, Any] = {"order": None, "algorithm": "auto"}
NOT_COMMITTED = "XXKST"  # of STATE_STORE_COMMIT_VALIDATION_FAILED, which Spark names as the cause of its error


@pytest.mark.parametrize("options", [WHOLE, GROUPED, PRUNED], ids=["whole", "grouped", "pruned"])
def test_two_sinks_are_written_by_threads_of_a_pool(rows: Rows, options: dict[str, Any]) -> None:
    """Each evaluates the micro-batch, in a thread that knows nothing of the query."""
    rows.add(FILES)
    sinks = [str(rows.folder / name) for name in ("out", "other")]

    def write(frame: DataFrame, batch: int) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda path: frame.write.mode("append").parquet(path), sinks))

    result = rows.run(rows.watched(**options), write)
    assert result == rows.wanted(by=options.get("by"))
    assert lines(rows.spark.read.parquet(sinks[1])) == result


def test_a_sink_is_written_twice(rows: Rows) -> None:
    rows.add(FILES)

    def write(frame: DataFrame, batch: int) -> None:
        frame.count()
        frame.write.mode("append").parquet(str(rows.folder / "out"))

    assert rows.run(rows.watched(), write) == rows.wanted()


@pytest.mark.parametrize(
    ("part", "options"),
    [("one row", WHOLE), ("nothing", GROUPED), ("one row", PRUNED), ("one partition", GROUPED)],
    ids=["one row", "nothing", "one row, pruned", "one partition"],
)
def test_a_micro_batch_that_is_not_evaluated_is_refused(rows: Rows, options: dict[str, Any], part: str) -> None:
    """Spark sees that a partition's state was not committed; nothing is written from a state that lacks rows."""
    rows.add(FILES)

    def write(frame: DataFrame, batch: int) -> None:
        if batch != 2:
            frame.write.mode("append").parquet(str(rows.folder / "out"))
        elif part == "one row":
            frame.take(1)
        elif part == "one partition":
            rows.spark.sparkContext.runJob(frame.rdd, list, partitions=[0])

    with pytest.raises(StreamingQueryException, match=NOT_COMMITTED):
        rows.run(rows.watched(**options), write)
    # Spark takes the micro-batch for done, and has no state to go on from: it says so, run after run.
    with pytest.raises(StreamingQueryException, match="CANNOT_LOAD_STATE_STORE"):
        rows.run(rows.watched(**options), write)
    written = lines(rows.spark.read.parquet(str(rows.folder / "out")))
    assert set(written) < set(rows.wanted(by=options.get("by")))


def test_without_sparks_validation_the_next_micro_batch_finds_no_version(rows: Rows) -> None:
    rows.add(FILES)

    def write(frame: DataFrame, batch: int) -> None:
        if batch != 2:
            frame.write.mode("append").parquet(str(rows.folder / "out"))

    rows.spark.conf.set("spark.sql.streaming.stateStore.commitValidation.enabled", "false")
    try:
        with pytest.raises(StreamingQueryException):
            rows.run(rows.watched(), write)
    finally:
        rows.spark.conf.unset("spark.sql.streaming.stateStore.commitValidation.enabled")
    assert set(lines(rows.spark.read.parquet(str(rows.folder / "out")))) < set(rows.wanted())


def test_two_equal_watched_streams_of_two_sources(rows: Rows) -> None:
    def both() -> DataFrame:
        return rows.watched(source="in").union(rows.watched(source="other"))

    rows.add(2, "in")
    rows.add(2, "other")
    rows.run(both())
    rows.add(1, "in")
    rows.add(1, "other")
    assert kill_workers(rows.spark), "the state is read again"
    assert rows.run(both()) == sorted(rows.wanted(source="in") + rows.wanted(source="other"), key=str)


@pytest.mark.parametrize("same", [False, True], ids=["two calls", "one frame"])
def test_the_same_stream_twice_in_one_query(rows: Rows, same: bool) -> None:
    def both() -> DataFrame:
        one = rows.watched()
        return one.union(one if same else rows.watched())

    rows.add(2)
    rows.run(both())
    rows.add()
    assert rows.run(both()) == sorted(2 * rows.wanted(), key=str)


def test_two_other_watched_streams_of_one_query(rows: Rows) -> None:
    def both() -> DataFrame:
        return rows.watched(HOT).union(rows.watched(COLD))

    rows.add(2)
    rows.run(both())
    rows.add()
    assert kill_workers(rows.spark), "the state is read again"
    assert rows.run(both()) == sorted(rows.wanted(HOT) + rows.wanted(COLD), key=str)


def test_async_progress_tracking_is_refused(rows: Rows) -> None:
    """It commits micro-batches some at a time: Spark's store would have versions that no log names."""
    rows.add()
    writer = rows.watched().writeStream.format("noop").option("checkpointLocation", str(rows.folder / "ck"))
    writer = writer.option("asyncProgressTrackingEnabled", "true").trigger(processingTime="0 seconds")
    with pytest.raises(Exception, match=r"(?i)stateful"):
        writer.option("_asyncProgressTrackingOverrideSinkSupportCheck", "true").start().awaitTermination(60)


def test_a_copied_checkpoint_that_shares_the_segments(spark: SparkSession, tmp_path: Path) -> None:
    """Original and copy have one state and go their own ways; one that stays behind fails: a segment is gone."""
    rows = Rows(spark, tmp_path, "folder")
    copies = [Rows(spark, tmp_path / name, "folder") for name in ("copy", "behind")]
    rows.add(2)
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "1")
    try:
        before = rows.run(rows.watched())
        for copied in copies:
            for name in ("ck", "out"):
                shutil.copytree(tmp_path / name, copied.folder / name)
        rows.add(2)
        # Spark reads of a sink that was copied what came since.
        assert sorted(before + copies[0].run(rows.watched()), key=str) == rows.wanted()
        rows.add(12)
        assert rows.run(rows.watched()) == rows.wanted(), "by now it has removed what it does not need"
        kill_workers(spark)
        assert sorted(before + copies[0].run(rows.watched()), key=str) == rows.wanted()
        with pytest.raises(StreamingQueryException, match=r"segments: \S+.seg is missing from"):
            copies[1].run(rows.watched())
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"order": "id"}, {"order": ["x", "id"]}),
        ({"by": "g"}, {"by": "number"}),
        ({"by": "number"}, {"by": "wide"}),
    ],
    ids=["order", "by", "type"],
)
def test_what_the_state_depends_on_cannot_change(rows: Rows, before: dict[str, Any], after: dict[str, Any]) -> None:
    def watched(**options: Any) -> DataFrame:
        reader = rows.spark.readStream.schema("id long, g string, x double").option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(rows.folder / "in"))
        kinds = {"number": sf.col("id").cast("int") % 3, "wide": sf.col("id") % 3}
        by = options.get("by")
        if by in kinds:
            frame = frame.withColumn("k", kinds[by])
            options["by"] = "k"
        given = {"order": "id", **options}
        return tw.spark.watch(frame, HOT, tw.last(60), algorithm="sma", segments=rows.segments, **given)

    rows.add()
    rows.run(watched(**before))
    rows.add()
    with pytest.raises(StreamingQueryException, match=r"begun with other queries, another window or other settings"):
        rows.run(watched(**after))
