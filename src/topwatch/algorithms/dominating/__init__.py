"""Top-k dominating queries: the rows that dominate the most others."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.options import CELLS, MOST_ROWS, SLACK, Flag, Share, Whole
from topwatch.algorithms.registry import Algorithm, Request

if TYPE_CHECKING:
    from topwatch.core.engine import Engine


def _make(module: str, name: str, request: Request) -> Engine:
    from topwatch.core.engine import PerQueryEngine

    design = getattr(import_module(f"{__name__}.{module}"), name)(**request.options)
    return PerQueryEngine(request.feed.window, request.expected, design)


def _entry(module: str, name: str, options: dict[str, Any] | None = None, **more: Any) -> Algorithm:
    return Algorithm(name, partial(_make, module, name), "dominating", options or {}, **more)


_EVENTS = {"cells": CELLS, "near": Whole(), "maxcand": Whole(MOST_ROWS), "kept": Share(ends=True)}
_BY_EVENTS: dict[str, Any] = {"latest": False, "most_columns": 16}

ALGORITHMS = (
    _entry("bfa", "bfa", preferred=1, reason="it serves any number of columns"),
    _entry("safe_intervals", "eva", {"cells": CELLS}, **_BY_EVENTS),
    _entry("safe_intervals", "ada", {**_EVENTS, "suffix": Flag()}, **_BY_EVENTS),
    _entry(
        "safe_intervals", "ahba", {**_EVENTS, "epsilon": Share(), "delta": Share()}, **_BY_EVENTS, exact=False, rough=1
    ),
    _entry("safe_intervals", "amsa", _EVENTS, **_BY_EVENTS, exact=False, rough=2),
    _entry(
        "floor",
        "floor",
        {"cells": CELLS, "slack": SLACK},
        most_columns=16,
        preferred=2,
        reason="it is exact, and looks only at rows that can reach the k-th score",
    ),
)
