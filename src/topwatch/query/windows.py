"""Which rows count: the newest so many, those of the last so many minutes, or the latest state of every id."""

from __future__ import annotations

import datetime
import numbers
import re
from dataclasses import dataclass
from fractions import Fraction

from topwatch.query.errors import QueryError, nearest_name

SECOND = 1_000_000_000
MOST = 2**62 - 1  # of what is counted: sums of two such numbers still have 64 bits

_UNITS = {
    "nanosecond": 1,
    "microsecond": 1_000,
    "millisecond": 1_000_000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": 3_600 * SECOND,
    "day": 86_400 * SECOND,
    "week": 604_800 * SECOND,
}
_SHORT = {
    "ns": "nanosecond",
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "m": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


@dataclass(frozen=True)
class LastRows:
    """The newest ``rows`` rows; made by :func:`last`."""

    rows: int

    def __str__(self) -> str:
        return f"last {self.rows:,} rows"


@dataclass(frozen=True)
class LastTime:
    """The rows of the last ``nanoseconds`` of event time; made by :func:`last`."""

    nanoseconds: int

    def __str__(self) -> str:
        return f"last {in_words(self.nanoseconds)}"


@dataclass(frozen=True)
class Latest:
    """One live row per id; made by :func:`latest`."""

    def __str__(self) -> str:
        return "latest row of each id"


Window = LastRows | LastTime | Latest


def last(extent: int | str | datetime.timedelta) -> LastRows | LastTime:
    """Return the window of the newest ``extent`` rows (a number) or of a span of event time (a string or timedelta).

    >>> last(100_000)
    LastRows(rows=100000)
    >>> last("10 minutes") == last("600 s") == last(datetime.timedelta(minutes=10))
    True
    """
    if isinstance(extent, str | datetime.timedelta):
        return LastTime(duration("window: last", extent))
    if isinstance(extent, bool) or not isinstance(extent, numbers.Integral):
        raise QueryError(f"window: last: expected a number of rows or a time such as '10 minutes', got {extent!r}")
    if extent < 1:
        raise QueryError(f"window: last: expected at least 1 row, got {extent!r}")
    if extent > MOST:
        raise QueryError(f"window: last: expected at most {MOST:,} rows, got {extent!r}")
    return LastRows(int(extent))


def latest() -> Latest:
    """Return the window that keeps one live row per id."""
    return Latest()


def duration(path: str, text: str | datetime.timedelta) -> int:
    """Parse a positive span of time into nanoseconds.

    >>> duration("every", "1 hour 30 min") // SECOND
    5400
    """
    if isinstance(text, datetime.timedelta):
        total = (text.days * 86_400 + text.seconds) * SECOND + text.microseconds * 1_000
    else:
        total = _parse(path, text)
    if not 0 < total < 2**62:
        raise QueryError(f"{path}: expected a time longer than zero such as '10 minutes', got {text!r}")
    return total


def in_words(nanoseconds: int) -> str:
    """Return a span of time in the largest unit that it is a multiple of.

    >>> in_words(600 * SECOND), in_words(SECOND), in_words(1_500_000_000)
    ('10 minutes', '1 second', '1,500 milliseconds')
    """
    unit = next(unit for unit in reversed(_UNITS) if nanoseconds % _UNITS[unit] == 0)
    number = nanoseconds // _UNITS[unit]
    return f"{number:,} {unit}{'s' if number != 1 else ''}"


def bytes_in_words(count: float) -> str:
    """Return a number of bytes in words.

    >>> bytes_in_words(800), bytes_in_words(2_000), bytes_in_words(47_300_000), bytes_in_words(1_500_000_000)
    ('800 bytes', '2 kB', '47.3 MB', '1.5 GB')
    """
    for unit, size, digits in (("TB", 1e12, 1), ("GB", 1e9, 1), ("MB", 1e6, 1), ("kB", 1e3, 0)):
        if count >= size:
            return f"{count / size:,.{digits}f} {unit}"
    return f"{count:.0f} bytes"


def _parse(path: str, text: str) -> int:
    total = Fraction(0)
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise QueryError(f"{path}: expected a time such as '10 minutes' or '1 hour 30 s', got {text!r}")
        word = part.group(2)
        unit = _SHORT.get(word, word.lower().removesuffix("s"))
        unit = _SHORT.get(unit, unit)
        if unit not in _UNITS:
            hint = nearest_name(word, [u + "s" for u in _UNITS])
            raise QueryError(f"{path}: unknown unit {word!r} in {text!r}; accepted are {', '.join(_UNITS)}{hint}")
        total += Fraction(part.group(1)) * _UNITS[unit]
        position = part.end()
    return int(total)
