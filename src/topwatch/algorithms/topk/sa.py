"""SA, the strict candidate pruning algorithm: keep the k-skyband, and nothing else.

A row that k newer and better rows beat can never be an answer again. Each query keeps the others, with a counter of the
rows that beat each; every arrival enters, raises the counters of the worse rows, and those that reach k go. So expiries
need no computation from scratch, and no row of the window is needed.

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
sections 2 and 3; first in Böhm, Ooi, Plant, Yan: Efficiently processing continuous k-NN queries on data streams. ICDE
2007.

Cost per arrival and query: O(n′) with n′ = k (1 + ln(n/k)) rows kept of a stream in random order (the paper drops the 1
in places), O(n) at worst. Nothing can be indexed: every row concerns every query.

Ours differs: sorted arrays with ranks by a vectorised count, not trees; a calendar of oldest rows, not a time tree. A
query that is added sees the rows of the window (in the paper only those that come after it, Definition 3.4): it is
filled from the window's rows once, as after a restore.
"""

from __future__ import annotations

from topwatch.algorithms.topk.skyband_engine import Scheme
from topwatch.algorithms.topk.skybands import StrictSkyband


def scheme() -> Scheme:
    """A strict skyband."""
    return Scheme(StrictSkyband())
