"""EVA: a row is looked at again only when it could have come into the answer.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011, section 4. Scores are exact for the
answer only. Every other row has an event: a bound of its score, and until when it cannot have reached the k-th score
(Lemma 1), since an event raises the one or lowers the other by one at most, and no row of the answer expires before.
An arrival is bounded by a reference row that dominates it, searched for in the order of section 4.2. Only a row whose
bound reaches the k-th score when it is due is counted, by fully and partially dominated cells (section 3).

Errata. Fig. 5: without a reference row there is no bound (not one of -1); ``RemoveTop`` in the loop's condition loses
the first event that is not due; a row pushed out of the answer needs an event again; an interval of 0 would be
scheduled for ever, so it is at least 1. A reference row's bound is that of its event, score and time kept together.
Ours: the clock counts single events, which makes Lemma 1 hold in all windows; when an answer expires and all rows are
due, those with the highest bounds are counted first; a reference row that does not help is passed over, up to 32,768
rows.

Cost: when a row of the answer expires all N rows are due. Memory per row: an event, 36 B beside the grid.
"""

from __future__ import annotations

from topwatch.algorithms.dominating.engine import Intervals
from topwatch.core.per_query_engine import Design


def design(cells: int | None = None) -> Design:
    """Return what makes the contest of a query."""
    return Intervals(cells=cells).design()
