"""The algorithms of the skyband engine, each as a :class:`Scheme`: ``sa``, ``ra``, ``pa`` and six filters.

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015.

There are three kinds of k-skyband, each of which can keep a query's candidates or filter the rows of the recent buffer
(section 5). Kinds say how large they are for a k and a window of n rows; how rows come and go is in
``kernels/skyband_kinds.py``. The filters' names say both: of ``sarf``, SA keeps the candidates and a relaxed skyband
filters. They are exact for a buffer of b ≤ (n + 1)/2 rows (Theorem 5.1; more is refused). An arrival enters the query's
skyband at once only if it is among the best k of the filter, and else when it leaves the buffer, if fewer than k of the
rows still there are better. Poor rows, which are most, never touch the large skyband. Memory per query: k (1 + ln(n/b))
rows behind the filter, and the filter's; in ``stats()`` both are ``kept``, and the buffer's rows ``buffered``. Section
6.1 has the index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from topwatch.algorithms.topk.kernels.skyband_kinds import PROBABILISTIC, RELAXED, STRICT
from topwatch.algorithms.topk.kernels.sorted_runs import FAR
from topwatch.algorithms.topk.pa import SIGMA, candidate_limit

RELAX = 0.2  # the paper's γ
ADDITIONAL = 10  # the paper's a: rows kept so that a threshold need not be given up at once

Indexing = Literal["auto", "grid", "none"]


class Sizes(NamedTuple):
    """For one query: the least with which rows are refused, the size at which something is due, the initial room."""

    target: int
    limit: int
    room: int


class Skyband(Protocol):
    """The properties of one kind of skyband."""

    @property
    def kind(self) -> int:
        """Its number in the kernels."""

    @property
    def relax(self) -> float:
        """By how much of its candidates it may outgrow a strict one."""

    def sizes(self, k: int, n: int) -> Sizes:
        """Return its sizes for a query over n rows."""


@dataclass(frozen=True)
class StrictSkyband:
    """Exactly the rows that fewer than k newer and better ones beat: k (1 + ln(n/k)) of a stream in random order."""

    kind = STRICT
    relax = 0.0

    def sizes(self, k: int, n: int) -> Sizes:
        """Begin with room for what is expected; it grows where that is not enough."""
        return Sizes(k, FAR, expected_size(k, n) * 5 // 4 + 16)


@dataclass(frozen=True)
class RelaxedSkyband:
    """Those rows and some beaten ones, sorted out when candidates have grown by the share ``relax`` (γ)."""

    relax: float
    kind = RELAXED

    def sizes(self, k: int, n: int) -> Sizes:
        """First pruned at 4k candidates, as in the paper's example."""
        room = int(expected_size(k, n) * (1.25 + self.relax)) + 16
        return Sizes(k, 5 * k, max(room, 5 * k + 8))


@dataclass(frozen=True)
class ProbabilisticSkyband:
    """The best k + limit + additional rows, no more."""

    candidate_limit: Callable[[int, int], int]  # of n and k
    additional: int
    relax = 0.0
    kind = PROBABILISTIC

    def sizes(self, k: int, n: int) -> Sizes:
        """The limit of Definition 4.5."""
        target = k + self.candidate_limit(max(n, 1), k)
        return Sizes(target, target + self.additional, target + self.additional + 1)


def expected_size(k: int, n: int) -> int:
    """Return how many rows a k-skyband has in a stream in random order, k (1 + ln(n/k)).

    >>> expected_size(9, 40_000), expected_size(81, 40_000), expected_size(5, 3)
    (85, 584, 5)
    """
    return int(np.ceil(k * (1 + np.log(max(n, k) / k))))


@dataclass(frozen=True)
class Scheme:
    """What one algorithm of the skyband engine does its own way.

    Attributes
    ----------
    keeps : Skyband
        What keeps a query's answer and its candidates.
    filter : Skyband or None
        What filters the rows of the buffer.
    buffer : int or None
        How many rows the buffer holds; 2000 by default, and never more than half of the window.
    index : {"auto", "grid", "none"}
        Whether a grid says which queries a row concerns (section 6.1). Without a filter, an exact skyband lets every
        row in, and there is nothing to index.
    cells : int or None
        Cells along each axis of that grid.
    fallback : Scheme or None
        What to do instead while the stream has an order in time.
    """

    keeps: Skyband
    filter: Skyband | None = None
    buffer: int | None = None
    index: Indexing = "auto"
    cells: int | None = None
    fallback: Scheme | None = None

    @property
    def indexable(self) -> bool:
        """Whether queries have thresholds at all."""
        return self.index != "none" and (self.filter is not None or self.keeps.kind == PROBABILISTIC)


def sa() -> Scheme:
    """SA, the strict candidate pruning algorithm: keep the k-skyband, and nothing else (sections 2 and 3).

    A row that k newer and better rows beat can never be an answer again. Each query keeps the others, with a counter of
    the rows that beat each; every arrival enters, raises the counters of the worse rows, and those that reach k go. So
    expiries need no computation from scratch, and no row of the window is needed.

    First in Böhm, Ooi, Plant, Yan: Efficiently processing continuous k-NN queries on data streams. ICDE 2007.

    Cost per arrival and query: O(n′) with n′ = k (1 + ln(n/k)) rows kept of a stream in random order (the paper drops
    the 1 in places), O(n) at worst. Nothing can be indexed: every row concerns every query.

    Ours differs: sorted arrays with ranks by a vectorised count, not trees; a calendar of oldest rows, not a time tree.
    A query that is added sees the rows of the window (in the paper only those that come after it, Definition 3.4): it
    is filled from the window's rows once, as after a restore.
    """
    return Scheme(StrictSkyband())


