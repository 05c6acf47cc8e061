"""How likely it is that a source tells of an object, given those that have: conditioned on all of them.

Haghani, Michel, Aberer, CIKM 2009, section 4. One sliding FM sketch for each source is all that is kept. The sizes of
all unions give those of all intersections by inclusion and exclusion, and these the probabilities.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.incomplete.kernels.tally_loop import Arrivals
from topwatch.algorithms.incomplete.sketch import SlidingSketch, add_rows, intersections, unions
from topwatch.core.kernels.scoring import Floats

MOST = 10  # sources: there are 2^10 unions


class Appearances:
    """Which sources tell of the same objects, in a window.

    Parameters
    ----------
    sources : int
        How many, at most ``MOST``.
    bitmaps : int
        Of each sketch; a power of two. Memory: 320 B each.
    """

    def __init__(self, sources: int, bitmaps: int) -> None:
        assert sources <= MOST
        self.sketches = [SlidingSketch(bitmaps) for _ in range(sources)]
        self._last = np.array([sketch.last for sketch in self.sketches])
        for sketch, last in zip(self.sketches, self._last, strict=True):
            sketch.last = last

    def add(self, rows: Arrivals) -> None:
        """Take in rows; those without a source do not count."""
        add_rows(self._last, rows.id, rows.source, rows.ordinal)

    def table(self, head: int) -> Floats:
        """Return Pr(a source reports an object | the set of sources that have), for all sets as bits, and sources.

        Where a set is too rare for its size to be told from the sketches' error, the mean over the sets with one source
        less stands for it. Nothing is known of objects that no source has reported: 1.
        """
        count = len(self.sketches)
        sizes = unions(self._last, head)
        among, error = intersections(sizes), sizes * self.sketches[0].error
        table = np.ones((1 << count, count))
        for seen in sorted(range(1, 1 << count), key=int.bit_count):
            members = [s for s in range(count) if seen >> s & 1]
            for s in range(count):
                if seen >> s & 1:
                    continue
                if among[seen] > error[seen] or len(members) == 1:
                    share = among[seen | 1 << s] / among[seen] if among[seen] > 0 else 0.0
                else:
                    share = np.mean([table[seen & ~(1 << m), s] for m in members])
                table[seen, s] = min(1.0, max(0.0, share))
        return table

    def bytes(self) -> int:
        """Size of the sketches."""
        return self._last.nbytes

    def _check(self) -> None:
        for sketch in self.sketches:
            sketch._check()
