"""The types of arrays that the package uses, and empty ones, which need not be made again.

All kernels take the same few types, so that each is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]  # values, keys and scores
Ints: TypeAlias = NDArray[np.int64]  # slots, ticks, ordinals and counts
Bools: TypeAlias = NDArray[np.bool_]
Int32s: TypeAlias = NDArray[np.int32]  # numbers of which many are kept
Hashes: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]

NO_INTS: Ints = np.empty(0, np.int64)
NO_FLOATS: Floats = np.empty(0)

# The least time in nanoseconds since 1970. No row has it: NumPy takes it for a missing time.
EARLIEST = -(2**63)


def times_before(times: np.ndarray, span: float) -> np.ndarray:
    """Return what lies a span before some times; whole numbers end at ``EARLIEST`` instead of wrapping around."""
    if times.dtype.kind == "i":
        span = int(span)
        times = np.maximum(times, EARLIEST + span)
    result: np.ndarray = times - span
    return result


def size_of(*structures: Iterable[Any]) -> int:
    """Return the bytes of all arrays in some tuples, and in tuples in these."""
    parts = [part for structure in structures for part in structure]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    return sum(array.nbytes for array in arrays) + sum(size_of(part) for part in parts if isinstance(part, tuple))
