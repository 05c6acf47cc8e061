"""SASF, strict candidate pruning with a strict filter: two k-skybands, of the window and of the recent buffer.

An arrival enters the query's skyband at once only if it is among the best k of the *filter*, the k-skyband of the
newest b rows, and else when it leaves the buffer, if fewer than k of the rows still there are better. Poor rows, which
are most, never touch the large skyband.

Böhm, Ooi, Plant, Yan: Efficiently processing continuous k-NN queries on data streams. ICDE 2007; there with trees.
Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 5 (Theorem 5.1: exact for b ≤ (n + 1)/2; more is refused) and 6.1 (index).

Cost: every row enters the filter, O(k (1 + ln(b/k))) per row and query: hardly less than ``sa``. With an index only
rows about as good as the filter's best do. Memory per query: k (1 + ln(n/b)) rows behind the filter, and the filter's;
in ``stats()`` both are ``kept``, and the buffer's rows ``buffered``.
"""

from __future__ import annotations

from topwatch.algorithms.topk.skyband_engine import Indexing, Scheme
from topwatch.algorithms.topk.skybands import StrictSkyband


def scheme(buffer: int | None = None, index: Indexing = "auto", cells: int | None = None) -> Scheme:
    """A strict skyband behind a strict filter."""
    return Scheme(StrictSkyband(), StrictSkyband(), buffer, index, cells)