def ra(relax: float = RELAX) -> Scheme:
    """RA, the relaxed candidate pruning algorithm: keep beaten rows for a while (section 4.2, Algorithms 3 to 5).

    Like ``sa``, but nothing is counted: an arrival is inserted by rank, and when the candidates have grown by a share γ
    (``relax``, 0.2) since last time, one pass from the best row down drops those that k newer ones beat.

    Lemma 4.9: (1 + γ/2) n′ − γ k / 2 rows are kept on average, with n′ = k (1 + ln(n/k)). Cost per arrival and query:
    O(log n′) in the paper's trees; here a vectorised count, a move, and a pass of O(n′ log k) all γ (n′ − k) arrivals.

    Ours differs: all expired rows leave at the next expiry that concerns the answer, not one by one when they come up.
    """
    return Scheme(RelaxedSkyband(float(relax)))


def pa(
    sigma: float = SIGMA, index: Indexing = "auto", cells: int | None = None, max_error: float | None = None
) -> Scheme:
    """PA, the probabilistic candidate pruning algorithm (section 4.1): see :mod:`topwatch.algorithms.topk.pa`.

    With ``max_error``, which is σ then, RAPF takes over while the stream has an order in time. The paper leaves that
    switch open (section 4.1.3).
    """
    error = sigma if max_error is None else max_error
    band = ProbabilisticSkyband(lambda n, k: candidate_limit(n, k, error), ADDITIONAL)
    exact = None if max_error is None else rapf(index=index, cells=cells)
    return Scheme(band, index=index, cells=cells, fallback=exact)


def sasf(buffer: int | None = None, index: Indexing = "auto", cells: int | None = None) -> Scheme:
    """SASF, strict candidate pruning with a strict filter: two k-skybands, of the window and of the recent buffer.

    Böhm, Ooi, Plant, Yan: Efficiently processing continuous k-NN queries on data streams. ICDE 2007; there with trees.

    Cost: every row enters the filter, O(k (1 + ln(b/k))) per row and query: hardly less than ``sa``. With an index only
    rows about as good as the filter's best do.
    """
    return Scheme(StrictSkyband(), StrictSkyband(), buffer, index, cells)


def sarf(buffer: int | None = None, relax: float = RELAX, index: Indexing = "auto", cells: int | None = None) -> Scheme:
    """SARF, strict candidate pruning with a relaxed filter.

    Cost: as ``ra`` over b rows; the query's own skyband is seldom touched.
    """
    return Scheme(StrictSkyband(), RelaxedSkyband(float(relax)), buffer, index, cells)


def sapf(buffer: int | None = None, index: Indexing = "auto", cells: int | None = None) -> Scheme:
    """SAPF, strict candidate pruning with a probabilistic filter, which keeps only the best k + limit rows.

    A filter may forget any row, so this is exact: rows that it refused get their second chance when they leave the
    buffer. Cost: O(1 + (k + limit)/b · (k + limit)) per row and query for the filter; k/b rows enter the skyband.
    """
    return Scheme(StrictSkyband(), _probabilistic_filter(), buffer, index, cells)


def rasf(buffer: int | None = None, relax: float = RELAX, index: Indexing = "auto", cells: int | None = None) -> Scheme:
    """RASF, relaxed candidate pruning with a strict filter. Cost: that of the filter, as ``sasf``."""
    return Scheme(RelaxedSkyband(float(relax)), StrictSkyband(), buffer, index, cells)


def rarf(buffer: int | None = None, relax: float = RELAX, index: Indexing = "auto", cells: int | None = None) -> Scheme:
    """RARF, relaxed candidate pruning with a relaxed filter. Cost: that of the filter, as ``sarf``."""
    return Scheme(RelaxedSkyband(float(relax)), RelaxedSkyband(float(relax)), buffer, index, cells)


def rapf(buffer: int | None = None, relax: float = RELAX, index: Indexing = "auto", cells: int | None = None) -> Scheme:
    """RAPF, relaxed candidate pruning with a probabilistic filter: the paper's best exact algorithm.

    The filter refuses most rows at a glance; it may err, but only over the buffer: a row it refused is offered again
    when it leaves (Lemma 5.2). Cost: O(1 + (k + limit)/b · (k + limit)) per row and query; k/b rows enter the relaxed
    skyband. A larger buffer is faster, up to b = n/2 (the paper's RAPF2), and costs b rows that all queries share.
    """
    return Scheme(RelaxedSkyband(float(relax)), _probabilistic_filter(), buffer, index, cells)


def _probabilistic_filter() -> Skyband:
    """A probabilistic skyband over a buffer: with the paper's σ, and without additional rows (section 6.1)."""
    return ProbabilisticSkyband(candidate_limit, 0)
