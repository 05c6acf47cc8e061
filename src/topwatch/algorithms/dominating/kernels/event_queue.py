"""The event queue: for each row the moment at which it is looked at again, in a ring of buckets.

Moments are counts of single events. A bucket is a doubly linked list through the rows' slots, so that putting in and
taking out are O(1); an event further off than the ring is long is met early, and put back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.jit import leaf
from topwatch.core.kernels.scoring import Ints

NO_EVENT = -1  # nothing is known of the row, or it is a contender
OBSOLETE = -2  # the row expires before it is due; what is known of it still serves others
NOBODY = -1


class Queue(NamedTuple):
    """Events by slot."""

    due: Ints
    score: np.ndarray  # int32: the bound of the row's score when the event was made
    made: Ints  # arrivals until then
    after: np.ndarray  # int32: next in the bucket
    before: np.ndarray  # int32: previous in the bucket
    bucket: np.ndarray  # int32: first of each bucket


@leaf
def enqueue(q: Queue, slot: int, due: int) -> None:
    """Put a row in."""
    b = due & (len(q.bucket) - 1)
    first = q.bucket[b]
    q.due[slot] = due
    q.after[slot] = first
    q.before[slot] = NOBODY
    if first != NOBODY:
        q.before[first] = slot
    q.bucket[b] = slot


@leaf
def dequeue(q: Queue, slot: int) -> None:
    """Take a row out, if it is in, and forget its event."""
    due = q.due[slot]
    q.due[slot] = NO_EVENT
    if due < 0:
        return
    after = q.after[slot]
    before = q.before[slot]
    if after != NOBODY:
        q.before[after] = before
    if before != NOBODY:
        q.after[before] = after
    else:
        q.bucket[due & (len(q.bucket) - 1)] = after


@leaf
def collect(q: Queue, first: int, last: int, out: Ints) -> int:
    """Take out all rows that are due from moment ``first`` to ``last``; return how many, -1 where they do not fit."""
    result = 0
    for moment in range(max(first, last - len(q.bucket) + 1), last + 1):
        slot = q.bucket[moment & (len(q.bucket) - 1)]
        while slot != NOBODY:
            after = q.after[slot]
            if q.due[slot] <= last:
                if result == len(out):
                    for i in range(result):
                        enqueue(q, out[i], last)
                    return -1
                dequeue(q, slot)
                out[result] = slot
                result += 1
            slot = after
    return result
