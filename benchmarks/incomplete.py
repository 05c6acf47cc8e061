"""Measures queries over incomplete objects: what is retained, how right answers are, and how fast."""

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

from benchmarks import cikm2009, incomplete_plots, machine
from benchmarks.cikm2009 import Experiment, Rows, Scale, Setting
from benchmarks.report import verdict_table
from benchmarks.takeover import continued
from benchmarks.verdicts import Verdict
from topwatch.monitor.monitor import Monitor
from topwatch.query.incomplete_topk import IncompleteTopK
from topwatch.query.windows import last

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

SPEED = "speed"
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "sla, TA each row": ("sla", {"view": False}),
    "sla": ("sla", {}),
    "eaa": ("eaa", {}),
    "approx": ("approx", {}),
    "tally": ("tally", {}),
}
EXACT = tuple(name for name in RUNS if name != "approx")
REPETITIONS = 5
PUSH = 20_000  # rows at most
METHOD = """\
Method: windows are filled twice over, then sizes and answers are looked at a tenth of a window apart, and their means
reported; precision and error are those of section 6.1.3 against tally, which is exact. Speed: every row is evaluated;
algorithms take turns on the same rows, and the median counts; exact answers are compared after every one."""


@dataclass(frozen=True)
class Point:
    """The results at a setting: the means over evaluations and seeds."""

    setting: Setting
    eaa: float  # instances retained
    approx: float
    eaa_objects: float  # objects that have one
    approx_objects: float
    precision: float
    error: float
    reported: float  # the precision that approx estimates itself
    wrong: int  # evaluations at which eaa differed from tally


@dataclass(frozen=True)
class Pace:
    """How fast an algorithm was."""

    name: str
    rows: int
    rows_per_second: float
    kept: int


def start(setting: Setting, algorithm: str, **options: Any) -> Monitor:
    """Make the monitor of a setting."""
    query = IncompleteTopK(k=setting.k, sources=list(range(setting.streams)), bounds=(0, 1))
    return Monitor(query, last(setting.W), algorithm=algorithm, **options)


def rows_of(setting: Setting, rows: int, seed: int, folder: Path | None) -> Rows | None:
    """Return rows of the generator, or flights; None where these are not there."""
    if setting.data == "flights":
        return cikm2009.flights(folder, setting.streams, setting.every)
    return cikm2009.generate(setting.streams, setting.xi, setting.C, rows, seed)


