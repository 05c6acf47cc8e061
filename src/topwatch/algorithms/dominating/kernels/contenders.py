"""Contenders: the rows whose scores are kept exactly, oldest first, and which of them are the answer.

Every event is compared with all of them in one vectorised pass. They stand in the order of their arrival, so that of
two with equal scores the one behind is the newer one, and comes first in an answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.codes import Lanes, beats, covers, surely
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf
from topwatch.core.kernels.memory import move
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, Rows, with_room, write

CHUNK = 32  # contenders compared together
MOST_SWAPS = 8  # more changes than this are made by sorting
ROOMY = 4096  # a capacity that is never too large
COLUMNS = 8  # of a contender


class Contenders(NamedTuple):
    """Rows with exact scores."""

    table: Ints  # (columns, rows): the columns that follow
    code: Ints
    sure: Ints  # see :func:`surely`
    slot: Ints
    seq: Ints
    score: Ints
    reported: Ints  # the score at the last evaluation
    member: Ints  # 1 for the k best, as far as they have been elected
    shown: Ints  # 1 for the rows of the last evaluation's answer
    gone: Ints  # (rows, 3): slot, tick and last score of shown rows that have expired since then
    size: Ints  # how many there are: rows, members, gone


ROWS, MEMBERS, GONE = range(3)


class Start(NamedTuple):
    """What an algorithm begins with."""

    slots: Ints  # all rows, oldest first; none where it continues
    seeds: Ints  # slots of rows to score first: the last evaluation's answer, then rows that look good
    reported: Ints  # the scores that were reported for that answer


def empty_contenders() -> Contenders:
    """Return no contenders."""
    table, gone = np.zeros((COLUMNS, 64), np.int64), np.zeros((64, 3), np.int64)
    code, sure, slot, seq, score, reported, member, shown = table
    return Contenders(table, code, sure, slot, seq, score, reported, member, shown, gone, np.zeros(3, np.int64))


def ranked_members(c: Contenders) -> tuple[Ints, Floats]:
    """Return slots and scores of the last evaluation's answer, best first."""
    members = np.flatnonzero(c.shown[: c.size[ROWS]])
    order = members[np.lexsort((-c.seq[members], -c.reported[members]))]
    return c.slot[order], c.reported[order].astype(np.float64)


@kernel
def encode_contenders(lanes: Lanes, codes: Ints, c: Contenders) -> None:
    """Give all contenders the codes of a new grid."""
    for i in range(c.size[ROWS]):
        c.code[i] = codes[c.slot[i]]
        c.sure[i] = surely(lanes, c.code[i])


@inner
def with_capacity(c: Contenders, more: int) -> Contenders:
    """Return the contenders, moved to larger arrays when there is no room for ``more``, smaller ones when far too much.

    ``gone`` never overflows: each of its rows was a contender when it was last shown.
    """
    n = c.size[ROWS]
    if n + more <= len(c.code) <= 8 * (n + more) + ROOMY:
        return c
    room = 2 * (n + more) + c.size[GONE]
    t = np.empty((COLUMNS, room), np.int64)
    gone = np.empty((room, 3), np.int64)
    for j in range(COLUMNS):
        for i in range(n):
            t[j, i] = c.table[j, i]
    for i in range(c.size[GONE]):
        for j in range(3):
            gone[i, j] = c.gone[i, j]
    return Contenders(t, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], gone, c.size)


@leaf
def index_of(c: Contenders, seq: int) -> int:
    """Return how many contenders are older than a tick."""
    low = ZERO
    high = c.size[ROWS]
    while low < high:
        middle = (low + high) // 2
        if c.seq[middle] < seq:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def insert(lanes: Lanes, c: Contenders, code: int, slot: int, seq: int, score: int) -> int:
    """Insert a row in the order of ticks, for which there must be room. Returns its index."""
    n = c.size[ROWS]
    at = index_of(c, seq)
    _shift(c, at + 1, at, n - at)
    c.code[at] = code
    c.sure[at] = surely(lanes, code)
    c.slot[at] = slot
    c.seq[at] = seq
    c.score[at] = score
    c.reported[at] = score
    c.member[at] = 0
    c.shown[at] = 0
    c.size[ROWS] = n + 1
    return at


@leaf
def drop(c: Contenders, at: int) -> None:
    """Remove a row that is no member and was not shown."""
    n = c.size[ROWS]
    _shift(c, at, at + 1, n - at - 1)
    c.size[ROWS] = n - 1


@leaf
def drop_expired(c: Contenders, at: int) -> None:
    """Remove a row that has expired; one that was shown is remembered until the next evaluation."""
    c.size[MEMBERS] -= c.member[at]
    if c.shown[at] == 1:
        n = c.size[GONE]
        c.gone[n, 0] = c.slot[at]
        c.gone[n, 1] = c.seq[at]
        c.gone[n, 2] = c.reported[at]
        c.size[GONE] = n + 1
    drop(c, at)


@inlined
def _shift(c: Contenders, to: int, start: int, count: int) -> None:
    for j in range(COLUMNS):
        move(c.table[j], to, start, count)


