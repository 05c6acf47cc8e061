"""The one place that chooses: from queries and settings to a frozen plan, which is executed and ``explain`` prints.

What an algorithm is and can serve stands in its entry of the registry (:mod:`topwatch.algorithms.registry`).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from topwatch.algorithms.options import MOST_ROWS
from topwatch.algorithms.registry import (
    ELSEWHERE,
    FAMILIES,
    SHEDDING,
    Request,
    algorithms,
    broken,
    entry_of,
    preferred,
    rougher,
)
from topwatch.monitor.display import SHOWN, html_table, number_of
from topwatch.query.errors import PlanError, QueryError, nearest_name
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, TopK
from topwatch.query.windows import LastRows, LastTime, Latest, Window, bytes_in_words, duration, in_words

if TYPE_CHECKING:
    from topwatch.core.engine import Engine, Feed
    from topwatch.monitor.stream_settings import Settings

Grouping = Literal["one window", "grouped engine", "a monitor for each group"]
Operator = Literal["in process", "transformWithStateInPandas", "sorted partitions"]
Backend = Literal["memory", "folder", "state store"]

NAMED = 5  # queries that a plan's repr names
MOST_CELLS = 1 << 24  # of a grid
MANY_QUERIES = 24  # from here on, queries that read the same columns have an engine and a grid of their own


class UnknownAlgorithmError(PlanError, QueryError):
    """A name that no algorithm has."""


@dataclass(frozen=True)
class QueryPlan:
    """The algorithm that serves a query, and why in a sentence."""

    query: str
    algorithm: str
    reason: str


@dataclass(frozen=True, repr=False)
class PhysicalPlan:
    """How standing queries are served.

    Attributes
    ----------
    queries : tuple of QueryPlan
        The algorithm of each query.
    window, every
        Which rows count, and when answers are evaluated.
    by : tuple of str
        Columns; each of their values has its own window and answers.
    grouping, grouping_reason : str
        What keeps the windows, and why.
    operator : str
        Where rows are pushed: in this process, by Spark's stateful operator, or over the sorted partitions of a table.
    backend, backend_reason : str
        Where the state is kept, and why.
    pruned, pruning_reason : bool, str
        Whether rows that cannot be an answer are dropped before they reach the window, and why.
    row_bytes : int
        Size of a row of the window, ids that are no numbers left out.
    """

    queries: tuple[QueryPlan, ...]
    window: Window
    every: int | str | datetime.timedelta
    row_bytes: int
    by: tuple[str, ...] = ()
    grouping: Grouping = "one window"
    grouping_reason: str = ""
    operator: Operator = "in process"
    backend: Backend = "memory"
    backend_reason: str = ""
    pruned: bool = False
    pruning_reason: str = ""

    def with_grouping(self, grouping: Grouping, reason: str) -> PhysicalPlan:
        """Return the plan with something else that keeps the windows of groups."""
        return replace(self, grouping=grouping, grouping_reason=reason)

    @property
    def state(self) -> str:
        """The estimated size of the state and where it is kept, in words."""
        where = {"memory": "in memory", "folder": "in a folder", "state store": "in Spark's state store"}[self.backend]
        if self.pruned:
            return f"the rows that can still be an answer, {self.row_bytes:,} bytes each, {where}"
        if isinstance(self.window, LastRows):
            most = bytes_in_words(self.window.rows * self.row_bytes)
            size = f"at most {self.window.rows:,} rows ({most}){self._each_group}"
        else:
            each = "id" if isinstance(self.window, Latest) else f"row of the {self.window}"
            size = f"{self.row_bytes:,} bytes for each {each}"
        return f"{size}, {where}"

    @property
    def _each_group(self) -> str:
        return f" for each {' and '.join(self.by)}" if self.by else ""

    def lines(self, notes: Sequence[str] | None = None) -> list[str]:
        """Return the plan line by line; ``notes`` are appended to the lines of the queries."""
        result = [self._first_line]
        pairs = zip(self.queries, notes if notes is not None else [""] * len(self.queries), strict=True)
        result += [f"{query.query}: {query.algorithm} – {query.reason}{note}" for query, note in pairs]
        return result + self._rest

    @property
    def scope(self) -> str:
        """How many queries there are, and over which rows, in words."""
        return f"{number_of(len(self.queries), 'query', 'queries')} over the {self.window}{self._each_group}"

    @property
    def _first_line(self) -> str:
        return f"{self.scope}, evaluated {_evaluated(self.every)}"

    @property
    def _rest(self) -> list[str]:
        """What is so for all queries, line by line."""
        result = []
        if self.by:
            result.append(f"groups: {self.grouping} – {self.grouping_reason}")
        if self.operator != "in process":
            result.append(f"operator: {self.operator}")
        if self.pruning_reason:
            result.append(f"pruning: {'before the shuffle' if self.pruned else 'none'} – {self.pruning_reason}")
        reason = f" – {self.backend_reason}" if self.backend_reason else ""
        return [*result, f"state: {self.state}{reason}"]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        shown = [f"{one.query} by {one.algorithm}" for one in self.queries[:NAMED]]
        more = [f"{len(self.queries) - NAMED:,} more"] if len(self.queries) > NAMED else []
        return f"<PhysicalPlan: {self.scope}{': ' if shown else ''}{', '.join(shown + more)}>"

    def _repr_html_(self) -> str:
        return self.html(self._first_line, self._rest)

    def html(self, caption: str, notes: Sequence[str] = ()) -> str:
        """Return which algorithm serves which query as an HTML table."""
        rows = [(one.query, one.algorithm, one.reason) for one in self.queries[:SHOWN]]
        return html_table(caption, ("query", "algorithm", "why"), rows, len(self.queries) - SHOWN, notes)


def _evaluated(every: int | str | datetime.timedelta) -> str:
    if isinstance(every, str | datetime.timedelta):
        return f"every {in_words(duration('every', every))} of event time"
    return "after every row" if every == 1 else f"after every {every:,} rows"


def plan(queries: Mapping[str, Query], settings: Settings, chosen: Sequence[QueryPlan] | None = None) -> PhysicalPlan:
    """Plan how queries are served; ``chosen`` is the algorithm of each where that is decided already."""
    if chosen is None:
        chosen = [choose(query, name, settings) for name, query in queries.items()]
    columns = {column for query in queries.values() for column in query.columns}
    size = _row_bytes(len(columns), settings)
    result = PhysicalPlan(tuple(chosen), settings.window, settings.every, size, settings.by)
    return result.with_grouping(*_grouping(queries, chosen, settings)) if settings.by else result


def _row_bytes(columns: int, settings: Settings) -> int:
    """Return the size of a row of a window: its columns, its id, its ordinal, its time, and what a latest row needs."""
    return 8 * (columns + 2 + (settings.time is not None) + (3 if isinstance(settings.window, Latest) else 0))


def _grouping(queries: Mapping[str, Query], chosen: Iterable[QueryPlan], settings: Settings) -> tuple[Grouping, str]:
    """Choose what keeps the windows of groups, and return why."""
    factories = [(one.query, entry_of(one.algorithm).grouped) for one in chosen]
    alone = [name for name, factory in factories if factory is None or not isinstance(queries[name], TopK | Nearest)]
    reason = ""
    if alone:
        reason = f"no engine serves query {alone[0]!r} in many groups at once"
    elif len({factory for _, factory in factories}) > 1:
        reason = "no engine serves all queries in many groups at once"
    elif settings.options:
        reason = f"the option {next(iter(settings.options))!r} is of an engine for one window"
    elif settings.emit == "first" or settings.id is None:
        reason = "it is remembered by window which rows were reported" if settings.id else "rows have no ids"
    elif not isinstance(settings.every, int):
        reason = "answers are evaluated by time"
    elif isinstance(settings.window, Latest):
        reason = "rows are replaced"
    elif isinstance(settings.window, LastTime) and not settings.only_rows:
        reason = "rows expire by time, also without a new row"
    if reason or not queries:
        return "a monitor for each group", reason or "there are no queries yet"
    return "grouped engine", "one engine serves the top-k queries of all groups: only new rows change their windows"


def choose(query: Query, name: str, settings: Settings) -> QueryPlan:
    """Choose the algorithm for a query, or refuse the one that is named and cannot serve it."""
    window, algorithm, options = settings.window, settings.algorithm, settings.options
    if settings.emit == "first" and isinstance(query, IncompleteTopK):
        raise QueryError("emit: 'first' is of rows, and IncompleteTopK of objects; accepted is 'changes'")
    if settings.max_lag is not None:
        _check_shedding(query, name, window)
    _check_cells(query, name, options)
    _check_query(query, window, options)
    if algorithm != "auto":
        reason = refusal(query, window, algorithm)
        if reason:
            able = ", ".join(a for a in algorithms() if not refusal(query, window, a))
            raise PlanError(f"algorithm: {algorithm!r} cannot serve query {name!r}: {reason}; {able or 'none'} can")
    for entry in preferred(query.family):
        taken = algorithm == "auto" or (entry.internal and algorithms()[algorithm].family == query.family)
        if taken and not refusal(query, window, entry.name):
            return QueryPlan(name, entry.name, entry.why(query, window, options))
    if algorithm != "auto":
        return QueryPlan(name, algorithm, "algorithm= asks for it")
    first = next(entry.name for entry in preferred(query.family) if not entry.internal)
    reason = refusal(query, window, first)
    raise PlanError(f"window: no algorithm can serve query {name!r}: {first} is there, but {reason}")


def _check_shedding(query: Query, name: str, window: Window) -> None:
    """Refuse a query that has no approximate algorithms for times of load."""
    if query.family != SHEDDING:
        raise PlanError(f"max_lag: query {name!r} has no approximate algorithm to fall back on; only Dominating has")
    for algorithm in rougher():
        reason = refusal(query, window, algorithm)
        if reason:
            raise PlanError(f"max_lag: {algorithm!r} cannot serve query {name!r}: {reason}")


def _check_query(query: Query, window: Window, options: Mapping[str, Any]) -> None:
    """Refuse what no algorithm serves, or none with these options."""
    kmax = options.get("kmax")
    if kmax is not None and isinstance(query, TopK | Nearest | IncompleteTopK) and query.k > kmax:
        raise QueryError(f"kmax: expected at least k of every query, got {kmax} for a k of {query.k}")
    if (
        isinstance(query, TopK | Nearest | Dominating | IncompleteTopK)
        and query.k > MOST_ROWS
        and not isinstance(window, LastRows)
    ):
        raise QueryError(f"{type(query).__name__}: k: expected at most {MOST_ROWS:,}, got {query.k:,}")
    if isinstance(query, FrequentSkyline) and not isinstance(window, Latest):
        raise QueryError(
            f"FrequentSkyline: window: how often an id is in the skyline is counted over latest(); got the {window}"
        )


def check_algorithm(algorithm: str, options: Mapping[str, Any], others: Iterable[str] = ()) -> None:
    """Refuse unknown names and options that neither the algorithm nor ``others`` that may take over have."""
    known = algorithms()
    if isinstance(algorithm, str) and algorithm in ELSEWHERE:
        skylines = " and ".join(name for name, entry in known.items() if entry.family == "skyline")
        raise UnknownAlgorithmError(
            f"algorithm: {algorithm!r} cannot serve a query of a monitor: {ELSEWHERE[algorithm]}; {skylines} serve"
            " skylines here"
        )
    if isinstance(algorithm, str) and broken(algorithm):
        raise UnknownAlgorithmError(f"algorithm: {broken(algorithm)}")
    if not isinstance(algorithm, str) or algorithm not in ("auto", *known):
        names = ["auto", *known]
        hint = nearest_name(str(algorithm), names)
        raise UnknownAlgorithmError(f"algorithm: unknown name {algorithm!r}; accepted are {', '.join(names)}{hint}")
    auto = [entry for family in FAMILIES for entry in preferred(family)]
    serving = [*(auto if algorithm == "auto" else [known[algorithm]]), *(known[name] for name in others)]
    accepted = {name: option for entry in serving for name, option in entry.options.items()}
    if algorithm == "auto":
        for entry in auto:
            accepted |= entry.satisfies
    for name, value in options.items():
        if name not in accepted:
            have = f"accepted are {', '.join(accepted)}" if accepted else "there are none"
            raise QueryError(f"option: {algorithm!r} has no option {name!r}; {have}{nearest_name(name, accepted)}")
        accepted[name].check(name, value)


def check_buffer(window: Window, options: Mapping[str, Any]) -> None:
    """Refuse options that do not fit the window (TODS'15, Theorem 5.1)."""
    buffer = options.get("buffer")
    if buffer is not None and isinstance(window, LastRows) and buffer > (window.rows + 1) // 2:
        most = (window.rows + 1) // 2
        raise QueryError(
            f"buffer: expected at most (n + 1)/2, here {most:,}, got {buffer:,}; with more, answers would be missed"
        )


def _check_cells(query: Query, name: str, options: Mapping[str, Any]) -> None:
    """Refuse a grid with more cells than there is memory for."""
    per_axis = options.get("cells", 1)
    if per_axis ** len(query.reads) > MOST_CELLS:
        raise QueryError(
            f"cells: {per_axis:,} along each of the {len(query.reads)} columns of query {name!r} are more than the"
            f" {MOST_CELLS:,} cells that a grid may have"
        )


def refusal(query: Query, window: Window, algorithm: str) -> str:
    """Return why an algorithm cannot serve a query; an empty string where it can."""
    able = entry_of(algorithm)
    if able.family not in ("", query.family):
        return f"it ranks by {FAMILIES[able.family]}, and the query by {FAMILIES[query.family]}"
    if able.most_columns is not None and len(query.reads) > able.most_columns:
        return f"it serves at most {able.most_columns} columns, and the query has {len(query.reads)}"
    reason = able.refuses(query)
    if reason:
        return reason
    if isinstance(window, Latest) and not able.latest:
        return "it needs rows to expire in the order they came, and a latest() window has none"
    if isinstance(query, IncompleteTopK):
        if able.bounded and query.bounds is None:
            return "it needs to know the largest value of each source (say bounds=)"
        if able.most_sources is not None and len(query.sources) > able.most_sources:
            return f"it serves at most {able.most_sources} sources, and the query has {len(query.sources)}"
    unknown = query.undirected()
    if unknown and not able.any_score:
        columns = ", ".join(unknown)
        return (
            f"its score must be known to rise or fall along each column (say increasing= or decreasing= for {columns})"
        )
    return ""


def is_derived(query: Query, algorithm: str) -> bool:
    """Return whether what was last reported for a query follows from the rows of the last evaluation.

    It does not where the answer is approximate, counts over earlier snapshots, or ranks by bounds that were learnt.
    """
    return entry_of(algorithm).exact and not isinstance(query, FrequentSkyline | IncompleteTopK)


class EngineKey(NamedTuple):
    """What queries have in common that share an engine."""

    algorithm: str
    columns: tuple[str, ...]  # of the grid; empty where there is none


def engine_key(query: Query, algorithm: str, alike: int) -> EngineKey:
    """Choose the engine of a query, given how many queries, itself included, read the same columns.

    Queries of one engine share a table, a grid and a loop. Those whose columns few others read share one without a
    grid: a thousand odd ones cost one pass then, and not a thousand.
    """
    able = entry_of(algorithm)
    own = able.own_grid or (able.lists and alike >= MANY_QUERIES)
    return EngineKey(algorithm, query.reads if own and not query.undirected() else ())


def make_engine(key: EngineKey, feed: Feed, column_of: Mapping[str, int], settings: Settings) -> Engine:
    """Make an engine. Compiled code is imported here, and only what the engine needs."""
    entry = entry_of(key.algorithm)
    feed.pace.restart(entry.exact)
    options = {name: value for name, value in settings.options.items() if name in entry.options}
    expected = settings.window.rows if isinstance(settings.window, LastRows) else 0
    return entry.make(Request(feed, [column_of[column] for column in key.columns], expected, options))
