"""The standing queries: frozen dataclasses, validated when they are made.

A query knows which columns it ranks by (``reads``), which it needs in all (``columns``) and whether smaller
scores are better, so that nothing else has to know its kind for that.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from topwatch.query.errors import QueryError
from topwatch.query.incomplete_topk import IncompleteTopK
from topwatch.query.ranking import Range, Ranking, check_common, check_k
from topwatch.query.scores import Score, ScoreLike, as_score, distance, finite_number

__all__ = [
    "KINDS",
    "Direction",
    "Dominating",
    "IncompleteTopK",
    "Nearest",
    "Query",
    "Range",
    "Scored",
    "Threshold",
    "TopK",
    "check_k",
    "checked_prefer",
]  # fmt: skip

Direction = Literal["min", "max"]


class _Scored(Ranking):
    """The base of queries with a score over a single row."""

    family = "topk"
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
    score : Score, str or mapping of column to weight
        See :mod:`topwatch.query.scores`. The name of a column and a mapping are short for a ``linear`` score.
    name : str, optional
        What changes and answers call it; given by the monitor when left out.
    where : mapping of column to (low, high), optional
        Only rows inside these closed ranges are ranked.

    Examples
    --------
    >>> from topwatch import TopK, linear
    >>> TopK(k=10, score=linear(bytes=1.0), where={"port": (0, 1023)}).columns
    ('bytes', 'port')
    >>> TopK(10, score="bytes") == TopK(10, score={"bytes": 1.0}) == TopK(10, score=linear(bytes=1.0))
    True
    """

    k: int
    score: Score
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)

    if TYPE_CHECKING:  # it takes more than the field holds

        def __init__(
            self, k: int, score: ScoreLike, name: str | None = None, where: Mapping[str, Range] = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", as_score("TopK: score", self.score))
        check_common(self)
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
        check_common(self)
        check_k(type(self).__name__, self.k)


@dataclass(frozen=True)
class Threshold(_Scored):
    """Every row whose score is better than ``above`` (for a distance: smaller); ``score`` is as of :class:`TopK`.

    >>> from topwatch import Threshold, linear
    >>> Threshold(score=linear(bytes=1.0), above=0.9).columns
    ('bytes',)
    >>> Threshold(score="bytes", above=0.9).score == linear(bytes=1.0)
    True
    """

    score: Score
    above: float
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)

    if TYPE_CHECKING:  # it takes more than the field holds

        def __init__(
            self, score: ScoreLike, above: float, name: str | None = None, where: Mapping[str, Range] = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", as_score("Threshold: score", self.score))
        check_common(self)
        object.__setattr__(self, "above", finite_number("Threshold: above", self.above))


class _Preferring(Ranking):
    """The base of queries that prefer some columns."""

    prefer: Mapping[str, Direction]

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefer", checked_prefer(type(self).__name__, self.prefer))
        check_common(self)

    @property
    def signs(self) -> tuple[float, ...]:
        """For each column 1, or -1 where more is better: of values times their signs smaller ones are better."""
        return tuple(1.0 if better == "min" else -1.0 for better in self.prefer.values())

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns it ranks by, in order."""
        return tuple(self.prefer)


@dataclass(frozen=True)
class Dominating(_Preferring):
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

    family = "dominating"
    k: int
    prefer: Mapping[str, Direction] = field(hash=False)
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_k(type(self).__name__, self.k)


@dataclass(frozen=True)
class Skyline(_Preferring):
    """The rows that no other row dominates; all have the score 0.

    A row dominates another when it is at least as good in every column of ``prefer`` and better in one. Rows with equal
    values do not dominate each other.

    Parameters
    ----------
    prefer : mapping of column to "min" or "max"
        The columns that count, each with what is better there.
    name : str, optional
        What changes and answers call it; given by the monitor when left out.
    where : mapping of column to (low, high), optional
        Only rows inside these closed ranges are ranked, and only they dominate others.

    Examples
    --------
    >>> from topwatch import Skyline
    >>> Skyline(prefer={"price": "min", "stars": "max"}, where={"km": (0, 5)}).columns
    ('price', 'stars', 'km')
    """

    family = "skyline"
    prefer: Mapping[str, Direction] = field(hash=False)
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class FrequentSkyline(_Preferring):
    """The ids that are in the skyline in at least a share of the last snapshots; the score is their share.

    A snapshot is taken at every evaluation of a ``latest()`` window, with ``every="1 minute"`` at each minute that
    passes, also without rows. While there have been fewer than ``snapshots``, the share is of those so far (SIGMOD
    2009, Definitions 5 and 6).

    Parameters
    ----------
    prefer : mapping of column to "min" or "max"
        As of :class:`Skyline`.
    share : float
        Above 0 and at most 1.
    snapshots : int
        How many of the last snapshots count.
    name, where : optional
        As of :class:`Skyline`.

    Examples
    --------
    >>> from topwatch import FrequentSkyline
    >>> FrequentSkyline(prefer={"price": "min", "stars": "max"}, share=0.8, snapshots=1000).share
    0.8
    """

    family = "skyline"
    prefer: Mapping[str, Direction] = field(hash=False)
    share: float
    snapshots: int
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        share = finite_number("FrequentSkyline: share", self.share)
        if not 0 < share <= 1:
            raise QueryError(f"FrequentSkyline: share: expected a number above 0 and at most 1, got {self.share!r}")
        object.__setattr__(self, "share", share)
        many = self.snapshots
        if isinstance(many, bool) or not isinstance(many, numbers.Integral) or not 1 <= many < 2**31:
            raise QueryError(
                f"FrequentSkyline: snapshots: expected a whole number from 1 to 2,147,483,647, got {many!r}"
            )


Scored = TopK | Nearest | Threshold
Preferring = Dominating | Skyline | FrequentSkyline
Query = Scored | Preferring | IncompleteTopK
KINDS = (TopK, Nearest, Threshold, Dominating, Skyline, FrequentSkyline, IncompleteTopK)


def snapshots_of(query: Query) -> int:
    """Return how many of the last evaluations a query counts over: 1 unless it is a :class:`FrequentSkyline`."""
    return int(query.snapshots) if isinstance(query, FrequentSkyline) else 1


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
