"""Settings that a Python worker of Spark gets once, so that a micro-batch costs what its rows cost.

Spark collects garbage after every task, and walks through every object of Numba, pandas and Arrow: a tenth of a second
in which nothing is found. What has been loaded is therefore frozen. And memory that a task gives back is needed again
by the next one: it stays with the process, since pages that come fresh from the system are cleared first.

Here and in what Spark calls (:mod:`topwatch.spark.operator.partition_writer`, :mod:`topwatch.spark.operator.processor`)
only what every task needs is imported at once. Each operator of a stream has its own Python workers, and one more on
the driver only asks which state there is: all of them would load Numba, which takes half a second, and two cores share
the work.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import warnings
from typing import NamedTuple

# Names of settings of the C library, as <malloc.h> has them.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
LARGEST = 32 << 20  # bytes: the largest block that can be kept
SPARE = 1 << 30  # bytes that stay with the process when nobody uses them

_tasks = 0


def tune_worker() -> None:
    """Begin a task."""
    global _tasks
    if _tasks == 0:
        _keep_memory()
        # PySpark's own doing, in each task of a stream with state.
        warnings.filterwarnings("ignore", "The behavior of DataFrame concatenation", FutureWarning, "pyspark.worker")
    # Code is loaded by the first tasks of a worker. Freezing seldom, and never garbage: it has been collected.
    elif _tasks & (_tasks - 1) == 0:
        gc.freeze()
    _tasks += 1


def _keep_memory() -> None:
    """Take memory from the C library and let it keep what is given back, where it has such a setting."""
    if sys.platform != "linux":
        return
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library
    import pyarrow as pa

    if tell(_MMAP_THRESHOLD, LARGEST) and tell(_TRIM_THRESHOLD, SPARE):
        pa.set_memory_pool(pa.system_memory_pool())


class Hints(NamedTuple):
    """What Spark says about a task where its query's own thread has started it: for people to look at, and only that.

    A job that a user's own thread starts, as in ``foreachBatch``, has none of it. State, segments and versions never
    depend on it.
    """

    query: str | None  # the streaming query's id, which a restart keeps
    batch: int | None  # the number of the micro-batch


UNSAID = Hints(None, None)


def hints() -> Hints:
    """Return what Spark says about this task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return UNSAID
    batch = task.getLocalProperty("streaming.sql.batchId")
    return Hints(task.getLocalProperty("sql.streaming.queryId"), int(batch) if batch is not None else None)
