"""Fills an empty kernel cache from many processes at once, kills some of them, and runs the conformance suite on it.

Each round starts from an empty cache. Processes compile the kernels of some algorithms each, in their own order, in two
waves, so that the second one finds a cache that is half full; a part of them is killed after a random time. Then the
conformance tests of these algorithms run on what is there. A process that ends by a signal that this program did not
send, a wrong answer and a failed test are failures; the cache of a failed round is kept.

    python tests/cache_stress.py --rounds 50
    python tests/cache_stress.py --rounds 50 --tree ../before    # the same on another checkout
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
# Kernels that sort and argsort, that call each other, and that are compiled for several kinds of arrays.
ALGORITHMS = ("bfa", "witness", "tally", "sla", "eaa", "auto")
SUITE = ("test_dominating.py", "test_skyline.py", "test_incomplete.py")
LIMIT = 900.0  # seconds that a process may take
KILLED_AFTER = (1.0, 30.0)  # seconds


def fill(algorithms: list[str]) -> None:
    """Use algorithms one after the other on small streams; each answer is compared with brute force."""
    import numpy as np

    import topwatch as tw

    preferred = {"a": "min", "b": "max"}
    for algorithm in algorithms:
        rng = np.random.default_rng(len(algorithm))
        rows = 300
        batch = {
            "id": np.arange(rows),
            "a": rng.integers(0, 9, rows) * 1.0,
            "b": rng.integers(0, 9, rows) * 1.0,
            "source": ["x", "y", "z"] * (rows // 3),
            "value": rng.random(rows),
        }
        if algorithm == "witness":
            query = tw.Skyline(prefer=preferred)
        elif algorithm in ("tally", "sla", "eaa"):
            query = tw.IncompleteTopK(k=3, sources=["x", "y", "z"], bounds=(0.0, 1.0))
        else:
            query = tw.Dominating(k=3, prefer=preferred)
        other = "tally" if algorithm in ("sla", "eaa") else "sla" if algorithm == "tally" else "brute"
        found, expected = (
            [tuple(change) for change in tw.Monitor(query, window=tw.last(50), algorithm=name).push(batch)]
            for name in (algorithm, other)
        )
        if found != expected:
            sys.exit(f"{algorithm}: changes differ from those of {other}")


def stress(tree: Path, rounds: int, processes: int, seed: int) -> int:
    """Run rounds; return how many failed."""
    failed = 0
    for number in range(1, rounds + 1):
        rng = random.Random(f"{seed}-{number}")
        folder = Path(tempfile.mkdtemp(prefix="topwatch-cache-stress-"))
        began = time.monotonic()
        problems = one_round(tree, folder, processes, rng)
        failed += bool(problems)
        verdict = "; ".join(problems) + f" (kept: {folder})" if problems else "right"
        print(f"round {number}: {verdict}, {time.monotonic() - began:.0f} s", flush=True)
        if not problems:
            shutil.rmtree(folder)
    print(f"seed {seed}: {rounds} rounds of {processes} processes, {failed} failed")
    return failed


def one_round(tree: Path, folder: Path, processes: int, rng: random.Random) -> list[str]:
    """Fill a cache and test it; return what went wrong."""
    environment = dict(os.environ, TOPWATCH_CACHE_DIR=str(folder), PYTHONPATH=str(tree / "src"))
    environment.pop("NUMBA_DISABLE_JIT", None)
    problems, used = [], set()
    for wave in (processes // 2, processes - processes // 2):
        running = []
        for _ in range(wave):
            chosen = rng.sample(ALGORITHMS, 2)
            used.update(chosen)
            command = [sys.executable, str(HERE), "--fill", *chosen]
            end = rng.uniform(*KILLED_AFTER) if rng.random() < 0.4 else None
            log = open(folder / f"{len(list(folder.glob('*.log')))}-{'-'.join(chosen)}.log", "wb")  # noqa: SIM115
            running.append((subprocess.Popen(command, env=environment, stdout=log, stderr=log), end, log))
        problems += waited(running)
    names = " or ".join(sorted(used))
    tests = [str(tree / "tests" / "conformance" / name) for name in SUITE]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-k", names, f"--seed={rng.randrange(2**32)}", *tests]
    with open(folder / "suite.log", "wb") as log:
        done = subprocess.run(
            command, env=environment, cwd=tree, stdout=log, stderr=log, timeout=4 * LIMIT, check=False
        )
    if done.returncode:
        problems.append(f"the suite ended with {done.returncode}")
    return problems


def waited(running: list[tuple[subprocess.Popen[bytes], float | None, object]]) -> list[str]:
    """Kill those processes that are to be killed when their time has come; return what the others ended with."""
    began = time.monotonic()
    problems = []
    for process, end, _ in sorted(running, key=lambda one: one[1] or LIMIT):
        try:
            code = process.wait(max(0.0, began + (end or LIMIT) - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
            if end is None:
                problems.append(f"{process.args[3:]} did not end")
            elif code == -signal.SIGKILL:
                continue
        if code:
            problems.append(f"{process.args[3:]} ended with {code}")
    return problems


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--tree", type=Path, default=HERE.parent.parent)
    parser.add_argument("--fill", nargs="+", metavar="ALGORITHM")
    given = parser.parse_args()
    if given.fill:
        fill(given.fill)
    else:
        sys.exit(bool(stress(given.tree.resolve(), given.rounds, given.processes, given.seed)))
