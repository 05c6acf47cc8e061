"""topwatch watches the top of a stream: standing queries whose answers are kept right, row by row.

Examples
--------
>>> import topwatch as tw
>>> m = tw.Monitor(tw.TopK(k=2, score=tw.linear(bytes=1.0), name="hot"), window=tw.last(3))
>>> changes = m.push({"id": ["a", "b", "c", "d"], "bytes": [10.0, 30.0, 20.0, 5.0]})
>>> m.answer()
[Entry(id='b', score=30.0), Entry(id='c', score=20.0)]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topwatch.algorithms.registry import Algorithm, register_algorithm
    from topwatch.monitor.changes import Answer, Change, Changes, Entry
    from topwatch.monitor.monitor import Monitor
    from topwatch.query.errors import DataError, PlanError, QueryError, TopwatchError
    from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Skyline, Threshold, TopK
    from topwatch.query.scores import distance, expr, linear, product, quadratic
    from topwatch.query.windows import last, latest

__version__ = "0.1.0"

# Imported when they are asked for: a device that runs an agent has neither Numba nor Spark.
_HOMES = {
    "algorithms.registry": ("Algorithm", "register_algorithm"),
    "monitor.changes": ("Answer", "Change", "Changes", "Entry"),
    "query.errors": ("DataError", "PipelineError", "PlanError", "QueryError", "TopwatchError"),
    "monitor.monitor": ("Monitor",),
    "query.queries": ("Dominating", "FrequentSkyline", "IncompleteTopK", "Nearest", "Skyline", "Threshold", "TopK"),
    "query.scores": ("distance", "expr", "linear", "product", "quadratic"),
    "query.windows": ("last", "latest"),
}
_MODULES = {"spark": "topwatch.spark", "skyline": "topwatch.edge.protocol"}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        result = getattr(importlib.import_module(f"topwatch.{_HOME_OF[name]}"), name)
    elif name in _MODULES:
        result = importlib.import_module(_MODULES[name])
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = result
    return result


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "Algorithm",
    "Answer",
    "Change",
    "Changes",
    "DataError",
    "Dominating",
    "Entry",
    "FrequentSkyline",
    "IncompleteTopK",
    "Monitor",
    "Nearest",
    "PlanError",
    "QueryError",
    "Skyline",
    "Threshold",
    "TopK",
    "TopwatchError",
    "distance",
    "expr",
    "last",
    "latest",
    "linear",
    "product",
    "quadratic",
    "register_algorithm",
]
