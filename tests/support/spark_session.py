"""One Spark for all tests of a process, on two cores, with the jars for Kafka and PostgreSQL where they can be had."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.crashes.processes import LIGHT_JAVA
from tests.support.servers import kafka, postgres
from tests.support.servers.maven_jars import UnavailableError
from topwatch.spark.pipeline.launch import ON_ONE_MACHINE
from topwatch.spark.session import SETTINGS


@contextmanager
def started(folder: Path) -> Iterator[tuple[SparkSession, str]]:
    """Start Spark with its files in a folder; yield the session, and its version and jars as text."""
    jars = _jars(kafka.connector) + _jars(postgres.driver)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", LIGHT_JAVA)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        **SETTINGS,
        **ON_ONE_MACHINE,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # Snapshots of the state are written as soon as they are made, as in a stream that runs for minutes.
        "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
        # Not spark.jars.packages: Spark does not start at all when one of them cannot be had.
        "spark.jars": ",".join(map(str, jars)),
    }
    builder = SparkSession.builder.master("local[2, 4]").appName("topwatch tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session, f"Spark {session.version} with " + (", ".join(jar.stem for jar in jars) or "no jars")
    session.stop()


def _jars(fetch: Callable[[], list[Path]]) -> list[Path]:
    try:
        return fetch()
    except UnavailableError:
        return []  # the tests that need them skip and say why
