"""RARF, relaxed candidate pruning with a relaxed filter.

``ra`` behind a filter that is a relaxed skyband itself, over the newest b rows.

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 5 (Theorem 5.1: exact for b ≤ (n + 1)/2; more is refused) and 6.1 (index).

Cost: that of the filter, as ``sarf``. Memory per query: k (1 + ln(n/b)) rows behind the filter, and the
filter's; in ``stats()`` both are ``kept``, and the buffer's rows ``buffered``.
"""

from __future__ import annotations

from topwatch.algorithms.topk.ra import RELAX
from topwatch.algorithms.topk.skyband_engine import Indexing, Scheme
from topwatch.algorithms.topk.skybands import RelaxedSkyband


def scheme(
    buffer: int | None = None, relax: float = RELAX, index: Indexing = "auto", cells: int | None = None
) -> Scheme:
    """A relaxed skyband behind a relaxed filter."""
    return Scheme(RelaxedSkyband(float(relax)), RelaxedSkyband(float(relax)), buffer, index, cells)
