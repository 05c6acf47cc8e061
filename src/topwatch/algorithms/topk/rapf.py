"""RAPF, relaxed candidate pruning with a probabilistic filter: the paper's best exact algorithm.

``ra`` behind a filter that keeps the best k + limit rows of the newest b. The filter refuses most rows at a glance; it
may err, but only over the buffer: a row it refused is offered again when it leaves (Lemma 5.2).

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 5 (Theorem 5.1: exact for b ≤ (n + 1)/2; more is refused) and 6.1 (index).

Cost: O(1 + (k + limit)/b · (k + limit)) per row and query; k/b rows enter the relaxed skyband. A larger buffer is
faster, up to b = n/2 (the paper's RAPF2), and costs b rows that all queries share. Memory per query: k (1 + ln(n/b))
rows behind the filter, and the filter's; in ``stats()`` both are ``kept``, and the buffer's rows ``buffered``.
"""

from __future__ import annotations

from topwatch.algorithms.topk.pa import probabilistic_filter
from topwatch.algorithms.topk.ra import RELAX
from topwatch.algorithms.topk.skyband_engine import Indexing, Scheme
from topwatch.algorithms.topk.skybands import RelaxedSkyband


def scheme(
    buffer: int | None = None, relax: float = RELAX, index: Indexing = "auto", cells: int | None = None
) -> Scheme:
    """A relaxed skyband behind a probabilistic filter."""
    return Scheme(RelaxedSkyband(float(relax)), probabilistic_filter(), buffer, index, cells)
