"""EAA: early aggregation into instances, of which only those are retained that fewer than k objects dominate.

Haghani, Michel, Aberer: Evaluating top-k queries over incomplete data streams. CIKM 2009, section 3.2. An instance of
an object is what is left of it once the rows before one of its rows have gone: its current score counts the sources
that have a row from then on, its best score gives those that have not reported it the largest value. An instance
dominates an older one when its current score is above the other's best score, and that stays so. An instance that k
distinct other objects dominate is given up.

The paper keeps lists by current score (csorted) and by best score (bsorted), and for each instance a counter and the
ids of its dominators. Here one number says it all: k objects dominate an instance if and only if the k-th best score
that the rows after it make is above its best score. A walk over the instances, from the newest back, knows that number
at each of them, and gives up the same instances (``algorithms/incomplete/kernels/eaa_loop.py``). It is done after every
64th part of a window, so that some instances are retained a little longer.

Errata and readings:

- An object's score is that of its oldest valid instance; where that has been given up, the object is no answer.
- Section 3.2.1 gives a source whose row is older than the instance the value 0 in the best score, since an object comes
  once per stream. But it may come again once that row has expired, within the instance's life, and the instance gets
  more than it promised. So an instance that was given up comes back (``instances_revived``) when a row of its object
  raises its best score above what that was. With it answers are exact whatever comes; the rows are still in the
  window.
- Equal scores are told apart by the newest row, which may still come: only a strictly larger score dominates.
- Several rows of one source (section 5): the best score counts m − m_i more rows of a source that has m_i. The query
  gives m as ``most``; else an AMS sketch estimates it. Answers do not depend on m, only what is retained does.
- The parts of all objects are kept, not only of retained instances, to know duplicate rows. ``kept`` counts retained
  instances, as the paper does.

Cost per row: O(sources²) for the object's instances, or the square of its live rows if that is more; a walk is O(N)
after N/64 rows. Memory: as ``tally``, and 24 B a row.
"""

from __future__ import annotations

from topwatch.algorithms.incomplete.engine import Design
from topwatch.algorithms.incomplete.instances import Aggregation
from topwatch.algorithms.incomplete.objects import Ledger
from topwatch.algorithms.incomplete.tally import margin
from topwatch.core.stream import FifoFeed
from topwatch.query.incomplete_topk import IncompleteTopK


def design(slack: int | None = None, sweep: int | None = None) -> Design:
    """Return what makes the gathering of a query, with ``sweep`` rows between two walks over the instances."""

    def make(feed: FifoFeed, query: IncompleteTopK) -> Ledger:
        return Ledger(feed, query, margin(slack), Aggregation(query, sweep))

    return make
