"""Fills an empty kernel cache from many processes at once, kills some of them, and runs the conformance suite on it.

Each round starts from an empty cache, and is about three of the algorithms that count dominated rows: bfa, which
argsorts, floor and one more, which sort. Numba makes both of one function, and tells them apart by a number that counts
what a process has compiled.

Two processes begin: one uses bfa, the other floor, after it has compiled functions of its own, as many as it takes for
the sort to get the argsort's number. That can be done where the count starts from one (Numba's own cache), and not
where it starts from a random number. Then every process compiles some of the kernels of all three, those that Python
calls last, in an order of its own. Some processes start later than others and find a cache that is half full; a part of
them is killed after a random time. Then the conformance tests of these three run on what is there, and in every tenth
round the whole conformance suite. A process that ends by a signal that this program did not send, and a failed test are
failures; the cache of a failed round is kept.

    python -m tests.support.cache_stress --rounds 50
    python -m tests.support.cache_stress --rounds 50 --until-failure --tree ../before    # the same on another checkout
    python -m tests.support.cache_stress --rounds 3 --beside "make test"

With ``--beside`` a round is a command that begins with an empty cache, while two other processes at a time compile into
that cache; a part of them is killed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve()
ALWAYS = ("bfa", "floor")
MORE = ("eva", "ada", "ahba", "amsa")
SUITE = ("test_dominating.py", "test_load*.py")  # wherever a checkout has them
SELECTED = "(there_and_back or test_shape) and ({})"
WHOLE = 10  # every so many rounds run the whole conformance suite
INNER, CALLED = 2, 2  # kernels that a process compiles at most: the fewer, the more often do numbers of symbols meet
LIMIT = 900.0  # seconds that a process may take
KILLED_AFTER = (1.0, 15.0)  # seconds
STARTED_WITHIN = 20.0  # seconds
OWN = 500  # functions of its own that a process compiles at most
NUMBER = re.compile(rb"run_quicksort1B\d+v(\d+)B")  # in the symbols of a sort or an argsort


def compile_own(count: int) -> None:
    """Compile functions that have nothing to do with topwatch, as a user's program does."""
    import numba

    for _ in range(count):
        numba.njit(lambda x: x).compile("int64(int64)")


def use(algorithm: str) -> None:
    """Compile what an algorithm needs for a small stream."""
    import numpy as np

    import topwatch as tw

    rng = np.random.default_rng(0)
    batch = {"id": np.arange(300), "a": rng.integers(0, 9, 300) * 1.0, "b": rng.integers(0, 9, 300) * 1.0}
    query = tw.Dominating(k=3, prefer={"a": "min", "b": "max"})
    tw.Monitor(query, window=tw.last(50), algorithm=algorithm).push(batch)


def collect(folder: str, algorithm: str) -> None:
    """Use an algorithm; keep which kernels that took, and for which types."""
    from numba.core.dispatcher import Dispatcher

    use(algorithm)
    used = set()
    for module in [module for name, module in sys.modules.items() if name.startswith("topwatch.")]:
        for function in vars(module).values():
            if isinstance(function, Dispatcher) and function.overloads:
                name = function.py_func.__module__, function.py_func.__qualname__
                used.update((*name, arguments) for arguments in function.overloads)
    (Path(folder) / algorithm).write_bytes(pickle.dumps(sorted(used, key=str)))


def compile_some(folder: str, algorithms: str, seed: str) -> None:
    """Compile some of the kernels that were collected for some algorithms: a few, then a few that Python calls."""
    rng = random.Random(seed)
    inner, called = [], []
    for algorithm in algorithms.split(","):
        for module, name, arguments in pickle.loads((Path(folder) / algorithm).read_bytes()):
            function = getattr(importlib.import_module(module), name)
            (inner if function.targetoptions.get("no_cpython_wrapper") else called).append((function, arguments))
    first, last = rng.randint(0, INNER), rng.randint(1, CALLED)
    for function, arguments in [*rng.sample(inner, first), *rng.sample(called, min(last, len(called)))]:
        function.compile(arguments)


