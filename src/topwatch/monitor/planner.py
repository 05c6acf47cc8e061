"""The one place that chooses: from a query, a window and sizes to an algorithm, and why.

A new algorithm is a new file and a line in ``ALGORITHMS``.
"""

from __future__ import annotations

import importlib
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from topwatch.query.errors import PlanError, QueryError, nearest_name
from topwatch.query.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, Skyline, Threshold, TopK
from topwatch.query.windows import LastRows, Latest, Window

if TYPE_CHECKING:
    from topwatch.core.engine import Engine
    from topwatch.core.stream import Feed

Group = tuple[str, bool, tuple[str, ...]]  # algorithm, thresholds or not, columns of the grid

MOST_ROWS = 1_000_000  # of an answer
MOST_CELLS = 1 << 24  # of a grid
MOST_OF_OPTION = 1 << 40
MANY_QUERIES = 24  # from here on, queries that read the same columns have a group and a grid of their own

_INDEX = ("index", "cells")
_EVENTS = ("cells", "near", "maxcand", "kept")


class UnknownAlgorithmError(PlanError, QueryError):
    """A name that no algorithm has."""


@dataclass(frozen=True)
class Algorithm:
    """What the planner knows of an algorithm."""

    family: str = ""  # the folder of its file, and the kind of query that it serves; empty for one that serves all
    options: tuple[str, ...] = ()
    latest: bool = True  # serves latest() windows
    any_score: bool = True  # needs no direction for the columns of an expr
    own_grid: bool = False  # queries over different columns stand in groups of their own
    lists: bool = False  # where many queries read the same columns, a grid of their own pays
    most_columns: int | None = None  # that a query may read
    most_sources: int | None = None  # that a query over incomplete objects may name
    bounded: bool = False  # needs bounds of values
    exact: bool = True


ALGORITHMS = {
    "brute": Algorithm(),
    "scan": Algorithm("topk", latest=False),
    "tsl": Algorithm("topk", options=("kmax",), any_score=False, own_grid=True),
    "tma": Algorithm("topk", options=("cells",), any_score=False, own_grid=True),
    "sma": Algorithm("topk", options=("cells",), latest=False, any_score=False, own_grid=True),
    "reserve": Algorithm("topk", options=("cells", "slack", "route"), lists=True),
    "sa": Algorithm("topk", latest=False),
    "ra": Algorithm("topk", options=("relax",), latest=False),
    "pa": Algorithm("topk", options=("sigma", "max_error", *_INDEX), latest=False, lists=True, exact=False),
    "sasf": Algorithm("topk", options=("buffer", *_INDEX), latest=False, lists=True),
    "sarf": Algorithm("topk", options=("buffer", "relax", *_INDEX), latest=False, lists=True),
    "sapf": Algorithm("topk", options=("buffer", *_INDEX), latest=False, lists=True),
    "rasf": Algorithm("topk", options=("buffer", "relax", *_INDEX), latest=False, lists=True),
    "rarf": Algorithm("topk", options=("buffer", "relax", *_INDEX), latest=False, lists=True),
    "rapf": Algorithm("topk", options=("buffer", "relax", *_INDEX), latest=False, lists=True),
    "cpm": Algorithm("topk", options=("cells",), any_score=False, own_grid=True),
    "snn": Algorithm("topk", options=("cells",), latest=False, any_score=False, own_grid=True),
    "bfa": Algorithm("dominating"),
    "eva": Algorithm("dominating", options=("cells",), latest=False, most_columns=16),
    "ada": Algorithm("dominating", (*_EVENTS, "suffix"), latest=False, most_columns=16),
    "ahba": Algorithm("dominating", (*_EVENTS, "epsilon", "delta"), latest=False, most_columns=16, exact=False),
    "amsa": Algorithm("dominating", _EVENTS, latest=False, most_columns=16, exact=False),
    "floor": Algorithm("dominating", options=("cells", "slack"), most_columns=16),
    "sla": Algorithm("incomplete", options=("kmax", "view"), latest=False),
    "eaa": Algorithm("incomplete", options=("slack", "sweep"), latest=False, bounded=True),
    "approx": Algorithm(
        "incomplete", ("slack", "sweep", "bitmaps"), latest=False, bounded=True, most_sources=10, exact=False
    ),
    "tally": Algorithm("incomplete", options=("slack",), latest=False),
    "witness": Algorithm("skyline"),
    "sampling": Algorithm("skyline", options=("epsilon", "delta", "seed"), exact=False),
}
AUTO = ("reserve", "floor", "witness", "tally")  # one for each family
SHARES = ("kept", "epsilon", "delta", "sigma", "max_error")  # options between 0 and 1
SWITCHES = ("suffix", "view")
ROOMS = ("slack", "kmax", "bitmaps", "maxcand", "cells")  # for which memory is taken at once
WORDS = {"route": ("auto", "lists", "scan"), "index": ("auto", "grid", "none")}
FAMILIES = {  # what each ranks by
    "topk": "a score",
    "dominating": "the number of dominated rows",
    "incomplete": "what several sources tell of an object",
    "skyline": "whether it is dominated",
}
# Names of the papers that are no algorithms of one process.
ELSEWHERE = dict.fromkeys(("naive", "filter", "hybrid"), "it is a protocol between devices and a server")


