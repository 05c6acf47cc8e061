"""What ``topwatch demo`` watches: ten standing queries of all kinds over four columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from topwatch.live.frames import Stream
from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Nearest, Query, Threshold, TopK
from topwatch.query.scores import expr, linear, product, quadratic
from topwatch.query.windows import last

Batch: TypeAlias = Mapping[str, NDArray[np.float64]]


def start(batches: Iterable[Batch], window: int, algorithm: str = "auto", rate: float | None = None) -> Stream:
    """Return a stream of rows with the columns x1, x2, x3 and x4, watched by ten queries over the newest ``window``."""
    rows: Iterator[Batch] = iter(batches)
    first = next(rows)
    queries = ten_queries(first)
    monitor = Monitor(queries, window=last(window), algorithm=algorithm, id=None)
    return Stream(monitor, queries, itertools.chain([first], rows), rate)


def ten_queries(sample: Batch) -> list[Query]:
    """Return the queries, given some rows: the threshold is set so that about one row in twenty thousand passes it.

    >>> queries = ten_queries({column: np.linspace(0, 1, 20_001) for column in ("x1", "x2", "x3", "x4")})
    >>> len(queries), queries[-1].above
    (10, 1.999)
    """
    alarm = linear(x1=1, x3=1)
    above = np.quantile(alarm.evaluate(sample), 0.99995)
    return [
        TopK(k=5, score=linear(x1=0.7, x2=0.3), name="weighted"),
        TopK(k=20, score=linear(x1=1, x2=1, x3=1, x4=1), name="all-round"),
        TopK(k=1, score=linear(x3=1, x4=-1), name="contrast"),
        TopK(k=5, score=linear(x2=1, x4=1), where={"x1": (0.4, 0.6)}, name="mid-range"),
        TopK(k=10, score=product(x1=0.1, x2=0.4), name="balanced"),
        TopK(k=10, score=quadratic(x3=1, x4=0.2), name="squares"),
        TopK(k=5, score=expr("x1 / (1 + x2)", increasing=["x1"], decreasing=["x2"]), name="ratio"),
        Nearest(k=5, point={"x1": 0.5, "x2": 0.5}, name="centre"),
        Nearest(k=10, point={"x3": 0.8, "x4": 0.2}, name="spot"),
        Threshold(score=alarm, above=math.floor(1000 * above) / 1000, name="alarm"),
    ]
