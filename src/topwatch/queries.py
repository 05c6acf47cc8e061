"""The standing queries: frozen dataclasses, validated when they are made.

A query says for itself which columns it ranks by (``reads``), which it needs in all (``columns``) and whether smaller
scores are better, so that nothing else has to know its kind for that.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from topwatch.errors import QueryError
from topwatch.scoring import Score, distance, finite_number

Range = tuple[float, float]
Direction = Literal["min", "max"]


class _Ranking:
    """What all queries can say."""

    where: Mapping[str, Range]
    smaller_is_better = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns it ranks by, in order."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns the query needs."""
        return tuple(dict.fromkeys((*self.reads, *self.where)))

    def undirected(self) -> tuple[str, ...]:
        """Columns along which it is not known whether more is better."""
        return ()


class _Scored(_Ranking):
    """What queries with a score over a row alone can say."""

    score: Score

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns it ranks by, in order."""
        return self.score.columns

    @property
    def smaller_is_better(self) -> bool:  # type: ignore[override]
        """True for a distance."""
        return self.score.smaller_is_better

    def undirected(self) -> tuple[str, ...]:
        """Columns along which it is not known whether more is better."""
        return self.score.undirected()


@dataclass(frozen=True)
class TopK(_Scored):
    """The k rows with the best score.

    Parameters
    ----------
    k : int
        How many rows.
    score : Score
        See :mod:`topwatch.scoring`.
    name : str, optional
        What changes and answers call it; given by the monitor when left out.
    where : mapping of column to (low, high), optional
        Only rows inside these closed ranges are ranked.

    Examples
    --------
    >>> from topwatch import TopK, linear
    >>> TopK(k=10, score=linear(bytes=1.0), where={"port": (0, 1023)}).columns
    ('bytes', 'port')
    """

    k: int
    score: Score
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_score(self)
        _check_common(self)
        check_k(type(self).__name__, self.k)


@dataclass(frozen=True)
class Nearest(_Scored):
    """The k rows nearest to a point, by Euclidean distance.

    >>> from topwatch import Nearest
    >>> Nearest(k=10, point={"lat": 45.1, "lon": 7.2}).score.kind
    'distance'
    """

    k: int
    point: Mapping[str, float] = field(hash=False)
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)
    score: Score = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.point, Mapping):
            raise QueryError(f"Nearest: point: expected a mapping of column to number, got {self.point!r}")
        object.__setattr__(self, "score", distance(self.point))
        object.__setattr__(self, "point", dict(self.point))
        _check_common(self)
        check_k(type(self).__name__, self.k)


@dataclass(frozen=True)
class Threshold(_Scored):
    """Every row whose score is better than ``above`` (for a distance: smaller).

    >>> from topwatch import Threshold, linear
    >>> Threshold(score=linear(bytes=1.0), above=0.9).columns
    ('bytes',)
    """

    score: Score
    above: float
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_score(self)
        _check_common(self)
        object.__setattr__(self, "above", finite_number("Threshold: above", self.above))


@dataclass(frozen=True)
class Dominating(_Ranking):
    """The k rows that dominate the most others; a row's score is how many.

    A row dominates another when it is at least as good in every column of ``prefer`` and better in one. Rows with equal
    values do not dominate each other.

    Parameters
    ----------
    k : int
        How many rows.
    prefer : mapping of column to "min" or "max"
        The columns that count, each with what is better there.
    name : str, optional
        What changes and answers call it; given by the monitor when left out.
    where : mapping of column to (low, high), optional
        Only rows inside these closed ranges are ranked, and only they count as dominated.

    Examples
    --------
    >>> from topwatch import Dominating
    >>> Dominating(k=10, prefer={"price": "min", "stars": "max"}).reads
    ('price', 'stars')
    """

    k: int
    prefer: Mapping[str, Direction] = field(hash=False)
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefer", checked_prefer(type(self).__name__, self.prefer))
        _check_common(self)
        check_k(type(self).__name__, self.k)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns it ranks by, in order."""
        return tuple(self.prefer)


