"""Rows of a first-in-first-out window that no newer one dominates, oldest first: only they can come into the skyline.

Each knows its youngest dominator. That one is older and stays as long as the row does, and when it has expired, so have
all others: then the row is in the skyline. A new row is compared with the others from the newest on. Once one
dominates it, the others need not be compared: what the new row dominates there, that one has dropped already.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.skyline.kernels.dominance import BLOCK, compare_block
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, stepwise
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, Rows, Step, with_room, write

SPARE = 64  # dropped rows that may stay, besides a quarter
DROPPED = 2**62  # until, for a row that is dropped


class UnbeatenScalars:
    """Numbers beside the arrays; a record."""

    first: int  # indices in use, from the first to before the last
    last: int
    fresh: int  # the first that no evaluation has seen
    drops: int  # dropped ones among them
    gone: int  # dropped since the last evaluation, which had them in its answer
    compared: int  # pairs so far


class Unbeaten(NamedTuple):
    """The rows, by index."""

    value: Floats  # (columns, rows); smaller is better; NaN in the first where a row is dropped
    seq: Ints
    until: Ints  # ordinal of the youngest dominator, 0 where there is none
    reported: Ints  # 1 for rows in the last answer
    gone: Ints  # ordinals of rows in the last answer that are dropped
    now: UnbeatenScalars
    flags: np.ndarray  # (2, BLOCK) of bool


@stepwise
@kernel
def drive_unbeaten(u: Unbeaten, rows: Rows, fresh: Floats, step: Step, query: int, log: Log) -> Log:
    """Process a step; ``fresh`` are the values of the rows that arrive, for which there is room."""
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
    """Begin with rows, oldest first; ``reported`` is 1 for those in the last answer."""
    for i in range(len(seq)):
        if fresh[0, i] == fresh[0, i]:
            _arrive(u, fresh[:, i], seq[i], reported[i])
    u.now.fresh = 0


@inner
def _arrive(u: Unbeaten, x: Floats, seq: int, reported: int) -> None:
    until = _compare(u, x)
    if 4 * u.now.drops > u.now.last - u.now.first + SPARE or u.now.last == len(u.seq):
        _compact(u)
    at = u.now.last
    for c in range(len(x)):
        u.value[c, at] = x[c]
    u.seq[at] = seq
    u.until[at] = until
    u.reported[at] = reported
    u.now.last += 1


@leaf
def _compare(u: Unbeaten, x: Floats) -> int:
    """Drop the rows that a new one dominates; return the ordinal of its youngest dominator, or 0."""
    stop = u.now.last
    while stop > u.now.first:
        start = max(u.now.first, stop - BLOCK)
        le, ge = u.flags[0, : stop - start], u.flags[1, : stop - start]
        u.now.compared += len(le)
        if compare_block(x, u.value, start, stop, le, ge):
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
    u.now.drops += 1
    if u.reported[at] == 1:
        u.reported[at] = 0
        u.gone[u.now.gone] = u.seq[at]
        u.now.gone += 1


@leaf
def _compact(u: Unbeaten) -> None:
    """Close the gaps that dropped and expired rows have left."""
    to = ZERO
    fresh = ZERO
    for at in range(u.now.first, u.now.last):
        if at == u.now.fresh:
            fresh = to
        if u.until[at] != DROPPED:
            for c in range(len(u.value)):
                u.value[c, to] = u.value[c, at]
            u.seq[to] = u.seq[at]
            u.until[to] = u.until[at]
            u.reported[to] = u.reported[at]
            to += 1
    u.now.fresh = fresh if u.now.fresh < u.now.last else to
    u.now.first = 0
    u.now.last = to
    u.now.drops = 0


@inner
def _evaluate(u: Unbeaten, head: int, mask: int, at: int, query: int, log: Log) -> Log:
    """Report the changes since the last evaluation, given the first live ordinal."""
    expired = False
    index = u.now.first
    while index < u.now.last and (u.until[index] == DROPPED or u.seq[index] < head):
        if u.until[index] == DROPPED:
            u.now.drops -= 1
        else:
            expired = True
            if u.reported[index] == 1:
                u.gone[u.now.gone] = u.seq[index]
                u.now.gone += 1
        index += 1
    u.now.first = index
    gone = u.now.gone
    first = index if expired else max(index, u.now.fresh)
    if gone > 0:
        log = with_room(log, gone)
        for i in range(gone):
            write(log, at, query, LEAVE, u.gone[i] & mask, 0.0)
    for i in range(first, u.now.last):
        if u.until[i] < head and u.reported[i] == 0:
            u.reported[i] = 1
            log = with_room(log, 1)
            write(log, at, query, ENTER, u.seq[i] & mask, 0.0)
    u.now.gone = 0
    u.now.fresh = u.now.last
    return log
