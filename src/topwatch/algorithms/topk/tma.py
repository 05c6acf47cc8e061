"""TMA, the top-k monitoring algorithm: compute the answer again when a row of it expires.

A grid indexes the rows. Each cell lists the queries whose *influence region* it meets, that is, whose k-th score a row
there could reach; an arrival looks at no others. When a row of an answer expires, that answer is computed from scratch,
visiting cells in the order of their best possible score and only those that can hold a row of it.

Mouratidis, Bakiras, Papadias: Continuous monitoring of top-k queries over sliding windows. SIGMOD 2006, section 4.
Section 7 extends it to deletions (here: ``latest()`` windows), to constraints and to thresholds.

Cost per cycle of r arrivals (section 6): O(r + Q (C r δ^d + k r log k / N + P T)), with C cells per region, T the cost
of a computation from scratch and P ≤ 1 − (1 − r/N)^k how often it is due. Memory: O(N (d + 1) + Q (C + d + 2k)).

Ours differs: the answer is a sorted array, not a tree; a cell on the heap is reached from one other cell only, so none
is marked; ties are kept to the letter, so cells whose bound equals the k-th score are visited too (the paper stops
there).
"""

from __future__ import annotations

from topwatch.algorithms.topk.engine import Design


def design(cells: int | None = None) -> Design:
    """Views of exactly k rows, influence lists, rows by cell."""
    return Design(
        sizes=lambda k: (k, k, k),
        banded=False,
        unsorted=False,
        lists=lambda queries, live, target: live >= 16 * target,
        walked=True,
        per_axis=cells,
    )
