"""One process compiles a kernel, others that need it wait and load it: no core does the same work twice.

Only time is at stake. A cache that several processes write to (:mod:`topwatch.core.kernel_cache`) is right without any
lock, so that one that cannot be had, or that is not given back in time, is done without. The system gives back the
locks of a process that ends, however it ends.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

try:
    import fcntl
except ImportError:  # a system that has other locks: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

LONGEST = 60.0  # seconds; a process that was stopped keeps its lock for ever
PAUSE = 0.02  # seconds from one look to the next

_patient = True


def acquire(path: str, made: str) -> int | None:
    """Lock the file of this name, which is made if need be; return its descriptor.

    Returns None once the file ``made`` is there, which the lock is for; where there are no locks; and where another
    process keeps this one for too long. From then on this process waits no more.
    """
    global _patient
    if fcntl is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return None
    end = time.monotonic() + LONGEST
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            there = os.path.exists(made)
            if not there and _patient and time.monotonic() < end:
                time.sleep(PAUSE)
                continue
            _patient = _patient and there
        except OSError:
            pass  # a file system without locks
        os.close(descriptor)
        return None


def release(descriptor: int, path: str) -> None:
    """Give a lock back."""
    # One who waits for the old file and one who makes a new one may both get a lock: they compile the same, no more.
    with suppress(OSError):
        os.unlink(path)
    os.close(descriptor)
