"""AMSA: ADA that looks at rows of cells far below the answer only once.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011, section 7.2. Approximate, without a
guarantee. A cell's rows are given no events when score_1 - score_k < score_k - minscore, minscore being the number of
rows in cells that it dominates fully: as long as the stream does not drift, a row that is below the answer stays there.
A row is looked at when it arrives, as in ADA, and enters the answer or becomes a candidate if its score is that high;
what is lost are rows that would have come up later. What is known of an excluded row serves as reference, like an
obsolete event.

minscore tells how bad a cell's rows may be, not how good: some of them can be just below the answer. Ours excludes only
those whose own bound is below three quarters of the k-th score; the others are rows of ADA.

Nothing is excluded when score_1 >= 2 score_k, where it is ADA. minscore is taken from suffix counts that are rebuilt
every √N arrivals; ours: they bound scores as well.
"""

from __future__ import annotations

from topwatch.algorithms.dominating.ada import candidates
from topwatch.algorithms.dominating.engine import Intervals
from topwatch.core.per_query_engine import Design


def design(cells: int | None = None, near: int | None = None, maxcand: int | None = None, kept: float = 1.0) -> Design:
    """Return what makes the contest of a query."""
    return Intervals(True, candidates(maxcand), near, True, True, kept=kept, cells=cells).design()
