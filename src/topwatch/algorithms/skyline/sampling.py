"""Sampling: the skyline of some snapshots only, and shares of those (SIGMOD 2009, section 5, Algorithm 6).

Each snapshot is sampled with the same probability R; what is in the skyline of at least the asked share of the sampled
ones is the answer. With R of Theorem 5.1 a row that is reported was in the skyline of more than (share - epsilon) of
the window's snapshots with probability 1 - 2 delta.

In one process no message is saved, but work: between two samples rows are only taken note of, and at a sample the
skyline is computed from all live rows. Algorithm 6 reports counters *exceeding* share times the samples, where
Definition 5 has *at least*: here it is at least, as without sampling. R is the theorem's, and 1 at most; the theorem
speaks of a full window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from topwatch.kernels.rows import Step
from topwatch.kernels.scoring import Ints
from topwatch.queries import FrequentSkyline
from topwatch.structures.contest import Contest, Design
from topwatch.structures.engine import Window
from topwatch.structures.frequent import Frequent
from topwatch.structures.front import front
from topwatch.structures.latest import LatestWindow
from topwatch.structures.preferred import Preferred

_WORD = (1 << 64) - 1


def design(epsilon: float = 0.2, delta: float = 0.1, seed: int = 0) -> Design:
    """Return what makes the contest of a query; the defaults are the paper's."""

    def make(window: Window, query: FrequentSkyline, column_of: Mapping[str, int], expected: int) -> Contest:
        assert isinstance(window, LatestWindow)
        rate = sampling_rate(query.share, int(query.snapshots), epsilon, delta)
        return Frequent(window, query, column_of, SomeSkylines(window, query, column_of, rate, seed))

    return make


def sampling_rate(share: float, snapshots: int, epsilon: float, delta: float) -> float:
    """Return the probability R of Theorem 5.1, at most 1.

    >>> round(sampling_rate(share=0.8, snapshots=1000, epsilon=0.2, delta=0.1), 3)
    0.178
    """
    trust = math.log(1 / delta)
    return min(1.0, math.sqrt(trust / (2 * snapshots)) + 2 * trust / (epsilon**2 * share * snapshots))


def sampled(seed: int, number: int, rate: float) -> bool:
    """Tell whether a snapshot is sampled: the same for all that know the seed, and for any number at once.

    >>> [number for number in range(1, 30) if sampled(7, number, 0.1)]
    [21, 28]
    """
    x = (seed * 0x9E3779B97F4A7C15 + number * 0xD1342543DE82EF95 + 0x632BE59BD9B4E019) & _WORD
    for multiplier in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):  # splitmix64
        x = ((x ^ (x >> 30)) * multiplier) & _WORD
    return (x ^ (x >> 31)) < rate * 2.0**64


class SomeSkylines:
    """The skylines of sampled snapshots, each from scratch."""

    def __init__(
        self, window: LatestWindow, query: FrequentSkyline, column_of: Mapping[str, int], rate: float, seed: int
    ) -> None:
        self._window = window
        self._preferred = Preferred(window, query, column_of)
        self._rate, self._seed = rate, seed
        self._samples = 0

    def begin(self, slots: Ints) -> None:
        """Nothing is kept."""

    def take(self, step: Step) -> None:
        """Nothing is kept."""

    def members(self, number: int, judgement: int, live: Ints) -> Ints | None:
        """Return the entities in the skyline, or None when the snapshot is not sampled."""
        if not sampled(self._seed, number, self._rate):
            return None
        self._samples += 1
        members: Ints = self._window.entity[live[front(self._preferred.values(live))]]
        return members

    def relocate(self) -> None:
        """Nothing is kept."""

    def stats(self) -> dict[str, int]:
        """Counters since the start."""
        return {"scores": 0, "recomputations": self._samples, "kept": 0, "bytes": 0}

    def _check(self, rows: Ints) -> None:
        """Nothing is kept."""
