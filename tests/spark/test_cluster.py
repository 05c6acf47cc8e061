"""A real cluster on this machine: a master and two workers, one of which is killed while a pipeline runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest
import sink_files
from crash_cases import CASES, Stream
from crash_runs import SEGMENT, Checkpoint, Run, ended, kill, session_of
from loopback import HOST, free_port, serving
from maven_jars import UnavailableError, java
from pyspark.sql import SparkSession
from spark.kills import complaints

import topwatch

HOME = Path(pyspark.__file__).parent
SOURCES = str(Path(topwatch.__file__).parents[1])


class Cluster(NamedTuple):
    """Where its master is, and the process ids of its workers."""

    url: str
    workers: list[int]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    try:
        java()
    except UnavailableError as error:
        pytest.skip(str(error))
    own = {"SPARK_HOME": HOME, "SPARK_CONF_DIR": tmp_path, "SPARK_LOCAL_DIRS": tmp_path, "SPARK_DAEMON_MEMORY": "512m"}
    environment = {**os.environ, **{name: str(value) for name, value in own.items()}}
    environment["SPARK_DAEMON_JAVA_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]
    with ExitStack() as stack:

        def start(role: str, name: str, *arguments: str) -> tuple[int, int]:
            port = free_port()
            command = [HOME / "bin/spark-class", f"org.apache.spark.deploy.{role}", "--host", HOST]
            command += ["--port", str(port), "--webui-port", "0", *arguments]
            server = serving(
                command, port, tmp_path / f"{name}.log", signal.SIGTERM, env=environment, start_new_session=True
            )
            process = stack.enter_context(server)
            return process, port

        _, port = start("master.Master", "master")
        url = f"spark://{HOST}:{port}"
        workers: list[int] = []
        stack.callback(lambda: [ended(process) for process in workers])  # once they are stopped: their executors too
        for name in ("worker-1", "worker-2"):
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / name)]
            process, _ = start("worker.Worker", name, *size, url)
            workers.append(process)
        yield Cluster(url, workers)


@pytest.mark.slow
def test_a_worker_is_lost(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    case = CASES["by-sma-long-50"]
    stream = Stream(case, tmp_path / "cluster", seed=1)
    stream.grow(6)
    settings = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": f"-Djava.io.tmpdir={tmp_path} {os.environ['SPARK_SUBMIT_OPTS']}",
        "spark.executorEnv.PYTHONPATH": SOURCES,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both workers have executors before anything runs
    }
    checkpoint = Checkpoint(stream.folder, case.partitions)
    run = Run(stream.file, "--master", cluster.url, *(f"--conf={name}={value}" for name, value in settings.items()))
    try:
        lost = cluster.workers[0]
        while True:
            seen = checkpoint.look()
            # Rows have been packed and are about to be taken in: a part of the references is lost with the worker.
            if seen.batch >= 2 and checkpoint.kind(seen) == SEGMENT:
                break
            if not run.running:
                run.finish()
                pytest.fail("the run ended before a worker was lost")
            time.sleep(0.001)
        gone = session_of(lost)
        assert len(gone) >= 3, "the worker, its executor, the executor's Python"
        for process in gone:
            kill(process)
        run.finish()
    finally:
        run.kill()
    local = Stream(case, tmp_path / "local", seed=1)
    local.grow(6)
    local.start(spark).awaitTermination()
    assert complaints(stream, sink_files.rows(local.out)) == []
