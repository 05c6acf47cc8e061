"""Scan: score every arrival against every query in one fused, vectorised loop.

The honest baseline: no grid and no lists, but exact skybands as in SMA, and computations from scratch by an equally
vectorised scan of the window. With few queries it is hard to beat.

Cost per arrival: Q d multiplications, about four of them per cycle of the processor. Memory: O(N d + Q k).
"""

from __future__ import annotations

from topwatch.algorithms.topk.sma import skyband_sizes
from topwatch.structures.standing import Design


def design() -> Design:
    """Skybands, nothing else."""
    return Design(sizes=skyband_sizes, banded=True, lists=lambda queries, live, target: False, walked=False)
