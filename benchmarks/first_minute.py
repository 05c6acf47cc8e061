"""The first minute of a new user: how long until there is an answer, with an empty kernel cache and a warm one.

    python -m benchmarks.first_minute                   # all of it, about ten minutes
    python -m benchmarks.first_minute --only readme demo
    python -m benchmarks.first_minute --tree ../before  # the same on another checkout
    python -m benchmarks.first_minute --at-once 2       # each started twice at the same time; the slower one counts

Every figure is that of new processes, from their start. ``readme`` is the README's example, until the first push has
returned. ``demo`` is ``topwatch demo``, until it has shown changes, and ``pipeline`` ``topwatch run examples/demo.yml``
until its first micro-batch has been written. The others are first micro-batches of a million rows on local Spark with
two cores, ten queries, as in ``topwatch bench spark``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.spark_variants import SCALES, write_rows

README = """
import topwatch as tw
hot = tw.TopK(k=2, score=tw.linear(bytes=1.0, packets=10.0), name="hot")
monitor = tw.Monitor(hot, window=tw.last(4), id="flow")
print(len(monitor.push({"flow": ["a", "b", "c"], "bytes": [900, 300, 500], "packets": [9, 3, 5]})), flush=True)
"""
STREAMS = ("identity", "pruned", "whole window", "by 100 keys")  # of benchmarks.spark
LIMIT = 600.0  # seconds

Measure = Callable[[Path, Path, dict[str, str]], float]


def readme(tree: Path, folder: Path, environment: dict[str, str]) -> float:
    """Return the seconds until the README's example has its first answer."""
    return until([sys.executable, "-c", README], r"\d", tree, environment)


def demo(tree: Path, folder: Path, environment: dict[str, str]) -> float:
    """Return the seconds until ``topwatch demo`` has shown changes."""
    return until([sys.executable, "-m", "topwatch", "demo", "--seconds", "5"], r"[1-9]\d* changes", tree, environment)


def pipeline(tree: Path, folder: Path, environment: dict[str, str]) -> float:
    """Return the seconds until the pipeline of ``make demo`` has written its first micro-batch."""
    text = (tree / "examples" / "demo.yml").read_text().replace("demo/", f"{folder}/")
    file = folder / "demo.yml"
    file.write_text(text)
    return until([sys.executable, "-m", "topwatch", "run", str(file), "--once"], r"batch 0", tree, environment)


def first_batch(name: str, tree: Path, folder: Path, environment: dict[str, str]) -> float:
    """Return the seconds of a stream's first micro-batch."""
    command = [sys.executable, "-m", "benchmarks.spark", str(folder), "small", "1", name, name.replace(" ", "-"), "1"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=LIMIT, check=True)
    return float(done.stdout.splitlines()[-1])


def until(command: list[str], pattern: str, tree: Path, environment: dict[str, str]) -> float:
    """Return the seconds until a program prints a line that matches; then end it."""
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        assert program.stdout is not None
        for line in program.stdout:
            if re.search(pattern, line):
                seconds = time.monotonic() - began
                program.terminate()
                return seconds
    raise RuntimeError(f"{' '.join(command)} ended with {program.returncode} without {pattern!r}")


MEASURES: dict[str, Measure] = {
    "readme": readme,
    "demo": demo,
    "pipeline": pipeline,
    **{name: partial(first_batch, name) for name in STREAMS},
}


def measure(name: str, tree: Path, at_once: int, rows: Path) -> tuple[float, float]:
    """Return the seconds with an empty cache, and with the one that is warm then."""
    with tempfile.TemporaryDirectory(prefix="topwatch-first-") as scratch:
        environment = {**os.environ, "TOPWATCH_CACHE_DIR": f"{scratch}/cache"}
        path = [str(tree / "src"), str(tree)]
        environment["PYTHONPATH"] = os.pathsep.join(path)

        def one(number: int, compiling: str) -> float:
            folder = Path(scratch, f"{number}")
            folder.mkdir()
            os.symlink(rows, folder / "rows")
            return MEASURES[name](tree, folder, {**environment, "TOPWATCH_COMPILE": compiling})

        with ThreadPoolExecutor(at_once) as pool:
            cold = max(pool.map(lambda number: one(number, "background"), range(at_once)))
        one(at_once, "first")  # now all kernels are in the cache
        return cold, one(at_once + 1, "first")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--at-once", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="topwatch-first-") as scratch:
        rows = Path(scratch, "rows")
        if any(name in STREAMS for name in given.only):
            write_rows(rows, replace(SCALES["small"], batches=1), 1)
        print(f"{'until the first answer, seconds':<34}{'empty cache':>14}{'warm cache':>14}")
        for name in given.only:
            cold, warm = measure(name, given.tree.resolve(), given.at_once, rows)
            print(f"{name:<34}{cold:>14.1f}{warm:>14.1f}", flush=True)


if __name__ == "__main__":
    main()
