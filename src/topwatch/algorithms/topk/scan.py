"""Scan: score every arrival against every query in one fused, vectorised loop.

The honest baseline: no grid and no lists, but exact skybands as in SMA, and computations from scratch by an equally
vectorised scan of the window. Since that is expensive, the skyband's threshold is set not at the k-th row but, as in
``reserve``, as far below it as makes a second scan unlikely. With few queries it is hard to beat.

Cost per arrival: Q d multiplications, about four of them per cycle of the processor. Memory: O(N d + Q k).
"""

from __future__ import annotations

from topwatch.algorithms.topk.engine import Design
from topwatch.algorithms.topk.reserve import slack_for


def design() -> Design:
    """Skybands below a low threshold, nothing else."""
    return Design(sizes=_sizes, banded=True, unsorted=False, lists=lambda queries, live, target: False, walked=False)


def _sizes(k: int) -> tuple[int, int, int]:
    target = k + slack_for(k)
    return target, target, 2 * target + 32
