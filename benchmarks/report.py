"""What a run prints, and what it leaves as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.measure import Point, Run
from benchmarks.sigmod2006 import Experiment
from benchmarks.sizes import Size
from benchmarks.verdicts import Verdict
from benchmarks.workload import ROWS_PER_PUSH, Setting

BASELINE = "scan"
WIDTH = 130  # of a table with all its columns
BUSY = 0.95  # of the time on the clock: below, others had the processor too


class Column(NamedTuple):
    """A column of the table of an experiment."""

    heading: str
    always: bool  # also on a narrow screen
    show: Callable[[Point, Run], str]


def _times(point: Point, run: Run) -> str:
    ratio = point.ratio(run.algorithm, BASELINE)
    return "–" if ratio is None else f"{ratio:.2f}"


COLUMNS = (
    Column("million\narrivals/s", True, lambda p, run: f"{run.speed:.3g}" if run.speed < 100 else f"{run.speed:.0f}"),
    Column("µs per\ncycle", True, lambda p, run: f"{run.cycle_microseconds:,.0f}"),
    Column(f"times\n{BASELINE}", True, _times),
    Column("rows kept\nper query", True, lambda p, run: f"{run.kept_per_query:.1f}"),
    Column("cells\nper query", False, lambda p, run: f"{run.cells_per_query:,.1f}"),
    Column("state,\nMB", True, lambda p, run: f"{run.state_bytes / 1e6:,.1f}"),
    Column("paper's\nwords, MB", False, lambda p, run: f"{p.paper_bytes(run) / 1e6:,.1f}"),
    Column("from scratch\nper cycle", False, lambda p, run: f"{run.recomputations_per_cycle:,.1f}"),
    Column("scores per\narrival", False, lambda p, run: f"{run.scores_per_arrival:,.1f}"),
    Column("cycles\ntimed", True, lambda p, run: f"{run.cycles}"),
)

METHOD = f"""\
Method: one window is filled once; each algorithm starts from a snapshot of it, so that every query is computed from
scratch over the full window. One cycle (r arrivals, r expiries, an evaluation) goes untimed, then only push is timed,
and the median cycle counts. Several cycles go into one push, up to {ROWS_PER_PUSH:,} rows. Compile time is apart. Slow
algorithms stop early: see the last column. The number of cells is for those that cannot do without a grid; the others
choose their own."""


def console() -> Console:
    """Return a console that keeps tables whole in a file or a pipe."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=WIDTH)


def panels(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points that belong on one table or one picture: by data, and by kind of score where that differs."""
    result: dict[str, list[Point]] = {}
    kinds = {point.setting.score for point in points}
    for point in points:
        score = f", {point.setting.score}" if len(kinds) > 1 else ""
        result.setdefault(point.setting.data.upper() + score, []).append(point)
    return result


def print_experiment(
    out: Console,
    experiment: Experiment,
    points: Sequence[Point],
    sizes: Sequence[Size],
    verdicts: Sequence[Verdict],
) -> None:
    """Print tables, notes and verdicts."""
    for title, part in panels(points).items():
        out.print(_table(experiment, f"{experiment.title} – {title}", part, wide=out.width >= WIDTH))
    if sizes:
        out.print(_sizes(sizes))
    for note in _notes(points):
        out.print(Text(note, style="yellow"))
    if verdicts:
        out.print(verdict_table(verdicts))
    out.print()


def fixed(experiment: Experiment, s: Setting) -> str:
    """Say what does not vary."""
    varying = {"N": ("N", "r"), "d": ("d", "cells"), "": ("k",)}.get(experiment.axis, (experiment.axis,))
    fields = ("d", "N", "r", "Q", "k", "cells")
    return ", ".join(f"{name}={getattr(s, name):,}" for name in fields if name not in varying)


def _table(experiment: Experiment, title: str, points: Sequence[Point], wide: bool) -> Table:
    s = points[0].setting
    table = Table(
        title=f"{title}\n{s.score}, {fixed(experiment, s)}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    axis = experiment.axis or "k"
    table.add_column(axis, no_wrap=True)
    table.add_column("algorithm", no_wrap=True)
    columns = [column for column in COLUMNS if wide or column.always]
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for point in points:
        best = max((run.speed for run in point.runs.values()), default=0.0)
        for number, run in enumerate(point.runs.values()):
            value = f"{getattr(point.setting, axis):,}" if number == 0 else ""
            name = run.algorithm if run.chosen == run.algorithm else f"{run.algorithm} → {run.chosen}"
            cells = (column.show(point, run) for column in columns)
            table.add_row(value, name, *cells, style="bold" if run.speed == best else "")
        table.add_section()
    return table


def _sizes(sizes: Sequence[Size]) -> Table:
    table = Table(title="rows kept per query beside the paper's Table 2", box=box.SIMPLE_HEAD, title_justify="left")
    table.caption = (
        "Mean over the cycles since a start from scratch; ± standard error over seeds. Sizes go by rank, not by N."
    )
    table.caption_justify = "left"
    names = list(dict.fromkeys(size.algorithm for size in sizes))
    table.add_column("data")
    table.add_column("k", justify="right")
    for name in names:
        for heading in (f"{name}, paper", f"{name}, ours", "difference"):
            table.add_column(heading, justify="right")
    lines: dict[tuple[str, int], list[str]] = {}
    for size in sizes:
        line = lines.setdefault((size.data, size.k), [size.data.upper(), str(size.k)])
        line += [f"{size.paper:.1f}", f"{size.ours:.2f} ± {size.error:.2f}", f"{size.off:+.1%}"]
    for line in lines.values():
        table.add_row(*line)
    return table


def _notes(points: Sequence[Point]) -> Iterator[str]:
    skipped = {f"{name} was skipped: {why}": None for point in points for name, why in point.skipped.items()}
    yield from skipped
    runs = [run for point in points for run in point.runs.values()]
    share = min((run.cpu_share for run in runs), default=1.0)
    if share < BUSY:
        yield f"The processor was ours {share:.0%} of the time on the clock: other work ran beside and slowed it down."


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Return what was asked, what was measured, and whether that is enough."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("target", "asked", "measured", ""):
        table.add_column(heading)
    for verdict in verdicts:
        word = Text("met", style="green") if verdict.met else Text("MISSED", style="bold red")
        table.add_row(verdict.what, verdict.target, verdict.measured, word)
    return table


def write_json(
    path: Path, about: dict[str, Any], points: Sequence[Point], sizes: Sequence[Size], verdicts: Sequence[Verdict]
) -> None:
    """Write all that was measured; the file appears when it is complete."""
    content = {
        **about,
        "points": [
            {"setting": asdict(p.setting), "runs": [_plain(p, run) for run in p.runs.values()], "skipped": p.skipped}
            for p in points
        ],
        "sizes": [asdict(size) for size in sizes],
        "verdicts": [asdict(verdict) for verdict in verdicts],
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def _plain(point: Point, run: Run) -> dict[str, Any]:
    return {
        **{key: value for key, value in asdict(run).items() if key != "digests"},
        "million_arrivals_per_second": run.speed,
        "microseconds_per_cycle": run.cycle_microseconds,
        "times_scan": point.ratio(run.algorithm, BASELINE),
        "paper_bytes": point.paper_bytes(run),
        "changes_digest_per_cycle": list(run.digests),
    }
