"""The standing queries: frozen dataclasses, validated when they are made."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field

from topwatch.errors import QueryError
from topwatch.scoring import Score, distance, finite_number

Range = tuple[float, float]


@dataclass(frozen=True)
class TopK:
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
        _check_common(self)
        _check_k(type(self).__name__, self.k)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns the query needs."""
        return _columns(self.score, self.where)


@dataclass(frozen=True)
class Nearest:
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
        _check_k(type(self).__name__, self.k)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns the query needs."""
        return _columns(self.score, self.where)


@dataclass(frozen=True)
class Threshold:
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
        _check_common(self)
        object.__setattr__(self, "above", finite_number("Threshold: above", self.above))

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns the query needs."""
        return _columns(self.score, self.where)


Query = TopK | Nearest | Threshold


def _columns(score: Score, where: Mapping[str, Range]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*score.columns, *where)))


def _check_k(query: str, k: object) -> None:
    if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
        raise QueryError(f"{query}: k: expected a whole number of at least 1, got {k!r}")


def _check_common(query: Query) -> None:
    kind = type(query).__name__
    if not isinstance(query.score, Score):
        raise QueryError(f"{kind}: score: expected linear(...), distance(...) or another score, got {query.score!r}")
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