@dataclass(frozen=True)
class Choice:
    """The algorithm that serves a query, and why in a sentence."""

    query: str
    algorithm: str
    reason: str


def choose(query: Query, name: str, window: Window, algorithm: str, options: Mapping[str, Any]) -> Choice:
    """Choose the algorithm for a query, or say why the one asked for cannot serve it.

    Where a user allows errors, PA would be a choice too. It is not taken: at the defaults of TODS'15 ``reserve``, which
    is exact, was 2.7 times as fast with k = 9 and 1.7 times with k = 81.
    """
    _check_query(query, window, options)
    if algorithm != "auto":
        reason = refusal(query, window, algorithm)
        if reason:
            able = ", ".join(a for a in ALGORITHMS if not refusal(query, window, a))
            raise PlanError(f"algorithm: {algorithm!r} cannot serve query {name!r}: {reason}; {able or 'none'} can")
        return Choice(name, algorithm, "you asked for it")
    if isinstance(query, Dominating):
        best = next(a for a in ("floor", "bfa") if not refusal(query, window, a))
        reason = "it is exact, and looks only at rows that can reach the k-th score"
        return Choice(name, best, reason if best == "floor" else "it serves any number of columns")
    if isinstance(query, IncompleteTopK):
        reason = refusal(query, window, "tally")
        if reason:
            raise PlanError(f"window: no algorithm can serve query {name!r}: tally is there, but {reason}")
        return Choice(name, "tally", "it is exact, and a row costs it one score")
    if isinstance(query, Skyline | FrequentSkyline):
        reason = "a dominated row waits until the one that dominates it is gone"
        if not isinstance(window, Latest):
            reason = "it drops rows that a newer one dominates, and the others wait until their last dominator expires"
        return Choice(name, "witness", reason)
    if isinstance(query, Threshold):
        return Choice(name, "reserve", "a threshold never moves: rows are routed to it and nothing is kept")
    if isinstance(window, Latest):
        return Choice(name, "reserve", "it is exact under updates and deletions, and seldom computes from scratch")
    if "max_error" in options:
        return Choice(name, "reserve", "it is exact, and faster than pa, for which you allow an error")
    return Choice(name, "reserve", "it is exact, and none was clearly faster with 1 to 10,000 queries")


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
    known = ["auto", *ALGORITHMS]
    if isinstance(algorithm, str) and algorithm in ELSEWHERE:
        raise UnknownAlgorithmError(
            f"algorithm: {algorithm!r} cannot serve a query of a monitor: {ELSEWHERE[algorithm]}; witness and sampling"
            " serve skylines here"
        )
    if algorithm not in known:
        hint = nearest_name(str(algorithm), known)
        raise UnknownAlgorithmError(f"algorithm: unknown name {algorithm!r}; accepted are {', '.join(known)}{hint}")
    serving = (*(AUTO if algorithm == "auto" else (algorithm,)), *others)
    accepted = tuple(dict.fromkeys(option for name in serving for option in ALGORITHMS[name].options))
    accepted += ("max_error",) if algorithm == "auto" else ()
    for option, value in options.items():
        if option not in accepted:
            have = f"accepted are {', '.join(accepted)}" if accepted else "there are none"
            raise QueryError(f"option: {algorithm!r} has no option {option!r}; {have}{nearest_name(option, accepted)}")
        _check_option(option, value)


