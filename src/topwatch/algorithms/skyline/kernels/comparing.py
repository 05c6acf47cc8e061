"""A point beside a block of rows, column by column: which of them it may dominate, and which may dominate it."""

from __future__ import annotations

import numpy as np

from topwatch.core.jit import inlined
from topwatch.core.kernels.scoring import Floats


@inlined
def set_beside(point: Floats, values: Floats, start: int, stop: int, le: np.ndarray, ge: np.ndarray) -> bool:
    """Mark the rows that are nowhere above a point, and those that are nowhere below; tell whether some are one only.

    A row that is one and not the other dominates the point, or is dominated by it; equal rows are both. ``values`` is
    (columns, rows), of which those from ``start`` to ``stop`` are looked at; NaN is neither.
    """
    for c in range(len(point)):
        y = values[c, start:stop]
        p = point[c]
        if c == 0:
            for i in range(len(y)):
                le[i] = y[i] <= p
                ge[i] = y[i] >= p
        else:
            for i in range(len(y)):
                le[i] &= y[i] <= p
                ge[i] &= y[i] >= p
    some = np.int32(0)
    for i in range(len(le)):
        some = np.int32(some + (np.int32(le[i]) ^ np.int32(ge[i])))
    return bool(some > 0)
