"""What a run prints, and what it leaves as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topwatch.bench.measure import ROWS_PER_PUSH, Point, Run, Setting
from topwatch.bench.sigmod2006 import TABLE_2, Experiment
from topwatch.bench.verdicts import Verdict

BASELINE = "scan"
WIDTH = 132  # where no screen sets it
BUSY = 0.95  # of the time on the clock: below, others had the processor too


METHOD = f"""\
Method: one window is filled once; each algorithm starts from a snapshot of it, so that every query is computed from
scratch over the full window. One cycle (r arrivals, r expiries, a judgement) goes untimed, then only push is timed.
Several cycles go into one push, up to {ROWS_PER_PUSH:,} rows. Compile time is apart. Slow algorithms stop early: see cycles."""


def console() -> Console:
    """Return a console that keeps tables whole in a file or a pipe."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=WIDTH)


def panels(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points that belong on one table or one picture: by data, and by kind of score where that differs."""
    found: dict[str, list[Point]] = {}
    kinds = {point.setting.score for point in points}
    for point in points:
        score = f", {point.setting.score}" if len(kinds) > 1 else ""
        found.setdefault(point.setting.data.upper() + score, []).append(point)
    return found


def print_experiment(out: Console, experiment: Experiment, points: Sequence[Point], verdicts: Sequence[Verdict]) -> None:
    """Print tables, notes and verdicts."""
    for title, part in panels(points).items():
        out.print(_table(experiment, f"{experiment.title} – {title}", part))
    if experiment.name == "k":
        out.print(_table_2(points))
    for note in _notes(points):
        out.print(Text(note, style="yellow"))
    if verdicts:
        out.print(_verdicts(verdicts))
    out.print()


def _table(experiment: Experiment, title: str, points: Sequence[Point]) -> Table:
    first = points[0].setting
    table = Table(title=title, caption=_fixed(experiment, first), box=box.SIMPLE_HEAD, title_justify="left")
    table.caption_justify = "left"
    table.add_column(experiment.axis or "k")
    table.add_column("algorithm", no_wrap=True)
    for heading in (
        "million arrivals/s",
        "µs per cycle",
        f"times {BASELINE}",
        "rows kept per query",
        "cells per query",
        "state, MB",
        "paper's words, MB",
        "from scratch per cycle",
        "scores per arrival",
        "cycles",
    ):
        table.add_column(heading, justify="right", max_width=10)
    for point in points:
        best = max((run.speed for run in point.runs.values()), default=0.0)
        for number, run in enumerate(point.runs.values()):
            value = f"{getattr(point.setting, experiment.axis or 'k'):,}" if number == 0 else ""
            table.add_row(value, *_cells(point, run), style="bold" if run.speed == best else "")
        table.add_section()
    return table


def _cells(point: Point, run: Run) -> Iterator[str]:
    ratio = point.ratio(run.algorithm, BASELINE)
    yield run.algorithm if run.served_by == run.algorithm else f"{run.algorithm} → {run.served_by}"
    yield f"{run.speed:.3g}" if run.speed < 100 else f"{run.speed:.0f}"
    yield f"{run.cycle_microseconds:,.0f}"
    yield f"{ratio:.2f}" if ratio is not None else "–"
    yield f"{run.kept_per_query:.1f}"
    yield f"{run.cells_per_query:.1f}"
    yield f"{run.state_bytes / 1e6:,.1f}"
    yield f"{point.paper_bytes(run) / 1e6:,.1f}"
    yield f"{run.recomputations_per_cycle:.1f}"
    yield f"{run.scores_per_arrival:,.1f}"
    yield f"{run.cycles}"


def _fixed(experiment: Experiment, s: Setting) -> str:
    """Say what does not vary."""
    varying = {"N": ("N", "r"), "d": ("d", "cells"), "": ("k",)}.get(experiment.axis, (experiment.axis,))
    fields = ("d", "N", "r", "Q", "k", "cells")
    parts = [f"{name}={getattr(s, name):,}" for name in fields if name not in varying]
    return f"{s.score}, {', '.join(parts)}; {s.cycles} cycles where time allowed"


def _table_2(points: Sequence[Point]) -> Table:
    table = Table(title="rows kept per query beside the paper's Table 2", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("data")
    table.add_column("k", justify="right")
    names = ("tsl", "sma")
    for name in names:
        for heading in (f"{name}, paper", f"{name}, ours", "difference"):
            table.add_column(heading, justify="right")
    for point in points:
        s = point.setting
        line = [s.data.upper(), str(s.k)]
        for name, paper in zip(names, TABLE_2[s.data][s.k], strict=True):
            run = point.runs.get(name)
            line.append(f"{paper:.1f}")
            line += [f"{run.kept_per_query:.1f}", f"{run.kept_per_query / paper - 1:+.1%}"] if run else ["–", "–"]
        table.add_row(*line)
    return table


def _notes(points: Sequence[Point]) -> Iterator[str]:
    skipped = {f"{name} was skipped: {why}": None for point in points for name, why in point.skipped.items()}
    yield from skipped
    runs = [run for point in points for run in point.runs.values()]
    share = sum(run.cpu_seconds for run in runs) / max(sum(run.seconds for run in runs), 1e-9)
    if share < BUSY:
        yield f"The processor worked for us {share:.0%} of the time on the clock: other work ran beside, timings are too slow."


def _verdicts(verdicts: Sequence[Verdict]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("target", "asked", "measured", ""):
        table.add_column(heading)
    for verdict in verdicts:
        word = Text("met", style="green") if verdict.met else Text("MISSED", style="bold red")
        table.add_row(verdict.what, verdict.target, verdict.measured, word)
    return table


def write_json(path: Path, about: dict[str, Any], points: Sequence[Point], verdicts: Sequence[Verdict]) -> None:
    """Write all that was measured; the file appears when it is complete."""
    content = {
        **about,
        "points": [
            {"setting": asdict(p.setting), "runs": [_plain(p, run) for run in p.runs.values()], "skipped": p.skipped}
            for p in points
        ],
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
