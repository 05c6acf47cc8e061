"""What all algorithms of a measurement share: the same rows, the same queries, the same full window.

The window is filled once, by one algorithm. Each algorithm then starts from a snapshot of it, so that every query is
computed from scratch over the full window as in the papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks import real
from benchmarks.takeover import continued
from topwatch.algorithms import registry
from topwatch.algorithms.options import Option
from topwatch.datagen import generators
from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Nearest, TopK
from topwatch.query.scores import linear, product, quadratic
from topwatch.query.windows import last

ROWS_PER_PUSH = 50_000
REPETITIONS = 5  # of each algorithm in a measurement
REAL = ("luce", "luce-shuffled")
VARIANTS = {"rapf2": "rapf", "reserve-scan": "reserve", "pa-switch": "pa"}  # the largest buffer; no lists; may switch
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
    every: int = 0  # rows between evaluations where that is not a cycle
    buffer: int = 2000  # TODS'15: rows in the recent buffer,
    relax: float = 0.2  # γ,
    index: str = "auto"  # and whether queries are indexed
    folder: str = ""  # where data sets are


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
        rows = _rows(s.data, s.N + (1 + REPETITIONS + s.cycles) * s.r, s.d, seed, s.folder)
        self._columns = {f"x{i}": column for i, column in enumerate(rows, 1)}
        queries = _nearest(s, rows, seed) if s.score == "nearest" else _queries(s, seed)
        monitor = Monitor(queries, last(s.N), every=s.every or s.r, id=None)
        for start in range(0, s.N, ROWS_PER_PUSH):
            monitor.push(self.batch(start, min(s.N, start + ROWS_PER_PUSH)))
        self._snapshot = monitor.snapshot()

    def batch(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return the rows after the first ``start``, up to the one with ordinal ``stop``."""
        return {name: column[start:stop] for name, column in self._columns.items()}

    def start(self, algorithm: str) -> Monitor:
        """Let an algorithm take over the full window."""
        options = _options(self.setting, algorithm)
        return continued(self._snapshot, VARIANTS.get(algorithm, algorithm), **options)


def algorithms() -> list[str]:
    """Those of SIGMOD'06, our own, and the planner's choice."""
    return ["scan", "tsl", "tma", "sma", "reserve", "auto"]


def gridded() -> list[str]:
    """Those whose grid can be set."""
    return [name for name in algorithms() if "cells" in _options_of(name)]


@lru_cache(maxsize=1)
def _rows(data: str, rows: int, d: int, seed: int, folder: str) -> np.ndarray:
    if data == "moving":
        return generators.moving(rows, d, seed)
    if data in REAL:
        return real.rows(folder, rows, d, seed if data == "luce-shuffled" else None)
    return generators.generate(data, rows, d, seed)


def _nearest(s: Setting, rows: np.ndarray, seed: int) -> list[Nearest]:
    """Points picked from the data, as in TODS'15."""
    picked = rows[:, np.random.default_rng([seed, s.Q]).integers(0, rows.shape[1], s.Q)].T.tolist()
    return [
        Nearest(k=s.k, point={f"x{i}": x for i, x in enumerate(line, 1)}, name=f"q{number}")
        for number, line in enumerate(picked, 1)
    ]


def _queries(s: Setting, seed: int) -> list[TopK]:
    coefficients = np.random.default_rng([seed, s.d]).random((s.Q, s.d)).tolist()
    make = SCORES[s.score]
    return [
        TopK(k=s.k, score=make({f"x{i}": a for i, a in enumerate(line, 1)}), name=f"q{number}")
        for number, line in enumerate(coefficients, 1)
    ]


def _options(s: Setting, algorithm: str) -> dict[str, Any]:
    name = VARIANTS.get(algorithm, algorithm)
    known = _options_of(name)
    options: dict[str, Any] = {}
    if "buffer" in known:
        options["buffer"] = s.N // 2 if algorithm == "rapf2" else min(s.buffer, s.N // 2)
    if "relax" in known:
        options["relax"] = s.relax
    if "index" in known:
        options["index"] = s.index
    if algorithm == "pa-switch":
        options["max_error"] = 1e-3
    if algorithm == "reserve-scan":
        options["route"] = "scan"
    if "kmax" in known:
        options["kmax"] = s.kmax
    if "cells" in known and (registry.algorithms()[name].own_grid or s.cells_for_all):
        options["cells"] = s.cells
    return options


def _options_of(algorithm: str) -> Mapping[str, Option]:
    """Return the options of an algorithm; the planner's own choice is left alone."""
    return {} if algorithm == "auto" else registry.algorithms()[algorithm].options
