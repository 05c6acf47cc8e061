"""Skylines: the rows that no other dominates, and those that are often among them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.options import Seed, Share
from topwatch.algorithms.registry import Algorithm, Request
from topwatch.query.queries import FrequentSkyline, Query
from topwatch.query.windows import Latest, Window

if TYPE_CHECKING:
    from topwatch.core.engine import Engine


def _make(name: str, request: Request) -> Engine:
    from topwatch.core.engine import PerQueryEngine

    design = getattr(import_module(f"{__name__}.{name}"), name)(**request.options)
    return PerQueryEngine(request.feed.window, request.expected, design)


def _entry(name: str, options: dict[str, Any] | None = None, **more: Any) -> Algorithm:
    return Algorithm(name, partial(_make, name), "skyline", options or {}, **more)


def _why_witness(query: Query, window: Window, options: Mapping[str, Any]) -> str:
    if isinstance(window, Latest):
        return "a dominated row waits until the one that dominates it is gone"
    return "it drops rows that a newer one dominates, and the others wait until their last dominator expires"


def _sampled(query: Query) -> str:
    if isinstance(query, FrequentSkyline):
        return ""
    return "it counts over some of many snapshots, and the query asks for each"


ALGORITHMS = (
    _entry("witness", preferred=1, reason=_why_witness),
    _entry("sampling", {"epsilon": Share(), "delta": Share(), "seed": Seed()}, exact=False, refuses=_sampled),
)
