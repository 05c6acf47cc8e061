"""Kill ``topwatch run`` at bad moments, start it again, and compare what it wrote with what it should have.

``python -m tests.support.crashes.kills --seed 7 --kills 20 --case by-sma-long-50``; all cases when none is named.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tests.support import sink_files
from tests.support.crashes.cases import CASES, Case, Line, Stream
from tests.support.crashes.processes import KINDS, LIGHT_JAVA, OUTPUT, PART, SEGMENT, STATE, Checkpoint, Run

EARLY, RANDOM = "early", "random"
SHARES = {EARLY: 2, RANDOM: 6, SEGMENT: 4, PART: 1, STATE: 4, OUTPUT: 3}  # of twenty
CLEANING = 8  # micro-batches from one clean-up to the next
MISSES = 3  # so often a moment is tried again that had passed when the kill came
STARTUP, AWHILE = 6.0, 1.5  # seconds: what Spark takes to start, and for a few micro-batches
_PAUSE = 0.0005  # seconds from look to look; while nothing can happen yet, so many times that
_PATIENCE = 40


@dataclass(frozen=True)
class Kill:
    """The moment that was aimed at, and the one that was hit."""

    moment: str
    hit: str
    batch: int


def plan(case: Case, kills: int, rng: np.random.Generator) -> list[str]:
    """Choose the moments of so many kills, each kind in its share."""
    shares = {moment: share for moment, share in SHARES.items() if moment != PART or case.partitions > 1}
    cycle = [moment for moment, share in shares.items() for _ in range(share)]
    rounds = [rng.permutation(cycle) for _ in range(kills // len(cycle) + 1)]
    return np.concatenate(rounds)[:kills].tolist()


class Killer:
    """Runs a stream's pipeline and kills it, again and again."""

    def __init__(self, stream: Stream, rng: np.random.Generator, say: Callable[[str], None] = print) -> None:
        self.stream, self.kills, self._rng, self._say = stream, list[Kill](), rng, say
        self.segments: set[str] = set()  # all that were ever seen

    def disturb(self, moments: Sequence[str], files: int = 2 * CLEANING) -> None:
        """Kill a run at each of these moments, and go on from its checkpoint with the next."""
        self.stream.grow(files)
        waiting, misses = list(moments), 0
        while waiting:
            hit = self._once(waiting[0])
            never = waiting[0] == SEGMENT and not self.segments  # a pruned stream has none
            if hit is None:  # all rows were read before the moment came
                self.stream.grow(len(self.stream.tables) + CLEANING)
            elif hit == waiting[0] or waiting[0] in (EARLY, RANDOM) or never or misses == MISSES:
                waiting.pop(0)
                misses = 0
            else:
                misses += 1

    def finish(self) -> None:
        """Let it run to the end, and so far that segments are cleaned up in the last micro-batch, a new one.

        A kill after Spark has noted down a file, and before it has begun a micro-batch with it, makes the next one have
        two: there may be fewer micro-batches than files. A watermark makes a run end with one without a file.
        """
        empty = int("lateness" in self.stream.case.settings)
        files = ((len(self.stream.tables) - 1) // CLEANING + 1) * CLEANING + 1
        for _ in range(3):
            self.stream.grow(files)
            run = Run(self.stream.file)
            try:
                run.finish()
            finally:
                run.kill()
            last = Checkpoint(self.stream.folder, self.stream.case.partitions).look().batch - 1
            if last % CLEANING == 0:
                break
            files += (-last - empty) % CLEANING or CLEANING

    def _once(self, moment: str) -> str | None:
        checkpoint = Checkpoint(self.stream.folder, self.stream.case.partitions)
        run = Run(self.stream.file)
        try:
            if not self._await(run, checkpoint, moment):
                run.finish()
                return None
            run.kill(workers=bool(self._rng.integers(2)))
        finally:
            run.kill()
        seen = checkpoint.look()
        self.segments |= checkpoint.segments()
        kill = Kill(moment, checkpoint.kind(seen), seen.batch)
        self.kills.append(kill)
        self._say(f"  kill {len(self.kills)}: aimed at {moment!r}, hit {kill.hit!r} of micro-batch {kill.batch}")
        return kill.hit

    def _await(self, run: Run, checkpoint: Checkpoint, moment: str) -> bool:
        """Return at the moment to kill; False if the run has ended before."""
        if moment == EARLY:
            time.sleep(STARTUP * self._rng.random())
            return run.running
        skipped = int(self._rng.integers(2))
        first = checkpoint.look().batch
        while run.running:
            seen = checkpoint.look()
            if seen.stirred and moment == RANDOM:
                time.sleep(AWHILE * self._rng.random())
                return run.running
            if seen.batch >= first + skipped and checkpoint.kind(seen) == moment:
                return True
            if seen.batch > first + skipped + 1:
                return True  # it passed too quickly, or never comes
            time.sleep(_PAUSE if seen.stirred else _PAUSE * _PATIENCE)
        return False


def complaints(stream: Stream, undisturbed: Sequence[Line] | None = None, kills: int = 0) -> list[str]:
    """Say what is wrong with what a stream's runs have left, of which so many were killed: nothing, as it should be."""
    result = sink_files.rows(stream.out)
    wanted = stream.wanted()
    if "lateness" in stream.case.settings:  # the last rows still wait
        last = max(line[0] for line in result)
        if last < len(stream.tables) * stream.case.rows - 2 * 60 * 10:
            return [f"rows after {last} are missing"]
        wanted = [line for line in wanted if line[0] <= last]
    return [
        *_difference("monitors say", result, wanted),
        *(_difference("the undisturbed run wrote", result, undisturbed) if undisturbed is not None else []),
        *_segments(stream, kills),
        *_quarantine(stream),
    ]


def _difference(what: str, result: Sequence[Line], wanted: Sequence[Line]) -> list[str]:
    have, want = Counter(result), Counter(wanted)
    more, fewer = have - want, want - have
    problems = []
    if more:
        problems.append(f"{more.total()} rows more than {what}, such as {next(iter(more))}")
    if fewer:
        problems.append(f"{fewer.total()} rows of what {what} are missing, such as {next(iter(fewer))}")
    return problems


def _segments(stream: Stream, kills: int) -> list[str]:
    """Every segment that is named is there, and rows' segments that nobody names are those of what was killed.

    A task that is run again writes the same segment. A run that is killed leaves those of one micro-batch for a day.
    """
    folder = stream.folder / "ckpt/segments"
    needs = {name for path in folder.glob("needs-*.json") for name in json.loads(path.read_text())["names"]}
    names = {path.name for path in folder.glob("*.seg")}
    problems = []
    if missing := needs - names:
        problems.append(f"{len(missing)} segments are named and missing, such as {min(missing)}")
    orphans = {name.rpartition("-p")[0] for name in names - needs if "-p" in name}
    if len(orphans) > kills:
        problems.append(
            f"{kills} kills have left segments of {len(orphans)} stages that nobody needs, as of {min(orphans)}"
        )
    return problems


def _quarantine(stream: Stream) -> list[str]:
    """Rows without an id are in the quarantine, each once."""
    if "quarantine" not in stream.case.settings:
        return []
    lines = [
        json.loads(row["raw"])
        for path in (stream.folder / "bad/refused").glob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    result = sorted(line["ts"] for line in lines)
    wanted = stream.refused()
    return [] if result == wanted else [f"{len(result)} rows are in the quarantine, {len(wanted)} belong there"]


def try_case(name: str, kills: int, seed: int, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Kill a case's runs so often; return a line of the table, and what is wrong."""
    rng = np.random.default_rng([seed, *name.encode()])
    killer = Killer(Stream(CASES[name], folder / name, seed), rng, partial(print, flush=True))
    killer.disturb(plan(CASES[name], kills, rng))
    killer.finish()
    calm = Stream(CASES[name], folder / f"{name}-undisturbed", seed)
    calm.grow(len(killer.stream.tables))
    run = Run(calm.file)
    try:
        run.finish()
    finally:
        run.kill()
    wrong = complaints(killer.stream, sink_files.rows(calm.out), len(killer.kills))
    hits = Counter(kill.hit for kill in killer.kills)
    left = {path.name for path in (killer.stream.folder / "ckpt/segments").glob("*.seg")}
    line = {
        "case": name,
        "kills": len(killer.kills),
        **{kind: hits[kind] for kind in KINDS},
        "batches": len(killer.stream.tables),
        "rows out": len(sink_files.rows(killer.stream.out)),
        "files cut off": len(sink_files.unnamed(killer.stream.out)),
        "segments gone": len(killer.segments - left),
        "": "equal" if not wrong else "DIFFERENT",
    }
    return line, wrong


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Print lines with the same fields below each other."""
    widths = {name: max(len(str(line[name])) for line in [*lines, {name: name}]) for name in lines[0]}
    shown = [dict(zip(widths, widths, strict=True)), *lines]
    return "\n".join(
        "  ".join(f"{line[name]:<{width}}" if i == 0 else f"{line[name]:>{width}}" for i, (name, width) in cells)
        for line in shown
        for cells in [list(enumerate(widths.items()))]
    )


def main() -> int:
    """Parse, kill, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="same seed, same rows and plan")
    parser.add_argument("--kills", type=int, default=20, help="of each case (20)")
    parser.add_argument("--case", action="append", choices=CASES, help="may be given several times; all by default")
    parser.add_argument("--folder", type=Path, help="keep everything there")
    given = parser.parse_args()
    os.environ.setdefault("SPARK_SUBMIT_OPTS", LIGHT_JAVA)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no run outlives us
    print(f"--seed {given.seed}", flush=True)
    lines, failed = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.case or CASES:
            print(name, flush=True)
            line, wrong = try_case(name, given.kills, given.seed, given.folder or Path(scratch))
            print(table([line]), flush=True)
            lines.append(line)
            failed += [f"{name}: {problem}" for problem in wrong]
    print()
    print(table(lines))
    for problem in failed:
        print(problem, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
