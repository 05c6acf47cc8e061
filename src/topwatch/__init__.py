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
    from topwatch.algorithms.registry import Algorithm as Algorithm
    from topwatch.algorithms.registry import register_algorithm as register_algorithm
    from topwatch.monitor.changes import Answer as Answer
    from topwatch.monitor.changes import Change as Change
    from topwatch.monitor.changes import Changes as Changes
    from topwatch.monitor.changes import Entry as Entry
    from topwatch.monitor.monitor import Monitor as Monitor
    from topwatch.query.errors import DataError as DataError
    from topwatch.query.errors import PipelineError as PipelineError
    from topwatch.query.errors import PlanError as PlanError
    from topwatch.query.errors import QueryError as QueryError
    from topwatch.query.errors import TopwatchError as TopwatchError
    from topwatch.query.queries import Dominating as Dominating
    from topwatch.query.queries import FrequentSkyline as FrequentSkyline
    from topwatch.query.queries import IncompleteTopK as IncompleteTopK
    from topwatch.query.queries import Nearest as Nearest
    from topwatch.query.queries import Skyline as Skyline
    from topwatch.query.queries import Threshold as Threshold
    from topwatch.query.queries import TopK as TopK
    from topwatch.query.scores import distance as distance
    from topwatch.query.scores import expr as expr
    from topwatch.query.scores import linear as linear
    from topwatch.query.scores import product as product
    from topwatch.query.scores import quadratic as quadratic
    from topwatch.query.windows import last as last
    from topwatch.query.windows import latest as latest

__version__ = "0.1.0"

# Imported when they are asked for: a device that runs an agent has neither Numba nor Spark.
_NAMES_OF = {
    "algorithms.registry": ("Algorithm", "register_algorithm"),
    "monitor.changes": ("Answer", "Change", "Changes", "Entry"),
    "query.errors": ("DataError", "PipelineError", "PlanError", "QueryError", "TopwatchError"),
    "monitor.monitor": ("Monitor",),
    "query.queries": ("Dominating", "FrequentSkyline", "IncompleteTopK", "Nearest", "Skyline", "Threshold", "TopK"),
    "query.scores": ("distance", "expr", "linear", "product", "quadratic"),
    "query.windows": ("last", "latest"),
}
_SUBMODULES = {"spark": "topwatch.spark", "skyline": "topwatch.edge.protocol"}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        result = getattr(importlib.import_module(f"topwatch.{_MODULE_OF[name]}"), name)
    elif name in _SUBMODULES:
        result = importlib.import_module(_SUBMODULES[name])
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = result
    return result


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES, "__version__"])
