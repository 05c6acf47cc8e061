"""What ``topwatch demo`` watches: ten standing queries over a stream, pushed into a monitor frame by frame."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from topwatch.core.background_compiler import Progress, compiler
from topwatch.monitor.changes import Change, Entry
from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Nearest, Query, Threshold, TopK
from topwatch.query.scores import expr, linear, product, quadratic
from topwatch.query.windows import last

Batch = Mapping[str, Any]  # arrays by column

LONGEST_PUSH = 0.04  # seconds: a screen and Ctrl-C wait for no more than that
LARGEST_PUSH = 65_536
RECENT = 100  # changes, more than a screen can show
RATES = 120


@dataclass(frozen=True)
class QueryState:
    """A query and its answer at one moment."""

    query: Query
    algorithm: str
    changes: int
    answer: list[Entry]
    fresh: frozenset[Any]  # ids that were not in the answer of the frame before


@dataclass(frozen=True)
class Frame:
    """A stream at one moment; never changed once made, so that another thread may draw it."""

    seconds: float  # since the first push, which may have compiled
    rows: int
    rate: float  # rows per second, over the last second
    live: int
    changes: int
    bytes: int
    pruned: float  # share of all pairs of a row and a query that were never scored
    reached: float | None  # share of them in which the row reached the query's threshold
    queries: list[QueryState]
    recent: list[Change]  # newest first
    rates: list[float]
    compiled: Progress | None = None  # while kernels are interpreted, since they are being compiled


class Stream:
    """A monitor and the batches for it, pushed in pieces that take a moment each.

    Parameters
    ----------
    monitor : Monitor
        What the rows go to.
    batches : iterable of dicts of arrays
        The rows.
    rate : float or None
        Rows per second; None is as fast as it goes.
    """

    def __init__(self, monitor: Monitor, batches: Iterable[Batch], rate: float | None = None) -> None:
        self._monitor, self._batches, self._rate = monitor, batches, rate
        self._queries = {str(query.name): query for query in monitor.queries}
        self._algorithms = {one.query: one.algorithm for one in monitor.plan.queries}
        self._changes = dict.fromkeys(self._queries, 0)
        self._enters = 0  # of threshold queries, which keep no count of their own
        self._recent: deque[Change] = deque(maxlen=RECENT)
        self._rates: deque[float] = deque(maxlen=RATES)
        self._shown: dict[str, set[Any]] = {}
        self._rows = self._timed_rows = 0
        self._marks: deque[tuple[float, int]] = deque()  # moments of the last second, with the rows up to them
        self._began = self._then = time.monotonic()
        self._piece = 256

    def frames(
        self, period: float, seconds: float | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[Frame]:
        """Yield a frame after the first push, one every ``period`` seconds and one at the end.

        The end is that of the batches, or comes after ``seconds`` (compiling apart), or when ``stopped`` says so.
        """
        compiled = False
        for batch in self._batches:
            rows, index = _length(batch), 0
            while index < rows:
                index += self._push(batch, index)
                if not compiled:
                    compiled = True
                    yield self._frame()
                    self._start_clock()
                self._keep_pace()
                now = time.monotonic()
                if stopped() or (seconds is not None and now - self._began >= seconds):
                    yield self._frame()
                    return
                if now - self._then >= period:
                    yield self._frame()
        yield self._frame()

    def _push(self, batch: Batch, index: int) -> int:
        part = {column: values[index : index + self._piece] for column, values in batch.items()}
        count = _length(part)
        start = time.monotonic()
        changes = self._monitor.push(part)
        took = time.monotonic() - start
        self._rows += count
        self._timed_rows += count
        for change in changes:
            self._changes[change.query] += 1
            self._enters += change.op == "enter" and isinstance(self._queries[change.query], Threshold)
            self._recent.appendleft(change)
        piece = min(2 * self._piece, int(count * LONGEST_PUSH / max(took, 1e-9)), LARGEST_PUSH)
        if self._rate is not None:
            piece = min(piece, int(self._rate / 20))
        self._piece = max(1, piece)
        return count

    def _start_clock(self) -> None:
        self._began = self._then = time.monotonic()
        self._timed_rows = 0
        self._marks = deque([(self._began, self._rows)])
        self._rates.clear()

    def _keep_pace(self) -> None:
        if self._rate is not None:
            ahead = self._timed_rows / self._rate - (time.monotonic() - self._began)
            time.sleep(min(max(ahead, 0.0), 1.0))

    def _frame(self) -> Frame:
        now = time.monotonic()
        self._then = now
        self._marks.append((now, self._rows))
        while len(self._marks) > 2 and now - self._marks[1][0] >= 1.0:
            self._marks.popleft()
        spent = now - self._marks[0][0]
        rate = (self._rows - self._marks[0][1]) / spent if spent > 0 else 0.0
        self._rates.append(rate)
        stats = self._monitor.stats()
        pairs = max(1, self._rows * len(self._queries))
        return Frame(
            seconds=now - self._began,
            rows=self._rows,
            rate=rate,
            live=stats["live"],
            changes=sum(self._changes.values()),
            bytes=stats["bytes"],
            pruned=stats["pruned"] / pairs,
            reached=(stats["hits"] + self._enters) / pairs if "hits" in stats else None,
            queries=[self._query_state(name, query) for name, query in self._queries.items()],
            recent=list(self._recent),
            rates=list(self._rates),
            compiled=compiler.progress(),
        )

    def _query_state(self, name: str, query: Query) -> QueryState:
        answer = self._monitor.answer(name)
        ids = {entry.id for entry in answer}
        fresh = frozenset(ids - self._shown.get(name, ids))
        self._shown[name] = ids
        return QueryState(query, self._algorithms[name], self._changes[name], answer, fresh)


def _length(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def start(batches: Iterable[Batch], window: int, algorithm: str = "auto", rate: float | None = None) -> Stream:
    """Return a stream of rows with the columns x1, x2, x3 and x4, watched by ten queries over the newest ``window``."""
    rows: Iterator[Batch] = iter(batches)
    first = next(rows)
    monitor = Monitor(ten_queries(first), window=last(window), algorithm=algorithm, id=None)
    return Stream(monitor, itertools.chain([first], rows), rate)


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