def _check_option(option: str, value: Any) -> None:
    """Refuse a value that its option does not take."""
    if option in WORDS:
        if not isinstance(value, str) or value not in WORDS[option]:
            first, second, third = WORDS[option]
            raise QueryError(f"{option}: expected {first!r}, {second!r} or {third!r}, got {value!r}")
        return
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if option in SHARES:
        if not number or not (0 < value < 1 or (option == "kept" and value in (0, 1))):
            raise QueryError(f"{option}: expected a number between 0 and 1, got {value!r}")
    elif option == "relax":
        if not number or not 0 <= value <= 100:
            raise QueryError(f"relax: expected a number from 0 to 100, got {value!r}")
    elif option in SWITCHES:
        if not isinstance(value, bool):
            raise QueryError(f"{option}: expected True or False, got {value!r}")
    elif option == "seed":
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
            raise QueryError(f"seed: expected a whole number of at least 0, got {value!r}")
    elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise QueryError(f"{option}: expected a whole number of at least 1, got {value!r}")
    elif option == "bitmaps" and value & (value - 1):
        raise QueryError(f"bitmaps: expected a power of two, got {value}")
    else:
        most = MOST_ROWS if option in ROOMS else MOST_OF_OPTION
        if value > most:
            raise QueryError(f"{option}: expected at most {most:,}, got {value!r}")


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
    able = ALGORITHMS[algorithm]
    if able.family not in ("", family_of(query)):
        return f"it ranks by {FAMILIES[able.family]}, and the query by {FAMILIES[family_of(query)]}"
    if not able.family and isinstance(query, IncompleteTopK):
        return f"it ranks rows, and the query by {FAMILIES['incomplete']}"
    if able.most_columns is not None and len(query.reads) > able.most_columns:
        return f"it serves at most {able.most_columns} columns, and the query has {len(query.reads)}"
    if algorithm == "sampling" and not isinstance(query, FrequentSkyline):
        return "it counts over some of many snapshots, and the query asks for each"
    if algorithm == "brute" and isinstance(query, FrequentSkyline):
        return "it remembers nothing, and the query counts over many snapshots"
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


def family_of(query: Query) -> str:
    """Say which family of algorithms a query belongs to."""
    if isinstance(query, IncompleteTopK):
        return "incomplete"
    if isinstance(query, Skyline | FrequentSkyline):
        return "skyline"
    return "dominating" if isinstance(query, Dominating) else "topk"


def is_derived(query: Query, algorithm: str) -> bool:
    """Tell whether what was last reported for a query follows from the rows of the last judgement.

    It does not where the answer is approximate, counts over earlier snapshots, or ranks by bounds that were learnt.
    """
    if isinstance(query, Threshold):
        return True
    return ALGORITHMS[algorithm].exact and not isinstance(query, FrequentSkyline | IncompleteTopK)


def group_of(query: Query, algorithm: str, alike: int) -> Group:
    """Say which group a query joins, given how many queries, itself included, read the same columns.

    A group shares a table, a grid and a loop. Queries whose columns few others read stand together in one group
    without a grid: a thousand odd ones cost one pass then, and not a thousand.
    """
    threshold = isinstance(query, Threshold) and algorithm != "brute"
    able = ALGORITHMS[algorithm]
    own = able.own_grid or (able.lists and alike >= MANY_QUERIES)
    return algorithm, threshold, query.reads if own and not query.undirected() else ()


def build(
    group: Group,
    feed: Feed,
    window: Window,
    column_of: Mapping[str, int],
    options: Mapping[str, Any],
) -> Engine:
    """Make the engine of a group. Compiled code is imported here, and only what the group needs."""
    algorithm, thresholds, columns = group
    if algorithm == "reserve":
        options = {option: value for option, value in options.items() if option != "max_error"}
    axes = [column_of[column] for column in columns]
    expected = window.rows if isinstance(window, LastRows) else 0
    if thresholds:
        from topwatch.algorithms.topk.threshold import Thresholds

        return Thresholds(feed.window, axes, expected, listed=bool(axes), per_axis=options.get("cells"))
    known = ALGORITHMS[algorithm]
    options = {option: value for option, value in options.items() if option in known.options}
    module = importlib.import_module(".".join(filter(None, ("topwatch.algorithms", known.family, algorithm))))
    if algorithm == "brute":
        return cast("Engine", module.Brute(feed.window))
    if known.family in ("dominating", "skyline"):
        from topwatch.core.per_query_engine import Contests

        return Contests(feed.window, expected, module.design(**options))
    if known.family == "incomplete":
        from topwatch.algorithms.incomplete.engine import Gatherings
        from topwatch.core.stream import FifoFeed

        assert isinstance(feed, FifoFeed)
        return Gatherings(feed, module.design(**options))
    if algorithm == "tsl":
        return cast("Engine", module.TSL(feed.window, axes, expected, **options))
    if hasattr(module, "scheme"):
        from topwatch.algorithms.topk.skyband_engine import Gliding
        from topwatch.core.ring_window import RingWindow

        assert isinstance(feed.window, RingWindow)
        return Gliding(feed.window, axes, expected, module.scheme(**options))
    from topwatch.algorithms.topk.engine import Standing

    return Standing(feed.window, axes, expected, module.design(**options))
