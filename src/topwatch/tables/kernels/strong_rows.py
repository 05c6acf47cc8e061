"""Strong rows: a few that dominate much of a table, and what they leave of it."""

from __future__ import annotations

import numpy as np

from topwatch.core.jit import ZERO, kernel
from topwatch.core.kernels.scoring import Floats, Ints


@kernel
def choose_strong(sample: Floats, most: int, gain: float) -> Ints:
    """Return rows of a sample, each of which dominates more than a share of what those before it leave."""
    d, n = sample.shape
    beats = np.empty((n, n), np.bool_)
    gains = np.zeros(n, np.int64)
    for a in range(n):
        for b in range(n):
            less = False
            more = False
            for j in range(d):
                less |= sample[j, a] < sample[j, b]
                more |= sample[j, a] > sample[j, b]
            beats[a, b] = less and not more
            gains[a] += int(less and not more)
    chosen = np.empty(most, np.int64)
    result = ZERO
    rest = n
    while result < most and n > 0:
        best = np.argmax(gains)
        if gains[best] <= gain * rest:
            break
        chosen[result] = best
        result += 1
        rest -= gains[best]
        for b in range(n):
            if beats[best, b]:
                for a in range(n):
                    gains[a] -= int(beats[a, b])
                    beats[a, b] = False
    return chosen[:result]


@kernel
def drop_beaten(values: Floats, strong: Floats, left: Ints) -> int:
    """Write the rows (columns, rows) that none of the strong ones (rows, columns) dominates; return how many.

    ``left`` has room for one more.
    """
    d, n = values.shape
    result = ZERO
    for i in range(n):
        beaten = False
        for s in range(len(strong)):
            worse = True
            differs = False
            for j in range(d):
                worse &= values[j, i] >= strong[s, j]
                differs |= values[j, i] > strong[s, j]
                if s > 0 and not worse:  # most rows that are left by the first differ soon
                    break
            if worse and differs:
                beaten = True
                break
        left[result] = i
        result += int(not beaten)
    return result
