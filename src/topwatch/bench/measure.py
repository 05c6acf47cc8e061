"""Measures algorithms at one setting: the same rows, the same full window, the same cycles, and their answers compared.

The window is filled once, by one algorithm. Each algorithm then starts from a snapshot of it, so that every query is
computed from scratch over the full window as in the papers. A cycle is ``r`` arrivals, as many expiries and a
judgement. The first cycle is not timed; after that only ``push`` is.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch import plan, snapshots
from topwatch.bench import generators
from topwatch.changes import Changes
from topwatch.monitor import Monitor
from topwatch.queries import TopK
from topwatch.scoring import linear, product, quadratic
from topwatch.windows import last

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_PUSH = 50_000  # several cycles at once, so that Python's fixed cost of a push does not blur the picture
SCORES = {"linear": linear, "product": product, "quadratic": quadratic}
WORD = 8


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


@dataclass(frozen=True)
class Run:
    """What one algorithm did at a setting. Counts are means: per query over the cycles, per cycle or per arrival."""

    algorithm: str
    served_by: str
    cycles: int
    arrivals: int
    seconds: float
    cpu_seconds: float
    start_seconds: float  # all queries from scratch, and the cycle that is not timed
    kept_per_query: float
    cells_per_query: float
    state_bytes: int
    recomputations_per_cycle: float
    scores_per_arrival: float
    digests: tuple[str, ...] = field(repr=False)

    @property
    def speed(self) -> float:
        """Million arrivals per second."""
        return self.arrivals / self.seconds / 1e6

    @property
    def cycle_microseconds(self) -> float:
        """Time of a cycle."""
        return self.seconds / self.cycles * 1e6


@dataclass(frozen=True)
class Point:
    """All algorithms at a setting."""

    setting: Setting
    runs: dict[str, Run]
    skipped: dict[str, str]

    def ratio(self, fast: str, slow: str) -> float | None:
        """How many times faster one is than the other; None where one of them was not measured."""
        if fast not in self.runs or slow not in self.runs:
            return None
        return self.runs[fast].speed / self.runs[slow].speed

    def paper_bytes(self, run: Run) -> float:
        """SIGMOD'06, section 6: N (d + 1) + Q (C + d + 3k) words, with as many cells C as the run had."""
        s = self.setting
        return WORD * (s.N * (s.d + 1) + s.Q * (run.cells_per_query + s.d + 3 * s.k))


def algorithms() -> list[str]:
    """All that keep answers up to date, and the planner's choice."""
    return [name for name in plan.ALGORITHMS if name != "brute"] + ["auto"]


def warm_up() -> None:
    """Compile, or load from the cache, all that a measurement calls: a throwaway run of each algorithm."""
    setting = Setting(data="ind", d=2, N=4000, r=1000, Q=30, k=5, cells=4, kmax=10, cycles=100)
    measure(setting, algorithms(), seed=0, budget=30.0)


def measure(
    setting: Setting,
    names: Sequence[str],
    seed: int,
    budget: float,
    done: Callable[[int], None] = lambda runs: None,
) -> Point:
    """Run algorithms one after the other, each for at most about ``budget`` seconds of timed cycles."""
    s = setting
    rows = _rows(s.data, s.N + (1 + s.cycles) * s.r, s.d, seed)
    columns = {f"x{i}": column for i, column in enumerate(rows, 1)}
    header, arrays = _full_window(s, columns, seed)
    runs: dict[str, Run] = {}
    skipped: dict[str, str] = {}
    for name in names:
        begun = time.perf_counter()
        try:
            monitor = Monitor.restore(
                snapshots.pack({**header, "algorithm": name, "options": _options(s, name)}, arrays)
            )
        except Exception as error:  # whatever it is: the others are still worth measuring, and the report says it
            skipped[name] = f"{type(error).__name__}: {error}"
        else:
            runs[name] = _timed(s, name, monitor, columns, budget, begun)
            del monitor
        done(1)
    return Point(s, runs, skipped)


def disagreement(point: Point) -> str:
    """Say where algorithms first reported different changes; an empty string where they never did."""
    runs = list(point.runs.values())
    for cycle in range(max((len(run.digests) for run in runs), default=0)):
        camps: dict[str, list[str]] = {}
        for run in runs:
            if cycle < len(run.digests):
                camps.setdefault(run.digests[cycle], []).append(run.algorithm)
        if len(camps) > 1:
            return f"in cycle {cycle} " + " against ".join(", ".join(camp) for camp in camps.values())
    return ""


