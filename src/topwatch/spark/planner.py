"""What a watched frame is, and how it is served: the frozen specification that executors get, and its plan.

A monitor plans which algorithm serves which query. Here the rest is planned, for ``watch`` and for a pipeline file
alike: whether rows are pruned before the shuffle (:mod:`topwatch.spark.operator.pruning`), where rows are pushed and
where the state is kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from topwatch.algorithms.registry import entry_of, is_registered
from topwatch.monitor.planner import Operator, PhysicalPlan, is_derived
from topwatch.query.errors import PlanError, QueryError
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, TopK
from topwatch.query.windows import LastRows

if TYPE_CHECKING:
    from topwatch.monitor.monitor import Monitor
    from topwatch.monitor.stream_settings import Settings
    from topwatch.spark.state.segments import Folder

Emit = Literal["changes", "answers", "first"]

EMITS = ("changes", "answers", "first")
SHARE = 0.25  # of rows may be left by pruning; where more are, keeping them all costs less
STREAM: Operator = "transformWithStateInPandas"
TABLE: Operator = "sorted partitions"
NO_FOLDER = "no folder that all executors share is given (segments=, or checkpoint in a pipeline)"


@dataclass(frozen=True)
class Spec:
    """A watched frame.

    Attributes
    ----------
    queries : tuple of queries
        Each with a name.
    settings : Settings
        What monitors are made with: the window, the columns of groups, ids and times.
    emit : "changes", "answers" or "first"
        What is emitted.
    plan : PhysicalPlan
        How it is served.
    columns : tuple of str
        Numeric columns that the queries read.
    order : tuple of str
        Columns that order rows; after these, a row's position in its partition.
    types : tuple of str
        Of the groups, the id, the time and the order, as Spark names them.
    buckets : tuple of int
        Numbers of the state groups, each in a partition of its own.
    segments, quarantine : str or None
        Folders.
    retain : int
        How many past versions of the state can come back.
    schema : Arrow schema
        Of the result.
    run : str
        Drawn once for each call of ``watch``: Python workers share what they keep in memory within it only.
    """

    queries: tuple[Query, ...]
    settings: Settings
    emit: Emit
    plan: PhysicalPlan
    columns: tuple[str, ...]
    order: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    buckets: tuple[int, ...] = (0,)
    segments: str | None = None
    quarantine: str | None = None
    retain: int = 100
    schema: Any = None
    run: str = ""

    @property
    def id(self) -> str:
        """The id column."""
        return str(self.settings.id)

    @property
    def time(self) -> str | None:
        """The time column."""
        return self.settings.time

    @property
    def by(self) -> tuple[str, ...]:
        """The columns whose values have their own windows and answers."""
        return tuple(self.settings.by)

    @property
    def watermark(self) -> bool:
        """Whether rows wait until Spark's watermark has passed their time, so that they may come out of order."""
        return self.settings.watermark

    @property
    def folder(self) -> Folder | None:
        """The folder of the segments, where the plan keeps the state in one."""
        from topwatch.spark.state.segments import Folder  # not above: what declares the state needs no Arrow

        return Folder(self.segments) if self.plan.backend == "folder" and self.segments is not None else None

    def monitor(self, by: tuple[str, ...] | None = None) -> Monitor:
        """Make a monitor for all groups of rows, or for one of them where ``by`` is empty; it executes the plan."""
        from topwatch.monitor.monitor import Monitor  # not above: Spark starts Python processes that need no Numba

        settings = self.settings if by is None else dataclasses.replace(self.settings, by=by or None)
        return Monitor.from_settings(self.queries, settings, self.plan.queries)

    def fingerprint(self) -> str:
        """Return a digest that differs when the state would mean something else."""
        from topwatch.monitor.serialization import describe_query

        meaning = {
            "queries": [{**describe_query(query), "name": query.name} for query in self.queries],
            "settings": self.settings.save(),
            **{name: getattr(self, name) for name in ("emit", "order", "types")},
            "pruned": self.plan.pruned,
        }
        return hashlib.sha256(json.dumps(meaning, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def derived(self) -> bool:
        """Whether what was last reported follows from the rows of the last evaluation, for every query."""
        chosen = {one.query: one.algorithm for one in self.plan.queries}
        return all(is_derived(query, chosen[str(query.name)]) for query in self.queries)

    @property
    def replayable(self) -> int:
        """How many of the last rows determine the state: as many as a window and two evaluations span; 0: none do.

        Rows that can be late are not among them, since what was late once may not be late at the beginning of a replay.
        Nor are those that are reported once: more of them would be answers while the window fills again. Nor what
        depends on more than the window: approximate answers, and refused rows of IncompleteTopK.
        """
        window, every = self.settings.window, self.settings.every
        if self.emit == "first" or self.by or self.time is not None or not self.derived:
            return 0
        return window.rows + 2 * every if isinstance(window, LastRows) and isinstance(every, int) else 0

    @property
    def carried(self) -> list[str]:
        """Return the columns that travel: groups, id, time, order and scores, each once."""
        named = [*self.by, self.id, *([self.time] if self.time else []), *self.order, *self.columns]
        return list(dict.fromkeys(named))

    @property
    def only_order(self) -> list[str]:
        """Return the columns that only order rows."""
        needed = {*self.by, self.id, self.time, *self.columns}
        return [name for name in self.order if name not in needed]


def monitor_of(queries: Any, emit: Emit, **settings: Any) -> Monitor:
    """Make a monitor of what is to be watched, or refuse what it or Spark cannot do, before anything runs.

    Parameters
    ----------
    queries : query or list of queries
        What to watch.
    emit : "changes", "answers" or "first"
        What is emitted.
    **settings
        Those of :class:`~topwatch.monitor.stream_settings.Settings`.
    """
    from topwatch.monitor.monitor import Monitor
    from topwatch.monitor.stream_settings import Settings

    if emit not in EMITS:
        raise QueryError(f"emit: expected 'changes', 'answers' or 'first', got {emit!r}")
    result = Monitor.from_settings(queries, Settings(**settings, emit="first" if emit == "first" else "changes"))
    moving = [query for query in result.queries if isinstance(query, Dominating | FrequentSkyline | IncompleteTopK)]
    if emit == "answers" and moving:
        # Answers are put together from changes, and a score that moves is no change.
        kind = type(moving[0]).__name__
        raise QueryError(f"emit: 'answers' does not serve {kind} queries, whose scores move; accepted is 'changes'")
    for one in result.plan.queries:
        if is_registered(one.algorithm):
            raise PlanError(
                f"algorithm: {one.algorithm!r}, which serves query {one.query!r}, was registered in this process, and"
                " Spark's workers do not know it; install it with an entry point of the group topwatch.algorithms"
            )
    return result


def stream_plan(monitor: Monitor, interleaved: bool, segments: str | None, why: str = NO_FOLDER) -> PhysicalPlan:
    """Plan a stream.

    Parameters
    ----------
    monitor : Monitor
        Of what is watched.
    interleaved : bool
        Whether rows of other partitions may lie between those of one.
    segments : str or None
        The folder that all executors share.
    why : str
        Why there is none.
    """
    reason = pruning_refusal(monitor, interleaved)
    plan = dataclasses.replace(monitor.plan, operator=STREAM, backend="state store", pruning_reason=reason)
    if not reason:
        kept = "the grouped engine keeps the rows that pruning leaves"
        return dataclasses.replace(
            plan,
            queries=tuple(dataclasses.replace(query, reason=kept) for query in plan.queries),
            pruned=True,
            pruning_reason="a row that k older and k newer ones beat is never an answer",
            backend_reason="it is small",
        )
    if segments is None:
        return dataclasses.replace(plan, backend_reason=why)
    return dataclasses.replace(plan, backend="folder", backend_reason=f"all executors share {segments}")


def table_plan(monitor: Monitor) -> PhysicalPlan:
    """Plan a static frame."""
    plan = dataclasses.replace(monitor.plan, operator=TABLE)
    return plan.with_grouping("a monitor for each group", "rows come group by group") if plan.by else plan


def pruning_refusal(monitor: Monitor, interleaved: bool = False) -> str:
    """Return why a stream is not pruned; empty where it is.

    A named algorithm and its options are the user's wish to keep the window.
    """
    settings = monitor.settings
    window = settings.window
    if interleaved:
        return "order= says that rows of other partitions may lie in between"
    if settings.algorithm != "auto" or settings.options:
        return "the algorithm was named, or has options"
    if settings.by or settings.time is not None:
        return "rows of other partitions may lie in between"
    if not isinstance(window, LastRows) or not isinstance(settings.every, int):
        return "rows do not expire by their number, or answers are evaluated by time"
    if settings.emit == "first":
        return "what each row was reported for is remembered by window"
    grouped = [entry_of(query.algorithm).grouped for query in monitor.plan.queries]
    left = 0.0
    for query in monitor.queries:
        if not isinstance(query, TopK | Nearest) or not all(grouped):
            return "not all queries are top-k queries that the grouped engine serves"
        left += 2 * query.k * (1 + math.log(max(1.0, window.rows / query.k)))
    return "" if left <= SHARE * window.rows else "the window is small"
