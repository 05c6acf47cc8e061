"""When a client speaks: plain functions of numbers, or of arrays with a number for each of many clients.

The client of one device and the simulation of ten thousand call the same functions, so that what is simulated is what
devices do. Nothing is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ALL = 0  # no filter, no schedule: every change is reported
FILTER = 1  # FM: only what leaves the filter
SAMPLE = 2  # SM: only at sampled timestamps
MIXED = 3  # MM: both
MODES = ("all", "filter", "sample", "mixed")


def ranked(values: Iterable[Any]) -> Any:
    """Tell whether no value is missing.

    >>> ranked([1.0, 2.0]), ranked([1.0, float("nan")])
    (True, False)
    """
    whole: Any = True
    for value in values:
        whole = whole & (value == value)
    return whole


def outside(low: Iterable[Any], high: Iterable[Any], values: Iterable[Any]) -> Any:
    """Tell whether values have left the closed box; missing ones have.

    >>> outside([0.0, 0.0], [1.0, 1.0], [0.5, 1.0]), outside([0.0], [1.0], [float("nan")])
    (False, True)
    """
    left: Any = False
    for least, most, value in zip(low, high, values, strict=True):
        left = left | ((least <= value) & (value <= most) == False)  # noqa: E712
    return left


def changed(before: Iterable[Any], values: Iterable[Any]) -> Any:
    """Tell whether a value is another than before; missing and missing are the same.

    >>> changed([1.0, float("nan")], [1.0, float("nan")]), changed([1.0], [2.0])
    (False, True)
    """
    other: Any = False
    for old, new in zip(before, values, strict=True):
        other = other | ((old != new) & ((old == old) | (new == new)))
    return other


def speaks(mode: Any, sampled: bool, whole: Any, left: Any, other: Any) -> Any:
    """Tell whether a client has to send its values at a timestamp.

    Parameters
    ----------
    mode : int
        What the server has ordered.
    sampled : bool
        Whether the schedule has this timestamp.
    whole, left, other : bool
        Results of :func:`ranked`, :func:`outside` and :func:`changed`, the last beside what was sent last.

    Examples
    --------
    >>> speaks(FILTER, True, True, False, True), speaks(MIXED, True, True, False, True)
    (False, True)
    """
    to_tell = whole | other  # that values are missing is reported once
    return (
        ((mode == ALL) & other)
        | (((mode == FILTER) | (mode == MIXED)) & left)
        | (((mode == SAMPLE) | (mode == MIXED)) & to_tell & sampled)
    )
