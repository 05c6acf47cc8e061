"""What all algorithms of a measurement share: the same rows, the same queries, the same full window.

The window is filled once, by one algorithm. Each algorithm then starts from a snapshot of it, so that every query is
computed from scratch over the full window as in the papers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from topwatch import plan, snapshots
from topwatch.bench import generators
from topwatch.monitor import Monitor
from topwatch.queries import TopK
from topwatch.scoring import linear, product, quadratic
from topwatch.windows import last

ROWS_PER_PUSH = 50_000
TURNS = 5  # of each algorithm in a measurement
SCORES = {"linear": linear, "product": product, "quadratic": quadratic}


@dataclass(frozen=True)
class Setting:
    """One point of an experiment, in the papers' letters."""

    data: str
    d: int
    N: int
    r: int
    Q: int
    k: int
    cells: int  # per axis, for the algorithms that cannot do without a grid
    kmax: int
    cycles: int
    score: str = "linear"
    cells_for_all: bool = False  # also for those that would choose by themselves


class Workload:
    """Rows, queries and a full window.

    Parameters
    ----------
    setting : Setting
        Sizes.
    seed : int
        Same seed, same rows and queries; fewer queries are the first of more.
    """

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting = s = setting
        rows = _rows(s.data, s.N + (1 + TURNS + s.cycles) * s.r, s.d, seed)
        self._columns = {f"x{i}": column for i, column in enumerate(rows, 1)}
        monitor = Monitor(_queries(s, seed), last(s.N), every=s.r, id=None)
        for start in range(0, s.N, ROWS_PER_PUSH):
            monitor.push(self.batch(start, min(s.N, start + ROWS_PER_PUSH)))
        self._header, self._arrays = snapshots.unpack(monitor.snapshot())

    def batch(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return the rows after the first ``start``, up to the one with ordinal ``stop``."""
        return {name: column[start:stop] for name, column in self._columns.items()}

    def start(self, algorithm: str) -> Monitor:
        """Let an algorithm take over the full window."""
        header = {**self._header, "algorithm": algorithm, "options": _options(self.setting, algorithm)}
        return Monitor.restore(snapshots.pack(header, self._arrays))


def algorithms() -> list[str]:
    """All that keep top-k answers up to date, and the planner's choice."""
    return [name for name, known in plan.ALGORITHMS.items() if known.family == "topk"] + ["auto"]


def gridded() -> list[str]:
    """Those whose grid can be set."""
    return [name for name in algorithms() if "cells" in _known(name).options]


@lru_cache(maxsize=1)
def _rows(data: str, rows: int, d: int, seed: int) -> np.ndarray:
    return generators.generate(data, rows, d, seed)


def _queries(s: Setting, seed: int) -> list[TopK]:
    coefficients = np.random.default_rng([seed, s.d]).random((s.Q, s.d)).tolist()
    make = SCORES[s.score]
    return [
        TopK(k=s.k, score=make({f"x{i}": a for i, a in enumerate(line, 1)}), name=f"q{number}")
        for number, line in enumerate(coefficients, 1)
    ]


def _options(s: Setting, algorithm: str) -> dict[str, int]:
    known = _known(algorithm)
    options = {}
    if "kmax" in known.options:
        options["kmax"] = s.kmax
    if "cells" in known.options and (known.own_grid or s.cells_for_all):
        options["cells"] = s.cells
    return options


def _known(algorithm: str) -> plan.Algorithm:
    """What the planner knows; the planner's own choice is left alone."""
    return plan.ALGORITHMS.get(algorithm, plan.Algorithm())
