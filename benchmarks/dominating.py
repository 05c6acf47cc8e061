"""Measures queries that count dominated rows: the same window for all algorithms, turns, and answers compared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import accuracy, machine, tkde2011
from benchmarks.accuracy import Tally
from benchmarks.report import verdict_table
from benchmarks.takeover import continued
from benchmarks.tkde2011 import Experiment, Scale, Setting
from benchmarks.verdicts import Verdict
from topwatch.datagen import generators
from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Dominating
from topwatch.query.windows import last

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

ROWS_PER_PUSH = 50_000
REPETITIONS = 4
REFERENCE = "floor"  # exact, and quick enough to be there everywhere
SPEEDS = (
    ("floor", "bfa", "ant", 500.0),
    ("floor", "bfa", "ind", 800.0),
    ("floor", "ada", "ant", 20.0),
    ("floor", "ada", "ind", 4.0),
)
BYTES_PER_ROW = 130

METHOD = """\
Method: one window is filled once; each algorithm starts from a snapshot of it. Every update, an arrival and an expiry,
is evaluated. Algorithms take turns through the same updates, and answers are compared with floor's after every
repetition; of the approximate ones the mean share of right rows over these updates is reported. Those that have time
left then go on alone, so that rare but long steps count: the mean over all updates is reported. They start from the
exact answer: where accuracy is measured, part of a window goes by first. Compile time is apart."""


@dataclass(frozen=True)
class Run:
    """What one algorithm did at a setting, per 1,000 updates."""

    algorithm: str
    updates: int
    milliseconds: float
    events: float
    scores: float
    comparisons: float
    bytes_per_row: float
    accuracy: float  # share of the answer's rows that are right, mean over updates


@dataclass(frozen=True)
class Point:
    """All algorithms at a setting."""

    setting: Setting
    runs: dict[str, Run]
    wrong: tuple[str, ...]  # exact algorithms whose answers differed

    def ratio(self, fast: str, slow: str) -> float | None:
        """How many times faster one is than the other; None where one of them was not measured."""
        if fast not in self.runs or slow not in self.runs:
            return None
        return self.runs[slow].milliseconds / self.runs[fast].milliseconds


def rows_of(setting: Setting, rows: int, seed: int, folder: Path | None) -> np.ndarray | None:
    """Return rows of a generated or of a real data set, columns apart; None where the latter is not there."""
    if setting.data == "moving":
        return _moving(setting, rows, seed)
    if setting.data not in tkde2011.COLUMNS:
        return generators.generate(setting.data, rows, setting.d, seed)
    path = (folder or Path()) / f"{setting.data}.parquet"
    if folder is None or not path.exists():
        return None
    import pyarrow.parquet as pq

    names = tkde2011.COLUMNS[setting.data][: setting.d]
    table = pq.read_table(path, columns=list(names)).slice(0, rows)
    return np.array([table.column(name).to_numpy().astype(np.float64) for name in names])


def _moving(setting: Setting, rows: int, seed: int) -> np.ndarray:
    """Return independent rows around a centre that goes once around a closed curve in five windows."""
    angle = 2.0 * np.pi * np.arange(rows) / (5.0 * setting.n)
    phase = 2.0 * np.pi * np.arange(setting.d)[:, None] / setting.d
    return generators.generate("ind", rows, setting.d, seed) + 0.5 * np.sin(angle[None, :] + phase)


def measure(setting: Setting, scale: Scale, seed: int, folder: Path | None) -> Point | None:
    """Let algorithms take turns; None where the data set is not there."""
    s = setting
    begin = s.n + int(s.before * s.n)
    columns = rows_of(s, begin + scale.updates, seed, folder)
    if columns is None or columns.shape[1] <= begin + 8 * (REPETITIONS + 1):
        return None
    names = [f"x{i}" for i in range(1, s.d + 1)]

    def batch(start: int, stop: int) -> dict[str, np.ndarray]:
        return {name: column[start:stop] for name, column in zip(names, columns, strict=True)}

    query = Dominating(k=s.k, prefer=dict.fromkeys(names, "min"), name="q")
    monitor = Monitor(query, last(s.n), every=s.n, id=None, algorithm=REFERENCE)
    for start in range(0, s.n, ROWS_PER_PUSH):
        monitor.push(batch(start, min(s.n, start + ROWS_PER_PUSH)))
    blob = monitor.snapshot()
    courses = {}
    for name in sorted(s.algorithms, key=lambda name: name != REFERENCE):
        courses[name] = _Course(continued(blob, name, every=1, **s.options(name)))
    for course in courses.values():
        for start in range(s.n, begin, ROWS_PER_PUSH):
            course.monitor.push(batch(start, min(begin, start + ROWS_PER_PUSH)))
    available = columns.shape[1] - begin
    # All go through the same updates, so that answers can be compared: as many as the slowest can afford.
    slowest = max(course.try_out(batch(begin, begin + 8)) for course in courses.values())
    per_repetition = max(8, min((available - 8) // REPETITIONS, int(scale.budget / REPETITIONS / max(slowest, 1e-9))))
    done, wrong = begin + 8, set()
    truth = courses[REFERENCE]
    tallies = {name: Tally(truth.ids(), course.ids()) for name, course in courses.items()}
    for _ in range(REPETITIONS):
        if done + per_repetition > columns.shape[1]:
            break
        changes = {name: course.push(batch(done, done + per_repetition)) for name, course in courses.items()}
        for name, course in courses.items():
            tallies[name].pass_by(changes[REFERENCE], changes[name], done, done + per_repetition)
            if name not in tkde2011.APPROXIMATE and course.monitor.answer() != truth.monitor.answer():
                wrong.add(name)
        done += per_repetition
    for course in courses.values():
        course.go_on(batch, done, columns.shape[1], scale.budget)
    runs = {name: courses[name].run(name, s.n, tallies[name].mean()) for name in s.algorithms}
    return Point(s, runs, tuple(sorted(wrong)))


class _Course:
    """One algorithm's way through the updates."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self._seconds = 0.0
        self._updates = 0
        self._before = monitor.stats()

    def try_out(self, batch: dict[str, np.ndarray]) -> float:
        """Push a few updates; return the seconds that one took."""
        then = time.perf_counter()
        self.monitor.push(batch)
        self._before = self.monitor.stats()
        return (time.perf_counter() - then) / len(batch["x1"])

    def ids(self) -> set[Any]:
        """Return the rows of the answer."""
        return {entry.id for entry in self.monitor.answer()}

    def push(self, batch: dict[str, np.ndarray]) -> list[tuple[int, str, Any]]:
        """Push a batch; return what changed."""
        then = time.perf_counter()
        changes = self.monitor.push(batch)
        self._seconds += time.perf_counter() - then
        self._updates += len(batch["x1"])
        return [(change.at, change.op, change.id) for change in changes]

    def go_on(self, batch: Callable[[int, int], dict[str, np.ndarray]], start: int, stop: int, budget: float) -> None:
        """Go on with more updates, as long as there are rows and time."""
        while start < stop and self._seconds < budget:
            affordable = int((budget - self._seconds) * self._updates / max(self._seconds, 1e-9))
            end = min(stop, start + max(8, min(affordable, self._updates)))
            self.push(batch(start, end))
            start = end

    def run(self, name: str, n: int, accuracy: float) -> Run:
        """Say what was measured."""
        after = self.monitor.stats()
        thousands = max(1, self._updates) / 1000

        def rate(counter: str) -> float:
            return (after.get(counter, 0) - self._before.get(counter, 0)) / thousands

        return Run(
            name, self._updates, self._seconds / max(1, self._updates) * 1e6, rate("events"), rate("scores"),
            rate("comparisons"), after["bytes"] / n, accuracy,
        )  # fmt: skip