@inlined
def add_to_dominators(lanes: Lanes, rows: Rows, c: Contenders, code: int, slot: int, change: int) -> None:
    """Add a change to the scores of all contenders that dominate a row."""
    guard = lanes.guard
    guarded = code | guard
    n = c.size[ROWS]
    for first in range(0, n, CHUNK):
        last = min(n, first + CHUNK)
        codes = c.code[first:last]
        sures = c.sure[first:last]
        scores = c.score[first:last]
        unclear = ZERO
        for i in range(len(scores)):
            sure = int((guarded - sures[i]) & guard == guard)
            unclear += int((guarded - codes[i]) & guard == guard) - sure
            scores[i] += change & -(sure & int(codes[i] != code))
        if unclear != 0:
            _decide(lanes, rows, c, code, slot, change, first, last)


@leaf
def _decide(lanes: Lanes, rows: Rows, c: Contenders, code: int, slot: int, change: int, first: int, last: int) -> None:
    """Compare values where codes leave open whether a contender dominates a row."""
    guard = lanes.guard
    for i in range(first, last):
        if covers(code, c.code[i], guard) and not covers(code, c.sure[i], guard):
            if beats(lanes, rows, c.slot[i], c.code[i], slot, code):
                c.score[i] += change


@inlined
def standing(c: Contenders, floor: int) -> tuple[int, int, int]:
    """Return how many scores reach a floor, the worst member's score and the best of the others'."""
    n = c.size[ROWS]
    scores = c.score[:n]
    members = c.member[:n]
    reach = ZERO
    worst = ZERO + 2**62
    best = ZERO - 2**62
    for i in range(len(scores)):
        reach += int(scores[i] >= floor)
        worst = min(worst, scores[i] if members[i] == 1 else 2**62)
        best = max(best, scores[i] if members[i] == 0 else -(2**62))
    return reach, worst, best


@leaf
def is_settled(c: Contenders, k: int, worst: int, best: int) -> bool:
    """Return whether the members are the k best, given :func:`standing`."""
    if c.size[MEMBERS] < min(k, c.size[ROWS]):
        return False
    if best != worst:
        return best < worst
    first = ZERO
    while c.score[first] != worst or c.member[first] == 0:
        first += 1
    last = c.size[ROWS] - 1
    while c.score[last] != best or c.member[last] == 1:
        last -= 1
    return last < first  # of equals, members must be the newer ones


@inlined
def remember_scores(c: Contenders) -> None:
    """Remember the scores of an evaluation."""
    n = c.size[ROWS]
    scores = c.score[:n]
    reported = c.reported[:n]
    for i in range(len(scores)):
        reported[i] = scores[i]


@inner
def elect(c: Contenders, k: int) -> None:
    """Make the k best the members."""
    n = c.size[ROWS]
    if k - c.size[MEMBERS] <= MOST_SWAPS:
        while _swap(c, k):
            pass
        return
    # One number for score and index: of equals the newer has the higher index, and is the better one.
    keys = np.empty(n, np.int64)
    for i in range(n):
        keys[i] = c.score[i] * n + i
    keys.sort()
    left = min(k, n)
    for i in range(n):
        c.member[i] = int(c.score[i] * n + i >= keys[n - left])
    c.size[MEMBERS] = left


@inner
def report(rows: Rows, c: Contenders, at: int, query: int, log: Log) -> Log:
    """Log which members left and entered since they were last shown.

    In a latest window an id whose row was replaced has neither left nor entered.
    """
    n = c.size[ROWS]
    changed = c.size[GONE]
    for i in range(n):
        changed += int(c.shown[i] != c.member[i])
    if changed == 0:
        return log
    log = with_room(log, changed)
    for i in range(n):
        if c.shown[i] > c.member[i]:
            write(log, at, query, LEAVE, c.slot[i], c.reported[i])
    for i in range(c.size[GONE]):
        slot = c.gone[i, 0]
        if rows.fifo or not _is_member(rows, c, rows.entity[slot]):
            write(log, at, query, LEAVE, slot, c.gone[i, 2])
    for i in range(n):
        if c.shown[i] < c.member[i]:
            if rows.fifo or not _was_member(rows, c, rows.entity[c.slot[i]]):
                write(log, at, query, ENTER, c.slot[i], c.score[i])
        c.shown[i] = c.member[i]
    c.size[GONE] = 0
    return log


@leaf
def _swap(c: Contenders, k: int) -> bool:
    """Make the best of the others a member, in place of the worst one when there are k; False when none is better."""
    n = c.size[ROWS]
    worst = ZERO - 1
    best = ZERO - 1
    for i in range(n):
        if c.member[i] == 1:
            if worst < 0 or c.score[i] < c.score[worst]:
                worst = i
        elif best < 0 or c.score[i] >= c.score[best]:
            best = i
    if best < 0:
        return False
    if c.size[MEMBERS] < k:
        c.member[best] = 1
        c.size[MEMBERS] += 1
        return True
    if c.score[best] < c.score[worst] or (c.score[best] == c.score[worst] and best < worst):
        return False
    c.member[best] = 1
    c.member[worst] = 0
    return True


@leaf
def _is_member(rows: Rows, c: Contenders, entity: int) -> bool:
    for i in range(c.size[ROWS]):
        if c.member[i] == 1 and rows.entity[c.slot[i]] == entity:
            return True
    return False


@leaf
def _was_member(rows: Rows, c: Contenders, entity: int) -> bool:
    for i in range(c.size[GONE]):
        if rows.entity[c.gone[i, 0]] == entity:
            return True
    return False
