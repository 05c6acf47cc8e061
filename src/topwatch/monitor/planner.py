"""The one place that chooses: from a query, a window and sizes to an algorithm, and why.

What an algorithm is and can serve stands in its entry of the registry (:mod:`topwatch.algorithms.registry`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from topwatch.algorithms.options import MOST_ROWS
from topwatch.algorithms.registry import FAMILIES, Request, algorithms, preferred
from topwatch.algorithms.topk import THRESHOLDS
from topwatch.query.errors import PlanError, QueryError, nearest_name
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, Threshold, TopK
from topwatch.query.windows import LastRows, Latest, Window

if TYPE_CHECKING:
    from topwatch.core.engine import Engine
    from topwatch.core.stream import Feed

MOST_CELLS = 1 << 24  # of a grid
MANY_QUERIES = 24  # from here on, queries that read the same columns have a group and a grid of their own

# Names of the papers that are no algorithms of one process.
ELSEWHERE = dict.fromkeys(("naive", "filter", "hybrid"), "it is a protocol between devices and a server")


class UnknownAlgorithmError(PlanError, QueryError):
    """A name that no algorithm has."""


class Group(NamedTuple):
    """Queries that share an engine."""

    algorithm: str
    thresholds: bool
    columns: tuple[str, ...]  # of the grid


@dataclass(frozen=True)
class Choice:
    """The algorithm that serves a query, and why in a sentence."""

    query: str
    algorithm: str
    reason: str


def choose(query: Query, name: str, window: Window, algorithm: str, options: Mapping[str, Any]) -> Choice:
    """Choose the algorithm for a query, or say why the one asked for cannot serve it."""
    _check_query(query, window, options)
    if algorithm != "auto":
        reason = refusal(query, window, algorithm)
        if reason:
            able = ", ".join(a for a in algorithms() if not refusal(query, window, a))
            raise PlanError(f"algorithm: {algorithm!r} cannot serve query {name!r}: {reason}; {able or 'none'} can")
        return Choice(name, algorithm, "you asked for it")
    family = preferred(query.family)
    for entry in family:
        if not refusal(query, window, entry.name):
            return Choice(name, entry.name, entry.why(query, window, options))
    first = family[0].name
    reason = refusal(query, window, first)
    raise PlanError(f"window: no algorithm can serve query {name!r}: {first} is there, but {reason}")


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
        raise UnknownAlgorithmError(
            f"algorithm: {algorithm!r} cannot serve a query of a monitor: {ELSEWHERE[algorithm]}; witness and sampling"
            " serve skylines here"
        )
    if not isinstance(algorithm, str) or algorithm not in ("auto", *known):
        names = ["auto", *known]
        hint = nearest_name(str(algorithm), names)
        raise UnknownAlgorithmError(f"algorithm: unknown name {algorithm!r}; accepted are {', '.join(names)}{hint}")
    auto = [entry for family in FAMILIES for entry in preferred(family)]
    serving = [*(auto if algorithm == "auto" else [known[algorithm]]), *(known[name] for name in others)]
    accepted = {name: option for entry in serving for name, option in entry.options.items()}
    if algorithm == "auto":
        accepted["max_error"] = known["pa"].options["max_error"]  # what the user allows; see choose
    for name, value in options.items():
        if name not in accepted:
            have = f"accepted are {', '.join(accepted)}" if accepted else "there are none"
            raise QueryError(f"option: {algorithm!r} has no option {name!r}; {have}{nearest_name(name, accepted)}")
        accepted[name].check(name, value)


def check_window(window: Window, options: Mapping[str, Any]) -> None:
    """Refuse options that do not fit the window (TODS'15, Theorem 5.1)."""
    buffer = options.get("buffer")
    if buffer is not None and isinstance(window, LastRows) and buffer > (window.rows + 1) // 2:
        most = (window.rows + 1) // 2
        raise QueryError(
            f"buffer: expected at most (n + 1)/2, here {most:,}, got {buffer:,}; with more, answers would be missed"
        )


def check_cells(query: Query, name: str, options: Mapping[str, Any]) -> None:
    """Refuse a grid with more cells than there is memory for."""
    per_axis = options.get("cells", 1)
    if per_axis ** len(query.reads) > MOST_CELLS:
        raise QueryError(
            f"cells: {per_axis:,} along each of the {len(query.reads)} columns of query {name!r} are more than the"
            f" {MOST_CELLS:,} cells that a grid may have"
        )


def refusal(query: Query, window: Window, algorithm: str) -> str:
    """Say why an algorithm cannot serve a query; nothing where it can."""
    able = algorithms()[algorithm]
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
    """Tell whether what was last reported for a query follows from the rows of the last evaluation.

    It does not where the answer is approximate, counts over earlier snapshots, or ranks by bounds that were learnt.
    """
    if isinstance(query, Threshold):
        return True
    return algorithms()[algorithm].exact and not isinstance(query, FrequentSkyline | IncompleteTopK)


def group_of(query: Query, algorithm: str, alike: int) -> Group:
    """Say which group a query joins, given how many queries, itself included, read the same columns.

    A group shares a table, a grid and a loop. Queries whose columns few others read stand together in one group
    without a grid: a thousand odd ones cost one pass then, and not a thousand.
    """
    able = algorithms()[algorithm]
    own = able.own_grid or (able.lists and alike >= MANY_QUERIES)
    columns = query.reads if own and not query.undirected() else ()
    return Group(algorithm, isinstance(query, Threshold) and not able.thresholds, columns)


def build(group: Group, feed: Feed, window: Window, column_of: Mapping[str, int], options: Mapping[str, Any]) -> Engine:
    """Make the engine of a group. Compiled code is imported here, and only what the group needs."""
    entry = THRESHOLDS if group.thresholds else algorithms()[group.algorithm]
    mine = {name: value for name, value in options.items() if name in entry.options}
    expected = window.rows if isinstance(window, LastRows) else 0
    return entry.make(Request(feed, [column_of[column] for column in group.columns], expected, mine))
