"""Measures algorithms at one setting: the same workload, the same cycles, and their answers compared.

A cycle is ``r`` arrivals, as many expiries and an evaluation. Only ``push`` is timed, several cycles at once, so that
Python's fixed cost of a push does not blur the picture.

Algorithms take repetitions: a machine that others use too is slower at some times than at others, and ratios should not
depend on who was measured when. A repetition begins with a cycle that is not timed, which fills the processor's caches.
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

from benchmarks.workload import REPETITIONS, ROWS_PER_PUSH, Setting, Workload, algorithms
from topwatch.monitor.changes import Changes

if TYPE_CHECKING:
    import pyarrow as pa

WORD = 8


@dataclass(frozen=True)
class Run:
    """What one algorithm did at a setting. Counts are means: per query over the cycles, per cycle or per arrival."""

    algorithm: str
    chosen: str  # by auto; else the same
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
    """Let algorithms take turns, each for at most about ``budget`` seconds of timed cycles in all."""
    workload = Workload(setting, seed)
    courses: dict[str, _Course] = {}
    skipped: dict[str, str] = {}
    for name in names:
        try:
            courses[name] = _Course(workload, name)
        except Exception as error:  # whatever it is: the others are still worth measuring, and the report says it
            skipped[name] = f"{type(error).__name__}: {error}"
    gc.collect()
    gc.freeze()  # what is there stays: collecting before each repetition need not walk through all of Numba
    for repetition in range(1, REPETITIONS + 1):
        for course in courses.values():
            course.run_repetition(-(-setting.cycles * repetition // REPETITIONS), budget * repetition / REPETITIONS)
            done(int(repetition == REPETITIONS))
    runs = {}
    for name in names:
        if name in courses:
            runs[name] = courses.pop(name).run()
    gc.unfreeze()
    done(len(skipped))
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


class _Course:
    """One algorithm's way through the workload."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.name = name
        self._workload = workload
        self._setting = workload.setting
        begun = time.perf_counter()
        self._monitor = workload.start(name)
        self._end = self._setting.N
        self._result: list[tuple[Changes, int, int]] = []
        self._push(1)
        self._start_seconds = time.perf_counter() - begun
        self._before = self._monitor.stats()
        self._kept: list[int] = []
        self._cells: list[int] = []
        self._paces: list[float] = []
        self._seconds = self._cpu = 0.0

    def run_repetition(self, cycles: int, budget: float) -> None:
        """Go on until so many cycles or seconds have been timed in all."""
        if len(self._paces) >= cycles or self._seconds >= budget:
            return
        gc.collect()
        self._push(1)
        while len(self._paces) < cycles and self._seconds < budget:
            count = self._affordable(cycles, budget)
            cpu = time.process_time()
            taken = self._push(count)
            self._cpu += time.process_time() - cpu
            self._seconds += taken
            self._paces += [taken / count] * count
            stats = self._monitor.stats()
            self._kept.append(stats["kept"])
            self._cells.append(stats.get("influence", 0))

    def _push(self, cycles: int) -> float:
        start, self._end = self._end, self._end + cycles * self._setting.r
        batch = self._workload.batch(start, self._end)
        then = time.perf_counter()
        changes = self._monitor.push(batch)
        taken = time.perf_counter() - then
        self._result.append((changes, start, self._end))  # hashed later: that would empty the processor's caches
        return taken

    def _affordable(self, cycles: int, budget: float) -> int:
        """How many cycles to push at once: a few to see how long they take, then as many as the budget allows."""
        done = len(self._paces)
        most = min(max(1, ROWS_PER_PUSH // self._setting.r), cycles - done)
        affordable = (budget - self._seconds) * done / self._seconds if done else most // 25
        return max(1, min(most, int(affordable)))

    def run(self) -> Run:
        """Say what was measured."""
        s, after, before = self._setting, self._monitor.stats(), self._before
        cycles = len(self._paces)
        arrivals = after["rows"] - before["rows"]
        return Run(
            algorithm=self.name,
            chosen=", ".join(sorted({one.algorithm for one in self._monitor.plan.queries})),
            cycles=cycles,
            arrivals=cycles * s.r,
            seconds=float(np.median(self._paces)) * cycles,
            cpu_share=min(1.0, self._cpu / self._seconds),
            start_seconds=self._start_seconds,
            kept_per_query=float(np.mean(self._kept)) / s.Q,
            cells_per_query=float(np.mean(self._cells)) / s.Q,
            state_bytes=after["bytes"],
            recomputations_per_cycle=(after["recomputations"] - before["recomputations"]) * s.r / arrivals,
            scores_per_arrival=(after["scores"] - before["scores"]) / arrivals,
            digests=tuple(digest for part in self._result for digest in _digests(*part, s.r)),
        )


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
