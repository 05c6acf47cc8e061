"""SARF, strict candidate pruning with a relaxed filter.

``sasf`` whose filter is a relaxed skyband of the buffer's rows.

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 5 (Theorem 5.1: exact for b ≤ (n + 1)/2; more is refused) and 6.1 (index).

Cost: as ``ra`` over b rows; the query's own skyband is seldom touched. Memory per query: k (1 + ln(n/b)) rows behind
the filter, and the filter's; in ``stats()`` both are ``kept``, and the buffer's rows ``buffered``.
"""

from __future__ import annotations

from topwatch.algorithms.topk.ra import RELAX
from topwatch.algorithms.topk.skyband_engine import Indexing, Scheme
from topwatch.algorithms.topk.skybands import RelaxedSkyband, StrictSkyband


def scheme(
    buffer: int | None = None, relax: float = RELAX, index: Indexing = "auto", cells: int | None = None
) -> Scheme:
    """A strict skyband behind a relaxed filter."""
    return Scheme(StrictSkyband(), RelaxedSkyband(float(relax)), buffer, index, cells)
