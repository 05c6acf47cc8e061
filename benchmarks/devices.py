"""Measures the methods for skylines of many devices: the same snapshots for all, messages counted, answers compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import machine, sigmod2009
from benchmarks.plain_filter import PlainFilter
from benchmarks.report import verdict_table
from benchmarks.sigmod2009 import Experiment, Setting
from benchmarks.verdicts import Verdict
from topwatch.edge.protocol.device_records import Records, Settings
from topwatch.edge.protocol.methods import METHODS
from topwatch.edge.protocol.simulation import EXACT, Report
from topwatch.edge.protocol.simulation import run as simulate

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

SAME = ({"filter", "naive", "transcription"}, {"sampling", "hybrid"})  # whose answers are equal
SERVER = 5.0  # times the transcription
QUALITY = 0.9

METHOD = """\
Method: all methods see the same snapshots. Messages are counted from the first join on; those per record and timestamp
are given, 1 is what Naive sends where everything moves. CPU is the server's, without the clients and without what the
simulation needs to evaluate the result. The first two timestamps, with joins and compiling, do not count for CPU.
Answers of Filter and Naive, and of Hybrid and Sampling, are compared at every timestamp."""


@dataclass(frozen=True)
class Run:
    """What one method did at a setting; messages and bytes per record and timestamp."""

    method: str
    uplink: float
    downlink: float
    total: float
    bytes: float
    probes: float
    milliseconds: float  # of the server per timestamp
    recall: float
    precision: float
    skyline: float  # mean size


@dataclass(frozen=True)
class Point:
    """All methods at a setting."""

    setting: Setting
    records: int
    runs: dict[str, Run]
    wrong: tuple[str, ...]  # methods whose answers differ from those they must equal


def measure(setting: Setting, seeds: Sequence[int], folder: Path | None) -> Point | None:
    """Run the methods of a setting, mean over seeds; None where its data are not there."""
    web = sigmod2009.web(folder) if setting.data == "web" else None
    if setting.data == "web" and web is None:
        return None
    runs: dict[str, list[Run]] = {}
    wrong = set()
    records = setting.n if web is None else web.clients
    for seed in seeds:
        answers: dict[str, list[set[int]]] = {}
        for method in setting.methods:
            report = _simulate(setting, method, seed, records, web)
            answers[method] = report.answers
            runs.setdefault(method, []).append(_summary(method, report, records, setting))
            for group in SAME:
                others = [answers[name] for name in answers if name in group]
                if method in group and report.answers != others[0]:
                    wrong.add(method)
    mean = {method: _mean(result) for method, result in runs.items()}
    return Point(setting, records, mean, tuple(sorted(wrong)))


def _simulate(setting: Setting, method: str, seed: int, records: int, web: sigmod2009.Web | None) -> Report:
    s = setting
    settings = Settings(s.d, s.share, s.window, s.epsilon, s.delta, seed)
    server: Records = PlainFilter(settings) if method == "transcription" else METHODS[method](settings)

    def snapshots() -> Iterator[np.ndarray]:
        for snapshot in sigmod2009.snapshots(s, seed) if web is None else web.snapshots(s.ticks):
            if isinstance(server, PlainFilter):
                server.truth = snapshot
            yield snapshot

    return simulate(snapshots(), records, server, method in (*EXACT, "transcription"))


def _summary(method: str, report: Report, records: int, setting: Setting) -> Run:
    table = report.per_timestamp
    ticks = len(table["uplink"])
    each = max(1, records * ticks)
    looked = table["skyline"][table["skyline"] >= 0]
    recall, precision = (float(table[name][setting.evaluated_from :].mean()) for name in ("recall", "precision"))
    return Run(
        method,
        report.uplink / each,
        report.downlink / each,
        report.total / each,
        report.bytes / each,
        report.probes / each,
        1e3 * float(table["cpu_seconds"][2:].mean()),
        recall,
        precision,
        float(looked.mean()) if looked.size else 0.0,
    )


def _mean(runs: Sequence[Run]) -> Run:
    rows = [asdict(one) for one in runs]
    numbers = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name != "method"}
    return Run(runs[0].method, **numbers)


def run(
    scale: str, only: Sequence[str], out: Path, seed: int, progress: Progress, screen: Console, data: Path | None = None
) -> bool:
    """Measure, print and keep; return whether the answers agreed."""
    size = sigmod2009.SCALES[scale]
    screen.print(METHOD)
    _warm_up()
    agreed = True
    for experiment in sigmod2009.experiments(size):
        if only and experiment.name not in only:
            continue
        lasting = experiment.settings[0].evaluated_from > 0
        seeds = range(seed, seed + (size.rounds if lasting else 1))
        points = []
        with progress(f"sigmod2009 {experiment.name}", len(experiment.settings)) as advance:
            for setting in experiment.settings:
                point = measure(setting, seeds, data)
                advance(1)
                if point is not None:
                    points.append(point)
        if not points:
            screen.print(f"{experiment.name}: skipped, there is no {sigmod2009.FOLDER} in the folder that --data names")
            continue
        screen.print(_table(experiment, points))
        result = list(evaluate(experiment, points)) if size.has_targets else []
        if result:
            screen.print(verdict_table(result))
        for point in points:
            if point.wrong:
                agreed = False
                screen.print(Text(f"ANSWERS DIFFER {point.wrong} at {point.setting}", style="bold white on red"))
        _keep(out / f"sigmod2009-{scale}-{experiment.name}.json", experiment, points, result, scale, seed)
    return agreed


def evaluate(experiment: Experiment, points: Sequence[Point]) -> Iterator[Verdict]:
    """Compare the results with what the paper says of its figures, and with the targets."""
    for point in points:
        s, runs = point.setting, point.runs
        total = {name: one.total for name, one in runs.items()}
        if experiment.name == "server":
            times = runs["transcription"].milliseconds / runs["filter"].milliseconds
            yield Verdict(f"filter server, {s.data}", f"{SERVER:g} × transcription", f"{times:.0f} ×", times >= SERVER)
        if (experiment.name == "columns" and s.d == 2) or (experiment.name == "distribution" and s.data == "cor"):
            least = min(total, key=lambda name: total[name])
            what = f"fewest messages, {s.data}, d={s.d}"
            yield Verdict(what, "filter", f"{least} {total[least]:.3f}", least == "filter")
        if (experiment.name == "columns" and s.d == 6) or (experiment.name == "distribution" and s.data == "ant"):
            least = min(total, key=lambda name: total[name])
            what = f"fewest messages, {s.data}, d={s.d}"
            yield Verdict(
                what, "sampling", f"{least} {total[least]:.3f}, filter {total['filter']:.3f}", least == "sampling"
            )
        if experiment.name == "epsilon" and s.epsilon == 0.2:
            one = runs["sampling"]
            worst = min(one.recall, one.precision)
            measured = f"{one.recall:.3f} and {one.precision:.3f}"
            yield Verdict("recall and precision at the defaults", f"{QUALITY}", measured, worst > QUALITY)


def _warm_up() -> None:
    for method in (*sigmod2009.METHODS, "transcription"):
        small = replace(sigmod2009.SCALES["tiny"].base, methods=(method,))
        measure(small, [0], None)


def _table(experiment: Experiment, points: Sequence[Point]) -> Table:
    s = points[0].setting
    fields = {
        "data": s.data,
        "n": f"{points[0].records:,}",
        "d": s.d,
        "u": s.u,
        "θ": s.share,
        "ε": s.epsilon,
        "δ": s.delta,
    }
    axis = {"epsilon": "ε", "delta": "δ", "share": "θ"}.get(experiment.axis, experiment.axis)
    fixed = ", ".join(f"{name}={value}" for name, value in fields.items() if name != axis)
    table = Table(title=f"{experiment.title}\n{fixed}", title_justify="left", box=box.SIMPLE_HEAD)
    headings = ("up", "down", "messages", "bytes", "probes", "server ms", "recall", "precision", "skyline")
    table.add_column(axis)
    table.add_column("method")
    for heading in headings:
        table.add_column(heading, justify="right")
    for point in points:
        least = min(one.total for one in point.runs.values())
        for number, one in enumerate(point.runs.values()):
            cells = [f"{value:.4f}" for value in (one.uplink, one.downlink, one.total)]
            cells += [f"{one.bytes:.1f}", f"{one.probes:.4f}", f"{one.milliseconds:.2f}"]
            cells += [f"{one.recall:.3f}", f"{one.precision:.3f}", f"{one.skyline:.0f}"]
            value = str(getattr(point.setting, experiment.axis)) if number == 0 else ""
            table.add_row(value, one.method, *cells, style="bold" if one.total == least else "")
        table.add_section()
    return table


def _keep(
    path: Path, experiment: Experiment, points: Sequence[Point], verdicts: Sequence[Verdict], scale: str, seed: int
) -> None:
    content: dict[str, Any] = {
        "bench": "sigmod2009",
        "experiment": experiment.name,
        "title": experiment.title,
        "scale": scale,
        "seed": seed,
        "machine": machine.describe(),
        "method": " ".join(METHOD.split()),
        "points": [asdict(point) for point in points],
        "verdicts": [asdict(verdict) for verdict in verdicts],
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)
