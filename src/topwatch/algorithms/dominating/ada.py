"""ADA: EVA with longer intervals, and with exact scores for rows that would be looked at again and again.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011, section 5.

*Later dominators* (5.1): r rows outside the answer that dominate a row and expire later must all enter before it.
Cells count the arrivals before them in every column; what a row's cell has counted since the row came, less the rows
of the answer among them, is a lower bound of r. The paper keeps that up by adding to the counters of all rows that a
new answer dominates; we subtract when the row is due, which costs O(k) and touches nothing else. Cells are told of
arrivals by the √N, in one pass over all of them: of the latest ones a row does not know yet. After a restart the
arrivals of the rows that are there are counted again, so that intervals are as long as before. When a row becomes a
candidate or an answer for the first time, the counters of the older rows beside its cell that it dominates are told of
it too (end of 5.1; the paper does so whenever a score is counted, which costs as much as the count and helps a little
more); it is then subtracted from all rows that it may dominate while it is in the answer.

*Candidates* (5.2): rows due within Δt are followed exactly, at most ``maxcand`` of them (1 % of the window); Δt
starts at a thousandth of the window (``near``), shrinks when there are too many and grows with every row that has to
be counted. Not in the paper: a candidate whose interval has grown past 2 Δt gets an event again.

*Obsolete events* (5.3) are due after the row has expired. ``kept`` is the share of them that is kept, for reference.

``suffix=True`` (ours) bounds scores by the rows in cells not before a row's own as well.

Errata. **Lemma 2 is wrong** where an expiry and an overtaking combine: the safe interval is the (r+1)-th smallest
over the answer of min(life, score_j - score), not the smaller of the (r+1)-th smallest life and the gap to the
(k-r)-th score. Rows beside a cell are told of a row once only, or it would be counted twice as their dominator. In a
window of time any number of rows may arrive before a row expires, so that an event is obsolete only if the row has k
later dominators.
"""

from __future__ import annotations

from collections.abc import Callable

from topwatch.structures.contest import Design
from topwatch.structures.event_contest import Intervals


def design(
    cells: int | None = None,
    near: int | None = None,
    maxcand: int | None = None,
    kept: float = 1.0,
    suffix: bool = False,
) -> Design:
    """Return what makes the contest of a query."""
    return Intervals(True, candidates(maxcand), near, suffix, kept=kept, cells=cells).design()


def candidates(most: int | None) -> Callable[[int], int]:
    """Return how many candidates there are at most for so many rows: ``most``, or 1 %."""
    return lambda rows: most if most is not None else max(8, rows // 100)
