"""What each part of ``topwatch.spark.node`` is worth: switched on and off alternately.

Each part is measured in the case where it should help most, each time in a process of its own. The ratio is that of
the times without and with it, within a repetition: 1.10 says that without it the case takes 10 % longer. Run it on a
machine that nobody else uses::

    python -m benchmarks.spark_node --scale small --repetitions 5
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.spark_variants import SCALES, write_rows
from topwatch.spark import node

PATIENCE = 60.0  # seconds in which Java writes its archive after it has ended


@dataclass(frozen=True)
class Case:
    """Where a part should help: a variant of ``bench spark``, and whether its start counts or what comes after it."""

    variant: str  # as in spark_variants; the first one whose name begins so
    whole_run: bool  # the seconds of the whole process with one micro-batch; else of the median later micro-batch
    says: str


CASES = {
    "class_data": Case("whole window", True, "a new process, until it has ended after one micro-batch"),
    "peers": Case("by", False, "micro-batches by key, two partitions"),
}
assert CASES.keys() == set(node.PARTS)


@click.command()
@click.option("--scale", type=click.Choice(list(SCALES)), default="small", show_default=True)
@click.option("--repetitions", type=click.IntRange(1), default=5, show_default=True)
@click.option("--only", default="", help="Names of parts with commas between them; else all.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--child", nargs=3, default=None, hidden=True, help="Case, folder and label: measure in this process.")
def main(scale: str, repetitions: int, only: str, seed: int, child: tuple[str, str, str] | None) -> None:
    """Measure each part on and off, alternately, and print the ratios."""
    if child is not None:
        click.echo(json.dumps(_measured(child[0], Path(child[1]), child[2], scale, seed)))
        return
    chosen = [name for name in CASES if not only or name in only.split(",")]
    table = Table(title="Parts of spark/node: seconds with and without", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("part", "with", "without", "ratio", "smallest", "largest", "case"):
        table.add_column(column, justify="left" if column in ("part", "case") else "right")
    with tempfile.TemporaryDirectory(prefix="topwatch-node-") as folder:
        write_rows(Path(folder) / "rows", SCALES[scale], seed)
        os.sync()
        for name in chosen:
            seconds = _alternately(name, Path(folder), scale, seed, repetitions)
            ratios = seconds[:, 1] / seconds[:, 0]
            figures = [*np.median(seconds, axis=0), np.median(ratios), ratios.min(), ratios.max()]
            table.add_row(name, *(f"{figure:.3g}" for figure in figures), CASES[name].says)
    Console().print(table)


def _alternately(part: str, folder: Path, scale: str, seed: int, repetitions: int) -> np.ndarray:
    """Return seconds (repetitions, with and without)."""
    seconds = np.empty((repetitions, 2))
    for off in (0, 1):  # kernels are compiled, and what a part keeps is there
        _in_a_process(part, bool(off), folder, scale, seed, f"{part}-prepared-{off}")
        _wait_for_archive()
    for repetition in range(repetitions):
        for off in (0, 1) if repetition % 2 == 0 else (1, 0):
            label = f"{part}-{repetition}-{off}"
            seconds[repetition, off] = _in_a_process(part, bool(off), folder, scale, seed, label)
    return seconds


def _in_a_process(part: str, off: bool, folder: Path, scale: str, seed: int, label: str) -> float:
    command = [sys.executable, "-m", "benchmarks.spark_node", "--scale", scale, "--seed", str(seed)]
    command += ["--child", part, str(folder), label]
    environment = dict(os.environ)
    if off:
        environment["TOPWATCH_NODE_OFF"] = part
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    later = json.loads(done.stdout.splitlines()[-1])
    return seconds if CASES[part].whole_run else float(np.median(later))


def _measured(part: str, folder: Path, label: str, scale: str, seed: int) -> Sequence[float]:
    """Return the seconds of each micro-batch after the first."""
    from benchmarks.spark import session, stream
    from benchmarks.spark_variants import variants
    from topwatch.spark.node import class_data

    case = CASES[part]
    variant = next(one for one in variants(SCALES[scale], seed) if one.name.startswith(case.variant))
    spark = session(2)
    try:
        times = stream(spark, variant, folder, label, 1 if case.whole_run else None)
        class_data.keep()
    finally:
        spark.stop()
    return times.later


def _wait_for_archive() -> None:
    """Wait until Java has written its archive of classes, which it does after it has ended."""
    from topwatch.core.kernel_cache import cache_directory
    from topwatch.spark.node.class_data import GOOD, MAGIC

    folder = cache_directory("classes")
    deadline = time.monotonic() + PATIENCE
    while folder is not None and time.monotonic() < deadline:
        unfinished = [path.with_suffix("") for path in Path(folder).glob(f"*{GOOD}")]
        if all(path.exists() and path.open("rb").read(len(MAGIC)) == MAGIC for path in unfinished):
            return
        time.sleep(0.5)


if __name__ == "__main__":
    main()
