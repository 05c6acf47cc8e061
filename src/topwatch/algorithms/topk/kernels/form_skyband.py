"""Skybands: of the rows above a threshold those that fewer than k newer and better ones beat (SIGMOD'06, section 5)."""

from __future__ import annotations

from topwatch.algorithms.topk.kernels.sorted_runs import Runs, put, shift
from topwatch.core.jit import ZERO, inlined, leaf


@inlined
def beat(runs: Runs, q: int, k: int, rank: int) -> None:
    """Count one more newer and better row for all from ``rank`` on; drop those that k such rows beat."""
    first = runs.first[q]
    n = runs.size[q]
    beaten = runs.beaten[first : first + n]
    full = 0
    for i in range(rank, n):
        beaten[i] += 1
        full += int(beaten[i] >= k)
    if full == 0:
        return
    kept = rank
    for i in range(rank, n):
        if beaten[i] < k:
            put(runs, first + kept, first + i)
            kept += 1
    runs.size[q] = kept


@leaf
def form_band(runs: Runs, q: int, k: int) -> None:
    """Count for each row the newer and better ones, after a computation from scratch; drop those that k beat."""
    first = runs.first[q]
    # From the last on: those before it are still all there.
    for i in range(runs.size[q] - 1, -1, -1):
        newer = ZERO
        seq = runs.seq[first : first + i]
        mine = runs.seq[first + i]
        for j in range(i):
            newer += int(seq[j] > mine)
        runs.beaten[first + i] = newer
        if newer >= k:
            shift(runs, first + i, first + i + 1, runs.size[q] - i - 1)
            runs.size[q] -= 1
