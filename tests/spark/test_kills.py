"""Runs that are killed: the driver with its JVM at bad moments, Python workers in the middle of a micro-batch."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.support import sink_files
from tests.support.crashes.cases import CASES, Stream
from tests.support.crashes.kills import Killer, complaints
from tests.support.crashes.processes import GAP, STATE, Checkpoint
from tests.support.python_workers import kill_workers


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--seed"))


@pytest.mark.slow
def test_a_killed_run_goes_on(spark: SparkSession, tmp_path: Path, rng: np.random.Generator, seed: int) -> None:
    # One in each run of the suite, as the seed has it; `make kills` has all of them, and more moments.
    name = ("all-sma-short-50", "by-auto-long-1")[seed % 2]
    killer = Killer(Stream(CASES[name], tmp_path / "killed", seed), rng)
    killer.disturb([STATE], files=6)
    assert any(kill.hit in GAP for kill in killer.kills), killer.kills
    killer.finish()
    calm = Stream(CASES[name], tmp_path / "calm", seed)
    calm.grow(len(killer.stream.tables))
    calm.start(spark).awaitTermination()
    assert complaints(killer.stream, sink_files.rows(calm.out), len(killer.kills)) == []
    by_spark = spark.read.parquet(str(killer.stream.out)).collect()
    assert sorted(map(str, map(tuple, by_spark))) == sorted(map(str, sink_files.rows(killer.stream.out)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all-auto-long-50", "by-sma-long-50"])
def test_killed_workers_change_nothing(
    spark: SparkSession, tmp_path: Path, rng: np.random.Generator, seed: int, name: str
) -> None:
    stream = Stream(CASES[name], tmp_path / "killed", seed)
    stream.grow(6)
    checkpoint = Checkpoint(stream.folder, partitions=2)
    query = stream.start(spark)
    tracker = spark.sparkContext.statusTracker()
    killed: set[int] = set()  # micro-batches: one kill each, since a task is tried four times at most
    while query.isActive:
        batch = checkpoint.look().batch
        running = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if batch not in killed and any(stage is not None and stage.numActiveTasks for stage in running):
            time.sleep(0.1 * rng.random())
            if kill_workers(spark):
                killed.add(batch)
        time.sleep(0.01)
    assert query.exception() is None
    stages = [
        stage for job in tracker.getJobIdsForGroup(str(query.runId)) for stage in tracker.getJobInfo(job).stageIds
    ]
    failed = sum(info.numFailedTasks for stage in stages if (info := tracker.getStageInfo(stage)) is not None)
    assert failed, f"workers were killed in {len(killed)} micro-batches, and no task noticed"
    assert complaints(stream) == []
