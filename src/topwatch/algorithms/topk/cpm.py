"""CPM/w, conceptual partitioning monitoring over sliding windows: ``tma`` for distances.

A query keeps its k nearest rows. Cells of a grid list the queries whose k-th distance they meet; when a row of an
answer expires and arrivals have not replaced it, the answer is computed again, visiting cells from the query's own
outwards. The lists are not cleaned when the k-th distance shrinks, only after a computation from scratch.

Mouratidis, Papadias: Continuous nearest neighbor queries over sliding windows. TKDE 19(6), 2007; as described by
Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015,
section 2.

Ours differs: cells are visited one by one in the order of their least distance, not by rectangles of cells around the
query, which visits the same cells in the end. It serves other scores too, as ``tma`` does.
"""

from __future__ import annotations

from topwatch.algorithms.topk import tma
from topwatch.algorithms.topk.engine import Design


def design(cells: int | None = None) -> Design:
    """Views of exactly k rows, influence lists, rows by cell."""
    return tma.design(cells)
