"""Queries that count dominated rows: one algorithm, one file."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.options import CELLS, MOST_ROWS, SLACK, Flag, Share, Whole
from topwatch.algorithms.registry import Algorithm, Request

if TYPE_CHECKING:
    from topwatch.core.engine import Engine


def _make(name: str, request: Request) -> Engine:
    from topwatch.core.per_query_engine import Contests

    design = import_module(f"{__name__}.{name}").design(**request.options)
    return Contests(request.feed.window, request.expected, design)


def _entry(name: str, options: dict[str, Any] | None = None, **more: Any) -> Algorithm:
    return Algorithm(name, partial(_make, name), "dominating", options or {}, **more)


_EVENTS = {"cells": CELLS, "near": Whole(), "maxcand": Whole(MOST_ROWS), "kept": Share(ends=True)}
_BY_EVENTS: dict[str, Any] = {"latest": False, "most_columns": 16}

ALGORITHMS = (
    _entry("bfa", preferred=1, reason="it serves any number of columns"),
    _entry("eva", {"cells": CELLS}, **_BY_EVENTS),
    _entry("ada", {**_EVENTS, "suffix": Flag()}, **_BY_EVENTS),
    _entry("ahba", {**_EVENTS, "epsilon": Share(), "delta": Share()}, **_BY_EVENTS, exact=False, rough=1),
    _entry("amsa", _EVENTS, **_BY_EVENTS, exact=False, rough=2),
    _entry(
        "floor",
        {"cells": CELLS, "slack": SLACK},
        most_columns=16,
        preferred=2,
        reason="it is exact, and looks only at rows that can reach the k-th score",
    ),
)
