"""Numbers that every step needs, made once: looking at them costs less than writing them. Nobody writes to them."""

from __future__ import annotations

import numpy as np

from topwatch.core.kernels.scoring import Ints

_counted = np.arange(1 << 10)
_zeros = np.zeros(1 << 10, np.int64)


def counted(start: int, stop: int) -> Ints:
    """Return the whole numbers from ``start`` to before ``stop``."""
    global _counted
    if stop > _counted.size:
        _counted = np.arange(2 * stop)
    return _counted[start:stop]


def zeros(size: int) -> Ints:
    """Return so many zeros."""
    global _zeros
    if size > _zeros.size:
        _zeros = np.zeros(2 * size, np.int64)
    return _zeros[:size]
