"""The registry: every algorithm by its name, with the factory that makes its engine and what it can serve.

Ours are listed by their families. Others come from outside the package: by :func:`register_algorithm`, or by an entry
point of the group ``topwatch.algorithms``, whose name is the algorithm's and which loads to an :class:`Algorithm`. The
planner, the command line and the conformance suite know an algorithm by its entry alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from topwatch.algorithms.options import Option
from topwatch.query.errors import QueryError
from topwatch.query.queries import FrequentSkyline, IncompleteTopK, Query
from topwatch.query.windows import Window

if TYPE_CHECKING:
    from topwatch.core.engine import Engine, Feed

ENTRY_POINTS = "topwatch.algorithms"
FAMILIES = {  # what each ranks by
    "topk": "a score",
    "dominating": "the number of dominated rows",
    "incomplete": "what several sources tell of an object",
    "skyline": "whether it is dominated",
}
SHEDDING = "dominating"  # the family with approximate algorithms for times of load

# Names of the papers that are no algorithms of one process.
ELSEWHERE = dict.fromkeys(("naive", "filter", "hybrid"), "it is a protocol between devices and a server")


class Request(NamedTuple):
    """What a factory is given: the window and options of the group of queries that its engine will serve."""

    feed: Feed
    axes: list[int]  # columns of the window for a grid; empty where the queries read different columns
    expected: int  # how many rows the window will hold, 0 when that is not known
    options: dict[str, Any]  # those that the user has set, of the algorithm's own


class GroupedRequest(NamedTuple):
    """What a factory is given for an engine that serves many groups at once."""

    queries: list[Query]
    column_of: dict[str, int]
    rows: int  # of each group's window; 0 where it is a span of event time
    nanoseconds: int  # of each group's window; 0 where it is a number of rows
    every: int


Factory = Callable[[Request], "Engine"]
GroupedFactory = Callable[[GroupedRequest], Any]


def nothing(query: Query) -> str:
    """Return no reason to refuse a query."""
    return ""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm as the planner knows it.

    Attributes
    ----------
    name : str
        How users ask for it.
    make : function of a :class:`Request`
        Returns the engine of a group of queries. Compiled code is imported here and not before.
    family : str
        The kind of queries it serves, one of ``FAMILIES``; empty for one that serves all.
    options : mapping of str to option
        Its settings; see :mod:`topwatch.algorithms.options`.
    latest : bool
        Serves ``latest()`` windows.
    exact : bool
        Answers are those of the definition, always.
    any_score : bool
        Needs no direction for the columns of an ``expr``.
    own_grid : bool
        Queries over different columns stand in groups of their own.
    lists : bool
        Where many queries read the same columns, a group and a grid of their own pay.
    internal : bool
        Takes the queries that it does not refuse from all other algorithms of its family; nobody can ask for it.
    bounded : bool
        Needs bounds of values.
    most_columns, most_sources : int or None
        Of a query.
    refuses : function of a query
        Returns why it cannot serve a query of its family, or an empty string.
    preferred : int
        ``"auto"`` takes the algorithm of a family with the highest number that can serve the query; 0 is never taken.
    reason : str or function of a query, a window and the options
        Why ``"auto"`` takes it.
    satisfies : mapping of str to option
        Settings of other algorithms that its answers meet whatever the value, as an exact one meets any ``max_error``.
        ``"auto"`` accepts them.
    grouped : function or None
        Returns an engine that serves many groups at once, such as that of
        :mod:`topwatch.algorithms.topk.grouped_engine`; None where each group needs an engine of its own.
    rough : int
        The how-manieth to take over, with rough answers, when a monitor falls behind; 0 for never.
    """

    name: str
    make: Factory
    family: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    latest: bool = True
    exact: bool = True
    any_score: bool = True
    own_grid: bool = False
    lists: bool = False
    internal: bool = False
    bounded: bool = False
    most_columns: int | None = None
    most_sources: int | None = None
    refuses: Callable[[Query], str] = nothing
    preferred: int = 0
    reason: str | Callable[[Query, Window, Mapping[str, Any]], str] = ""
    satisfies: Mapping[str, Option] = field(default_factory=dict)
    grouped: GroupedFactory | None = None
    rough: int = 0

    def why(self, query: Query, window: Window, options: Mapping[str, Any]) -> str:
        """Say why ``"auto"`` takes it."""
        return self.reason if isinstance(self.reason, str) else self.reason(query, window, options)


_registered: dict[str, Algorithm] = {}  # from outside, in this process


