"""Is the stream in random order? A test of blocks of rows against the window before them.

PA's bound holds for streams in random order only. So a monitor that may use it compares each block, a sixteenth of the
window, with the rows before it: 256 rows of the block, evenly spread, and as many of the rest of the window, by their
scores for up to four of the queries. Two statistics, both of ranks, so that nothing is assumed of the scores:

- the *rank sum* of the block (Wilcoxon): has the level moved?
- the *rank correlation of neighbours* within the block (Wald and Wolfowitz): do scores drift?

Both are close to normal for a stream in random order. Ties are broken at random. The block is called ordered when one
of them lies beyond the quantile at which that happens by chance to one block in 10,000 (:data:`FALSE_ALARMS`, divided
among all statistics of the block).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from topwatch.core.kernels.scoring import Floats, Ints

FALSE_ALARMS = 1e-4  # per block
SAMPLE = 256
QUERIES = 4
BLOCKS = 16  # to a window
CALM = 64  # blocks in a row without an order after which a stream is taken to be in random order
FEWEST = 32  # scores that a comparison needs at least

Keys = Callable[[int, Ints], Floats]  # of a query's index and ordinals


class OrderTest:
    """Looks at each block once; ``calm`` counts the blocks in random order since the last that was not."""

    def __init__(self) -> None:
        self.end = 0  # last ordinal looked at
        self.calm = 0

    def look(self, head: int, end: int, indices: Sequence[int], keys: Keys) -> bool:
        """Look at the blocks that are complete now; return whether one is ordered."""
        size = max(SAMPLE, (end - head + 1) // BLOCKS)
        self.end = max(self.end, head + size)
        ordered = False
        while self.end + size <= end:
            before, self.end = self.end, self.end + size
            if self._is_ordered(head, before, indices, keys):
                ordered, self.calm = True, 0
            else:
                self.calm += 1
        return ordered

    def _is_ordered(self, head: int, before: int, indices: Sequence[int], keys: Keys) -> bool:
        block = np.linspace(before + 1, self.end, SAMPLE).astype(np.int64)
        overflow = np.linspace(head, before, SAMPLE).astype(np.int64)
        chosen = [indices[i] for i in np.linspace(0, len(indices) - 1, min(QUERIES, len(indices))).astype(int)]
        worst = 0.0
        for index in chosen:
            new, old = keys(index, block), keys(index, overflow)
            new, old = new[~np.isnan(new)], old[~np.isnan(old)]
            if min(new.size, old.size) >= FEWEST:
                worst = max(worst, *(abs(z) for z in statistics(new, old, before)))
        return worst > NormalDist().inv_cdf(1 - FALSE_ALARMS / (2 * 2 * max(1, len(chosen))))


def statistics(new: Floats, old: Floats, seed: int) -> tuple[float, float]:
    """Return the rank sum of new scores among old ones and the rank correlation of neighbours, as normal deviates.

    >>> rising = np.arange(100.0)
    >>> [round(z, 1) for z in statistics(rising + 50, rising, seed=0)]
    [9.2, 9.7]
    """
    n, m = new.size, old.size
    both = np.concatenate([new, old])
    ranks = np.empty(n + m)
    ranks[np.lexsort((np.random.default_rng(seed).random(n + m), both))] = np.arange(n + m)
    level = (ranks[:n].sum() - n * (n + m - 1) / 2) / np.sqrt(n * m * (n + m + 1) / 12)
    own = np.argsort(np.argsort(ranks[:n])) - (n - 1) / 2
    neighbours = float((own[1:] * own[:-1]).sum() / (own * own).sum() * np.sqrt(n))
    return float(level), neighbours
