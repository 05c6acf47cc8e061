"""A checkpoint keeps its number of partitions, on which machine ever it goes on: groups have their windows there."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import topwatch as tw
from tests.support.crashes.cases import CASES, Stream
from tests.support.crashes.kills import complaints
from topwatch.spark.state.manifest import PARTITIONS

CASE = CASES["by-auto-short-50"]


@pytest.fixture
def _two_again(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.set(PARTITIONS, "2")


@pytest.mark.usefixtures("_two_again")
def test_a_run_goes_on_with_the_partitions_of_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(CASE, tmp_path / "run", seed=1)
    for files in (1, 2):
        stream.grow(files)
        stream.start(spark).awaitTermination()
        spark.conf.set(PARTITIONS, "3")  # as on a machine with more cores
    assert complaints(stream) == []


@pytest.mark.usefixtures("_two_again")
@pytest.mark.parametrize("own", [False, True], ids=["Spark's thread", "own thread"])
def test_watch_refuses_other_partitions(spark: SparkSession, tmp_path: Path, own: bool) -> None:
    """Also in a thread where Spark does not say how many there are, and for a group whose bucket has no state."""
    stream = Stream(CASE, tmp_path / "run", seed=1)

    def write(frame: DataFrame, batch: int) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: frame.write.mode("append").parquet(str(tmp_path / "out"))).result()

    def run(group: str) -> None:
        stream.grow(len(stream.tables) + 1)
        rows = spark.readStream.schema("id long, g string, x double").parquet(str(stream.folder / "in"))
        hot = tw.TopK(k=3, score=tw.linear(x=1.0), name="hot")
        mine = rows.where(sf.col("g") == group)
        watched = tw.spark.watch(mine, hot, tw.last(10), by="g", segments=str(tmp_path / "segments"))
        writer = watched.writeStream.option("checkpointLocation", str(tmp_path / "ck"))
        writer = writer.foreachBatch(write) if own else writer.option("path", str(tmp_path / "out"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run("a")
    for partitions in ("3", "7"):
        spark.conf.set(PARTITIONS, partitions)
        for group in "ab":
            with pytest.raises(StreamingQueryException, match=f"begun with {PARTITIONS}=2 and cannot go on"):
                run(group)
    spark.conf.set(PARTITIONS, "2")
    run("b")
