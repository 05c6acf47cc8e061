"""Pictures of an experiment, where matplotlib is installed: a curve per algorithm, versions below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import machine
from benchmarks.measure import Point, Run
from benchmarks.report import fixed, panels
from benchmarks.sigmod2006 import Experiment
from benchmarks.workload import algorithms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours of Okabe and Ito, which most readers can tell apart; markers for grey paper.
STYLES = [
    ("#000000", "o"),
    ("#D55E00", "s"),
    ("#E69F00", "^"),
    ("#0072B2", "D"),
    ("#009E73", "v"),
    ("#CC79A7", "P"),
    ("#56B4E9", "X"),
]

Styles = dict[str, tuple[str, str]]


class Measure(NamedTuple):
    """What a panel shows of a run."""

    label: str
    value: Callable[[Run], float]


SPEED = Measure("million arrivals per second", lambda run: run.speed)
STATE = Measure("state, MB", lambda run: run.state_bytes / 1e6)


def draw(path: Path, experiment: Experiment, points: Sequence[Point]) -> bool:
    """Write a PNG; return False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    measured = {name for point in points for name in point.runs if name != "auto"}
    styles = {name: STYLES[i % len(STYLES)] for i, name in enumerate(algorithms()) if name in measured}
    parts = panels(points) if experiment.axis else {"": list(points)}
    shown = [SPEED, STATE] if experiment.shows_state else [SPEED]
    contents = [(title, part, what) for what in shown for title, part in parts.items()]
    across = min(2, len(contents))
    down = -(-len(contents) // across)
    width = 1.4 + 4.6 * across if experiment.axis else 9.0
    figure = Figure(figsize=(width, 1.2 + 3.2 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharey="row" if len(parts) > 1 else False)
    for axes, (title, part, what) in zip(grid.flat, contents, strict=True):
        _scale(axes, [what.value(run) for point in points for run in point.runs.values()])
        if experiment.axis:
            _curves(axes, experiment.axis, part, styles, what)
        else:
            _bars(axes, part, styles, what)
        axes.set_title(title, fontsize=10)
        if axes.get_subplotspec().is_first_col() or len(parts) == 1:
            axes.set_ylabel(what.label)
        axes.grid(True, axis="y", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    figure.suptitle(f"SIGMOD'06: {experiment.title}", fontsize=12)
    figure.supxlabel(f"{fixed(experiment, points[0].setting)}\n{machine.legend()}", fontsize=7, color="#444444")
    figure.savefig(path, dpi=130)
    return True


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """Set a log axis with plain numbers, three to a decade where there are few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = min(values), max(values)
    axes.set_yscale("log")
    axes.set_ylim(low / 1.5, high * 1.5)
    few = high / low < 1000
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _curves(axes: Axes, axis: str, points: Sequence[Point], styles: Styles, what: Measure) -> None:
    def series(name: str) -> tuple[list[int], list[float]]:
        have = [point for point in points if name in point.runs]
        return [getattr(p.setting, axis) for p in have], [what.value(p.runs[name]) for p in have]

    for name, (colour, marker) in styles.items():
        axes.plot(*series(name), color=colour, marker=marker, markersize=5, linewidth=1.4, label=name)
    if any("auto" in point.runs for point in points):
        axes.plot(*series("auto"), "o", color="#888888", markersize=11, markerfacecolor="none", label="auto")
    xs = [getattr(point.setting, axis) for point in points]
    if max(xs) > 5 * min(xs):
        axes.set_xscale("log")
    axes.set_xticks(xs, [_short(x) for x in xs])
    axes.minorticks_off()
    axes.set_xlabel(axis)


def _bars(axes: Axes, points: Sequence[Point], styles: Styles, what: Measure) -> None:
    width = 0.86 / len(styles)
    for number, (name, (colour, _)) in enumerate(styles.items()):
        have = [(index, point.runs[name]) for index, point in enumerate(points) if name in point.runs]
        left = [index + (number + 0.5) * width - 0.43 for index, _ in have]
        drawn = axes.bar(left, [what.value(run) for _, run in have], width=0.94 * width, color=colour, label=name)
        axes.bar_label(drawn, fmt="%.2g", fontsize=8, padding=1)
    axes.set_xticks(range(len(points)), [f"{p.setting.data.upper()}, k={p.setting.k}" for p in points])


def _short(number: int) -> str:
    """Write a tick.

    >>> _short(12), _short(5000), _short(1_000_000)
    ('12', '5K', '1M')
    """
    for size, letter in ((1_000_000, "M"), (1000, "K")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return str(number)
