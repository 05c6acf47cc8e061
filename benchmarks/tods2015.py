"""The experiments of TODS'15 on top-k/w queries, section 8: Table IX's defaults, and each parameter varied alone.

Pripužić, Podnar Žarko, Aberer: Time- and space-efficient sliding window top-k query processing. TODS 40(1), 2015.

400 k-NN queries, picked from the data, over the last 40,000 rows; every row is evaluated. Time is per row after the
window is full; slow algorithms stop early. ``rapf2`` is RAPF with the largest buffer, ``reserve-scan`` is ``reserve``
without lists. Exact algorithms must report the same changes; of PA the batches are counted in which its changes are
others. ``pa-switch`` is PA that may err by 1e-3 and steps aside for RAPF while the stream has an order in time.
``errors`` counts PA's errors over many short streams.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import machine, measure, misses, real, report, verdicts, workload
from benchmarks.plain import PlainReserve
from benchmarks.workload import Setting

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

PAPERS = ("sa", "ra", "pa", "sasf", "sarf", "sapf", "rasf", "rarf", "rapf", "rapf2", "cpm", "snn")
ALL = (*PAPERS, "reserve", "reserve-scan", "auto")
INEXACT = ("pa", "pa-switch")
KS = (1, 3, 9, 27, 81)
EXPERIMENTS = ("defaults", "drift", "errors", "k", "data", "d", "cells", "Q", "b", "relax", "N")
# At the defaults, for k = 9 and 81: fast, slow, at least so many times, aim.
SPEEDS = (
    ("reserve", "pa", (1.5, 1.5), ""),
    ("reserve", "sa", (100, 100), ", aim 200"),
    ("reserve-scan", "sa", (100, 100), ""),
    ("reserve", "plain", (40, 40), ""),
    ("pa", "sa", (70, 70), ", aim 110"),
    ("rapf", "sa", (10, 4), ", aim 16 and 6"),
    ("rapf2", "sa", (35, 35), ", aim 50"),
)


@dataclass(frozen=True)
class Scale:
    """How large and how long."""

    base: Setting
    ks: tuple[int, ...]
    budget: float  # seconds of timed rows per algorithm
    has_targets: bool = True
    streams: misses.Streams = misses.FULL


PAPER = Setting(data="ind", d=2, N=40_000, r=10_000, Q=400, k=9, cells=10, kmax=20, cycles=96, score="nearest", every=1)
SCALES = {
    "tiny": Scale(
        replace(PAPER, N=1000, r=50, Q=30, cycles=4, buffer=200), (1, 9), 0.2, has_targets=False, streams=misses.TINY
    ),
    "small": Scale(PAPER, (9, 81), 3.0),
    "paper": Scale(PAPER, KS, 30.0),
}


def settings(name: str, scale: Scale, folder: str) -> Iterator[Setting]:
    """Yield the settings of an experiment."""
    base = replace(scale.base, folder=folder)
    if name == "defaults":
        yield from (replace(base, k=k) for k in (9, 81) if k < base.N // 20)
    elif name == "drift":
        names = ["moving", *(("luce",) if real.available(folder) else ())]
        yield from (replace(base, data=data, k=k) for data in names for k in (9, 81) if k < base.N // 20)
    elif name == "k":
        yield from (replace(base, k=k, index=index) for index in ("auto", "none") for k in scale.ks)
    elif name == "data":
        names = ["ind", "clustered", *(workload.REAL if real.available(folder) else ())]
        yield from (replace(base, data=data) for data in names)
    elif name == "d":
        yield from (replace(base, d=d) for d in (2, 4, 6))
    elif name == "cells":
        yield from (replace(base, cells=cells, cells_for_all=True) for cells in (5, 10, 20, 40))
    elif name == "Q":
        yield from (replace(base, Q=base.Q * part // 4) for part in (1, 4, 10))
    elif name == "b":
        yield from (replace(base, buffer=base.N // part) for part in (80, 20, 8, 2))
    elif name == "relax":
        yield from (replace(base, relax=relax) for relax in (0.0, 0.1, 0.2, 0.5, 1.0))
    else:
        yield from (replace(base, N=base.N * part // 4) for part in (1, 4, 10))


def algorithms(name: str) -> tuple[str, ...]:
    """Those that a parameter concerns, and SA."""
    if name == "b":
        return ("sa", *(one for one in PAPERS if len(one) == 4))
    if name == "drift":
        return (*ALL, "pa-switch")
    return ("sa", "ra", "sarf", "rasf", "rarf", "rapf") if name == "relax" else ALL


def run(
    scale: str,
    only: Sequence[str],
    out: Path,
    seed: int,
    progress: Progress,
    screen: Console,
    data: Path | None = None,
) -> bool:
    """Measure, print and keep; return whether the exact algorithms agreed."""
    size = SCALES[scale]
    folder = str(data) if data is not None else ""
    if not real.available(folder):
        screen.print(f"luce: skipped, there is no {real.FILE} in the folder that --data names")
    agreed = True
    result: list[verdicts.Verdict]
    for name in EXPERIMENTS:
        if only and name not in only:
            continue
        about = {"bench": "tods2015", "experiment": name, "scale": scale, "seed": seed, "machine": machine.describe()}
        path = out / f"tods2015-{scale}-{name}.json"
        if name == "errors":
            counted = _errors(size, folder, seed, progress, screen)
            result = [verdict for one in counted for verdict in one.verdicts()] if size.has_targets else []
            if result:
                screen.print(report.verdict_table(result))
            report.write_json(path, {**about, "errors": [asdict(one) for one in counted]}, [], [], result)
            continue
        chosen = list(settings(name, size, folder))
        with progress(f"tods2015 {name}", len(chosen) * len(algorithms(name))) as advance:
            points = [measure.measure(setting, algorithms(name), seed, size.budget, advance) for setting in chosen]
        plain = [_plain(point.setting, seed) for point in points] if name == "defaults" else [0.0] * len(points)
        for point, speed in zip(points, plain, strict=True):
            screen.print(_table(name, point, speed))
        result = []
        if size.has_targets and name in ("defaults", "drift"):
            result = list(_evaluate(points, plain) if name == "defaults" else map(_drifting, points))
        if result:
            screen.print(report.verdict_table(result))
        errors = [where for point in points if (where := measure.disagreement(_exact(point)))]
        for error in errors:
            screen.print(Text(f"ANSWERS DIFFER {error}", style="bold white on red"))
        agreed = agreed and not errors
        report.write_json(path, {**about, "plain": plain}, points, [], result)
    return agreed


def _errors(size: Scale, folder: str, seed: int, progress: Progress, screen: Console) -> list[misses.Errors]:
    """Count PA's errors on streams in random order; with the switch, on one in the order of time."""
    names = ["ind", "clustered", *(("luce-shuffled", "luce") if real.available(folder) else ())]
    streams = size.streams
    counted = []
    with progress("tods2015 errors", len(names) * len(streams.ks)) as advance:
        for data in names:
            for k in streams.ks:
                counted.append(misses.count(data, k, streams, seed, folder))
                advance(1)
    screen.print(misses.table(counted, streams))
    return counted


