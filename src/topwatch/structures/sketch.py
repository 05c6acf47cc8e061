"""Sliding FM sketches: how many distinct ids a source has told of in a window, and how many of them two sources share.

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

import itertools
import math
from collections.abc import Sequence

import numpy as np

from topwatch.kernels.scoring import Ints

PHI = 0.77351
KAPPA = 1.75
BITS = 40
FEW = 0.1  # from this share of empty bitmaps on, they are what is counted


class SlidingSketch:
    """A sketch of the distinct ids of rows.

    Parameters
    ----------
    bitmaps : int
        How many; a power of two. Memory: 320 B each.

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
        assert bitmaps > 0
        assert bitmaps & (bitmaps - 1) == 0
        self.last: Ints = np.zeros((bitmaps, BITS), np.int64)  # the row that last set each bit, 0 for none

    @property
    def error(self) -> float:
        """The standard error of a count, relative to it."""
        return 0.78 / math.sqrt(len(self.last))

    def add(self, ids: Ints, rows: Ints) -> None:
        """Take in rows with the numbers of their ids; O(1) each."""
        hashed = mixed(ids)
        bitmap = hashed & np.uint64(len(self.last) - 1)
        rest = hashed >> np.uint64(len(self.last).bit_length() - 1)
        lowest = rest & (~rest + np.uint64(1))
        place = np.minimum(np.frexp(lowest.astype(np.float64))[1] - 1, BITS - 1)
        place[rest == 0] = BITS - 1
        np.maximum.at(self.last, (bitmap.astype(np.int64), place), rows)

    def count(self, head: int = 1) -> float:
        """Estimate how many distinct ids the rows from ``head`` on have."""
        return estimate(self.last, head)

    def _check(self) -> None:
        assert self.last.min() >= 0


def estimate(last: Ints, head: int) -> float:
    """Estimate the distinct ids of a sketch, or of a union of some, given the first live row."""
    unset = last < max(head, 1)
    empty = np.count_nonzero(unset.all(axis=1)) / len(last)
    if empty > FEW:
        return float(-len(last) * math.log(empty))
    lengths = np.where(unset.any(axis=1), unset.argmax(axis=1), BITS)
    mean = float(lengths.mean())
    return float(len(last) / PHI * (2.0**mean - 2.0 ** (-KAPPA * mean)))


def shared(sketches: Sequence[SlidingSketch], head: int = 1) -> float:
    """Estimate how many ids all of some sketches have in common: O(2^s) counts for s of them."""
    total = 0.0
    for size in range(1, len(sketches) + 1):
        for some in itertools.combinations(sketches, size):
            union = np.maximum.reduce([sketch.last for sketch in some])
            total += (-1) ** (size + 1) * estimate(union, head)
    return max(0.0, total)


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
