"""Sliding FM sketches: how many distinct ids a source has reported in a window, and how many of them two sources share.

Flajolet, Martin: Probabilistic counting algorithms for data base applications. JCSS 1985, with stochastic averaging
over several bitmaps; the form for windows is that of Haghani, Michel, Aberer, CIKM 2009, section 4: each bit carries
the row that last set it, and counts while that row is live. The union of two sketches is the later row, bit by bit.

The standard error of a count is 0.78/√m of it, for m bitmaps, and up to 1.2/√m from m to 3m ids. Counts of a few m are
corrected as Scheuermann and Mauve (2007) do; below, empty bitmaps are counted instead (linear counting).

What several sources share follows from unions by inclusion and exclusion. For two of them it is the sum of both counts
less that of the union (the sign is reversed in the paper). Its error is that of the counts that are added up, and so
relative to the union: at most √3 times that of a count, and less where the two overlap, since they then err alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from topwatch.algorithms.incomplete.kernels.fm_sketch import BITS, count_unions, mark
from topwatch.core.kernels.scoring import Floats, Ints


class SlidingSketch:
    """A sketch of the distinct ids of rows.

    Parameters
    ----------
    bitmaps : int
        How many; a power of two up to 2^20. Memory: 320 B each.

    Examples
    --------
    >>> sketch = SlidingSketch(256)
    >>> sketch.add(np.arange(10_000) % 4_000, np.arange(1, 10_001))
    >>> bool(abs(sketch.count() / 4_000 - 1) < 3 * sketch.error)
    True
    >>> bool(abs(sketch.count(head=9_501) / 500 - 1) < 3 * sketch.error)
    True
    """

    def __init__(self, bitmaps: int = 256) -> None:
        assert 0 < bitmaps <= 1 << 20
        assert bitmaps & (bitmaps - 1) == 0
        self.last: Ints = np.zeros((bitmaps, BITS), np.int64)  # the row that last set each bit, 0 for none

    @property
    def error(self) -> float:
        """The standard error of a count, relative to it."""
        return 0.78 / math.sqrt(len(self.last))

    def add(self, ids: Ints, rows: Ints) -> None:
        """Take in rows with the numbers of their ids; O(1) each."""
        add_rows(self.last[np.newaxis], ids, np.zeros(rows.size, np.int64), rows)

    def count(self, head: int = 1) -> float:
        """Estimate how many distinct ids the rows from ``head`` on have."""
        return float(unions(self.last[np.newaxis], head)[1])

    def _check(self) -> None:
        assert self.last.min() >= 0


def add_rows(last: Ints, ids: Ints, sources: Ints, rows: Ints) -> None:
    """Take rows into the sketches of their sources (sources, bitmaps, bits); those of source -1 do not count."""
    mark(last, mixed(ids).view(np.int64) & np.int64((1 << 62) - 1), sources, rows)


def unions(last: Ints, head: int) -> Floats:
    """Estimate the distinct ids of each set of sources, as bits, in rows from ``head`` on."""
    counts = np.zeros(1 << len(last))
    count_unions(last, max(head, 1), counts)
    return counts


def intersections(counts: Floats) -> Floats:
    """Turn the sizes of unions into what all sources of a set have in common, by inclusion and exclusion."""
    sets = np.arange(counts.size)
    shared = np.where(np.bitwise_count(sets) % 2 == 1, counts, -counts)
    for s in range(counts.size.bit_length() - 1):
        without = sets[(sets >> s & 1) == 0]
        shared[without | 1 << s] += shared[without]
    return shared


def shared(sketches: Sequence[SlidingSketch], head: int = 1) -> float:
    """Estimate how many ids all of some sketches have in common: O(2^s) counts for s of them."""
    result = intersections(unions(np.array([sketch.last for sketch in sketches]), head))
    return max(0.0, float(result[-1]))


def appearance(sketch: SlidingSketch, given: Sequence[SlidingSketch], head: int = 1) -> float:
    """Estimate the probability that an id which all of ``given`` have seen has been seen by another source too.

    >>> one, two = SlidingSketch(1024), SlidingSketch(1024)
    >>> one.add(np.arange(8_000), np.arange(1, 8_001))
    >>> two.add(np.arange(6_000, 12_000), np.arange(1, 6_001))
    >>> bool(abs(appearance(two, [one]) - 0.25) < 0.1)
    True
    """
    among = shared(given, head)
    return min(1.0, shared([sketch, *given], head) / among) if among > 0 else 0.0


def mixed(ids: Ints) -> np.ndarray:
    """Hash numbers (splitmix64)."""
    with np.errstate(over="ignore"):
        z = ids.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashed: np.ndarray = z ^ (z >> np.uint64(31))
    return hashed
