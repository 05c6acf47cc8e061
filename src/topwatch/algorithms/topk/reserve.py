"""Reserve: keep every row above a threshold set a little below the k-th score, and scan when the reserve runs out.

Ours, exact. Each query keeps all live rows that reach its *threshold*: the answer, sorted, and a reserve in no order.
The threshold is set at rank k + slack and then stands still, so an arrival below it costs nothing, one between it and
the answer is only appended, and an expiry matters only in the answer: then the best live row of the reserve moves up.
When that has none left, one vectorised scan of the window sets a new threshold; when it has grown by half, it is cut
and the threshold raised. Influence lists say which queries an arrival may concern; rows are not kept by cell at all, so
that the grid costs nothing per row. Where rows and queries crowd in the same cells lists are long, and where thresholds
move all the time lists move too: then all queries are scored in one loop.

How much slack: on a stream without drift the number of rows above a fixed threshold wanders around k + s with a
standard deviation of at most √(2 (k + s)) (the rows themselves, and the rank at which the threshold was set, are both
counts). With s = z² + z √(z² + 2k) it runs out only beyond z deviations; z = 3.5 makes that about once in 4,000
windows. On a stream that drifts away from a query its best rows are the oldest, every expiry takes one, and a scan is
due after s of them. So each time that a reserve runs out it is filled with as many rows again as the last time, up to
four times as many in all; it gives up half of what it has beyond k + s whenever arrivals fill its room.

Cost per arrival: O(d + C Q / cells) with C cells per region. Memory: O(N d + Q (C + k)).
"""

from __future__ import annotations

import math
from typing import Literal

from topwatch.algorithms.topk.engine import Design

DEVIATIONS = 3.5
STRETCH = 3  # times k + slack that a reserve may have more


def design(
    cells: int | None = None, slack: int | None = None, route: Literal["auto", "lists", "scan"] = "auto"
) -> Design:
    """Views with a reserve; influence lists where there are queries enough to pay for them."""

    def sizes(k: int) -> tuple[int, int, int]:
        spare = slack_for(k) if slack is None else slack
        return k + spare, k + spare + spare // 2 + 8, k + 2 * spare + 16

    def lists(queries: int, live: int, target: int) -> bool:
        if route != "auto":
            return route == "lists" and live >= target
        return queries >= 24 and live >= 64 * target

    return Design(
        sizes,
        banded=False,
        unsorted=True,
        lists=lists,
        walked=False,
        per_axis=cells,
        adaptive=route == "auto",
        stretch=STRETCH,
    )


def slack_for(k: int) -> int:
    """Return how many rows beyond k a reserve starts with.

    >>> slack_for(1), slack_for(20), slack_for(100)
    (26, 38, 64)
    """
    z = DEVIATIONS
    return math.ceil(z * z + z * math.sqrt(z * z + 2 * k))
