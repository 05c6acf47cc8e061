"""The approximate algorithm: EAA with best scores that are likely instead of possible. Not exact.

Haghani, Michel, Aberer: Evaluating top-k queries over incomplete data streams. CIKM 2009, section 4. A source that has
not reported an object counts in the best score with the probability that it will, given all sources that have. Sliding
FM sketches, one for each source, estimate that. Best scores are lower, so that far more instances are dominated;
one that is given up is forgotten, also where its object turns out better than was likely.

Errata and readings:

- The size of what two sources share is the sum of their sizes less that of the union; the sign is reversed in the text.
- An object's score is that of its oldest *retained* instance. Scores of the answer are therefore never above the true
  ones, and may be below.
- An object of which nothing is retained is new when it comes again: the sources that have reported it are not known.
- Estimates are taken every quarter of a window, and an instance's best score is computed when a row of its object
  comes.
- With several rows of one source the number that may still come is estimated by an AMS sketch (section 5), unless the
  query gives it.

How right it is: the window's rows are kept for other reasons (``eaa``), so once a window the answer is compared with
that of all rows. ``stats()`` counts the objects ``audited`` and those of them that the answer had (``audited_right``);
the answer's note has the share over the last 8 times.

Cost: as ``eaa``, with 2^sources unions of sketches every quarter of a window; at most 10 sources. Memory: as ``eaa``,
and 320 B a bitmap and source.
"""

from __future__ import annotations

from topwatch.algorithms.incomplete.eaa import Aggregation
from topwatch.algorithms.incomplete.objects import ObjectTable, TableFactory, margin
from topwatch.core.fifo import FifoFeed
from topwatch.query.incomplete_topk import IncompleteTopK


def design(slack: int | None = None, sweep: int | None = None, bitmaps: int = 256) -> TableFactory:
    """Return a factory of the state of a query, with sketches of so many bitmaps."""

    def make(feed: FifoFeed, query: IncompleteTopK) -> ObjectTable:
        return ObjectTable(feed, query, margin(slack), Aggregation(query, sweep, bitmaps))

    return make
