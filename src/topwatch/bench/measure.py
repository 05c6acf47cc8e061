"""Measures algorithms at one setting: the same workload, the same cycles, and their answers compared.

A cycle is ``r`` arrivals, as many expiries and a judgement. The first one is not timed; after that only ``push`` is,
several cycles at once, so that Python's fixed cost of a push does not blur the picture.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from topwatch.bench.workload import ROWS_PER_PUSH, Setting, Workload, algorithms
from topwatch.changes import Changes
from topwatch.monitor import Monitor

if TYPE_CHECKING:
    import pyarrow as pa

WORD = 8


@dataclass(frozen=True)
class Run:
    """What one algorithm did at a setting. Counts are means: per query over the cycles, per cycle or per arrival."""

    algorithm: str
    served_by: str
    cycles: int
    arrivals: int
    seconds: float  # the median cycle, times the cycles: bursts of other work do not count
    cpu_share: float  # of the time on the clock that the processor was ours
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
    workload = Workload(setting, seed)
    runs: dict[str, Run] = {}
    skipped: dict[str, str] = {}
    for name in names:
        begun = time.perf_counter()
        try:
            monitor = workload.start(name)
        except Exception as error:  # whatever it is: the others are still worth measuring, and the report says it
            skipped[name] = f"{type(error).__name__}: {error}"
        else:
            runs[name] = _timed(workload, name, monitor, budget, begun)
            del monitor
        done(1)
    return Point(setting, runs, skipped)


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


def _timed(workload: Workload, name: str, monitor: Monitor, budget: float, begun: float) -> Run:
    s = workload.setting
    end = s.N + s.r
    found = [(monitor.push(workload.batch(s.N, end)), s.N, end)]
    start_seconds = time.perf_counter() - begun
    before = monitor.stats()
    gc.collect()
    kept, cells, paces = [], [], []
    seconds = cpu = 0.0
    cycles = 0
    while cycles < s.cycles and seconds < budget:
        count = _next_cycles(s, cycles, seconds, budget)
        cycles += count
        start, end = end, end + count * s.r
        batch = workload.batch(start, end)
        cpu_then, then = time.process_time(), time.perf_counter()
        changes = monitor.push(batch)
        taken = time.perf_counter() - then
        cpu += time.process_time() - cpu_then
        seconds += taken
        paces += [taken / count] * count
        found.append((changes, start, end))  # hashed later: that would empty the processor's caches
        stats = monitor.stats()
        kept.append(stats["kept"])
        cells.append(stats.get("influence", 0))
    after = monitor.stats()
    arrivals = after["rows"] - before["rows"]
    return Run(
        algorithm=name,
        served_by=_served_by(monitor),
        cycles=cycles,
        arrivals=arrivals,
        seconds=float(np.median(paces)) * cycles,
        cpu_share=min(1.0, cpu / seconds),
        start_seconds=start_seconds,
        kept_per_query=float(np.mean(kept)) / s.Q,
        cells_per_query=float(np.mean(cells)) / s.Q,
        state_bytes=after["bytes"],
        recomputations_per_cycle=(after["recomputations"] - before["recomputations"]) / cycles,
        scores_per_arrival=(after["scores"] - before["scores"]) / arrivals,
        digests=tuple(digest for part in found for digest in _digests(*part, s.r)),
    )


def _next_cycles(s: Setting, done: int, seconds: float, budget: float) -> int:
    """How many cycles to push at once: a few to see how long they take, then as many as the budget allows."""
    most = min(max(1, ROWS_PER_PUSH // s.r), s.cycles - done)
    affordable = (budget - seconds) * done / seconds if done else most // 25
    return max(1, min(most, int(affordable)))


def _served_by(monitor: Monitor) -> str:
    """Read the algorithms from ``explain()``, a line "query: algorithm – reason" each."""
    found = {line.partition(": ")[2].partition(" ")[0] for line in monitor.explain().splitlines()[1:]}
    return ", ".join(sorted(found))


def _digests(changes: Changes, start: int, end: int, r: int) -> list[str]:
    """Return a hash of the changes for each cycle from row ``start`` to row ``end``."""
    cuts = np.searchsorted(changes.at, np.arange(start, end + 1, r), side="right")
    table = changes.to_arrow()
    return [_digest(table.slice(low, high - low)) for low, high in pairwise(cuts.tolist())]


def _digest(table: pa.Table) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for column in table.columns:
        values = column.to_numpy()
        digest.update("\n".join(values).encode() if values.dtype == object else values.tobytes())
    return digest.hexdigest()