def evaluate(experiment: Experiment, points: Sequence[Point]) -> Iterator[Verdict]:
    """Evaluate the targets of an experiment."""
    if experiment.name == "answers":
        for fast, slow, data, target in SPEEDS:
            for point in points:
                ratio = point.ratio(fast, slow)
                if point.setting.data == data and point.setting.k == 256 and ratio is not None:
                    least = 50.0 if slow == "bfa" and point.setting.n < 1_000_000 else target
                    what = f"{fast} / {slow}, {data.upper()}, n={point.setting.n:,}, k=256"
                    yield Verdict(what, f"at least {least:g} times as fast", f"{ratio:.1f}", ratio >= least)
    if experiment.accuracy:
        yield from accuracy.evaluate(points)
    if experiment.name == "columns":
        for point in points:
            ratio = point.ratio("floor", "ada")
            if point.setting.d >= 6 and ratio is not None:
                what = f"floor / ada, {point.setting.data.upper()}, d={point.setting.d}"
                yield Verdict(what, "at least 5 times as fast", f"{ratio:.1f}", ratio >= 5)
    if experiment.name == "drift":
        for point in points:
            ratio = point.ratio("floor", "ada")
            if ratio is not None:
                what = f"floor / ada, moving, n={point.setting.n:,}, k={point.setting.k}"
                yield Verdict(what, "at least 2 times as fast", f"{ratio:.1f}", ratio >= 2)
    most = max((point.runs["floor"].bytes_per_row for point in points), default=0.0)
    if experiment.name == "rows":
        yield Verdict("floor's state", f"at most {BYTES_PER_ROW} B per row", f"{most:.0f}", most <= BYTES_PER_ROW)


