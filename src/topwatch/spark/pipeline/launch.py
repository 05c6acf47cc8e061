"""Starts Spark for a command: with the settings that matter on one machine or on a cluster, its log out of the way."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from topwatch.spark.node import class_data
from topwatch.spark.pipeline.progress import RunError, cause
from topwatch.spark.session import SETTINGS
from topwatch.spark.state.manifest import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*, 4]"  # a task is tried four times, as on a cluster
# Spark's own log. Process ids are the same in two containers that share the folder.
LOG = os.path.join(tempfile.gettempdir(), f"topwatch-spark-{os.getpid()}-{os.urandom(4).hex()}.log")
COMMAND_SETTINGS = {
    "spark.app.name": "topwatch",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    **SETTINGS,
}

# How checkpoint files get their names. Spark's usual way starts two programs (chmod, readlink) for each file on a local
# disk, some twenty in a micro-batch; the other one renames them, which is as safe there, but not on an object store.
FILES = "spark.sql.streaming.checkpointFileManagerClass"
_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.{}CheckpointFileManager"
ON_DISK, ANYWHERE = _FILES.format("FileSystemBased"), _FILES.format("FileContextBased")

ON_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    FILES: ON_DISK,
}

JAVA = "spark.driver.extraJavaOptions"


def on_one_machine() -> dict[str, str]:
    """Return all settings of a Spark that runs in one process."""
    return {**ON_ONE_MACHINE, JAVA: class_data.options()}


def start_spark(
    master: str | None,
    settings: Mapping[str, str] | None = None,
    conf: Mapping[str, str] | None = None,
    console: bool = False,
) -> SparkSession:
    """Start Spark with the settings that matter, and some more; those of spark-submit, then ``conf``, come on top.

    ``console``: what Spark writes to standard output is for the user's screen.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given, requested = _submitted(), dict(conf or {})
    # A file does not override the master that spark-submit was given.
    chosen = master or given.get("spark.master") or requested.get("spark.master") or LOCAL
    ours = dict(COMMAND_SETTINGS)
    if chosen.startswith("local"):
        ours |= {**on_one_machine(), PARTITIONS: str(os.cpu_count() or 1)}
    whole = SparkConf().setAll(list({**ours, **(settings or {}), **given, **requested, "spark.master": chosen}.items()))
    SparkContext(conf=whole, gateway=None if _submit() else _started(whole, console))
    return SparkSession.builder.getOrCreate()


def _started(conf: Any, console: bool) -> Any:
    """Start Spark's Java. Its log is not for the user's screen; rows for the console are."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    with open(LOG, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
        output = {"stderr": log} if console else {"stdout": log, "stderr": log}
        try:
            return launch_gateway(conf, output)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError:
            with open(LOG, encoding="utf-8", errors="replace") as text:
                why = cause(text.read())
            raise RunError(f"run: Spark did not start: {why}; it needs Java 17 or newer") from None


def _submit() -> bool:
    """Return whether spark-submit has started Java already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted() -> dict[str, str]:
    """Return the settings that spark-submit was started with; none where it was not."""
    if not _submit():
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the Java that spark-submit has started
    given = dict(SparkConf().getAll())
    if given.get("spark.app.name", "").endswith(".py"):
        del given["spark.app.name"]  # not chosen: it is the name of the script
    return given
