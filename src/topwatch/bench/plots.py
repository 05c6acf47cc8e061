"""Pictures of an experiment, where matplotlib is installed: a curve per algorithm, versions below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from topwatch.bench import machine
from topwatch.bench.measure import Point, Run
from topwatch.bench.report import panels
from topwatch.bench.sigmod2006 import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart by readers who do not see all colours (Okabe and Ito), and by marker in grey.
STYLES = [
    ("#000000", "o"),
    ("#D55E00", "s"),
    ("#E69F00", "^"),
    ("#0072B2", "D"),
    ("#009E73", "v"),
    ("#CC79A7", "P"),
    ("#56B4E9", "X"),
]
SPEED = "million arrivals per second"
STATE = "state, MB"


def draw(path: Path, experiment: Experiment, points: Sequence[Point]) -> bool:
    """Write a PNG; return False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    names = list(dict.fromkeys(name for point in points for name in point.runs if name != "auto"))
    styles = {name: STYLES[i % len(STYLES)] for i, name in enumerate(names)}
    parts = panels(points) if experiment.axis else {"": list(points)}
    across = min(len(parts), 2)
    kinds: list[tuple[str, Callable[[Run], float]]] = [(SPEED, lambda run: run.speed)]
    if experiment.shows_state:
        kinds.append((STATE, lambda run: run.state_bytes / 1e6))
    if len(parts) == 1 and len(kinds) > 1:
        across = len(kinds)
    cells = [(title, part, label, value) for label, value in kinds for title, part in parts.items()]
    down = -(-len(cells) // across)
    figure = Figure(figsize=(1.6 + 4.6 * across, 1.3 + 3.4 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharey="row" if len(kinds) == 1 else False)
    for axes, (title, part, label, value) in zip(grid.flat, cells, strict=True):
        if experiment.axis:
            _curves(axes, experiment.axis, part, styles, value)
            axes.set_xlabel(experiment.axis)
        else:
            _bars(axes, part, styles, value)
        axes.set_title(title, fontsize=10)
        axes.set_ylabel(label)
        axes.set_yscale("log")
        axes.grid(True, which="major", axis="y", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
    s = points[0].setting
    figure.suptitle(f"SIGMOD'06: {experiment.title}", fontsize=12)
    figure.supxlabel(f"N={s.N:,}  r={s.r:,}  Q={s.Q:,}  d={s.d}  k={s.k} where not varied\n{machine.legend()}", fontsize=7)
    figure.savefig(path, dpi=150)
    return True


def _curves(
    axes: Axes,
    axis: str,
    points: Sequence[Point],
    styles: dict[str, tuple[str, str]],
    value: Callable[[Run], float],
) -> None:
    xs = [getattr(point.setting, axis) for point in points]
    for name, (colour, marker) in styles.items():
        at = [(x, value(point.runs[name])) for x, point in zip(xs, points, strict=True) if name in point.runs]
        axes.plot(*zip(*at, strict=True), color=colour, marker=marker, markersize=5, linewidth=1.4, label=name)
    chosen = [(x, value(point.runs["auto"])) for x, point in zip(xs, points, strict=True) if "auto" in point.runs]
    if chosen:
        style = {"linestyle": "none", "marker": "o", "markersize": 11, "markerfacecolor": "none"}
        axes.plot(*zip(*chosen, strict=True), color="#888888", label="auto", **style)
    if max(xs) > 5 * min(xs):
        axes.set_xscale("log")
    axes.set_xticks(xs, [_short(x) for x in xs])
    axes.minorticks_off()


def _bars(
    axes: Axes, points: Sequence[Point], styles: dict[str, tuple[str, str]], value: Callable[[Run], float]
) -> None:
    width = 0.85 / len(styles)
    for number, (name, (colour, _)) in enumerate(styles.items()):
        at = [(i + (number + 0.5) * width - 0.425, value(p.runs[name])) for i, p in enumerate(points) if name in p.runs]
        bars = axes.bar(*zip(*at, strict=True), width=width, color=colour, label=name)
        axes.bar_label(bars, fmt="%.3g", fontsize=7, padding=1)
    places = [f"{point.setting.data.upper()}, k={point.setting.k}" for point in points]
    axes.set_xticks(range(len(points)), places)


def _short(number: int) -> str:
    """Write a tick.

    >>> _short(12), _short(5000), _short(1_000_000)
    ('12', '5K', '1M')
    """
    for size, letter in ((1_000_000, "M"), (1000, "K")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return str(number)
