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
from types import ModuleType

from topwatch.changes import Answer, Change, Changes, Entry
from topwatch.errors import DataError, PlanError, QueryError, TopwatchError
from topwatch.monitor import Monitor
from topwatch.queries import Dominating, FrequentSkyline, Nearest, Skyline, Threshold, TopK
from topwatch.scoring import distance, expr, linear, product, quadratic
from topwatch.windows import last, latest

__version__ = "0.1.0"


def __getattr__(name: str) -> ModuleType:
    if name == "spark":  # imported when it is asked for: most users have no Spark
        return importlib.import_module("topwatch.spark")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Answer",
    "Change",
    "Changes",
    "DataError",
    "Dominating",
    "Entry",
    "FrequentSkyline",
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
]
