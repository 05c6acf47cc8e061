"""Rows of a first-in-first-out window that no newer one dominates, oldest first: only they can come into the skyline.

Each knows its youngest dominator. That one is older and stays as long as the row does, and when it has expired, so have
all others: then the row is in the skyline. A new row is compared with the others from the newest on. Once one
dominates it, the rest need not be looked at: what the new row dominates there, that one has dropped already.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.skyline.kernels.comparing import set_beside
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, Rows, Step, with_room, write
from topwatch.core.kernels.scoring import Floats, Ints

BLOCK = 64  # rows compared at once
SPARE = 64  # dropped rows that may stay, besides a quarter
DROPPED = 2**62  # until, for a row that is dropped
FIRST, LAST, FRESH, DROPS, GONE, COMPARED = range(6)  # of Unbeaten.now
# FIRST to LAST: indices in use; FRESH: the first that no evaluation has seen; DROPS: dropped among them; GONE: dropped
# since the last evaluation, which had them in its answer; COMPARED: pairs so far.


class Unbeaten(NamedTuple):
    """The rows, by index."""

    value: Floats  # (columns, rows); smaller is better; NaN in the first where a row is dropped
    seq: Ints
    until: Ints  # ordinal of the youngest dominator, 0 where there is none
    reported: Ints  # 1 for rows in the last answer
    gone: Ints  # ordinals of rows in the last answer that are dropped
    now: Ints
    flags: np.ndarray  # (2, BLOCK) of bool


@kernel
def drive_unbeaten(u: Unbeaten, rows: Rows, fresh: Floats, step: Step, query: int, log: Log) -> Log:
    """Take a step; ``fresh`` are the values of the rows that arrive, for which there is room."""
    i = ZERO
    for j in range(len(step.at) + 1):
        last = j == len(step.at)
        until = len(step.arrived) if last else step.arrivals[j]
        while i < until:
            if fresh[0, i] == fresh[0, i]:
                _arrive(u, fresh[:, i], rows.seq[step.arrived[i]], 0)
            i += 1
        if not last:
            log = _evaluate(u, step.heads[j + 1], rows.mask, step.at[j], query, log)
    return log


@kernel
def begin_unbeaten(u: Unbeaten, fresh: Floats, seq: Ints, reported: Ints) -> None:
    """Take rows, oldest first; ``reported`` is 1 for those in the last answer."""
    for i in range(len(seq)):
        if fresh[0, i] == fresh[0, i]:
            _arrive(u, fresh[:, i], seq[i], reported[i])
    u.now[FRESH] = 0


@inner
def _arrive(u: Unbeaten, x: Floats, seq: int, reported: int) -> None:
    until = _compare(u, x)
    if 4 * u.now[DROPS] > u.now[LAST] - u.now[FIRST] + SPARE or u.now[LAST] == len(u.seq):
        _compact(u)
    at = u.now[LAST]
    for c in range(len(x)):
        u.value[c, at] = x[c]
    u.seq[at] = seq
    u.until[at] = until
    u.reported[at] = reported
    u.now[LAST] += 1


@leaf
def _compare(u: Unbeaten, x: Floats) -> int:
    """Drop the rows that a new one dominates; return the ordinal of its youngest dominator, or 0."""
    stop = u.now[LAST]
    while stop > u.now[FIRST]:
        start = max(u.now[FIRST], stop - BLOCK)
        le, ge = u.flags[0, : stop - start], u.flags[1, : stop - start]
        u.now[COMPARED] += len(le)
        if set_beside(x, u.value, start, stop, le, ge):
            for i in range(len(le) - 1, -1, -1):
                if ge[i] and not le[i]:
                    _drop(u, start + i)
                elif le[i] and not ge[i]:
                    return u.seq[start + i]
        stop = start
    return ZERO


@inlined
def _drop(u: Unbeaten, at: int) -> None:
    u.value[0, at] = np.nan
    u.until[at] = DROPPED
    u.now[DROPS] += 1
    if u.reported[at] == 1:
        u.reported[at] = 0
        u.gone[u.now[GONE]] = u.seq[at]
        u.now[GONE] += 1


@leaf
def _compact(u: Unbeaten) -> None:
    """Close the gaps that dropped and expired rows have left."""
    to = ZERO
    fresh = ZERO
    for at in range(u.now[FIRST], u.now[LAST]):
        if at == u.now[FRESH]:
            fresh = to
        if u.until[at] != DROPPED:
            for c in range(len(u.value)):
                u.value[c, to] = u.value[c, at]
            u.seq[to] = u.seq[at]
            u.until[to] = u.until[at]
            u.reported[to] = u.reported[at]
            to += 1
    u.now[FRESH] = fresh if u.now[FRESH] < u.now[LAST] else to
    u.now[FIRST] = 0
    u.now[LAST] = to
    u.now[DROPS] = 0


@inner
def _evaluate(u: Unbeaten, head: int, mask: int, at: int, query: int, log: Log) -> Log:
    """Report the changes since the last evaluation, given the first live ordinal."""
    expired = False
    index = u.now[FIRST]
    while index < u.now[LAST] and (u.until[index] == DROPPED or u.seq[index] < head):
        if u.until[index] == DROPPED:
            u.now[DROPS] -= 1
        else:
            expired = True
            if u.reported[index] == 1:
                u.gone[u.now[GONE]] = u.seq[index]
                u.now[GONE] += 1
        index += 1
    u.now[FIRST] = index
    gone = u.now[GONE]
    first = index if expired else max(index, u.now[FRESH])
    if gone > 0:
        log = with_room(log, gone)
        for i in range(gone):
            write(log, at, query, LEAVE, u.gone[i] & mask, 0.0)
    for i in range(first, u.now[LAST]):
        if u.until[i] < head and u.reported[i] == 0:
            u.reported[i] = 1
            log = with_room(log, 1)
            write(log, at, query, ENTER, u.seq[i] & mask, 0.0)
    u.now[GONE] = 0
    u.now[FRESH] = u.now[LAST]
    return log
