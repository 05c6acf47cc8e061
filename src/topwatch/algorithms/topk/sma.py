"""SMA, the skyband monitoring algorithm: keep the rows that can still become answers.

A row that k newer and better rows beat can never be an answer again. The rows that fewer beat, the *k-skyband* in the
plane of score and time, hold the answers of the future, so that an expiry seldom needs a computation from scratch.
The skyband is kept only among rows at or above the k-th score of the last such computation: below that, rows are
unknown.

Mouratidis, Bakiras, Papadias: Continuous monitoring of top-k queries over sliding windows. SIGMOD 2006, section 5.

Cost per cycle of r arrivals (section 6): O(r + Q (C r δ^d + k² r / N)). Memory: O(N (d + 1) + Q (C + d + 3k)). The
mean size of a skyband is within a few percent of k (the paper's Table 2).

Ours differs: while a window fills, thresholds are raised each time its rows have doubled; dominance counters after a
computation from scratch are vectorised counts, not a balanced tree; a skyband that outgrows its room is cut to its
best k rows and its threshold raised, which is as exact. The order of expiry must be known, so there is no SMA on
``latest()`` windows (section 7).
"""

from __future__ import annotations

from topwatch.algorithms.topk.engine import Design


def design(cells: int | None = None) -> Design:
    """Skybands, influence lists, rows by cell."""
    return Design(
        sizes=skyband_sizes,
        banded=True,
        unsorted=False,
        lists=lambda queries, live, target: live >= 16 * target,
        walked=True,
        per_axis=cells,
    )


def skyband_sizes(k: int) -> tuple[int, int, int]:
    """Return (k, k, room): a computation from scratch finds k rows, and a skyband hardly ever has twice as many."""
    return k, k, 3 * k + 32
