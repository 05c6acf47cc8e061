"""The designs of the standing engine, one for each algorithm: `tma`, `sma`, `cpm`, `snn`, `scan` and `reserve`.

Mouratidis, Bakiras, Papadias: Continuous monitoring of top-k queries over sliding windows. SIGMOD 2006, sections 4 to
7. In the costs below r rows arrive in a cycle, C cells are in a query's influence region, Q queries share a window of N
rows and d columns, and a cell is δ wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

DEVIATIONS = 3.5
STRETCH = 3  # times k + slack that a reserve may have more


@dataclass(frozen=True)
class Design:
    """What one algorithm of the standing engine does its own way.

    Attributes
    ----------
    sizes : function of k
        Returns (target, limit, room): a computation from scratch keeps ``target`` rows; a run that fills its ``room``
        and holds more than ``limit`` live rows is cut back to them.
    banded : bool
        Runs are skybands.
    unsorted : bool
        Of a run only the answer and a few rows more are sorted.
    lists : function of (queries, live rows, largest target)
        Whether arrivals find their queries by influence lists rather than by a fused scan.
    walked : bool
        Rows are kept by cell, and a starving run is filled by a walk over the cells.
    per_axis : int or None
        Cells along each axis; by the number of rows when None.
    adaptive : bool
        Lists that turn out to be long, or to move a lot, are given up for a while.
    stretch : int
        A run that starves again and again keeps up to so many times its target more.
    """

    sizes: Callable[[int], tuple[int, int, int]]
    banded: bool
    unsorted: bool
    lists: Callable[[int, int, int], bool]
    walked: bool
    per_axis: int | None = None
    adaptive: bool = False
    stretch: int = 0


def tma(cells: int | None = None) -> Design:
    """TMA, the top-k monitoring algorithm: compute the answer again when a row of it expires (section 4).

    A grid indexes the rows. Each cell lists the queries whose *influence region* it meets, that is, whose k-th score a
    row there could reach; an arrival looks at no others. When a row of an answer expires, that answer is computed from
    scratch, visiting cells in the order of their best possible score and only those that can hold a row of it.
    Section 7 extends it to deletions (here: ``latest()`` windows), to constraints and to thresholds.

    Cost per cycle (section 6): O(r + Q (C r δ^d + k r log k / N + P T)), with T the cost of a computation from scratch
    and P ≤ 1 − (1 − r/N)^k how often it is due. Memory: O(N (d + 1) + Q (C + d + 2k)).

    Ours differs: the answer is a sorted array, not a tree; a cell on the heap is reached from one other cell only, so
    none is marked; ties are kept to the letter, so cells whose bound equals the k-th score are visited too (the paper
    stops there).
    """
    return Design(_exactly_k, banded=False, unsorted=False, lists=_sixteenfold, walked=True, per_axis=cells)


def sma(cells: int | None = None) -> Design:
    """SMA, the skyband monitoring algorithm: keep the rows that can still become an answer (section 5).

    The rows that fewer than k newer and better ones beat, the k-skyband in the plane of score and time, hold the
    answers of the future, so that an expiry seldom needs a computation from scratch. The skyband is kept only among
    rows at or above the k-th score of the last such computation: below that, rows are unknown.

    Cost per cycle (section 6): O(r + Q (C r δ^d + k² r / N)). Memory: O(N (d + 1) + Q (C + d + 3k)). The mean size of a
    skyband is within a few percent of k (the paper's Table 2).

    Ours differs: while a window fills, thresholds are raised each time its rows have doubled; dominance counters after
    a computation from scratch are vectorised counts, not a balanced tree; a skyband that outgrows its room is cut to
    its best k rows and its threshold raised, which is as exact. The order of expiry must be known, so there is no SMA
    on ``latest()`` windows (section 7).
    """
    # A computation from scratch finds k rows, and a skyband hardly ever has twice as many.
    return Design(
        lambda k: (k, k, 3 * k + 32), banded=True, unsorted=False, lists=_sixteenfold, walked=True, per_axis=cells
    )


def cpm(cells: int | None = None) -> Design:
    """CPM/w, conceptual partitioning monitoring over sliding windows: ``tma`` for distances.

    A query keeps its k nearest rows. Cells of a grid list the queries whose k-th distance they meet; when a row of an
    answer expires and arrivals have not replaced it, the answer is computed again, visiting cells from the query's own
    outwards. The lists are not cleaned when the k-th distance shrinks, only after a computation from scratch.

    Mouratidis, Papadias: Continuous nearest neighbor queries over sliding windows. TKDE 19(6), 2007; as described by
    Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
    section 2.

    Ours differs: cells are visited one by one in the order of their least distance, not by rectangles of cells around
    the query, which visits the same cells in the end. It serves other scores too, as ``tma`` does.
    """
    return tma(cells)


def snn(cells: int | None = None) -> Design:
    """SNN, the skyband nearest neighbour algorithm: ``sma`` for distances.

    A query keeps the k-skyband of the rows within its threshold, the k-th distance of the last computation from
    scratch. Only when expiries leave fewer than k rows is the answer computed again, cell by cell from the query's own
    outwards. References are those of ``cpm``. Ours differs as ``sma`` and ``cpm`` do.
    """
    return sma(cells)


def scan() -> Design:
    """Scan: score every arrival against every query in one fused, vectorised loop.

    The honest baseline: no grid and no lists, but exact skybands as in SMA, and computations from scratch by an equally
    vectorised scan of the window. Since that is expensive, the skyband's threshold is set not at the k-th row but, as
    in ``reserve``, as far below it as makes a second scan unlikely. With few queries it is hard to beat.

    Cost per arrival: Q d multiplications, about four of them per cycle of the processor. Memory: O(N d + Q k).
    """

    def sizes(k: int) -> tuple[int, int, int]:
        target = k + slack_for(k)
        return target, target, 2 * target + 32

    return Design(sizes, banded=True, unsorted=False, lists=lambda queries, live, target: False, walked=False)


def reserve(
    cells: int | None = None, slack: int | None = None, route: Literal["auto", "lists", "scan"] = "auto"
) -> Design:
    """Reserve: keep every row above a threshold a little below the k-th score; scan when the reserve runs out.

    Ours, exact. Each query keeps all live rows that reach its *threshold*: the answer, sorted, and a reserve in no
    order. The threshold is set at rank k + slack and then stands still, so an arrival below it costs nothing, one
    between it and the answer is only appended, and an expiry matters only in the answer: then the best live row of the
    reserve moves up. When that has none left, one vectorised scan of the window sets a new threshold; when it has grown
    by half, it is cut and the threshold raised. Influence lists say which queries an arrival may concern; rows are not
    kept by cell at all, so that the grid costs nothing per row. Where rows and queries crowd in the same cells lists
    are long, and where thresholds move all the time lists move too: then all queries are scored in one loop.

    Cost per arrival: O(d + C Q / cells). Memory: O(N d + Q (C + k)).
    """

    def sizes(k: int) -> tuple[int, int, int]:
        spare = slack_for(k) if slack is None else slack
        return k + spare, k + spare + spare // 2 + 8, k + 2 * spare + 16

    def lists(queries: int, live: int, target: int) -> bool:
        if route != "auto":
            return route == "lists" and live >= target
        return queries >= 24 and live >= 64 * target

    adaptive = route == "auto"
    return Design(sizes, False, True, lists, walked=False, per_axis=cells, adaptive=adaptive, stretch=STRETCH)


def slack_for(k: int) -> int:
    """Return how many rows beyond k a reserve starts with.

    On a stream without drift the number of rows above a fixed threshold wanders around k + s with a standard deviation
    of at most √(2 (k + s)) (the rows themselves, and the rank at which the threshold was set, are both counts). With s
    = z² + z √(z² + 2k) it runs out only beyond z deviations; z = 3.5 makes that about once in 4,000 windows. On a
    stream that drifts away from a query its best rows are the oldest, every expiry takes one, and a scan is due after s
    of them. So each time that a reserve runs out it is filled with as many rows again as the last time, up to four
    times as many in all; it gives up half of what it has beyond k + s whenever arrivals fill its room.

    >>> slack_for(1), slack_for(20), slack_for(100)
    (26, 38, 64)
    """
    z = DEVIATIONS
    return math.ceil(z * z + z * math.sqrt(z * z + 2 * k))


def _exactly_k(k: int) -> tuple[int, int, int]:
    """Return the sizes of a run that holds the answer and nothing else."""
    return k, k, k


def _sixteenfold(queries: int, live: int, target: int) -> bool:
    """Tell whether the window holds so many rows that few of their cells concern a query."""
    return live >= 16 * target
