"""Sliding FM sketches of several sources: marking rows, and the sizes of all their unions.

A sketch has for each bit of each bitmap the row that last set it. See ``algorithms/incomplete/sketch.py`` for what is
estimated.
"""

from __future__ import annotations

import numpy as np

from topwatch.core.jit import kernel, leaf
from topwatch.core.kernels.scoring import Floats, Ints

PHI = 0.77351
KAPPA = 1.75
BITS = 40
FEW = 0.1  # from this share of empty bitmaps on, they are what is counted


@kernel
def mark(last: Ints, hashed: Ints, sources: Ints, rows: Ints) -> None:
    """Set the bits of rows, given by the hashes of their ids, in the sketches (sources, bitmaps, BITS)."""
    bitmaps = last.shape[1]
    for i in range(len(rows)):
        if sources[i] < 0:
            continue
        bitmap = hashed[i] & (bitmaps - 1)
        rest = hashed[i] >> 20
        index = 0
        while index < BITS - 1 and rest & 1 == 0:
            rest >>= 1
            index += 1
        if last[sources[i], bitmap, index] < rows[i]:
            last[sources[i], bitmap, index] = rows[i]


@leaf
def _set(last: Ints, some: int, bitmap: int, index: int, head: int) -> bool:
    """Tell whether one of some sources has set a bit since ``head``."""
    for s in range(len(last)):
        if (some >> s) & 1 and last[s, bitmap, index] >= head:
            return True
    return False


@kernel
def count_unions(last: Ints, head: int, counts: Floats) -> None:
    """Estimate how many distinct ids each set of sources, as bits, has reported in rows from ``head`` on."""
    bitmaps = last.shape[1]
    for some in range(1, len(counts)):
        total = 0
        empty = 0
        for bitmap in range(bitmaps):
            length = 0
            while length < BITS and _set(last, some, bitmap, length, head):
                length += 1
            total += length
            if length == 0:
                above = 1
                while above < BITS and not _set(last, some, bitmap, above, head):
                    above += 1
                empty += int(above == BITS)
        if empty > FEW * bitmaps:
            counts[some] = -bitmaps * np.log(empty / bitmaps)
        else:
            mean = total / bitmaps
            counts[some] = bitmaps / PHI * (2.0**mean - 2.0 ** (-KAPPA * mean))
