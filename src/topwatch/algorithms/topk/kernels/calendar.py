"""The calendar: which queries keep a row that expires next, without a look at all of them.

Each query is noted at the ordinal of the oldest row it keeps (or an older one: then a check changes nothing). As the
head of the window passes, the queries noted there are checked. O(1) per note, one look per row that expires.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.sorted_runs import FAR
from topwatch.core.jit import inlined, kernel
from topwatch.core.kernels.scoring import Ints


class Calendar(NamedTuple):
    """Queries by the slot of the ordinal they are noted at, in lists linked both ways."""

    first: np.ndarray  # int32, by slot; -1 where no query is noted
    following: np.ndarray  # int32, by query
    before: np.ndarray  # int32, by query; -1 for the first of a list
    due: Ints  # by query: ordinal it is noted at, FAR when at none


def new_calendar(slots: int, queries: int) -> Calendar:
    """Return a calendar with nothing noted."""
    none = np.full(queries, -1, np.int32)
    return Calendar(np.full(slots, -1, np.int32), none, none.copy(), np.full(queries, FAR))


@kernel
def note_all(calendar: Calendar, oldest: Ints, mask: int) -> None:
    """Note each query at the ordinal of its oldest row."""
    for q in range(len(oldest)):
        note(calendar, q, oldest[q], mask)


@inlined
def note(calendar: Calendar, q: int, ordinal: int, mask: int) -> None:
    """Note a query at another ordinal, or at none (FAR)."""
    due = calendar.due[q]
    if due == ordinal:
        return
    if due != FAR:
        after = calendar.following[q]
        previous = calendar.before[q]
        if previous >= 0:
            calendar.following[previous] = after
        else:
            calendar.first[due & mask] = after
        if after >= 0:
            calendar.before[after] = previous
    calendar.due[q] = ordinal
    if ordinal != FAR:
        after = calendar.first[ordinal & mask]
        calendar.first[ordinal & mask] = q
        calendar.following[q] = after
        calendar.before[q] = -1
        if after >= 0:
            calendar.before[after] = q


@inlined
def any_noted(calendar: Calendar, start: int, stop: int, mask: int) -> bool:
    """Tell whether a query is noted at one of some ordinals."""
    for ordinal in range(start, stop):
        if calendar.first[ordinal & mask] >= 0:
            return True
    return False
