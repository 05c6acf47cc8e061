"""``python -m tests.fuzz``: run the targets for some time, or one case again."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.fuzz.cases import made, tried
from tests.fuzz.runner import Run
from tests.fuzz.targets import TARGETS


def main() -> int:
    """Return 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--targets", default="", help=f"some of {', '.join(TARGETS)}, with commas; all by default")
    parser.add_argument("--cases", type=int, help="at most so many of each target")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("fuzz-failures"), help="where cases that fail are saved")
    parser.add_argument("--number", type=int, help="run this one case of one target, in this process")
    parser.add_argument("--replay", type=Path, help="run a saved case again, in this process")
    given = parser.parse_args()
    if given.replay is not None:
        kept = json.loads(given.replay.read_text())
        return again(kept["target"], kept["case"])
    chosen = [name for name in given.targets.split(",") if name] or list(TARGETS)
    if given.number is not None:
        return again(chosen[0], made(TARGETS[chosen[0]], given.seed, given.number))
    print(f"fuzz: --seed {given.seed}, {given.minutes:g} minutes, {', '.join(chosen)}", flush=True)
    run = Run([TARGETS[name] for name in chosen], given.seed, given.folder)
    fine = run.go(60.0 * given.minutes, given.processes, given.cases)
    print(run.table())
    return 0 if fine else 1


def again(target: str, case: dict[str, object]) -> int:
    """Run a case and show it."""
    print(json.dumps(case)[:4000])
    outcome = tried(TARGETS[target], case)
    print(outcome.text or "fine", f"({outcome.seconds:.2f} s)")
    return 1 if outcome.kind else 0


if __name__ == "__main__":
    sys.exit(main())
