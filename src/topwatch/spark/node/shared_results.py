"""Changes go from one Python worker to another in memory that both map, and only the name of the buffer is sent.

A worker that has a bucket warm computes the changes for the one that Spark has given the task to
(:mod:`topwatch.spark.node.peers`). It writes them to a shared-memory buffer (:mod:`topwatch.spark.node.shared_memory`)
whose first byte says whether they are still to be fetched, and sends its name. A buffer that was fetched is reused.
Nobody fetches the result of a task that has failed: its buffer is reused after a while, and a task that comes too late
fails and is tried again. Where there is no such memory, the changes themselves are sent.
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
PATIENCE = 600.0  # seconds until a buffer that nobody has fetched is reused
START = 64  # bytes before the changes: whether they are to be fetched, then the number of the buffer
NUMBER = slice(8, 40)
FETCHED, WAITING = b"\0", b"\1"
SUFFIX = ".tray"


class ResultBuffer:
    """A buffer for changes, and since when they are to be fetched."""

    def __init__(self, shared: shared_memory.SharedBuffer) -> None:
        self.shared = shared
        self.since = 0.0

    @property
    def idle(self) -> bool:
        """Whether it was fetched, or nobody will fetch it any more."""
        return self.shared.memory[:1] == FETCHED or time.monotonic() - self.since > PATIENCE


_result_buffers: list[ResultBuffer] = []
_turn = threading.Lock()


def lay(table: pa.Table) -> str | None:
    """Write changes to a buffer; return its name and their size, or None where there is none."""
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
    """Return the changes in a buffer, without a copy; it is not reused while an array refers to them."""
    number, size = called.split(" ")
    result = shared_memory.read(number + SUFFIX, 0, START + int(size), mark=FETCHED)
    if result is None or result.slice(0, START).to_pybytes()[NUMBER] != number.encode():
        raise DataError(f"changes: tray {number} is gone, with the worker that had it; the task has to be tried again")
    return unpack(result.slice(START))


def _taken(name: str) -> ResultBuffer | None:
    """Give an idle buffer a new name, or make one."""
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
