"""RA, the relaxed candidate pruning algorithm: keep beaten rows for a while.

Like ``sa``, but nothing is counted: an arrival is inserted by rank, and when the candidates have grown by a share γ
(``relax``, 0.2) since last time, one pass from the best row down drops those that k newer ones beat.

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 4.2 (Algorithms 3 to 5). Lemma 4.9: (1 + γ/2) n′ − γ k / 2 rows are kept on average, with n′ = k (1 + ln(n/k)).

Cost per arrival and query: O(log n′) in the paper's trees; here a vectorised count, a move, and a pass of O(n′ log k)
every γ (n′ − k) arrivals.

Ours differs: all expired rows leave at the next expiry that concerns the answer, not one by one when they come up.
"""

from __future__ import annotations

from topwatch.algorithms.topk.skyband_engine import Scheme
from topwatch.algorithms.topk.skybands import RelaxedSkyband

RELAX = 0.2  # the paper's γ


def scheme(relax: float = RELAX) -> Scheme:
    """A relaxed skyband."""
    return Scheme(RelaxedSkyband(float(relax)))