@lru_cache(maxsize=1)
def _rows(data: str, rows: int, d: int, seed: int) -> np.ndarray:
    return generators.generate(data, rows, d, seed)


def _queries(s: Setting, seed: int) -> list[TopK]:
    """Coefficients uniform in [0, 1); fewer queries are the first of more."""
    coefficients = np.random.default_rng([seed, s.d]).random((s.Q, s.d)).tolist()
    make = SCORES[s.score]
    return [
        TopK(k=s.k, score=make({f"x{i}": a for i, a in enumerate(line, 1)}), name=f"q{number}")
        for number, line in enumerate(coefficients, 1)
    ]


def _options(s: Setting, algorithm: str) -> dict[str, int]:
    known = plan.ALGORITHMS.get(algorithm, plan.Algorithm())
    options = {}
    if "kmax" in known.options:
        options["kmax"] = s.kmax
    if "cells" in known.options and (known.own_grid or s.cells_for_all):
        options["cells"] = s.cells
    return options


def _full_window(s: Setting, columns: dict[str, np.ndarray], seed: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what a monitor's snapshot holds after N rows."""
    monitor = Monitor(_queries(s, seed), last(s.N), every=s.r, id=None)
    for start in range(0, s.N, ROWS_PER_PUSH):
        monitor.push(_batch(columns, start, min(s.N, start + ROWS_PER_PUSH)))
    return snapshots.unpack(monitor.snapshot())


def _batch(columns: dict[str, np.ndarray], start: int, stop: int) -> dict[str, np.ndarray]:
    return {name: column[start:stop] for name, column in columns.items()}


def _timed(s: Setting, name: str, monitor: Monitor, columns: dict[str, np.ndarray], budget: float, begun: float) -> Run:
    end = s.N + s.r
    digests = _digests(monitor.push(_batch(columns, s.N, end)), s.N, end, s.r)
    start_seconds = time.perf_counter() - begun
    before = monitor.stats()
    gc.collect()
    per_push = s.r * max(1, ROWS_PER_PUSH // s.r)
    last_row = end + s.cycles * s.r
    kept, cells = [], []
    seconds = cpu = 0.0
    while end < last_row and seconds < budget:
        start, end = end, min(end + per_push, last_row)
        batch = _batch(columns, start, end)
        cpu_then, then = time.process_time(), time.perf_counter()
        changes = monitor.push(batch)
        seconds += time.perf_counter() - then
        cpu += time.process_time() - cpu_then
        digests += _digests(changes, start, end, s.r)
        stats = monitor.stats()
        kept.append(stats["kept"])
        cells.append(stats.get("influence", 0))
    after = monitor.stats()
    arrivals = after["rows"] - before["rows"]
    cycles = arrivals // s.r
    return Run(
        algorithm=name,
        served_by=_served_by(monitor),
        cycles=cycles,
        arrivals=arrivals,
        seconds=seconds,
        cpu_seconds=cpu,
        start_seconds=start_seconds,
        kept_per_query=float(np.mean(kept)) / s.Q,
        cells_per_query=float(np.mean(cells)) / s.Q,
        state_bytes=after["bytes"],
        recomputations_per_cycle=(after["recomputations"] - before["recomputations"]) / cycles,
        scores_per_arrival=(after["scores"] - before["scores"]) / arrivals,
        digests=tuple(digests),
    )


def _served_by(monitor: Monitor) -> str:
    """Read the algorithms from ``explain()``, a line "query: algorithm – reason" each."""
    found = {line.partition(": ")[2].partition(" ")[0] for line in monitor.explain().splitlines()[1:]}
    return ", ".join(sorted(found))


def _digests(changes: Changes, start: int, end: int, r: int) -> list[str]:
    """Return a hash of the changes for each cycle from row ``start`` to row ``end``."""
    cuts = np.searchsorted(changes.at, np.arange(start, end + 1, r), side="right")
    table = changes.to_arrow()
    return [_digest(table.slice(low, high - low)) for low, high in zip(cuts[:-1], cuts[1:], strict=True)]


def _digest(table: pa.Table) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for column in table.columns:
        values = column.to_numpy()
        digest.update("\n".join(values).encode() if values.dtype == object else values.tobytes())
    return digest.hexdigest()
