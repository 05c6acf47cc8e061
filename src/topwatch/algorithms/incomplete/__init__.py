"""Top-k queries over objects whose parts come in rows of their own (CIKM 2009)."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from topwatch.algorithms.options import KMAX, MOST_ROWS, SLACK, Flag, Whole
from topwatch.algorithms.registry import Algorithm, Request

if TYPE_CHECKING:
    from topwatch.core.engine import Engine


def _make(name: str, request: Request) -> Engine:
    from topwatch.algorithms.incomplete.engine import IncompleteEngine
    from topwatch.core.fifo import FifoFeed

    assert isinstance(request.feed, FifoFeed)
    return IncompleteEngine(request.feed, import_module(f"{__name__}.{name}").design(**request.options))


def _entry(name: str, options: dict[str, Any], **more: Any) -> Algorithm:
    return Algorithm(name, partial(_make, name), "incomplete", options, latest=False, **more)


_SWEPT = {"slack": SLACK, "sweep": Whole()}

ALGORITHMS = (
    _entry("sla", {"kmax": KMAX, "view": Flag()}),
    _entry("eaa", _SWEPT, bounded=True),
    _entry(
        "approx",
        {**_SWEPT, "bitmaps": Whole(MOST_ROWS, power_of_two=True)},
        bounded=True,
        most_sources=10,
        exact=False,
    ),
    _entry("tally", {"slack": SLACK}, preferred=1, reason="it is exact, and a row costs it one score"),
)
