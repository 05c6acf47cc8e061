"""Changes go from one Python worker to another in memory that both see, and only their place is told.

A worker that has a bucket warm finds the changes for the one that Spark has given the task to
(:mod:`topwatch.spark.node.peers`). They are laid on a *tray*, a sheet of :mod:`topwatch.spark.node.shared_memory` of
which the first byte says whether somebody is still to come for it, and its name travels. A tray that was fetched is
used again. Nobody comes for one whose task has failed: it is used again after a while, and a task that comes too late
is told so and tried again. Where there is no such memory, changes travel themselves.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

import pyarrow as pa

from topwatch.query.errors import DataError
from topwatch.spark.node import shared_memory
from topwatch.spark.state.segments import pack_into, packed_size, unpack

TRAYS = 4  # of a worker
PATIENCE = 600.0  # seconds until a tray that nobody has come for is used again
START = 64  # bytes before the changes: whether they wait, then whose they are
NUMBER = slice(8, 40)
FETCHED, WAITING = b"\0", b"\1"
SUFFIX = ".tray"


class ResultBuffer:
    """A sheet for changes, and since when it waits."""

    def __init__(self, shared: shared_memory.SharedBuffer) -> None:
        self.shared = shared
        self.since = 0.0

    @property
    def idle(self) -> bool:
        """Whether somebody has come for it, or nobody ever will."""
        return self.shared.memory[:1] == FETCHED or time.monotonic() - self.since > PATIENCE


_result_buffers: list[ResultBuffer] = []
_turn = threading.Lock()


def lay(table: pa.Table) -> str | None:
    """Lay changes on a tray; return what it is called, or None where there is none."""
    size = packed_size(table)
    if START + size > shared_memory.MOST:
        return None
    number = os.urandom(16).hex()
    with _turn:
        result_buffer = _taken(number + SUFFIX)
        if result_buffer is None or not result_buffer.shared.reserve(START + size):
            return None
        with memoryview(result_buffer.shared.memory) as view:
            buffer = pa.py_buffer(view[START : START + size])
            pack_into(buffer, table)
            del buffer
        result_buffer.shared.memory[NUMBER] = number.encode()
        result_buffer.shared.memory[:1] = WAITING
        result_buffer.since = time.monotonic()
    return f"{number} {size}"


def fetch(called: str) -> pa.Table:
    """Return the changes on a tray, where they lie; it is not used again before the last look at them."""
    number, size = called.split(" ")
    result = shared_memory.read(number + SUFFIX, 0, START + int(size), mark=FETCHED)
    if result is None or result.slice(0, START).to_pybytes()[NUMBER] != number.encode():
        raise DataError(f"changes: tray {number} is gone, with the worker that had it; the task has to be tried again")
    return unpack(result.slice(START))


def _taken(name: str) -> ResultBuffer | None:
    """Give an idle tray a new name, or make one."""
    for result_buffer in _result_buffers:
        if result_buffer.idle:
            with contextlib.suppress(OSError):  # somebody still reads it
                result_buffer.shared.rename(name)
                return result_buffer
    if len(_result_buffers) < TRAYS:
        with contextlib.suppress(OSError):
            _result_buffers.append(ResultBuffer(shared_memory.new_shared_buffer(name)))
            return _result_buffers[-1]
    return None
