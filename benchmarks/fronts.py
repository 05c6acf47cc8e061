"""Skylines beside moocore and paretoset: of tables in memory, and of a sliding window that is computed again per row.

The peers are optional (``pip install topwatch[bench]``); what is not installed is left out and named. Answers are
compared while they are timed.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import machine
from benchmarks.verdicts import Verdict
from topwatch.datagen.generators import generate
from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Skyline
from topwatch.query.windows import last

Array = NDArray[np.float64]
Report = NDArray[np.int64]
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

EXPERIMENTS = ("static", "window")
OURS = "topwatch"
PEERS = ("moocore", "paretoset")
SLOWEST = 120.0  # seconds: what would take longer, as time at fewer rows tells, is left out
LONG = 5.0  # seconds: what takes longer runs once
GROWTH = 1.5  # of the time with the rows, at least so much where time is quadratic at worst
TIMES_MOOCORE = 500  # a row of a sliding window against computing again
METHOD = """\
Method: all have the same rows, in the layout that they want, and smaller is better in each column. They take turns; the
median counts. A table's answers are compared row by row. Of the sliding window, rows are pushed in batches and
evaluated one by one; computing again is timed at some of these rows, and the answers there are compared."""


@dataclass(frozen=True)
class Scale:
    """How large the experiments are."""

    rows: tuple[int, ...]
    dims: tuple[int, ...]
    repetitions: int
    window: int
    pushed: int
    again: int  # times that the window is computed again
    has_targets: bool


SCALES = {
    "tiny": Scale((500,), (2, 3), 1, 200, 400, 3, False),
    "small": Scale((100_000,), (3, 4, 5, 6), 5, 100_000, 300_000, 30, True),
    "paper": Scale((100_000, 1_000_000), (3, 4, 5, 6), 3, 100_000, 1_000_000, 100, True),
}


@dataclass(frozen=True)
class Timed:
    """One of them at one setting."""

    data: str
    rows: int
    d: int
    name: str
    seconds: float  # a table's skyline, or one row of a window
    result: int  # rows of the skyline
    right: bool


def peers(names: Sequence[str] = PEERS) -> dict[str, Callable[[Array], Report]]:
    """Return what is installed of the peers: functions from an array (rows, columns) to rows of the skyline."""
    made = {"moocore": _moocore, "paretoset": _paretoset}
    return {name: made[name]() for name in names if importlib.util.find_spec(name) is not None}


def _moocore() -> Callable[[Array], Report]:
    moocore = importlib.import_module("moocore")
    return lambda rows: np.flatnonzero(moocore.is_nondominated(rows, keep_weakly=True))


def _paretoset() -> Callable[[Array], Report]:
    package = importlib.import_module("paretoset")
    return lambda rows: np.flatnonzero(package.paretoset(rows, distinct=False))


def static(scale: Scale, seed: int) -> Iterator[list[Timed]]:
    """Measure tables; yields what was measured at each setting."""
    from topwatch.tables.skyline import front

    others = peers()
    for peer in others.values():
        peer(np.random.default_rng(0).random((100, 3)))  # paretoset compiles at first use
    known: dict[tuple[str, str, int], tuple[int, float]] = {}
    for data, n, d in itertools.product(("ind", "ant"), scale.rows, scale.dims):
        columns = generate(data, n, d, seed)
        rows = np.ascontiguousarray(columns.T)
        solvers: dict[str, Callable[[], Report]] = {OURS: partial(front, columns)}
        for name, peer in others.items():
            fewer, seconds = known.get((name, data, d), (n, 0.0))
            if seconds * (n / fewer) ** GROWTH <= SLOWEST:
                solvers[name] = partial(peer, rows)
        front(columns[:, :5000])
        answers: dict[str, Report] = {}
        spent: dict[str, list[float]] = {name: [] for name in solvers}
        for _ in range(scale.repetitions):
            for name, solve in solvers.items():
                if spent[name] and spent[name][0] > LONG:
                    continue
                then = time.perf_counter()
                answers[name] = solve()
                spent[name].append(time.perf_counter() - then)
        point = [
            Timed(data, n, d, name, float(np.median(times)), answers[name].size, _same(answers[name], answers[OURS]))
            for name, times in spent.items()
        ]
        known |= {(timed.name, data, d): (n, timed.seconds) for timed in point}
        yield point


def _same(one: Report, other: Report) -> bool:
    return bool(np.array_equal(one, other))


def window(scale: Scale, seed: int, d: int = 3, data: str = "ind") -> list[Timed]:
    """Measure a sliding window, evaluated at every row, beside computing it again."""
    n, pushed = scale.window, scale.pushed
    columns = generate(data, n + pushed, d, seed)
    names = [f"x{j}" for j in range(d)]
    monitor = Monitor(Skyline(prefer=dict.fromkeys(names, "min")), window=last(n), id=None)
    monitor.push(dict(zip(names, columns[:, :n], strict=True)))
    others = peers(("moocore",))
    stops = np.linspace(n, n + pushed, scale.again + 1).astype(int)
    paces: list[float] = []
    again: dict[str, list[float]] = {name: [] for name in others}
    right = True
    size = 0
    for first, stop in itertools.pairwise(stops.tolist()):
        batch = dict(zip(names, columns[:, first:stop], strict=True))
        then = time.perf_counter()
        monitor.push(batch)
        paces.append((time.perf_counter() - then) / (stop - first))
        answer = np.sort([entry.id for entry in monitor.answer()])
        size = answer.size
        rows = np.ascontiguousarray(columns[:, stop - n : stop].T)
        for name, peer in others.items():
            then = time.perf_counter()
            result = peer(rows)
            again[name].append(time.perf_counter() - then)
            right &= _same(result + stop - n + 1, answer)
    timed = [Timed(data, n, d, OURS, float(np.median(paces)), size, right)]
    return timed + [Timed(data, n, d, name, float(np.median(times)), size, right) for name, times in again.items()]


def evaluate(experiment: str, points: Sequence[list[Timed]]) -> Iterator[Verdict]:
    """Evaluate the targets of an experiment."""
    for point in points:
        ours = point[0]
        what = f"{ours.data.upper()}, {ours.rows:,} rows, d={ours.d}"
        for other in point[1:]:
            ratio = other.seconds / ours.seconds
            if experiment == "static":
                yield Verdict(f"{other.name} / topwatch, {what}", "at least 1", f"{ratio:.2f}", ratio >= 1)
            else:
                named = f"{other.name} at each row / topwatch, {what}"
                yield Verdict(named, f"at least {TIMES_MOOCORE}", f"{ratio:,.0f}", ratio >= TIMES_MOOCORE)


def run(
    scale: str, only: Sequence[str], out: Path, seed: int, progress: Progress, screen: Console, data: Path | None
) -> bool:
    """Run the bench; return whether all agreed everywhere."""
    screen.print(METHOD)
    size = SCALES[scale]
    have = peers()
    versions = {name: metadata.version(name) for name in have}
    for name in PEERS:
        reported = f"{name} {versions[name]}" if name in versions else f"{name} was skipped: it is not installed"
        screen.print(Text(reported, style="" if name in versions else "yellow"))
    agreed = True
    for experiment in EXPERIMENTS:
        if only and experiment not in only:
            continue
        steps = 2 * len(size.rows) * len(size.dims) if experiment == "static" else 1
        points = []
        with progress(f"skyline {experiment}", steps) as advance:
            for point in static(size, seed) if experiment == "static" else [window(size, seed)]:
                points.append(point)
                advance(1)
        screen.print(_table(experiment, points))
        result = list(evaluate(experiment, points)) if size.has_targets else []
        for verdict in result:
            style = "green" if verdict.met else "red"
            screen.print(Text(f"{verdict.what}: {verdict.measured}, asked {verdict.target}", style=style))
        if not all(timed.right for point in points for timed in point):
            agreed = False
            screen.print(Text(f"ANSWERS DIFFER: {experiment}", style="bold white on red"))
        _write(out / f"skyline-{scale}-{experiment}.json", experiment, scale, seed, versions, points, result)
    screen.print(f"skyline: results are in {out}.")
    return agreed


def _table(experiment: str, points: Sequence[list[Timed]]) -> Table:
    title = "Skyline of a table" if experiment == "static" else "Skyline of a sliding window, per row"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("data", "rows", "d", "skyline", "of", "ms", "times topwatch"):
        table.add_column(heading, justify="left" if heading in ("data", "of") else "right")
    for point in points:
        for timed in point:
            table.add_row(
                timed.data, f"{timed.rows:,}", str(timed.d), f"{timed.result:,}", timed.name,
                f"{1000 * timed.seconds:,.4g}", f"{timed.seconds / point[0].seconds:,.2f}",
            )  # fmt: skip
        table.add_section()
    return table


def _write(
    path: Path,
    experiment: str,
    scale: str,
    seed: int,
    versions: dict[str, str],
    points: Sequence[list[Timed]],
    result: Sequence[Verdict],
) -> None:
    content = {
        "bench": "skyline", "experiment": experiment, "scale": scale, "seed": seed,
        "machine": {**machine.describe(), **versions}, "method": " ".join(METHOD.split()),
        "points": [[asdict(timed) for timed in point] for point in points],
        "verdicts": [asdict(verdict) for verdict in result],
    }  # fmt: skip
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)