def register_algorithm(algorithm: Algorithm) -> None:
    """Let monitors of this process serve an algorithm from outside the package.

    Parameters
    ----------
    algorithm : Algorithm
        Its name must be free; one that was registered before may be replaced.
    """
    if not isinstance(algorithm, Algorithm):
        raise QueryError(f"algorithm: expected an Algorithm, got {algorithm!r}")
    if algorithm.name in ("auto", *ELSEWHERE, *_ours()) or not algorithm.name.isidentifier():
        raise QueryError(f"algorithm: name: expected a word that is not taken, got {algorithm.name!r}")
    if algorithm.family and algorithm.family not in FAMILIES:
        raise QueryError(f"algorithm: family: accepted are {', '.join(FAMILIES)}, got {algorithm.family!r}")
    if algorithm.rough and algorithm.family != SHEDDING:
        raise QueryError(f"algorithm: rough: only algorithms of the family {SHEDDING!r} take over under load")
    _registered[algorithm.name] = algorithm
    _look_again()


@cache
def _entries() -> Mapping[str, Algorithm]:
    return MappingProxyType({**_ours(), **_installed().working, **_registered})


def entry_of(name: str) -> Algorithm:
    """Return an algorithm of a plan, also one that nobody can ask for."""
    return _entries()[name]


def is_registered(name: str) -> bool:
    """Return whether an algorithm was registered in this process: other processes do not know it."""
    return name in _registered


@cache
def algorithms() -> Mapping[str, Algorithm]:
    """Return all algorithms by the names that users may ask for.

    They are ours, those of entry points, and those registered in this process.
    """
    return MappingProxyType({name: entry for name, entry in _entries().items() if not entry.internal})


@cache
def preferred(family: str) -> tuple[Algorithm, ...]:
    """Return the algorithms of a family that ``"auto"`` may take: internal ones, then the most preferred first."""
    result = [entry for entry in _entries().values() if entry.preferred and entry.family == family]
    return tuple(sorted(result, key=lambda entry: (not entry.internal, -entry.preferred)))


@cache
def rougher() -> tuple[str, ...]:
    """Return the algorithms that take over, one after the other, when a monitor falls behind."""
    result = [entry for entry in algorithms().values() if entry.rough and entry.family == SHEDDING]
    return tuple(entry.name for entry in sorted(result, key=lambda entry: entry.rough))


def broken(name: str) -> str:
    """Return why the entry point of an algorithm cannot be used; empty where there is none of that name, or it can."""
    return _installed().broken.get(name, "")


def _brute(request: Request) -> Engine:
    from topwatch.algorithms.brute import Brute

    return Brute(request.feed.window)


def _not_by_brute(query: Query) -> str:
    if isinstance(query, IncompleteTopK):
        return f"it ranks rows, and the query by {FAMILIES['incomplete']}"
    if isinstance(query, FrequentSkyline):
        return "it remembers nothing, and the query counts over many snapshots"
    return ""


@cache
def _ours() -> dict[str, Algorithm]:
    brute = Algorithm("brute", _brute, refuses=_not_by_brute)
    # By name: families import this module for the form of an entry, and do not know each other.
    families = [import_module(f"topwatch.algorithms.{family}").ALGORITHMS for family in FAMILIES]
    listed = [brute, *(entry for entries in families for entry in entries)]
    return {algorithm.name: algorithm for algorithm in listed}


class _Installed(NamedTuple):
    """What the entry points of installed packages load to, by their names."""

    working: dict[str, Algorithm]
    broken: dict[str, str]  # and why


@cache
def _installed() -> _Installed:
    """Load the entry points. One that is broken is refused where it is asked for: all others go on without it."""
    from importlib.metadata import entry_points

    result = _Installed({}, {})
    for point in entry_points(group=ENTRY_POINTS):
        try:
            algorithm = point.load()
        except Exception as error:  # whatever a package raises while it is imported
            reason = f"it cannot be loaded: {type(error).__name__}: {error}"
        else:
            fits = isinstance(algorithm, Algorithm) and algorithm.name == point.name
            if fits and point.name not in (*ELSEWHERE, *_ours()):
                result.working[point.name] = algorithm
                continue
            reason = "it must load to an Algorithm of that name, which is not taken"
        result.broken[point.name] = f"the entry point {point.name!r} of {point.value!r}: {reason}"
        logging.getLogger(__name__).warning("algorithm: %s", result.broken[point.name])
    return result


def _look_again() -> None:
    """Forget what follows from the algorithms that are registered."""
    for kept in (_entries, algorithms, preferred, rougher):
        kept.cache_clear()
