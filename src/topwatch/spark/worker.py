"""What a Python worker of Spark is told once, so that a micro-batch costs what its rows cost.

Spark collects garbage after every task, and walks through every object of Numba, pandas and Arrow: a tenth of a second
in which nothing is found. What has been loaded is therefore frozen. And memory that a task gives back is needed again
by the next one: it stays with the process, since pages that come fresh from the system are cleared first.
"""

from __future__ import annotations

import ctypes
import gc
import sys

import pyarrow as pa

# Names of settings of the C library, as <malloc.h> has them.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST = 32 << 20  # bytes: the largest block that can be kept
_SPARE = 1 << 30  # bytes that stay with the process when nobody uses them

_tasks = 0


def settle() -> None:
    """Begin a task."""
    global _tasks
    if _tasks == 0:
        _keep_memory()
    # Code is loaded by the first tasks of a worker. Freezing seldom, and never garbage: it has been collected.
    elif _tasks & (_tasks - 1) == 0:
        gc.freeze()
    _tasks += 1


def _keep_memory() -> None:
    """Take memory from the C library and let it keep what is given back, where it can be told so."""
    if sys.platform != "linux":
        return
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library
    if tell(_MMAP_THRESHOLD, _LARGEST) and tell(_TRIM_THRESHOLD, _SPARE):
        pa.set_memory_pool(pa.system_memory_pool())
