"""How often PA errs, beside Lemma 4.6 of TODS'15: answers that it misses, and rows that it reports in their stead.

Many streams, each with its own queries, in the result stream of Definition 3.6 (``emit="first"``). The exact one is
that of ``reserve``. Per query fewer than σN/n answers may be missed, and fewer than 1.5 σN/n rows be false: of streams
in random order, and with ``max_error`` of any, which is tried on pieces of LUCE in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from benchmarks import real
from benchmarks.verdicts import Verdict
from topwatch.datagen import generators
from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Nearest
from topwatch.query.windows import last

SIGMA = 1e-3
READ = 600_000  # rows of LUCE that streams are taken from


@dataclass(frozen=True)
class Streams:
    """How many, how long, with how many queries each."""

    runs: int
    window: int
    rows: int
    queries: int
    ks: tuple[int, ...]


TINY = Streams(runs=3, window=100, rows=500, queries=2, ks=(3,))
FULL = Streams(runs=200, window=2000, rows=20_000, queries=10, ks=(9, 81))


@dataclass(frozen=True)
class Errors:
    """Sums over all queries of all streams; ``bound`` is σN/n for all of them."""

    data: str
    k: int
    runs: int
    answers: int
    missed: int
    false: int
    bound: float
    switches: int

    def verdicts(self) -> Iterator[Verdict]:
        """Compare with the lemma."""
        for what, number, bound in (("missed", self.missed, self.bound), ("false", self.false, 1.5 * self.bound)):
            where = f"answers {what}, {self.data}, k={self.k}, {self.runs} streams"
            yield Verdict(where, f"fewer than {bound:g}", f"{number}", number < bound)


def count(data: str, k: int, size: Streams, seed: int, folder: str) -> Errors:
    """Let PA and an exact algorithm go through streams of one kind; ``luce`` is in the order of time."""
    rng = np.random.default_rng([seed, k])
    draw = _drawing(data, size.rows, folder)
    options: dict[str, Any] = {"max_error": SIGMA} if data == "luce" else {"sigma": SIGMA}
    answers = missed = false = switches = 0
    for _ in range(size.runs):
        rows = draw(rng)
        points = rows[:, rng.integers(0, size.rows, size.queries)].T.tolist()
        queries = [Nearest(k=k, point={"x": x, "y": y}, name=f"q{i}") for i, (x, y) in enumerate(points)]
        exact, _ = _first_only(queries, "reserve", rows, size.window, {})
        result, times = _first_only(queries, "pa", rows, size.window, options)
        answers += len(exact)
        missed += len(exact - result)
        false += len(result - exact)
        switches += times
    bound = SIGMA * size.rows / size.window * size.queries * size.runs
    return Errors(data, k, size.runs, answers, missed, false, bound, switches)


def _drawing(data: str, count: int, folder: str) -> Callable[[np.random.Generator], np.ndarray]:
    """Return a function that makes one stream after the other."""
    if not data.startswith("luce"):
        return lambda rng: generators.generate(data, count, 2, int(rng.integers(2**31)))
    held = real.rows(folder, READ, 2, None)
    if data == "luce":

        def piece(rng: np.random.Generator) -> np.ndarray:
            start = int(rng.integers(0, held.shape[1] - count))
            return held[:, start : start + count]

        return piece
    return lambda rng: held[:, rng.choice(held.shape[1], count, replace=False)]


def _first_only(
    queries: list[Nearest], algorithm: str, rows: np.ndarray, window: int, options: dict[str, Any]
) -> tuple[set[tuple[str, int]], int]:
    """Return each row with the query of which it became an answer, and how often PA was changed for RAPF or back."""
    monitor = Monitor(queries, last(window), algorithm=algorithm, id=None, emit="first", **options)
    result: set[tuple[str, int]] = set()
    for start in range(0, rows.shape[1], window // 4):
        x, y = rows[:, start : start + window // 4]
        table = monitor.push({"x": x, "y": y}).to_arrow()
        result.update(zip(table["query"].to_pylist(), table["id"].to_pylist(), strict=True))
    return result, monitor.stats()["switches"] if algorithm == "pa" else 0


def table(errors: list[Errors], size: Streams) -> Table:
    """Show the counts."""
    title = f"errors: PA, n={size.window:,}, N={size.rows:,}, {size.queries} queries a stream, sigma={SIGMA:g}"
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("data", "k", "streams", "answers", "missed", "false", "bound", "switches"):
        shown.add_column(heading, justify="left" if heading == "data" else "right")
    for one in errors:
        numbers = (one.k, one.runs, one.answers, one.missed, one.false)
        shown.add_row(one.data, *(f"{n:,}" for n in numbers), f"{one.bound:g}", str(one.switches))
    return shown
