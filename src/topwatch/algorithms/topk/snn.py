"""SNN, the skyband nearest neighbour algorithm: ``sma`` for distances.

A query keeps the k-skyband of the rows within its threshold, the k-th distance of the last computation from scratch.
Only when expiries leave fewer than k rows is the answer computed again, cell by cell from the query's own outwards.

Mouratidis, Papadias: Continuous nearest neighbor queries over sliding windows. TKDE 19(6), 2007; as described by
Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 2.

Ours differs as ``sma`` and ``cpm`` do.
"""

from __future__ import annotations

from topwatch.algorithms.topk import sma
from topwatch.algorithms.topk.engine import Design


def design(cells: int | None = None) -> Design:
    """Skybands, influence lists, rows by cell."""
    return sma.design(cells)
