"""An array that grows along its first axis without being copied or cleared.

NumPy's own ``resize`` writes zeros behind the old end. Here memory comes from the system, page by page when it is first
written to, and is mapped to a larger place when it grows. Where the system cannot do that, it is copied.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


class Growing:
    """An array whose new rows hold anything until they are written.

    Parameters
    ----------
    rest : tuple of int
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

    def __init__(self, rest: tuple[int, ...], dtype: Any) -> None:
        self._rest = rest
        self._dtype = np.dtype(dtype)
        self._memory: mmap.mmap | None = None

    def grow(self, rows: int) -> np.ndarray:
        """Return the array with so many rows. No other view of it may be in use any more."""
        size = max(1, rows * self._dtype.itemsize * int(np.prod(self._rest, dtype=np.int64)))
        if self._memory is None:
            self._memory = _map(size)
        elif size > len(self._memory):
            try:
                self._memory.resize(size)
            except (BufferError, OSError, SystemError, ValueError):
                larger = _map(size)
                larger[: len(self._memory)] = self._memory
                self._memory = larger
        flat = np.frombuffer(self._memory, self._dtype, rows * int(np.prod(self._rest, dtype=np.int64)))
        return flat.reshape(rows, *self._rest)


def _map(size: int) -> mmap.mmap:
    """Ask for memory of this process alone: what is shared has a fixed size, and grows only in name."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
