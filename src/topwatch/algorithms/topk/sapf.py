"""SAPF, strict candidate pruning with a probabilistic filter.

``sasf`` whose filter keeps only the best k + limit rows of the buffer. A filter may forget any row, so this is exact:
rows that it refused get their second chance when they leave the buffer.

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 5 (Theorem 5.1: exact for b ≤ (n + 1)/2; more is refused) and 6.1 (index).

Cost: O(1 + (k + limit)/b · (k + limit)) per row and query for the filter; k/b rows enter the query's skyband. Memory
per query: k (1 + ln(n/b)) rows behind the filter, and the filter's; in ``stats()`` both are ``kept``, and the buffer's
rows ``buffered``.
"""

from __future__ import annotations

from topwatch.algorithms.topk.pa import probabilistic_filter
from topwatch.algorithms.topk.skyband_engine import Indexing, Scheme
from topwatch.algorithms.topk.skybands import StrictSkyband


def scheme(buffer: int | None = None, index: Indexing = "auto", cells: int | None = None) -> Scheme:
    """A strict skyband behind a probabilistic filter."""
    return Scheme(StrictSkyband(), probabilistic_filter(), buffer, index, cells)
