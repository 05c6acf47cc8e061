"""One Spark for all tests, on two cores, with the jars for Kafka and PostgreSQL where they can be had."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import kafka_server
import postgres_server
import pytest
from crash_runs import LIGHT_JAVA
from maven_jars import UnavailableError, java
from pyspark.sql import SparkSession

from topwatch.spark.pipeline.runner import ON_ONE_MACHINE

SESSION_JARS = pytest.StashKey[str]()
os.environ.setdefault("SPARK_SUBMIT_OPTS", LIGHT_JAVA)
LONGEST = ("test_kills", "test_hosts", "test_run", "test_bench_spark")  # first: no process shall end alone with one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        java()
    except UnavailableError as error:
        pytest.skip(str(error))
    jars = _jars(kafka_server.connector) + _jars(postgres_server.driver)
    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        **ON_ONE_MACHINE,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # Not spark.jars.packages: Spark does not start at all when one of them cannot be had.
        "spark.jars": ",".join(map(str, jars)),
    }
    builder = SparkSession.builder.master("local[2, 4]").appName("topwatch tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    request.config.stash[SESSION_JARS] = f"Spark {session.version} with " + (
        ", ".join(jar.stem for jar in jars) or "no jars"
    )
    yield session
    session.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    # Which connector was tried matters: it may be older than Spark where no repository has the same version.
    if SESSION_JARS in config.stash:
        terminalreporter.write_line(config.stash[SESSION_JARS])


def _jars(fetch: Callable[[], list[Path]]) -> list[Path]:
    try:
        return fetch()
    except UnavailableError:
        return []  # the tests that need them skip and say why
