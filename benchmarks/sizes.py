"""How many rows a query keeps, as in Table 2 of SIGMOD'06: the mean over all cycles since a start from scratch.

A row's rank is all that counts, so that the expected size depends on k, kmax and r / N alone: not on N, not on d and
not on the shape of the data. But queries over the same rows are alike, and one run of 100 cycles is off by several
percent whatever the number of queries. So many runs over a small window tell more than one over a large window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.sigmod2006 import DATA, KMAX, TABLE_2, Scale
from benchmarks.workload import Workload

NAMES = ("tsl", "sma")  # in the order of Table 2


@dataclass(frozen=True)
class Size:
    """One number of the table, the paper's and ours."""

    data: str
    k: int
    algorithm: str
    paper: float
    ours: float
    error: float  # standard error, from the differences between seeds

    @property
    def off(self) -> float:
        """By how much ours is larger."""
        return self.ours / self.paper - 1


def table_2(scale: Scale, seed: int, done: Callable[[int], None]) -> list[Size]:
    """Measure the table; ``done`` is called for each of the :func:`runs`."""
    result = []
    for data in DATA:
        for k in scale.k:
            kept = np.array([_kept(scale, data, k, seed + i, done) for i in range(scale.size_seeds)])
            for name, papers, values in zip(NAMES, TABLE_2[data][k], kept.T, strict=True):
                error = values.std(ddof=1) / np.sqrt(values.size)
                result.append(Size(data, k, name, papers, float(values.mean()), float(error)))
    return result


def runs(scale: Scale) -> int:
    """How many runs the table takes."""
    return len(DATA) * len(scale.k) * scale.size_seeds * len(NAMES)


def _kept(scale: Scale, data: str, k: int, seed: int, done: Callable[[int], None]) -> Sequence[float]:
    workload = Workload(replace(scale.sizes, data=data, k=k, kmax=KMAX[k]), seed)
    means = []
    for name in NAMES:
        means.append(_mean_kept(workload, name))
        done(1)
    return means


def _mean_kept(workload: Workload, name: str) -> float:
    s = workload.setting
    monitor = workload.start(name)
    kept = []
    for start in range(s.N, s.N + s.cycles * s.r, s.r):
        monitor.push(workload.batch(start, start + s.r))
        kept.append(monitor.stats()["kept"])
    return float(np.mean(kept)) / s.Q