def _exact(point: measure.Point) -> measure.Point:
    return replace(point, runs={name: one for name, one in point.runs.items() if name not in INEXACT})


def _drifting(point: measure.Point) -> verdicts.Verdict:
    """Compare the planner's choice with the best of the papers' exact algorithms."""
    speeds = {name: point.runs[name].speed for name in PAPERS if name in point.runs and name not in INEXACT}
    best = max(speeds, key=lambda name: speeds[name])
    ratio = point.runs["auto"].speed / speeds[best]
    what = f"auto / {best}, the best exact one, {point.setting.data}, k={point.setting.k}"
    return verdicts.Verdict(what, "at least 2 times as fast", f"{ratio:.1f}", ratio >= 2)


def _differing(point: measure.Point, name: str) -> str:
    """Say in how many batches an approximate algorithm's changes differ from those of the exact ones."""
    exact = max((run.digests for other, run in point.runs.items() if other not in INEXACT), key=len, default=())
    pairs = list(zip(point.runs[name].digests, exact, strict=False))
    return f"{sum(a != b for a, b in pairs)} of {len(pairs)}" if pairs else ""


def _plain(setting: Setting, seed: int) -> float:
    """Return the speed of the NumPy-and-bisect version in million rows per second."""
    rows = np.random.default_rng(seed).random((setting.N + 1500, setting.d))
    points = np.random.default_rng([seed, 1]).random((setting.Q, setting.d))
    one = PlainReserve(points, setting.k, rows[: setting.N].copy())
    one.push(rows[setting.N : setting.N + 300])
    then = time.perf_counter()
    one.push(rows[setting.N + 300 :])
    return 1200 / (time.perf_counter() - then) / 1e6


def _evaluate(points: Sequence[measure.Point], plain: Sequence[float]) -> Iterator[verdicts.Verdict]:
    for number, (point, speed) in enumerate(zip(points, plain, strict=True)):
        for fast, slow, least, aim in SPEEDS:
            if fast not in point.runs or (slow != "plain" and slow not in point.runs):
                continue
            ratio = point.runs[fast].speed / (speed if slow == "plain" else point.runs[slow].speed)
            what = f"{fast} / {slow}, k={point.setting.k}"
            target = f"at least {least[number]:g} times as fast{aim}"
            yield verdicts.Verdict(what, target, f"{ratio:.1f}", ratio >= least[number])


def _table(name: str, point: measure.Point, plain: float) -> Table:
    s = point.setting
    title = (
        f"{name}: {s.data}, d={s.d}, n={s.N:,}, Q={s.Q}, k={s.k}, b={s.buffer:,}, relax={s.relax:g}, index={s.index}"
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    headings = ("algorithm", "thousand rows/s", "times sa", "references per query", "scores per row", "cells", "wrong")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "algorithm" else "right")
    for one in sorted(point.runs.values(), key=lambda one: -one.speed):
        times = point.ratio(one.algorithm, "sa")
        table.add_row(
            one.algorithm,
            f"{1e3 * one.speed:,.1f}",
            "–" if times is None else f"{times:.2f}",
            f"{one.kept_per_query:.1f}",
            f"{one.scores_per_arrival:.1f}",
            f"{one.cells_per_query:.1f}",
            _differing(point, one.algorithm) if one.algorithm in INEXACT else "",
        )
    if plain:
        table.add_row("reserve in NumPy", f"{1e3 * plain:,.2f}", f"{plain / point.runs['sa'].speed:.2f}", *4 * [""])
    for skipped, why in point.skipped.items():
        table.add_row(skipped, why, *5 * [""])
    return table
