"""Options of algorithms: what each accepts, and what it says to anything else."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, Protocol

from topwatch.query.errors import QueryError


class Option(Protocol):
    """A setting of an algorithm."""

    def check(self, name: str, value: Any) -> None:
        """Raise a :class:`QueryError` for a value that the option does not accept."""


@dataclass(frozen=True)
class Whole:
    """A whole number of at least 1."""

    most: int = 1 << 40
    power_of_two: bool = False

    def check(self, name: str, value: Any) -> None:
        """Refuse anything else."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise QueryError(f"{name}: expected a whole number of at least 1, got {value!r}")
        if self.power_of_two and value & (value - 1):
            raise QueryError(f"{name}: expected a power of two, got {value}")
        if value > self.most:
            raise QueryError(f"{name}: expected at most {self.most:,}, got {value!r}")


@dataclass(frozen=True)
class Seed:
    """A whole number of at least 0."""

    def check(self, name: str, value: Any) -> None:
        """Refuse anything else."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
            raise QueryError(f"{name}: expected a whole number of at least 0, got {value!r}")


@dataclass(frozen=True)
class Share:
    """A number between 0 and 1."""

    ends: bool = False  # 0 and 1 are accepted too

    def check(self, name: str, value: Any) -> None:
        """Refuse anything else."""
        if not _is_number(value) or not (0 < value < 1 or (self.ends and value in (0, 1))):
            raise QueryError(f"{name}: expected a number between 0 and 1, got {value!r}")


@dataclass(frozen=True)
class Number:
    """A number in a range."""

    least: float
    most: float

    def check(self, name: str, value: Any) -> None:
        """Refuse anything else."""
        if not _is_number(value) or not self.least <= value <= self.most:
            raise QueryError(f"{name}: expected a number from {self.least:g} to {self.most:g}, got {value!r}")


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, name: str, value: Any) -> None:
        """Refuse anything else."""
        if not isinstance(value, bool):
            raise QueryError(f"{name}: expected True or False, got {value!r}")


@dataclass(frozen=True)
class Word:
    """One of some words."""

    accepted: tuple[str, ...]

    def check(self, name: str, value: Any) -> None:
        """Refuse anything else."""
        if not isinstance(value, str) or value not in self.accepted:
            *most, last = (repr(word) for word in self.accepted)
            raise QueryError(f"{name}: expected {', '.join(most)} or {last}, got {value!r}")


def view_size(k: int) -> int:
    """Return the ``kmax`` of TSL and SLA: as SIGMOD'06 tuned it for TSL, and about as much between and beyond.

    A view of up to kmax > k rows is what saves searching sorted lists after each expiry.

    >>> [view_size(k) for k in (1, 3, 20, 200)]
    [4, 7, 30, 230]
    """
    tuned = {1: 4, 5: 10, 10: 20, 20: 30, 50: 70, 100: 120}  # section 8
    if k in tuned:
        return tuned[k]
    return max(k + 4, min(2 * k, k + 10) if k < 50 else k + max(20, 3 * k // 20))


MOST_ROWS = 1_000_000  # of an answer, and of whatever takes memory at once
CELLS = SLACK = KMAX = Whole(MOST_ROWS)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
