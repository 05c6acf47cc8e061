"""The base of all queries, and the checks that they share."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from topwatch.query.errors import QueryError
from topwatch.query.windows import MOST

Range = tuple[float, float]


class Ranking:
    """The base of all queries."""

    family: ClassVar[str]  # of algorithms: what it ranks by
    where: Mapping[str, Range]
    smaller_is_better = False

    @property
    def sign(self) -> float:
        """1, or -1 where smaller scores are better: of scores times the sign larger ones are better."""
        return -1.0 if self.smaller_is_better else 1.0

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


def check_k(query: str, k: object) -> None:
    """Refuse a k that is no whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
        raise QueryError(f"{query}: k: expected a whole number of at least 1, got {k!r}")
    if int(k) > MOST:
        raise QueryError(f"{query}: k: expected at most {MOST:,}, got {k!r}")


def check_common(query: Any) -> None:
    """Refuse a name or ranges that make no sense; ranges become tuples of numbers."""
    kind = type(query).__name__
    if query.name is not None and (not isinstance(query.name, str) or not query.name):
        raise QueryError(f"{kind}: name: expected a non-empty string, got {query.name!r}")
    if not isinstance(query.where, Mapping):
        raise QueryError(f"{kind}: where: expected a mapping of column to (low, high), got {query.where!r}")
    ranges = {column: _range(kind, column, bounds) for column, bounds in query.where.items()}
    object.__setattr__(query, "where", ranges)


def _too_large(bound: numbers.Real) -> bool:
    """Return whether a whole number is beyond all floats."""
    return isinstance(bound, numbers.Integral) and abs(int(bound)) > sys.float_info.max


def _range(kind: str, column: object, bounds: object) -> Range:
    if not isinstance(column, str) or not column:
        raise QueryError(f"{kind}: where: a column is named by a non-empty string, got {column!r}")
    path = f"{kind}: where[{column!r}]"
    if isinstance(bounds, str) or not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise QueryError(f"{path}: expected a pair (low, high), got {bounds!r}")
    for bound in bounds:
        if isinstance(bound, bool) or not isinstance(bound, numbers.Real) or bound != bound or _too_large(bound):
            raise QueryError(f"{path}: expected a pair of numbers (low, high), got {tuple(bounds)!r}")
    low, high = float(bounds[0]), float(bounds[1])
    if low > high:
        raise QueryError(f"{path}: low {low:g} is above high {high:g}; expected (low, high) with low <= high")
    return low, high
