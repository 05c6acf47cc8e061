"""ADA: EVA with longer intervals, and with exact scores for rows that would be looked at again and again.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011, section 5.

*Later dominators* (5.1): rows outside the answer that dominate a row and expire later are always above it. Cells count
the arrivals before them in every column; what a row's cell has counted since the row came, less the candidates and
answers among them, is a lower bound. The paper keeps that up by adding to the counters of all rows that a new answer
dominates; we subtract when the row is due, which touches nothing else. Arrivals are counted √N at a time,
in one pass over all cells: the latest ones are not yet in a row's count. After a restart the arrivals of the live rows
are counted again. A row with k later dominators, candidates and answers beside its cell among them, is never looked at
again. (The paper updates the rows beside a cell while it counts a row, at no extra cost, since its count visits them.
Ours stops early and skips cells: for it, visiting them would cost as much as a whole count.)

*Candidates* (5.2): rows due within Δt are followed exactly, at most ``maxcand`` of them (1 % of the window). Δt starts
at a thousandth of the window (``near``); it grows while events and counts cost more than following candidates, up to
3/8 of the k-th score, and shrinks slowly otherwise. Not in the paper: a candidate whose interval has grown past 2 Δt
gets an event again; candidates serve as reference rows, whose scores do not grow old; and a row stays out while k rows
are above it, candidates as well as answers, so that the expiry of an answer makes few rows due
(:mod:`topwatch.algorithms.dominating.kernels.safe_time`).

*Obsolete events* (5.3) are due after the row has expired. ``kept`` is the share of them that is kept, for reference.

*Counts* (section 3) begin with the rows in cells not before the row's own and stop when it is known to be out for long.
A row that would be due within Δt is bounded by that number first, before a reference row is searched for;
``suffix=True`` (ours) bounds every row by it.

Errata. **Lemma 2 is wrong** where an expiry and an overtaking combine: the safe interval is the (r+1)-th smallest
over the answer of min(life, score_j - score), not the smaller of the (r+1)-th smallest life and the gap to the
(k-r)-th score. In a
window of time any number of rows may arrive before a row expires, so that an event is obsolete only if the row has k
later dominators.
"""

from __future__ import annotations

from collections.abc import Callable

from topwatch.algorithms.dominating.engine import Intervals
from topwatch.core.per_query_engine import Design


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
