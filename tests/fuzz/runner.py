"""Runs all targets side by side for some time, and prints what failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.cases import Outcome, Target, made, save
from tests.fuzz.shrinking import minimal
from tests.fuzz.worker import Worker

MOST_FAILURES = 5  # of one kind that are made smaller and saved


@dataclass
class Tally:
    """What is known of a target."""

    target: Target
    number: int = 0  # of the next case
    cases: int = 0
    seconds: float = 0.0
    failures: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0


class Run:
    """A run over some targets; each gets its share of the time."""

    def __init__(self, targets: Sequence[Target], seed: int, folder: Path, first: int = 0) -> None:
        self.tallies = [Tally(target, number=first) for target in targets]
        self.seed, self.folder = seed, folder
        self._lock = threading.Lock()

    def go(self, seconds: float, processes: int, most: int | None = None) -> bool:
        """Run for so long, with so many cases of each target at most; return whether all went well."""
        end = time.monotonic() + seconds
        with ThreadPoolExecutor(processes) as pool:
            for done in [pool.submit(self._work, end, most) for _ in range(processes)]:
                done.result()  # raises what a thread has raised
        return not any(tally.failures for tally in self.tallies)

    def table(self) -> str:
        """Say for each target how many cases there were, how many failed and how fast it went."""
        lines = [f"{'target':14}{'cases':>9}{'failures':>10}{'cases/s':>10}{'slowest':>10}"]
        for tally in self.tallies:
            speed = tally.cases / tally.seconds if tally.seconds else 0.0
            lines.append(
                f"{tally.target.name:14}{tally.cases:9,}{tally.failures:10,}{speed:10.1f}{tally.slowest:9.1f}s"
            )
            lines += [f"    {count:5,} x {kind}" for kind, count in tally.kinds.items()]
        return "\n".join(lines)

    def _work(self, end: float, most: int | None) -> None:
        worker = Worker()
        try:
            while time.monotonic() < end and (chosen := self._next(most)):
                tally, number = chosen
                outcome = worker.run(tally.target.name, (self.seed, number))
                with self._lock:
                    tally.cases += 1
                    tally.seconds += outcome.seconds
                    tally.slowest = max(tally.slowest, outcome.seconds)
                if outcome.kind:
                    self._failed(worker, tally, number, outcome)
        finally:
            worker.close()

    def _next(self, most: int | None) -> tuple[Tally, int] | None:
        with self._lock:
            left = [tally for tally in self.tallies if most is None or tally.number < most]
            if not left:
                return None
            tally = min(left, key=lambda tally: (tally.seconds / tally.target.share, tally.number))
            tally.number += 1
            tally.seconds += 1e-4  # so that several processes do not all choose the same
            return tally, tally.number - 1

    def _failed(self, worker: Worker, tally: Tally, number: int, outcome: Outcome) -> None:
        name = tally.target.name
        with self._lock:
            tally.failures += 1
            count = tally.kinds[outcome.kind] = tally.kinds.get(outcome.kind, 0) + 1
        if count > MOST_FAILURES:
            return
        case = made(tally.target, self.seed, number)
        case, outcome = minimal(tally.target, case, outcome, lambda case: worker.run(name, case))
        path = save(self.folder, name, self.seed, number, case, outcome)
        last = outcome.text.strip().splitlines()[-1:] or [""]
        print(f"{name} {number}: {outcome.kind}: {last[0][:300]}\n    python -m tests.fuzz --replay {path}", flush=True)
