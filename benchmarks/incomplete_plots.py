"""A picture of what is retained against the window, where matplotlib is installed: Fig. 5(a) of CIKM'09."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import machine
from benchmarks.cikm2009 import Setting
from benchmarks.plots import STYLES


def draw(path: Path, settings: Sequence[Setting], curves: Mapping[str, Sequence[float]]) -> bool:
    """Write a PNG; return False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    windows = [setting.W for setting in settings]
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    for (name, values), (colour, marker) in zip(curves.items(), STYLES, strict=False):
        axes.plot(windows, values, color=colour, marker=marker, markersize=5, linewidth=1.4, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(windows, [f"{window:,}" for window in windows])
    axes.minorticks_off()
    axes.set_xlabel("window W, rows")
    axes.set_ylabel("retained")
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    s = settings[0]
    figure.suptitle("CIKM'09: retained rows and instances", fontsize=12)
    figure.supxlabel(
        f"{s.streams} streams, k={s.k}, ξ={s.xi:g}, C={s.C}\n{machine.legend()}", fontsize=7, color="#444444"
    )
    figure.savefig(path, dpi=130)
    return True
