"""``topwatch run``: a pipeline on Spark, from its source to its sink, until it is stopped or has read all there is."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from topwatch.query.windows import duration
from topwatch.spark.node import class_data
from topwatch.spark.node.worker_tuning import LARGEST, SPARE
from topwatch.spark.pipeline.config import building
from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.generated import RowsOf
from topwatch.spark.pipeline.progress import UNREAD, Interrupts, RunError, View, cause, follow
from topwatch.spark.pipeline.sinks import ONCE, start, start_quarantine
from topwatch.spark.pipeline.sources import open_source
from topwatch.spark.pipeline.text_rows import PROBLEM, RAW
from topwatch.spark.sources_union import chunks
from topwatch.spark.state.file_writer import open_folder
from topwatch.spark.state.manifest import PARTITIONS
from topwatch.spark.watching import watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOCAL = "local[*, 4]"  # a task is tried four times, as on a cluster
# What Spark says itself. Process ids are the same in two containers that share the folder.
LOG = os.path.join(tempfile.gettempdir(), f"topwatch-spark-{os.getpid()}-{os.urandom(4).hex()}.log")
QUICK = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "node", "startup"
)  # see what lies there
SETTINGS = {
    "spark.app.name": "topwatch",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Columns are chosen and rows counted: the size of a batch need not be worked out again for each of its rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # Spark would look at what came out of the first step before it plans the second: there is nothing to choose.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
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
    "spark.executorEnv.PYTHONPATH": QUICK,
}

# Settings of Java's C library: memory that rows travel in is used again in the next micro-batch, and does not go back
# to the system, from which it comes cleared, page by page. Python workers have the same
# (topwatch.spark.node.worker_tuning). One arena for all threads: the others give whole heaps back, whatever is set.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(LARGEST), "MALLOC_TRIM_THRESHOLD_": str(SPARE), "MALLOC_ARENA_MAX": "1"}

JAVA = "spark.driver.extraJavaOptions"
SOCKETS = "spark.python.unix.domain.socket"
LONGEST = 60  # letters of a folder in which a socket can still have a name


def on_one_machine() -> dict[str, str]:
    """Return all settings of a Spark that runs in one process; this process's environment is made ready for it too."""
    for name, value in MEMORY.items():
        os.environ.setdefault(name, value)
    return {**ON_ONE_MACHINE, **sockets(), JAVA: class_data.options()}


def sockets() -> dict[str, str]:
    """Return settings with which Spark talks to its Python processes on this machine by sockets in a folder.

    On a TCP connection small messages wait 40 ms for the other side's word that the one before has come. The folder is
    new and of this user alone; where its path would be too long, the connections stay as they are.
    """
    root = next((path for path in (tempfile.gettempdir(), "/tmp") if len(path) < LONGEST - 20), None)
    if root is None or not os.access(root, os.W_OK) or sys.platform != "linux":
        return {}
    folder = tempfile.mkdtemp(prefix="topwatch-", dir=root)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {f"{SOCKETS}.enabled": "true", f"{SOCKETS}.dir": folder}


def run(
    pipeline: Pipeline,
    view: View,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    once: bool = False,
    rows_of: RowsOf | None = None,
) -> None:
    """Run a pipeline until it ends, and tell a view how it goes; Ctrl-C stops it cleanly, an error is one line.

    Parameters
    ----------
    pipeline : Pipeline
        What to run.
    view : View
        What shows the run.
    master, conf
        Where Spark runs, and its settings, before those of the file.
    once : bool
        Read what there is now, then stop.
    rows_of : function, optional
        What makes the rows of ``generate``.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    failed = False
    try:
        with Interrupts() as interrupts:
            view.phase("starting Spark")
            spark = session(pipeline, master, conf or {})
            interrupts.hold()
            try:
                _watch(spark, pipeline, view, once, rows_of, interrupts)
            finally:
                view.phase("stopping Spark")
                spark.stop()
    except (RunError, PySparkException, Py4JError, ConnectionError) as error:
        failed = True
        if isinstance(error, RunError):
            message = str(error)
        elif isinstance(error, ConnectionError | Py4JNetworkError):
            message = "run: Spark's process has ended"
        else:
            message = f"run: {cause(str(error))}"
        raise RunError(f"{message}; Spark's own log is {LOG}") from None
    finally:
        if not failed:
            with suppress(FileNotFoundError):
                os.remove(LOG)


def _watch(
    spark: SparkSession,
    pipeline: Pipeline,
    view: View,
    once: bool,
    rows_of: RowsOf | None,
    interrupts: Interrupts,
) -> None:
    view.phase("starting the query")
    query, unread = begin(spark, pipeline, once, rows_of)
    folder = f"{pipeline.checkpoint}/segments" if pipeline.checkpoint is not None else None
    try:
        follow(query, view, folder, unread, lambda: interrupts.asked)
        if query.recentProgress:
            class_data.keep()
    finally:
        view.phase("stopping")
        for active in (query, unread):
            if active is not None and active.isActive:
                active.stop()


def session(pipeline: Pipeline, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start Spark for a pipeline; the settings of the file and of the command line come on top of ours."""
    settings = {} if pipeline.by else {PARTITIONS: "1"}  # one window, one task
    if pipeline.checkpoint is not None and "://" in pipeline.checkpoint:
        settings[FILES] = ANYWHERE
    return start_spark(master, settings, {**pipeline.spark, **conf}, console=pipeline.sink.kind == "console")


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
    ours = dict(SETTINGS)
    if chosen.startswith("local"):
        ours |= {**on_one_machine(), PARTITIONS: str(os.cpu_count() or 1)}
    whole = SparkConf().setAll(list({**ours, **(settings or {}), **given, **requested, "spark.master": chosen}.items()))
    SparkContext(conf=whole, gateway=None if _submit() else _started(whole, console))
    return SparkSession.builder.getOrCreate()


