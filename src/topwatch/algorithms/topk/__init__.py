"""Top-k queries: the best rows by a score. The registry's entries of the algorithms that serve them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.options import CELLS, KMAX, SLACK, Number, Share, Whole, Word
from topwatch.algorithms.registry import Algorithm, GroupedRequest, Request
from topwatch.query.queries import Query, Threshold
from topwatch.query.windows import Latest, Window

if TYPE_CHECKING:
    from topwatch.core.engine import Engine


def _standing_engine(name: str, request: Request) -> Engine:
    """Make the engine of SIGMOD'06 with the design of an algorithm."""
    from topwatch.algorithms.topk import designs
    from topwatch.algorithms.topk.engine import StandingEngine

    design = getattr(designs, name)(**request.options)
    return StandingEngine(request.feed.window, request.axes, request.expected, design)


def _skyband_engine(name: str, request: Request) -> Engine:
    """Make the engine of TODS'15 with the scheme of an algorithm."""
    from topwatch.algorithms.topk import schemes
    from topwatch.algorithms.topk.skyband_engine import SkybandEngine
    from topwatch.core.fifo import RingWindow

    assert isinstance(request.feed.window, RingWindow)
    scheme = getattr(schemes, name)(**request.options)
    return SkybandEngine(request.feed.window, request.axes, request.expected, scheme)


def _tsl(name: str, request: Request) -> Engine:
    from topwatch.algorithms.topk.tsl import TSL

    return TSL(request.feed.window, request.axes, request.expected, **request.options)


def _thresholds(name: str, request: Request) -> Engine:
    from topwatch.algorithms.topk.threshold import ThresholdEngine

    listed, per_axis = bool(request.axes), request.options.get("cells")
    return ThresholdEngine(request.feed.window, request.axes, request.expected, listed=listed, per_axis=per_axis)


def _only_thresholds(query: Query) -> str:
    return "" if isinstance(query, Threshold) else "it serves queries with a fixed threshold"


def _in_groups(request: GroupedRequest) -> Any:
    from topwatch.algorithms.topk.grouped_engine import GroupedEngine

    return GroupedEngine(*request)


def _why_reserve(query: Query, window: Window, options: Mapping[str, Any]) -> str:
    """Return why ``reserve`` is chosen for a query that names no algorithm.

    Where a user allows errors, PA would be a choice too. It is not taken: at the defaults of TODS'15 ``reserve``, which
    is exact, was 2.7 times as fast with k = 9 and 1.7 times with k = 81.
    """
    if isinstance(window, Latest):
        return "it is exact under updates and deletions, and seldom computes from scratch"
    if "max_error" in options:
        return "it is exact, and faster than pa, for which you allow an error"
    return "it is exact, and none was clearly faster with 1 to 10,000 queries"


def _entry(
    name: str,
    make: Callable[[str, Request], Engine] = _standing_engine,
    options: dict[str, Any] | None = None,
    **more: Any,
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
        satisfies={"max_error": Share()},
        grouped=_in_groups,
    ),
    _entry("sa", _skyband_engine, latest=False),
    _entry("ra", _skyband_engine, _RELAX, latest=False),
    _entry("pa", _skyband_engine, {"sigma": Share(), "max_error": Share(), **_INDEX}, **_LISTED, exact=False),
    _entry("sasf", _skyband_engine, {**_BUFFER, **_INDEX}, **_LISTED),
    _entry("sarf", _skyband_engine, {**_BUFFER, **_RELAX, **_INDEX}, **_LISTED),
    _entry("sapf", _skyband_engine, {**_BUFFER, **_INDEX}, **_LISTED),
    _entry("rasf", _skyband_engine, {**_BUFFER, **_RELAX, **_INDEX}, **_LISTED),
    _entry("rarf", _skyband_engine, {**_BUFFER, **_RELAX, **_INDEX}, **_LISTED),
    _entry("rapf", _skyband_engine, {**_BUFFER, **_RELAX, **_INDEX}, **_LISTED),
    _entry("cpm", options=_GRID, **_DIRECTED),
    _entry("snn", options=_GRID, latest=False, **_DIRECTED),
    _entry(
        "thresholds",
        _thresholds,
        _GRID,
        internal=True,
        lists=True,
        refuses=_only_thresholds,
        preferred=1,
        reason="a threshold never moves: rows are routed to it and nothing is kept",
    ),
)
