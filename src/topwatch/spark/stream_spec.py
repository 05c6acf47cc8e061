"""What a watched stream is: all that executors need to know, frozen and picklable."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from topwatch.monitor.monitor import Monitor
from topwatch.monitor.query_fields import describe_query, describe_window
from topwatch.query.queries import IncompleteTopK, Query
from topwatch.query.windows import LastRows, Window

# What the state depends on beside queries, window and options.
_MEANING = ("every", "algorithm", "id", "time", "by", "order", "types", "emit", "pruned", "watermark")


@dataclass(frozen=True)
class Spec:
    """A watched stream.

    Attributes
    ----------
    queries : tuple of queries
        Each with a name.
    columns : tuple of str
        Numeric columns that the queries read.
    by : tuple of str
        Columns whose values have their own windows and answers.
    order : tuple of str
        Columns that order rows as their source had them; after these, a row's place in its partition.
    watermark : bool
        Rows wait until Spark's watermark has passed their time, so that they may come out of order.
    buckets : tuple of int
        Numbers of the state groups, each in a partition of its own.
    segments, quarantine : str or None
        Folders.
    run : str
        Drawn once for each call of ``watch``: Python workers share what they keep in memory within it only.
    types : tuple of str
        Of the groups, the id, the time and the order, in Spark's words.
    """

    queries: tuple[Query, ...]
    window: Window
    every: int | str | datetime.timedelta
    algorithm: str
    options: Mapping[str, Any]
    id: str
    time: str | None
    by: tuple[str, ...]
    columns: tuple[str, ...]
    order: tuple[str, ...]
    emit: Literal["changes", "answers", "first"]
    watermark: bool
    buckets: tuple[int, ...]
    segments: str | None
    quarantine: str | None = None
    retain: int = 100  # how many past versions of the state can come back
    stamped: bool = False  # times are timestamps
    schema: Any = None  # of the result, in Arrow's words
    pruned: bool = False  # rows that cannot be an answer are dropped before the shuffle
    run: str = ""
    types: tuple[str, ...] = ()

    def monitor(self) -> Monitor:
        """Make a monitor for one group of rows."""
        return Monitor(
            list(self.queries),
            window=self.window,
            every=self.every,
            algorithm=self.algorithm,
            id=self.id,
            time=self.time,
            emit="first" if self.emit == "first" else "changes",
            **self.options,
        )

    def fingerprint(self) -> str:
        """Return a few letters that differ when the state would mean something else."""
        meaning = {
            "queries": [{**describe_query(query), "name": query.name} for query in self.queries],
            "window": describe_window(self.window),
            "options": dict(self.options),
            **{name: str(getattr(self, name)) for name in _MEANING},
        }
        return hashlib.sha256(json.dumps(meaning, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def replayable(self) -> int:
        """How many of the last rows say all about the state: as many as a window and two evaluations span; 0: none do.

        Rows that can be late are not among them, since what was late once may not be late at the beginning of a replay.
        Nor are those that are reported once: more of them would be answers while the window fills again. Nor those of
        IncompleteTopK: a row may be refused for one that has gone since.
        """
        if self.emit == "first" or any(isinstance(query, IncompleteTopK) for query in self.queries):
            return 0
        if self.by or self.time is not None or not isinstance(self.window, LastRows) or not isinstance(self.every, int):
            return 0
        return self.window.rows + 2 * self.every

    @property
    def carried(self) -> list[str]:
        """Return the columns that travel: groups, id, time, order and scores, each once."""
        named = [*self.by, self.id, *([self.time] if self.time else []), *self.order, *self.columns]
        return list(dict.fromkeys(named))

    @property
    def only_order(self) -> list[str]:
        """Return the columns that say in which order rows came, and nothing else."""
        needed = {*self.by, self.id, self.time, *self.columns}
        return [name for name in self.order if name not in needed]