def stress(tree: Path, rounds: int, processes: int, seed: int, until_failure: bool, beside: str | None) -> int:
    """Run rounds; return how many failed."""
    failed = number = 0
    with tempfile.TemporaryDirectory(prefix="topwatch-cache-stress-") as made:
        collect_all(tree, Path(made))
        for number in range(1, rounds + 1):
            folder = Path(tempfile.mkdtemp(prefix="topwatch-cache-stress-"))
            began = time.monotonic()
            rng = random.Random(f"{seed}-{number}")
            if beside is None:
                problems = one_round(tree, folder, made, processes, rng, number % WHOLE == 0)
            else:
                problems = one_command(tree, folder, made, beside, rng)
            failed += bool(problems)
            verdict = "; ".join(problems) + f" (kept: {folder})" if problems else "right"
            verdict += ", on the whole conformance suite" if number % WHOLE == 0 and beside is None else ""
            print(f"round {number}: {verdict}, {time.monotonic() - began:.0f} s", flush=True)
            if not problems:
                shutil.rmtree(folder)
            elif until_failure:
                break
    print(f"seed {seed}: {number} rounds, {failed} failed")
    return failed


def collect_all(tree: Path, folder: Path) -> None:
    """Collect the kernels of all algorithms."""
    # Each with a cache of its own: what comes from a cache does not bring along the names of what it calls.
    collecting = []
    for algorithm in (*ALWAYS, *MORE):
        command = [sys.executable, str(HERE), "--collect", str(folder), algorithm]
        environment = environment_of(tree, folder / f"cache-{algorithm}")
        collecting.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
    ended = [process.wait() for process in collecting]
    assert not any(ended), f"collecting ended with {ended}"


def environment_of(tree: Path, cache: Path) -> dict[str, str]:
    """Return the variables for a process that has the code of a checkout and a cache of its own."""
    environment = dict(os.environ, TOPWATCH_CACHE_DIR=str(cache), PYTHONPATH=str(tree / "src"))
    environment["TOPWATCH_COMPILE"] = "first"
    environment.pop("NUMBA_DISABLE_JIT", None)
    return environment


def one_round(tree: Path, folder: Path, used: str, processes: int, rng: random.Random, whole: bool) -> list[str]:
    """Fill a cache and test it; return what went wrong."""
    environment = environment_of(tree, folder)
    algorithms = (*ALWAYS, rng.choice(MORE))
    problems = aim(folder, Path(used), environment)
    fillings = [Filling.drawn(number, rng) for number in range(processes)]
    problems += followed(fillings, folder, [used, ",".join(algorithms)], environment)
    command = [sys.executable, "-m", "pytest", "-q", "-x", f"--seed={rng.randrange(2**32)}"]
    if whole:
        command += ["-n", "2", str(tree / "tests" / "conformance")]
    else:
        tests = [str(path) for name in SUITE for path in (tree / "tests").rglob(name)]
        command += ["-k", SELECTED.format(" or ".join(algorithms)), *tests]
    with open(folder / "suite.log", "wb") as log:
        done = subprocess.run(
            command, env=environment, cwd=tree, stdout=log, stderr=log, timeout=(8 if whole else 4) * LIMIT, check=False
        )
    if done.returncode:
        problems.append(f"the suite ended with {done.returncode}")
    return problems


