"""Runs experiments one after the other: measure, print, keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from benchmarks import (
    cikm2009,
    devices,
    dominating,
    fronts,
    incomplete,
    machine,
    measure,
    plots,
    report,
    sigmod2006,
    sigmod2009,
    sizes,
    tkde2011,
    tods2015,
    verdicts,
    workload,
)
from topwatch.query.errors import QueryError, nearest_name

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
Run = Callable[[str, Sequence[str], Path, int, Progress, Console, Path | None], bool]


class Bench(NamedTuple):
    """A bench: the names of its experiments, and what measures some of them at a scale."""

    experiments: tuple[str, ...]
    run: Run


def listing() -> str:
    """Return all benches with their experiments.

    >>> print(listing())
    sigmod2006: defaults, k, ...
    tods2015: defaults, drift, errors, ...
    tkde2011: answers, ...
    cikm2009: streams, ...
    sigmod2009: server, ...
    skyline: static, window
    spark: stream, start
    """
    return "\n".join(f"{name}: {', '.join(bench.experiments)}" for name, bench in BENCHES.items())


def run(
    names: Sequence[str],
    scale: str,
    only: Sequence[str],
    out: Path,
    seed: int,
    progress: Progress,
    data: Path | None = None,
) -> bool:
    """Run benches, all when none is named; return whether the algorithms agreed everywhere.

    ``data`` is a folder with real data sets, for benches that read some.
    """
    names = list(dict.fromkeys(names)) or list(BENCHES)
    _check("bench", names, BENCHES)
    known = [experiment for name in names for experiment in BENCHES[name].experiments]
    _check("only", only, known)
    out.mkdir(parents=True, exist_ok=True)
    screen = report.console()
    screen.print(machine.legend())
    agreed = []
    for name in names:
        bench = BENCHES[name]
        mine = [experiment for experiment in only if experiment in bench.experiments]
        if mine or not only:
            agreed.append(bench.run(scale, mine, out, seed, progress, screen, data))
    return all(agreed)


def _run_sigmod2006(
    scale: str, only: Sequence[str], out: Path, seed: int, progress: Progress, screen: Console, data: Path | None
) -> bool:
    name, bench = "sigmod2006", sigmod2006
    screen.print(report.METHOD)
    with progress("compiling", 1) as advance:
        measure.warm_up()
        advance(1)
    size = bench.SCALES[scale]
    measured: dict[workload.Setting, measure.Point] = {}
    evaluated: list[verdicts.Verdict] = []
    wrong = 0
    for experiment in bench.experiments(size):
        if only and experiment.name not in only:
            continue
        settings = [setting for setting in experiment.settings if setting not in measured]
        total = sum(len(_algorithms(setting)) for setting in settings)
        budget = size.budget if experiment.axis else size.defaults_budget
        with progress(f"{name} {experiment.name}", total) as advance:
            for setting in settings:
                measured[setting] = measure.measure(setting, _algorithms(setting), seed, budget, advance)
        points = [measured[setting] for setting in experiment.settings]
        kept: list[sizes.Size] = []
        if experiment.name == "k":
            with progress(f"{name} Table 2", sizes.runs(size)) as advance:
                kept = sizes.table_2(size, seed, advance)
        result = verdicts.evaluate(experiment, points, kept) if size.has_targets else []
        evaluated += result
        report.print_experiment(screen, experiment, points, kept, result)
        errors = _disagreements(points)
        wrong += len(errors)
        for error in errors:
            screen.print(Text(error, style="bold white on red"))
        about = {
            "bench": name,
            "experiment": experiment.name,
            "title": experiment.title,
            "scale": scale,
            "seed": seed,
            "machine": machine.describe(),
            "method": " ".join(report.METHOD.split()),
            "disagreements": errors,
        }
        stem = f"{name}-{scale}-{experiment.name}"
        report.write_json(out / f"{stem}.json", about, points, kept, result)
        plots.draw(out / f"{stem}.png", experiment, points)
    missed = sum(not verdict.met for verdict in evaluated)
    if evaluated:
        screen.print(f"{name}: {len(evaluated) - missed} of {len(evaluated)} targets met. Results are in {out}.")
    else:
        screen.print(f"{name}: no target at this scale. Results are in {out}.")
    return wrong == 0


def _run_spark(
    scale: str, only: Sequence[str], out: Path, seed: int, progress: Progress, screen: Console, data: Path | None
) -> bool:
    from benchmarks import spark  # Spark is not needed for the others

    return spark.run(scale, only, out, seed, progress, screen)


BENCHES = {
    "sigmod2006": Bench(
        tuple(experiment.name for experiment in sigmod2006.experiments(sigmod2006.SCALES["tiny"])), _run_sigmod2006
    ),
    "tods2015": Bench(tods2015.EXPERIMENTS, tods2015.run),
    "tkde2011": Bench(
        tuple(experiment.name for experiment in tkde2011.experiments(tkde2011.SCALES["tiny"])), dominating.run
    ),
    "cikm2009": Bench(
        (
            *(experiment.name for experiment in cikm2009.experiments(cikm2009.SCALES["tiny"])),
            incomplete.SPEED,
        ),
        incomplete.run,
    ),
    "sigmod2009": Bench(
        tuple(experiment.name for experiment in sigmod2009.experiments(sigmod2009.SCALES["tiny"])), devices.run
    ),
    "skyline": Bench(fronts.EXPERIMENTS, fronts.run),
    "spark": Bench(("stream", "start"), _run_spark),
}


def _algorithms(setting: workload.Setting) -> list[str]:
    """All; where the grid is what varies, those that have one, and the baseline."""
    names = workload.algorithms()
    if not setting.cells_for_all:
        return names
    return [name for name in names if name in workload.gridded() or name == report.BASELINE]


def _disagreements(points: Iterable[measure.Point]) -> list[str]:
    result = []
    for point in points:
        where = measure.disagreement(point)
        if where:
            result.append(f"ANSWERS DIFFER {where}, at {point.setting}")
    return result


def _check(field: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(dict.fromkeys(known))
    for name in names:
        if name not in known:
            hint = nearest_name(name, known)
            raise QueryError(f"{field}: {name!r} is not known; accepted are {', '.join(known)}{hint}")
