"""Pushes a stream into a monitor and says now and then how things stand."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topwatch.monitor.changes import Change, Entry
from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Query, Threshold

LONGEST_PUSH = 0.04  # seconds: a screen and Ctrl-C wait for no more than that
LARGEST_PUSH = 65_536
RECENT = 100  # changes, more than a screen can show
RATES = 120


@dataclass(frozen=True)
class Standing:
    """A query at one moment."""

    query: Query
    algorithm: str
    changes: int
    answer: list[Entry]
    fresh: frozenset[Any]  # ids that were not in the answer of the frame before


@dataclass(frozen=True)
class Frame:
    """How things stand at one moment; never changed once made, so that another thread may draw it."""

    seconds: float  # since the first push, which may have compiled
    rows: int
    rate: float  # rows per second, over the last second
    live: int
    changes: int
    bytes: int
    pruned: float  # share of all pairs of a row and a query that were never scored
    reached: float | None  # share of them in which the row reached the query's threshold
    queries: list[Standing]
    recent: list[Change]  # newest first
    rates: list[float]


class Stream:
    """A monitor and the batches for it, pushed in pieces that take a moment each.

    Parameters
    ----------
    monitor : Monitor
        What the rows go to.
    queries : sequence of queries
        The monitor's queries, each with a name.
    batches : iterable of dicts of arrays
        The rows.
    rate : float or None
        Rows per second; None is as fast as it goes.
    """

    def __init__(
        self,
        monitor: Monitor,
        queries: Sequence[Query],
        batches: Iterable[Mapping[str, Any]],
        rate: float | None = None,
    ) -> None:
        self._monitor, self._batches, self._rate = monitor, batches, rate
        self._queries = {str(query.name): query for query in queries}
        self._algorithms = dict(_read_plan(line) for line in monitor.explain().splitlines()[1:])
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

    def _push(self, batch: Mapping[str, Any], index: int) -> int:
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
            queries=[self._standing(name, query) for name, query in self._queries.items()],
            recent=list(self._recent),
            rates=list(self._rates),
        )

    def _standing(self, name: str, query: Query) -> Standing:
        answer = self._monitor.answer(name)
        ids = {entry.id for entry in answer}
        fresh = frozenset(ids - self._shown.get(name, ids))
        self._shown[name] = ids
        return Standing(query, self._algorithms[name], self._changes[name], answer, fresh)


def _read_plan(line: str) -> tuple[str, str]:
    """Read ``name: algorithm – reason``, a line of :meth:`Monitor.explain`."""
    name, _, rest = line.partition(": ")
    return name, rest.partition(" ")[0]


def _length(batch: Mapping[str, Any]) -> int:
    return len(next(iter(batch.values())))
