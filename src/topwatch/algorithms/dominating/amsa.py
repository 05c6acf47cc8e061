"""AMSA: ADA that does not look at rows of cells far below the answer.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011, section 7.2. Approximate, without a
guarantee. A cell's rows are given no events when score_1 - score_k < score_k - minscore, minscore being the number of
rows in cells that it dominates fully: as long as the stream does not drift, a row so far below stays there.

Nothing is excluded when score_1 >= 2 score_k, where it is ADA. minscore is taken from suffix counts that are made anew
every √N arrivals.
"""

from __future__ import annotations

from topwatch.algorithms.dominating.ada import candidates
from topwatch.structures.contest import Design
from topwatch.structures.event_contest import Intervals


def design(cells: int | None = None, near: int | None = None, maxcand: int | None = None, kept: float = 1.0) -> Design:
    """Return what makes the contest of a query."""
    return Intervals(True, candidates(maxcand), near, exclude=True, kept=kept, cells=cells).design()
