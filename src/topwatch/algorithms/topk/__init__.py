"""Top-k queries: the best rows by a score. One algorithm, one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.options import CELLS, KMAX, SLACK, Number, Share, Whole, Word
from topwatch.algorithms.registry import Algorithm, Request
from topwatch.query.queries import Query, Threshold
from topwatch.query.windows import Latest, Window

if TYPE_CHECKING:
    from topwatch.core.engine import Engine


def _standing(name: str, request: Request) -> Engine:
    """Make the engine of SIGMOD'06 with the design of an algorithm."""
    from topwatch.algorithms.topk.engine import Standing

    design = import_module(f"{__name__}.{name}").design(**request.options)
    return Standing(request.feed.window, request.axes, request.expected, design)


def _gliding(name: str, request: Request) -> Engine:
    """Make the engine of TODS'15 with the scheme of an algorithm."""
    from topwatch.algorithms.topk.skyband_engine import Gliding
    from topwatch.core.ring_window import RingWindow

    assert isinstance(request.feed.window, RingWindow)
    scheme = import_module(f"{__name__}.{name}").scheme(**request.options)
    return Gliding(request.feed.window, request.axes, request.expected, scheme)


def _tsl(name: str, request: Request) -> Engine:
    from topwatch.algorithms.topk.tsl import TSL

    return TSL(request.feed.window, request.axes, request.expected, **request.options)


def _thresholds(name: str, request: Request) -> Engine:
    from topwatch.algorithms.topk.threshold import Thresholds

    listed, per_axis = bool(request.axes), request.options.get("cells")
    return Thresholds(request.feed.window, request.axes, request.expected, listed=listed, per_axis=per_axis)


def _why_reserve(query: Query, window: Window, options: Mapping[str, Any]) -> str:
    """Return why ``reserve`` is chosen for a query that names no algorithm.

    Where a user allows errors, PA would be a choice too. It is not taken: at the defaults of TODS'15 ``reserve``, which
    is exact, was 2.7 times as fast with k = 9 and 1.7 times with k = 81.
    """
    if isinstance(query, Threshold):
        return "a threshold never moves: rows are routed to it and nothing is kept"
    if isinstance(window, Latest):
        return "it is exact under updates and deletions, and seldom computes from scratch"
    if "max_error" in options:
        return "it is exact, and faster than pa, for which you allow an error"
    return "it is exact, and none was clearly faster with 1 to 10,000 queries"


def _entry(
    name: str, make: Callable[[str, Request], Engine] = _standing, options: dict[str, Any] | None = None, **more: Any
) -> Algorithm:
    return Algorithm(name, partial(make, name), "topk", options or {}, **more)


_GRID = {"cells": CELLS}
_BUFFER, _RELAX = {"buffer": Whole()}, {"relax": Number(0, 100)}
_INDEX = {"index": Word(("auto", "grid", "none")), "cells": CELLS}
_LISTED: dict[str, Any] = {"latest": False, "lists": True}
_DIRECTED: dict[str, Any] = {"any_score": False, "own_grid": True}

ALGORITHMS = (
    _entry("scan", latest=False),
    _entry("tsl", _tsl, {"kmax": KMAX}, **_DIRECTED),
    _entry("tma", options=_GRID, **_DIRECTED),
    _entry("sma", options=_GRID, latest=False, **_DIRECTED),
    _entry(
        "reserve",
        options={**_GRID, "slack": SLACK, "route": Word(("auto", "lists", "scan"))},
        lists=True,
        preferred=1,
        reason=_why_reserve,
    ),
    _entry("sa", _gliding, latest=False),
    _entry("ra", _gliding, _RELAX, latest=False),
    _entry("pa", _gliding, {"sigma": Share(), "max_error": Share(), **_INDEX}, **_LISTED, exact=False),
    _entry("sasf", _gliding, {**_BUFFER, **_INDEX}, **_LISTED),
    _entry("sarf", _gliding, {**_BUFFER, **_RELAX, **_INDEX}, **_LISTED),
    _entry("sapf", _gliding, {**_BUFFER, **_INDEX}, **_LISTED),
    _entry("rasf", _gliding, {**_BUFFER, **_RELAX, **_INDEX}, **_LISTED),
    _entry("rarf", _gliding, {**_BUFFER, **_RELAX, **_INDEX}, **_LISTED),
    _entry("rapf", _gliding, {**_BUFFER, **_RELAX, **_INDEX}, **_LISTED),
    _entry("cpm", options=_GRID, **_DIRECTED),
    _entry("snn", options=_GRID, latest=False, **_DIRECTED),
)

# Answers the threshold queries of all algorithms that do not answer them themselves.
THRESHOLDS = _entry("thresholds", _thresholds, _GRID)