def run(
    scale: str, only: Sequence[str], out: Path, seed: int, progress: Progress, screen: Console, folder: Path | None
) -> bool:
    """Run the bench; return whether the exact algorithms agreed everywhere."""
    screen.print(METHOD)
    size = tkde2011.SCALES[scale]
    agreed, evaluated = True, 0
    missed = 0
    for experiment in tkde2011.experiments(size):
        if only and experiment.name not in only:
            continue
        points, absent = [], []
        with progress(f"tkde2011 {experiment.name}", len(experiment.settings)) as advance:
            for setting in experiment.settings:
                point = measure(setting, size, seed, folder)
                if point is None:
                    absent.append(setting.data)
                else:
                    points.append(point)
                advance(1)
        for data in dict.fromkeys(absent):
            screen.print(
                Text(f"{data} was skipped: --data names no folder with enough of {data}.parquet", style="yellow")
            )
        if points:
            screen.print(
                accuracy.table(experiment.title, points) if experiment.accuracy else _table(experiment, points)
            )
        result = list(evaluate(experiment, points)) if size.has_targets and points else []
        if result:
            screen.print(verdict_table(result))
        evaluated, missed = evaluated + len(result), missed + sum(not verdict.met for verdict in result)
        for point in points:
            if point.wrong:
                agreed = False
                line = f"ANSWERS DIFFER: {', '.join(point.wrong)} against {REFERENCE}, at {point.setting}"
                screen.print(Text(line, style="bold white on red"))
        _write(out / f"tkde2011-{scale}-{experiment.name}.json", experiment, scale, seed, points, result)
    reported = f"{evaluated - missed} of {evaluated} targets met" if evaluated else "no target at this scale"
    screen.print(f"tkde2011: {reported}. Results are in {out}.")
    return agreed


def _table(experiment: Experiment, points: Sequence[Point]) -> Table:
    s = points[0].setting
    title = f"{experiment.title}\nper 1,000 updates; n={s.n:,}, d={s.d}, k={s.k} where they do not vary"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    headings = (
        experiment.axis, "algorithm", "ms", "times bfa", "events", "exact scores", "M comparisons", "B per row",
        "right, %", "paper's Table 4",
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="left" if heading in (experiment.axis, "algorithm") else "right")
    for point in points:
        for number, (name, r) in enumerate(point.runs.items()):
            ratio = point.ratio(name, "bfa")
            paper = tkde2011.TABLE_4.get((point.setting.k, name)) if point.setting.data == "ant" else None
            value = getattr(point.setting, experiment.axis)
            table.add_row(
                f"{point.setting.data} {value}" if number == 0 else "", name, f"{r.milliseconds:,.2f}",
                "–" if ratio is None else f"{ratio:,.1f}", f"{r.events:,.0f}", f"{r.scores:,.1f}",
                f"{r.comparisons / 1e6:,.2f}", f"{r.bytes_per_row:.0f}", f"{100 * r.accuracy:.1f}",
                " / ".join(f"{part:,g}" for part in paper) if paper and experiment.axis == "k" else "",
            )  # fmt: skip
        table.add_section()
    return table


def _write(
    path: Path, experiment: Experiment, scale: str, seed: int, points: Sequence[Point], result: Sequence[Verdict]
) -> None:
    content: dict[str, Any] = {
        "bench": "tkde2011", "experiment": experiment.name, "title": experiment.title, "scale": scale, "seed": seed,
        "machine": machine.describe(), "method": " ".join(METHOD.split()),
        "points": [
            {"setting": asdict(p.setting), "runs": [asdict(r) for r in p.runs.values()], "wrong": p.wrong}
            for p in points
        ],
        "verdicts": [asdict(verdict) for verdict in result],
    }  # fmt: skip
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)
