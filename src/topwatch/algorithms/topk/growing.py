"""An array that grows along its first axis without being copied or cleared.

NumPy's own ``resize`` writes zeros behind the old end. Here memory comes from the system, page by page when it is first
written to, and is mapped to a larger region when it grows. Where the system cannot do that, it is copied.

A page that is written to for the first time costs as much as tens of rows that are pushed. A caller that knows how
many it needs next can prefetch them while the process is idle. The memory of an array that is gone is kept for the
next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

_POPULATE = 23  # MADV_POPULATE_WRITE, as <linux/mman.h> has it; an older system says no
_IDLE = 19  # the least urgent of threads
SPARE = 1 << 30  # bytes that stay with the process when no array uses them

_spare: list[mmap.mmap] = []
_turn = threading.Lock()


class Growing:
    """An array whose new rows hold anything until they are written.

    Parameters
    ----------
    row_shape : tuple of int
        Shape of a row.
    dtype : dtype
        What it holds.

    Examples
    --------
    >>> numbers = Growing((), np.int64)
    >>> numbers.grow(2)[:] = [7, 8]
    >>> numbers.grow(1000)[:2]
    array([7, 8])
    """

    _memory: mmap.mmap | None = None

    def __init__(self, row_shape: tuple[int, ...], dtype: Any) -> None:
        self._row_shape = row_shape
        self._dtype = np.dtype(dtype)

    def grow(self, rows: int) -> np.ndarray:
        """Return the array with so many rows. No other view of it may be in use any more."""
        size = max(1, rows * self._dtype.itemsize * int(np.prod(self._row_shape, dtype=np.int64)))
        if self._memory is None:
            self._memory = _left(size) or _new(size)
        elif size > len(self._memory):
            larger = _left(size)  # to copy what there is costs less than fresh memory
            if larger is None:
                try:
                    self._memory.resize(size)
                except (BufferError, OSError, SystemError, ValueError):
                    larger = _new(size)
            if larger is not None:
                larger[: len(self._memory)] = self._memory
                self._memory, left = larger, self._memory
                _leave(left)
        flat = np.frombuffer(self._memory, self._dtype, rows * int(np.prod(self._row_shape, dtype=np.int64)))
        return flat.reshape(rows, *self._row_shape)

    def __del__(self) -> None:
        if self._memory is not None and not sys.is_finalizing():
            _leave(self._memory)


Piece = tuple[int, int]  # address and bytes


def piece_of(rows: np.ndarray) -> Piece:
    """Return the whole pages that rows of an array lie in, but for the first, which others may have written to."""
    start = rows.ctypes.data
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    return first, max(0, start + rows.nbytes - first)


def stand_back() -> None:
    """Give this thread the lowest priority, where the system allows it."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _IDLE)


def prefetch_pages(pieces: Sequence[Piece]) -> None:
    """Have the system allocate memory for pages, which takes long. Their contents do not change."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            advise = ctypes.CDLL(None).madvise  # unlike mmap's own it lets other threads go on
            for address, size in pieces:
                advise(ctypes.c_void_p(address), ctypes.c_size_t(size), _POPULATE)


def _left(size: int) -> mmap.mmap | None:
    """Return memory that another array has left: the smallest that is large enough, or None."""
    with _turn:
        result = min((memory for memory in _spare if len(memory) >= size), key=len, default=None)
        if result is not None:
            _spare.remove(result)
        return result


def _leave(memory: mmap.mmap) -> None:
    """Keep memory that nothing refers to any more for another array, unless there is enough of it."""
    try:
        memory.resize(len(memory))  # raises an error where something does
    except (BufferError, OSError, SystemError, ValueError):
        return
    with _turn:
        if len(memory) + sum(map(len, _spare)) <= SPARE:
            _spare.append(memory)


def _new(size: int) -> mmap.mmap:
    """Ask for memory of this process alone: what is shared has a fixed size, and grows only in name."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