def _started(conf: Any, console: bool) -> Any:
    """Start Spark's Java. Its own words are not for the user's screen; rows for the console are."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    with open(LOG, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
        output = {"stderr": log} if console else {"stdout": log, "stderr": log}
        try:
            return launch_gateway(conf, output)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError:
            with open(LOG, encoding="utf-8", errors="replace") as words:
                why = cause(words.read())
            raise RunError(f"run: Spark did not start: {why}; it needs Java 17 or newer") from None


def _submit() -> bool:
    """Tell whether spark-submit has started Java already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted() -> dict[str, str]:
    """Return the settings that spark-submit was started with; none where it was not."""
    if not _submit():
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the Java that spark-submit has started
    result = dict(SparkConf().getAll())
    if result.get("spark.app.name", "").endswith(".py"):
        del result["spark.app.name"]  # nobody chose it: it is the name of the script
    return result


def begin(
    spark: SparkSession, pipeline: Pipeline, once: bool, rows_of: RowsOf | None = None
) -> tuple[StreamingQuery, StreamingQuery | None]:
    """Start a pipeline; return its query, and the one that writes rows that could not be read."""
    from pyspark.sql import functions as sf

    source = open_source(spark, pipeline.source.kind, pipeline.source.chosen.settings(), rows_of)
    rows = source.frame
    if RAW in rows.columns:
        rows = rows.observe(UNREAD, sf.count(PROBLEM).alias("rows"))
    rows = rows.where(f"{PROBLEM} IS NULL").drop(PROBLEM, RAW)
    if pipeline.lateness is not None and pipeline.time is not None:
        # In Spark's words: it does not know all of ours.
        rows = rows.withWatermark(pipeline.time, f"{duration('lateness', pipeline.lateness) // 1_000_000} milliseconds")
    order = source.order
    if pipeline.chunks is not None and pipeline.time is not None:
        parts = {part: getattr(pipeline.chunks, part) for part in ("every", "source", "value", "combine")}
        rows = chunks(rows, time=pipeline.time, id=pipeline.id, by=pipeline.by, **parts)
        order = (pipeline.id, pipeline.chunks.source)
    bad = pipeline.quarantine
    checkpoint = f"{pipeline.checkpoint}/changes" if pipeline.checkpoint is not None else None
    kept = partitions_of(checkpoint) if checkpoint is not None else None
    if kept is not None:
        spark.conf.set(PARTITIONS, kept)  # groups stay in the buckets that have their windows
    result = watch(
        rows,
        building.queries(pipeline),
        building.window(pipeline),
        time=pipeline.time,
        id=pipeline.id,
        by=pipeline.by or None,
        every=pipeline.every,
        algorithm=pipeline.algorithm,
        emit=pipeline.emit,
        segments=f"{pipeline.checkpoint}/segments" if pipeline.checkpoint is not None else None,
        order=order or None,
        quarantine=f"{bad}/refused" if bad is not None else None,
        **pipeline.options,
    )
    trigger = ONCE if once else _trigger(pipeline)
    query = start(result, pipeline.sink.kind, pipeline.sink.chosen.settings(), checkpoint, "topwatch", trigger)
    unread = None
    if bad is not None and checkpoint is not None:
        unread = start_quarantine(source.frame, f"{bad}/unread", f"{pipeline.checkpoint}/unread", trigger)
    return query, unread


def partitions_of(checkpoint: str) -> str | None:
    """Return the number of partitions that a checkpoint was begun with; None where nothing has begun."""
    system, root = open_folder(f"{checkpoint}/offsets")
    result = system.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    batches = [int(info.base_name) for info in result if info.base_name.isdecimal()]
    if not batches:
        return None
    with system.open_input_file(f"{root}/{max(batches)}") as file:
        _, metadata, *_ = file.read().decode().splitlines()
    kept: str | None = json.loads(metadata).get("conf", {}).get(PARTITIONS)
    return kept


def _trigger(pipeline: Pipeline) -> str | None:
    if pipeline.trigger is None:
        return None
    return f"{duration('trigger', pipeline.trigger) // 1_000_000} milliseconds"