def evaluate(setting: Setting, scale: Scale, seed: int, folder: Path | None) -> Point | None:
    """Look at sizes and answers, time and again."""
    result, wrong = [], 0
    step = max(1, setting.W // 10)
    flights = setting.data == "flights"
    for each in range(1 if flights else scale.seeds):
        rows = rows_of(setting, 2 * setting.W + scale.evaluations * step, seed + each, folder)
        if rows is None:
            return None
        truth, eaa, approx = (start(setting, name) for name in ("tally", "eaa", "approx"))
        evaluations = scale.evaluations * (scale.seeds if flights else 1)
        for start_at, stop in _pieces(2 * setting.W, step, evaluations, rows.id.size):
            for monitor in (truth, eaa, approx):
                monitor.push(rows.batch(start_at, stop))
            if start_at == 0:
                continue
            best, near = truth.answer(), approx.answer()
            wrong += eaa.answer() != best
            right = len({entry.id for entry in best} & {entry.id for entry in near})
            scores = [entry.score for entry in near] + [0.0] * (len(best) - len(near))
            off = np.mean([abs(a.score - b) for a, b in zip(best, scores, strict=True)])
            stats = approx.stats()
            reported = stats["audited_right"] / max(1, stats["audited"])
            sizes = [counts[name] for name in ("kept", "objects_kept") for counts in (eaa.stats(), stats)]
            result.append([*map(float, sizes), right / len(best), float(off), reported])
    kept, approx_kept, objects, approx_objects, precision, error, reported = np.mean(result, axis=0).tolist()
    return Point(setting, kept, approx_kept, objects, approx_objects, precision, error, reported, wrong)


def _pieces(first: int, step: int, count: int, rows: int) -> Iterator[tuple[int, int]]:
    yield 0, first
    for i in range(count):
        if first + (i + 1) * step > rows:
            return
        yield first + i * step, first + (i + 1) * step


class _Course:
    """One algorithm's way through the rows, from a window that is full."""

    def __init__(self, blob: bytes, algorithm: str, options: dict[str, Any], at: int) -> None:
        self.monitor = continued(blob, algorithm, **options)
        self.at, self.paces, self.rows = at, [], 0  # type: tuple[int, list[float], int]
        self.changes: list[Any] = []
        self._size = 20

    def run_repetition(self, rows: Rows, budget: float) -> None:
        """Go on for about so many seconds."""
        spent, done = 0.0, 0
        while spent < budget and self.at < rows.id.size:
            stop = min(self.at + self._size, rows.id.size)
            began = time.perf_counter()
            changes = self.monitor.push(rows.batch(self.at, stop))
            took = time.perf_counter() - began
            self.changes += [tuple(change) for change in changes]
            spent, done, self.at = spent + took, done + stop - self.at, stop
            self._size = min(PUSH, 2 * self._size) if took < budget / 8 else self._size
        if done:
            self.paces.append(done / spent)
            self.rows += done


def race(scale: Scale, seed: int) -> tuple[list[Pace], bool]:
    """Let the algorithms take turns; return how fast they were, and whether the exact ones agreed."""
    setting = scale.speed
    warm = 2 * setting.W
    rows = cikm2009.generate(setting.streams, setting.xi, setting.C, warm + 5 * setting.W + 2 * PUSH, seed)
    filled = start(setting, "tally")
    filled.push(rows.batch(0, warm))
    courses = {name: _Course(filled.snapshot(), *run, warm) for name, run in RUNS.items()}
    for course in courses.values():  # compiled and warm
        course.run_repetition(rows, scale.budget / REPETITIONS / 4)
        course.paces, course.rows = [], 0
    for _ in range(REPETITIONS):
        for course in courses.values():
            course.run_repetition(rows, scale.budget / REPETITIONS)
    truth = courses["tally"]
    agreed = True
    for name in EXACT:
        mine, until = courses[name].changes, min(courses[name].at, truth.at)
        agreed = agreed and [c for c in mine if c[0] <= until] == [c for c in truth.changes if c[0] <= until]
    return [
        Pace(name, course.rows, float(np.median(course.paces)), course.monitor.stats()["kept"])
        for name, course in courses.items()
    ], agreed


def evaluate_sizes(experiment: Experiment, points: Sequence[Point]) -> Iterator[Verdict]:
    """Compare what is retained with the paper's tables; the flights are another data set, and are only shown."""
    for point in points:
        if point.setting.data != "synthetic":
            continue
        at = f"{experiment.axis}={getattr(point.setting, experiment.axis):g}"
        if experiment.table:
            paper = experiment.table[getattr(point.setting, experiment.axis)][2]
            yield Verdict(
                f"approx's precision, {at}",
                f"{paper:.2f} less 0.05",
                f"{point.precision:.2f}",
                point.precision >= paper - 0.05,
            )
    if experiment.name == "windows" and len(points) > 1:
        first, final = points[0], points[-1]
        wider = np.log(final.setting.W / first.setting.W)
        eaa, approx = (np.log(getattr(final, name) / getattr(first, name)) / wider for name in ("eaa", "approx"))
        yield Verdict("eaa's instances grow like W to the power of", "at most 1", f"{eaa:.2f}", bool(eaa <= 1))
        yield Verdict("approx's", "at most half of that", f"{approx:.2f}", bool(approx <= eaa / 2))


def evaluate_speed(paces: Sequence[Pace]) -> Iterator[Verdict]:
    """Evaluate the targets of speed and size at the default."""
    known = {pace.name: pace for pace in paces}
    base, eaa, approx = (known[name] for name in ("sla, TA each row", "eaa", "approx"))
    times = eaa.rows_per_second / base.rows_per_second
    yield Verdict("eaa against sla that searches after each row", "20 times as fast", f"{times:,.0f}", times >= 20)
    yield Verdict("eaa", "200,000 rows/s", f"{eaa.rows_per_second:,.0f}", eaa.rows_per_second >= 200_000)
    ratio = approx.rows_per_second / eaa.rows_per_second
    yield Verdict("approx against eaa", "at least as fast", f"{ratio:.2f}", ratio >= 1)
    share = approx.kept / eaa.kept
    yield Verdict("approx's instances", "at most 1/3 of eaa's", f"{share:.3f}", share <= 1 / 3)


def run(
    scale: str, only: Sequence[str], out: Path, seed: int, progress: Progress, screen: Console, folder: Path | None
) -> bool:
    """Run the bench; return whether the exact algorithms agreed everywhere."""
    screen.print(METHOD)
    size = cikm2009.SCALES[scale]
    agreed, evaluated = True, []  # type: tuple[bool, list[Verdict]]
    for experiment in cikm2009.experiments(size):
        if only and experiment.name not in only:
            continue
        points = []
        with progress(f"cikm2009 {experiment.name}", len(experiment.settings)) as advance:
            for setting in experiment.settings:
                point = evaluate(setting, size, seed, folder)
                points += [point] if point is not None else []
                advance(1)
        if len(points) < len(experiment.settings):
            screen.print(Text(f"flights were skipped: --data names no folder with {cikm2009.FLIGHTS}", style="yellow"))
        result = list(evaluate_sizes(experiment, points)) if size.has_targets else []
        if points:
            screen.print(_sizes(experiment, points))
        evaluated += _reported(screen, result)
        wrong = sum(point.wrong for point in points)
        if wrong:
            agreed = False
            screen.print(Text(f"ANSWERS DIFFER: eaa from tally, {wrong} times", style="bold white on red"))
        stem = out / f"cikm2009-{scale}-{experiment.name}"
        _write(stem, experiment.title, scale, seed, [asdict(point) for point in points], result)
        if experiment.name == "windows":
            sizes = {
                "sla (all rows)": [float(point.setting.W) for point in points],
                "eaa": [point.eaa for point in points],
                "approx": [point.approx for point in points],
            }
            incomplete_plots.draw(stem.with_suffix(".png"), [point.setting for point in points], sizes)
    if not only or SPEED in only:
        with progress("cikm2009 speed", 1) as advance:
            paces, same = race(size, seed)
            advance(1)
        agreed = agreed and same
        result = list(evaluate_speed(paces)) if size.has_targets else []
        screen.print(_speeds(size.speed, paces))
        evaluated += _reported(screen, result)
        if not same:
            screen.print(Text("ANSWERS DIFFER between exact algorithms", style="bold white on red"))
        _write(out / f"cikm2009-{scale}-{SPEED}", SPEED, scale, seed, [asdict(pace) for pace in paces], result)
    met = sum(verdict.met for verdict in evaluated)
    reported = f"{met} of {len(evaluated)} targets met" if evaluated else "no target at this scale"
    screen.print(f"cikm2009: {reported}. Results are in {out}.")
    return agreed


def _reported(screen: Console, result: list[Verdict]) -> list[Verdict]:
    if result:
        screen.print(verdict_table(result))
    return result


def _sizes(experiment: Experiment, points: Sequence[Point]) -> Table:
    s = points[0].setting
    fixed = ", ".join(
        f"{name}={getattr(s, name):g}"
        for name in ("streams", "W", "k", *(("xi", "C") if s.data == "synthetic" else ()))
        if name != experiment.axis
    )
    table = Table(
        title=f"{experiment.title}\n{fixed}; the paper's in brackets", title_justify="left", box=box.SIMPLE_HEAD
    )
    objects = ("eaa, objects", "approx, objects")
    headings = (experiment.axis, "W", "eaa", "approx", *objects, "precision", "error", "reported")
    for heading in headings if experiment.axis != "W" else headings[1:]:
        table.add_column(heading, justify="right")
    for point in points:
        value = getattr(point.setting, experiment.axis)
        paper = experiment.table.get(value)
        shown = (
            f"{point.eaa_objects:,.1f}", f"{point.approx_objects:,.1f}", f"{point.precision:.3f}", f"{point.error:.4f}"
        )  # fmt: skip
        beside = [f"{ours} ({theirs:g})" for ours, theirs in zip(shown, paper, strict=True)] if paper else list(shown)
        first = [] if experiment.axis == "W" else [f"{value:g}"]
        instances = f"{point.eaa:,.1f}", f"{point.approx:,.1f}"
        table.add_row(*first, f"{point.setting.W:,}", *instances, *beside, f"{point.reported:.2f}")
    return table


def _speeds(s: Setting, paces: Sequence[Pace]) -> Table:
    title = f"speed\nW={s.W:,}, {s.streams} streams, k={s.k}, xi={s.xi:g}, C={s.C}; every row is evaluated"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("algorithm", "rows/s", "times TA each row", "kept", "rows timed"):
        table.add_column(heading, justify="left" if heading == "algorithm" else "right")
    for pace in paces:
        times = pace.rows_per_second / paces[0].rows_per_second
        table.add_row(pace.name, f"{pace.rows_per_second:,.0f}", f"{times:,.1f}", f"{pace.kept:,}", f"{pace.rows:,}")
    return table


def _write(stem: Path, title: str, scale: str, seed: int, lines: list[Any], result: Sequence[Verdict]) -> None:
    content = {
        "bench": "cikm2009", "experiment": stem.name.rpartition("-")[2], "title": title, "scale": scale, "seed": seed,
        "machine": machine.describe(), "method": " ".join(METHOD.split()), "points": lines,
        "verdicts": [asdict(verdict) for verdict in result],
    }  # fmt: skip
    part = stem.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(stem.with_suffix(".json"))