def aim(folder: Path, used: Path, environment: dict[str, str]) -> list[str]:
    """Let a process use bfa, and another floor with the number of bfa's argsort, if it can; return what went wrong."""
    trial = used / "trial"
    if not trial.exists():  # which number a sort of floor gets in a process that compiles nothing else
        for algorithm in ALWAYS:
            run_use(trial, 0, algorithm, environment)
    problems = run_use(folder, 0, "bfa", environment)
    own = max(numbers(folder, "drive_bfa"), default=0) - max(numbers(trial, "drive_floor"), default=0)
    return problems + run_use(folder, own if 0 <= own <= OWN else OWN // 4, "floor", environment)


def run_use(cache: Path, own: int, algorithm: str, environment: dict[str, str]) -> list[str]:
    """Use an algorithm in a process of its own that compiles functions of its own first."""
    command = [sys.executable, str(HERE), "--use", str(own), algorithm]
    done = subprocess.run(
        command, env=dict(environment, TOPWATCH_CACHE_DIR=str(cache)), stderr=subprocess.DEVNULL, check=False
    )
    return [f"the use of {algorithm} ended with {done.returncode}"] if done.returncode else []


def numbers(cache: Path, kernel: str) -> set[int]:
    """Return the numbers that the sorts and argsorts of a kernel have in a cache."""
    paths = [path for path in cache.rglob(f"*{kernel}*") if path.suffix in (".nbc", ".kernel")]
    return {int(number) for path in paths for number in NUMBER.findall(path.read_bytes())}


def one_command(tree: Path, folder: Path, used: str, command: str, rng: random.Random) -> list[str]:
    """Run a command with an empty cache that others fill as well; return what went wrong."""
    environment = environment_of(tree, folder)
    problems: list[str] = []
    with open(folder / "command.log", "wb") as log:
        alone = dict(os.environ, TOPWATCH_CACHE_DIR=str(folder))
        running = subprocess.Popen(shlex.split(command), env=alone, cwd=tree, stdout=log, stderr=log)
    number = 0
    while running.poll() is None:
        fillings = [Filling.drawn(number + i, rng) for i in range(2)]
        number += 2
        problems += followed(fillings, folder, [used, ",".join((*ALWAYS, *MORE))], environment)
    if running.returncode:
        problems.append(f"the command ended with {running.returncode}, beside {number} processes")
    return problems


@dataclass
class Filling:
    """A process that fills the cache, and when it is started and killed, in seconds of the round."""

    number: int
    seed: str
    start: float
    end: float | None
    process: subprocess.Popen[bytes] | None = None
    killed: bool = False

    @classmethod
    def drawn(cls, number: int, rng: random.Random) -> Filling:
        """Draw one: most start at once, and some are killed."""
        start = rng.uniform(0.0, STARTED_WITHIN) if rng.random() < 0.5 else 0.0
        end = start + rng.uniform(*KILLED_AFTER) if rng.random() < 0.4 else None
        return cls(number, str(rng.random()), start, end)


def followed(fillings: list[Filling], folder: Path, used: list[str], environment: dict[str, str]) -> list[str]:
    """Start and kill processes when their time has come; return what those ended with that were not killed."""
    began = time.monotonic()
    problems = []
    while fillings:
        now = time.monotonic() - began
        for filling in list(fillings):
            if filling.process is None and now >= filling.start:
                command = [sys.executable, str(HERE), "--compile", *used, filling.seed]
                with open(folder / f"{filling.number}.log", "wb") as log:
                    filling.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            if filling.process is None:
                continue
            code = filling.process.poll()
            if code is not None:
                fillings.remove(filling)
                if code and not filling.killed:
                    problems.append(f"process {filling.number} ended with {code}")
            elif not filling.killed and now > (filling.end or filling.start + LIMIT):
                filling.killed = True
                filling.process.kill()
                if filling.end is None:
                    problems.append(f"process {filling.number} did not end")
        time.sleep(0.05)
    return problems


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--tree", type=Path, default=HERE.parents[2])
    parser.add_argument("--beside", metavar="COMMAND", help="Run this in each round, in the checkout.")
    parser.add_argument("--until-failure", action="store_true", help="Stop at the first failed round.")
    parser.add_argument("--use", nargs=2, metavar=("OWN", "ALGORITHM"), help=argparse.SUPPRESS)
    parser.add_argument("--collect", nargs=2, metavar=("FOLDER", "ALGORITHM"), help=argparse.SUPPRESS)
    parser.add_argument("--compile", nargs=3, metavar=("FOLDER", "ALGORITHMS", "SEED"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.use:
        compile_own(int(given.use[0]))
        use(given.use[1])
    elif given.collect:
        collect(*given.collect)
    elif given.compile:
        compile_some(*given.compile)
    else:
        tree = given.tree.resolve()
        sys.exit(bool(stress(tree, given.rounds, given.processes, given.seed, given.until_failure, given.beside)))