@dataclass(frozen=True)
class IncompleteTopK(_Ranking):
    """The k objects with the best score, where each row brings one part of an object, as one of several sources saw it.

    An object is what rows with one id tell of. Its score combines its values in all sources; a source that has no live
    row of it counts as the lowest value.

    Parameters
    ----------
    k : int
        How many objects.
    sources : list of str or of int
        The sources, as the source column names them.
    combine : {"sum", "max", "mean"}
        How the values of the sources make a score. A mean is over all sources, seen or not.
    weights : mapping of source to number, optional
        Factors above 0 by which the values of sources are multiplied; 1 for those that are not named.
    bounds : (low, high) or mapping of source to (low, high), optional
        Values are normalised from these bounds to 0 and 1, and a row outside them is refused. Without bounds values are
        taken as they are, and the lowest value is 0.
    occurrences : {"single", "sum", "max"}
        Whether a source has at most one live row of an object and refuses others, or what of several rows counts.
    source, value : str
        Names of the columns.
    name : str, optional
        What changes and answers call it; given by the monitor when left out.
    where : mapping of column to (low, high), optional
        Only rows inside these closed ranges count.

    Examples
    --------
    >>> import topwatch as tw
    >>> query = tw.IncompleteTopK(k=1, sources=["EWR", "JFK", "LGA"], combine="sum", name="late")
    >>> m = tw.Monitor(query, window=tw.last(3))
    >>> rows = {"id": ["a", "b", "a"], "source": ["EWR", "EWR", "LGA"], "value": [0.2, 0.5, 0.4]}
    >>> [(c.at, c.op, c.id) for c in m.push(rows)]
    [(1, 'enter', 'a'), (2, 'leave', 'a'), (2, 'enter', 'b'), (3, 'leave', 'b'), (3, 'enter', 'a')]
    """

    k: int
    sources: Sequence[str | int] = field(hash=False)
    combine: str = "sum"
    weights: Mapping[str | int, float] | None = field(default=None, hash=False)
    bounds: Range | Mapping[str | int, Range] | None = field(default=None, hash=False)
    occurrences: str = "single"
    source: str = "source"
    value: str = "value"
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        kind = type(self).__name__
        check_k(kind, self.k)
        object.__setattr__(self, "sources", _checked_sources(kind, self.sources))
        _check_word(f"{kind}: combine", self.combine, COMBINES)
        _check_word(f"{kind}: occurrences", self.occurrences, OCCURRENCES)
        for column in ("source", "value"):
            name = getattr(self, column)
            if not isinstance(name, str) or not name:
                raise QueryError(f"{kind}: {column}: expected the name of a column, got {name!r}")
        if self.source == self.value:
            raise QueryError(f"{kind}: value: {self.value!r} is the source column; values need a column of their own")
        object.__setattr__(self, "weights", self._checked_weights())
        object.__setattr__(self, "bounds", self._checked_bounds())
        _check_common(self)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns it ranks by, in order: the source as a number, and the value."""
        return self.coded, self.value

    @property
    def coded(self) -> str:
        """What a monitor calls the source column once its words are numbers: places among these sources, in order."""
        return f"{self.source} of {', '.join(map(repr, self.sources))}"

    def factors(self) -> list[float]:
        """Return the weight of each source, in order."""
        return [(self.weights or {}).get(source, 1.0) for source in self.sources]

    def ranges(self) -> list[Range] | None:
        """Return the bounds of each source, in order."""
        if self.bounds is None or isinstance(self.bounds, tuple):
            return None if self.bounds is None else [self.bounds] * len(self.sources)
        return [self.bounds[source] for source in self.sources]

    def _checked_weights(self) -> dict[str | int, float] | None:
        if self.weights is None:
            return None
        place = "IncompleteTopK: weights"
        if not isinstance(self.weights, Mapping):
            raise QueryError(f"{place}: expected a mapping of source to number, got {self.weights!r}")
        self._check_named(place, self.weights)
        found = {source: finite_number(f"{place}[{source!r}]", weight) for source, weight in self.weights.items()}
        for source, weight in found.items():
            if weight <= 0:
                raise QueryError(f"{place}[{source!r}]: expected a number above 0, got {weight:g}")
        return found

    def _checked_bounds(self) -> Range | dict[str | int, Range] | None:
        place = "IncompleteTopK: bounds"
        if self.bounds is None:
            return None
        if not isinstance(self.bounds, Mapping):
            return _span(place, self.bounds)
        self._check_named(place, self.bounds)
        missing = [source for source in self.sources if source not in self.bounds]
        if missing:
            raise QueryError(f"{place}: none for {', '.join(map(repr, missing))}; every source needs (low, high)")
        return {source: _span(f"{place}[{source!r}]", pair) for source, pair in self.bounds.items()}

    def _check_named(self, place: str, names: Iterable[object]) -> None:
        for name in names:
            if name not in self.sources:
                known = ", ".join(map(repr, self.sources))
                raise QueryError(f"{place}: {name!r} is no source; sources are {known}")


COMBINES = ("sum", "max", "mean")
OCCURRENCES = ("single", "sum", "max")
MOST_SOURCES = 64

Scored = TopK | Nearest | Threshold
Query = Scored | Dominating | IncompleteTopK
KINDS = (TopK, Nearest, Threshold, Dominating, IncompleteTopK)


def check_k(query: str, k: object) -> None:
    """Refuse a k that is no whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
        raise QueryError(f"{query}: k: expected a whole number of at least 1, got {k!r}")


