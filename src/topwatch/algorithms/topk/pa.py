"""PA, the probabilistic candidate pruning algorithm: keep a fixed number of the best rows, and seldom err.

In a stream in random order, a row that arrives at rank l of the window becomes an answer later with a probability that
falls with l, from some rank on faster than by halves. So each query keeps its best k + limit rows and refuses the rest
at a glance. The *limit* is such that the chances of all ranks beyond it sum to less than σ (``sigma``, 0.001).

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 4.1 (Algorithms 1 and 2, Definition 4.5). Lemma 4.6: of N rows of a stream *in random order* fewer than σN/n
answers are missed per query, and fewer than 1.5 σN/n rows are reported in their stead. In a stream with an order in
time there is no bound: rows that get steadily worse are nearly all missed.

Cost per arrival and query: O(1 + (k + limit)/n · log(k + limit)). Memory: k + limit + 10 rows per query.

Corrections: in equations (8) and (9) the denominator is C(2n−2, l+l′−2), not C(2n−2, l+l′); with it Lemma A.2 gives
the paper's Table X. Table V has the first of the two cases of section 4.1.1 only (:func:`first_unlikely_rank`); where
the second applies, in 22 of its 36 cells, the limit is larger. In Algorithm 1, line 10, the tail moves when the size is
larger than k. Section 8.1 prints the bounds of Lemma 4.6 ten times too large.

Ours differs: rows are routed to a query from an eighth of its rows below its threshold on, so that the index need not
follow every move of it; a query that is added, or restored after a change of algorithm, starts with the best rows of
the window.

The bound holds for streams in random order only. So a monitor that allows errors tests each block of rows, a sixteenth
of the window, against the rows before it (:class:`OrderTest`): 256 rows of the block, evenly spread, and as many of the
others of the window, by their scores for up to four of the queries. Two statistics, both of ranks, so that nothing is
assumed of the scores:

- the *rank sum* of the block (Wilcoxon): has the level moved?
- the *rank correlation of neighbours* within the block (Wald and Wolfowitz): do scores drift?

Both are close to normal for a stream in random order. Ties are broken at random. The block is called ordered when one
of them lies beyond the quantile at which that happens by chance to one block in 10,000 (:data:`FALSE_ALARMS`, divided
among all statistics of the block).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from topwatch.query.errors import QueryError

if TYPE_CHECKING:
    from topwatch.core.arrays import Floats, Ints

    Keys = Callable[[int, Ints], Floats]  # of a query's index and ordinals

SIGMA = 1e-3

FALSE_ALARMS = 1e-4  # per block
SAMPLE = 256
QUERIES = 4
BLOCKS = 16  # to a window
CALM = 64  # blocks in a row without an order after which a stream is taken to be in random order
FEWEST = 32  # scores that a comparison needs at least


def increasing_rank(n: int, k: int) -> float:
    """Return the rank L beyond which the chance to be an answer rises, ever faster, while a row ages (Lemma A.2).

    >>> math.ceil(increasing_rank(1000, 10)), math.ceil(increasing_rank(10**6, 500))
    (19, 557)
    """
    _check(n, k)
    inner = -8 * k * k * n + 4 * k * k + 8 * k * n * n + 4 * k * n - 4 * k - 5 * n * n - 2 * n + 3
    return (3 * n - 4 * k + 2 * k * n + 3 + math.sqrt(max(0, 3 * inner))) / (2 * n + 2)


@functools.lru_cache(maxsize=4096)
def candidate_limit(n: int, k: int, sigma: float = SIGMA) -> int:
    """Return how many candidates beside the answer a probabilistic skyband keeps (Definition 4.5, section 4.1.1).

    The ranks before :func:`first_unlikely_rank` are kept, and further ones until the chances of all that are left sum
    to less than ``sigma``. Where chances more than halve from one rank to the next, that adds none; else 1 to 8. (The
    paper bounds what lies beyond the rank from which on they halve by twice its chance; here all of it is summed.)
    Cost: O(k) per rank looked at.

    Parameters
    ----------
    n : int
        Rows in the window.
    k : int
        Rows in an answer.
    sigma : float
        Probability of error.

    Examples
    --------
    >>> candidate_limit(10_000, 10), candidate_limit(1_000_000, 100)
    (37, 105)
    """
    unlikely = first_unlikely_rank(n, k, sigma)
    chances: list[float] = []
    terms = _terms(min(unlikely, n), n, k)
    others = np.arange(1, terms.size + 1)
    for rank in range(unlikely, n + 1):
        chances.append(float(terms.sum()))
        if chances[-1] < 1e-9 * sigma:
            break
        terms *= (n - rank) / rank * ((rank + others - 1) / (2 * n - rank - others))
    left = np.cumsum(chances[::-1])  # of the last rank, the last two, the last three ...
    return unlikely - 1 - k + int(np.count_nonzero(left >= sigma))


def first_unlikely_rank(n: int, k: int, sigma: float = SIGMA) -> int:
    """Return l_c of section 4.1.1: the first rank beyond L whose own chance to become an answer is below ``sigma`` / 2.

    Less k + 1 it is what the paper's Table V has, in all 36 cells. Cost: O(k) per rank looked at, O(log l_c) ranks.

    >>> first_unlikely_rank(10_000, 10) - 10 - 1, first_unlikely_rank(1_000_000, 100) - 100 - 1
    (37, 103)
    """
    _check(n, k)
    if not 0 < sigma < 1:
        raise QueryError(f"sigma: expected a number between 0 and 1, got {sigma!r}")
    if n <= k:
        return k + 1
    low = max(k, min(n, math.ceil(increasing_rank(n, k))))  # is kept
    step = 1
    while low + step <= n and _becomes_answer(low + step, n, k) >= sigma / 2:
        low += step
        step *= 2
    high = min(n + 1, low + step)  # is not
    while high - low > 1:
        middle = (low + high) // 2
        if _becomes_answer(middle, n, k) >= sigma / 2:
            low = middle
        else:
            high = middle
    return high


def _becomes_answer(rank: int, n: int, k: int) -> float:
    """Bound the probability that a row which arrives at a rank becomes an answer (Theorem 4.4, corrected)."""
    return float(_terms(rank, n, k).sum())


def _terms(rank: int, n: int, k: int) -> np.ndarray:
    """Return the summands of that bound: for each rank of an answer at which the row may end."""
    kept = _log_choose(n - 1, rank - 1)
    logs = [
        _log_choose(n - 1, other - 1) + kept - _log_choose(2 * n - 2, rank + other - 2)
        for other in range(1, min(k, n) + 1)
    ]
    return n * n / (4 * n - 2) * np.exp(logs)


def _log_choose(n: int, m: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)


def _check(n: int, k: int) -> None:
    for field, value in (("n", n), ("k", k)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise QueryError(f"{field}: expected a whole number of at least 1, got {value!r}")


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
        earlier = np.linspace(head, before, SAMPLE).astype(np.int64)
        chosen = [indices[i] for i in np.linspace(0, len(indices) - 1, min(QUERIES, len(indices))).astype(int)]
        worst = 0.0
        for index in chosen:
            new, old = keys(index, block), keys(index, earlier)
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
