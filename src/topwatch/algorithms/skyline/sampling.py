"""Sampling: the skyline of some snapshots only, and shares of those (SIGMOD 2009, section 5, Algorithm 6).

Each snapshot is sampled with the same probability R; what is in the skyline of at least the query's share of the
samples is the answer. With R of Theorem 5.1 a row that is reported was in the skyline of more than (share - epsilon) of
the window's snapshots with probability 1 - 2 delta.

In one process it saves no message, but work: between two samples rows are only recorded, and at a sample the skyline is
computed from all live rows. Algorithm 6 reports counters *exceeding* share times the samples, where
Definition 5 has *at least*: here it is at least, as without sampling. R is the theorem's, and 1 at most; the theorem
speaks of a full window. The first snapshot is always sampled, as by devices (``topwatch.edge.protocol``).
"""

from __future__ import annotations

from collections.abc import Mapping

from topwatch.algorithms.preferred import Preferred
from topwatch.algorithms.skyline.frequent import Frequent
from topwatch.core.arrays import Ints
from topwatch.core.engine import QueryState, StateFactory, Window
from topwatch.core.kernels.rows import Step
from topwatch.core.latest import LatestWindow
from topwatch.core.sampled_timestamps import is_sampled, sampling_rate
from topwatch.query.queries import FrequentSkyline
from topwatch.tables.skyline import front


def sampling(epsilon: float = 0.2, delta: float = 0.1, seed: int = 0) -> StateFactory:
    """Return what makes the state of a query; the defaults are the paper's."""

    def make(window: Window, query: FrequentSkyline, column_of: Mapping[str, int], expected: int) -> QueryState:
        assert isinstance(window, LatestWindow)
        rate = sampling_rate(int(query.snapshots), query.share, epsilon, delta)
        return Frequent(window, query, column_of, SomeSkylines(window, query, column_of, rate, seed))

    return make


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

    def members(self, number: int, evaluation: int, live: Ints) -> Ints | None:
        """Return the entities in the skyline, or None when the snapshot is not sampled."""
        if not is_sampled(self._seed, self._rate, number - 1):
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