def _check_score(query: TopK | Threshold) -> None:
    if not isinstance(query.score, Score):
        kind = type(query).__name__
        raise QueryError(f"{kind}: score: expected linear(...), distance(...) or another score, got {query.score!r}")


def checked_prefer(kind: str, prefer: object) -> dict[str, Direction]:
    """Return what is preferred in which column, or refuse it."""
    if not isinstance(prefer, Mapping) or not prefer:
        raise QueryError(f"{kind}: prefer: expected a mapping of column to 'min' or 'max', got {prefer!r}")
    for column, better in prefer.items():
        if not isinstance(column, str) or not column:
            raise QueryError(f"{kind}: prefer: a column is named by a non-empty string, got {column!r}")
        if not isinstance(better, str) or better not in ("min", "max"):
            raise QueryError(f"{kind}: prefer[{column!r}]: expected 'min' or 'max', got {better!r}")
    return dict(prefer)


def _checked_sources(kind: str, sources: object) -> tuple[str | int, ...]:
    place = f"{kind}: sources"
    if isinstance(sources, str) or not isinstance(sources, Sequence) or not sources:
        raise QueryError(f"{place}: expected a list of names such as ['EWR', 'JFK'], got {sources!r}")
    whole = all(isinstance(source, int) and not isinstance(source, bool) for source in sources)
    if not whole and not all(isinstance(source, str) and source for source in sources):
        raise QueryError(f"{place}: expected non-empty strings, or whole numbers, got {list(sources)!r}")
    if len(set(sources)) < len(sources):
        raise QueryError(f"{place}: expected each source once, got {list(sources)!r}")
    if len(sources) > MOST_SOURCES:
        raise QueryError(f"{place}: expected at most {MOST_SOURCES}, got {len(sources)}")
    return tuple(sources)


def _check_word(place: str, word: object, accepted: tuple[str, ...]) -> None:
    if not isinstance(word, str) or word not in accepted:
        raise QueryError(f"{place}: expected {', '.join(map(repr, accepted))}, got {word!r}")


def _span(place: str, bounds: object) -> Range:
    if isinstance(bounds, str) or not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise QueryError(f"{place}: expected a pair (low, high), got {bounds!r}")
    low, high = (finite_number(place, bound) for bound in bounds)
    if low >= high or math.isinf(high - low):
        raise QueryError(f"{place}: expected (low, high) with low < high, got ({low:g}, {high:g})")
    return low, high


def _check_common(query: Query) -> None:
    kind = type(query).__name__
    if query.name is not None and (not isinstance(query.name, str) or not query.name):
        raise QueryError(f"{kind}: name: expected a non-empty string, got {query.name!r}")
    if not isinstance(query.where, Mapping):
        raise QueryError(f"{kind}: where: expected a mapping of column to (low, high), got {query.where!r}")
    ranges = {column: _range(kind, column, bounds) for column, bounds in query.where.items()}
    object.__setattr__(query, "where", ranges)


def _range(kind: str, column: object, bounds: object) -> Range:
    if not isinstance(column, str) or not column:
        raise QueryError(f"{kind}: where: a column is named by a non-empty string, got {column!r}")
    place = f"{kind}: where[{column!r}]"
    if isinstance(bounds, str) or not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise QueryError(f"{place}: expected a pair (low, high), got {bounds!r}")
    for bound in bounds:
        if isinstance(bound, bool) or not isinstance(bound, numbers.Real) or math.isnan(bound):
            raise QueryError(f"{place}: expected a pair of numbers (low, high), got {tuple(bounds)!r}")
    low, high = float(bounds[0]), float(bounds[1])
    if low > high:
        raise QueryError(f"{place}: low {low:g} is above high {high:g}; expected (low, high) with low <= high")
    return low, high
