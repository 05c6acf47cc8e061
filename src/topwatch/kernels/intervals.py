"""Safe intervals: for how many events a row surely stays out of the answer (TKDE 2011, sections 4 and 5.1)."""

from __future__ import annotations

from topwatch.kernels.blocks import Blocks, find
from topwatch.kernels.compile import ZERO, inlined, leaf, long
from topwatch.kernels.course import (
    ARRIVALS,
    BAR,
    BEHIND,
    CLOCK,
    EVICTED,
    EXCLUDED,
    FAR,
    FIRST_GONE,
    LIFE,
    OBSOLETES,
    SCORE,
    SEQ,
    Course,
    life,
)
from topwatch.kernels.exclusion import excluded
from topwatch.kernels.lanes import GUARD, cell_of
from topwatch.kernels.queue import NO_EVENT, OBSOLETE, enqueue
from topwatch.kernels.scoring import Ints


@inlined
def later_dominators(g: Course, b: Blocks, code: int, slot: int) -> int:
    """Return how many rows outside the answer surely dominate a row and expire later.

    What its cell has counted since it came, and the rows beside the cell that were noted, less all members that may be
    among them.
    """
    cell = cell_of(g.lanes, code)
    found = g.passed[cell] - b.bound[find(b, cell, slot)]
    if found == 0:
        return ZERO
    guard = g.lanes.masks[GUARD]
    guarded = code | guard
    seq = g.rows.seq[slot]
    codes = g.board[BEHIND]
    ticks = g.board[SEQ]
    members = ZERO
    for i in range(len(codes)):
        members += int((guarded - codes[i]) & guard == guard) & int(ticks[i] > seq)
    return max(ZERO, long(found - members))


@inlined
def interval(g: Course, b: Blocks, code: int, slot: int, score: int) -> int:
    """Return for how many events a row with at most this score surely stays out of the answer, of which k are members.

    With r later dominators it stays out until r + 1 of the k members have expired or been overtaken, each whichever
    comes first for it: the (r + 1)-th smallest of min(life, score_j - score). (Lemma 2 takes the smaller of two order
    statistics instead, which is too long where one member expires and another is overtaken.)
    """
    shortest = min(g.now[FIRST_GONE], g.now[BAR] - score)
    if not g.rules.later:
        return shortest
    r = later_dominators(g, b, code, slot)
    if r == 0:
        return shortest
    if r >= g.rules.k:
        return FAR
    lives = g.board[LIFE]
    scores = g.board[SCORE]
    for i in range(len(lives)):
        g.lives[i] = min(lives[i], scores[i] - score)
    return nth_smallest(g.lives, r)


@leaf
def nth_smallest(values: Ints, n: int) -> int:
    """Return the value that n others precede in rising order; the values are put in another order."""
    low = ZERO
    high = long(len(values) - 1)
    while low < high:
        pivot = values[(low + high) >> 1]
        i = low
        j = high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    return values[n]


@leaf
def schedule(g: Course, b: Blocks, slot: int, score: int, least: int) -> bool:
    """Make a row's event; False when it is due in less than ``least`` events, and then none is made."""
    code = g.codes[slot]
    wait = interval(g, b, code, slot, score)
    if wait < least:
        return False
    q = g.queue
    q.score[slot] = score
    q.made[slot] = g.now[ARRIVALS]
    out = excluded(g, code)
    g.now[EXCLUDED] += int(out)
    # How many events come before a row expires is known in a window of rows; in one of time any number may arrive.
    if out or wait >= FAR or (g.rules.rows > 0 and wait > life(g, g.rows.seq[slot]) + 1):
        # Obsolete: the row expires first, or never gets in. What is kept serves as reference row.
        spread = (g.rows.seq[slot] * 0x9E3779B1) & 0xFFFFFF
        keep = spread < g.rules.kept * 0x1000000
        q.due[slot] = OBSOLETE if keep else NO_EVENT
        g.now[OBSOLETES] += int(keep)
        g.now[EVICTED] += int(not keep)
    else:
        enqueue(q, slot, g.now[CLOCK] + max(1, wait))
    return True


@inlined
def bound_of(g: Course, slot: int) -> int:
    """Return the bound of a row's score that its event tells."""
    return g.queue.score[slot] + g.now[ARRIVALS] - g.queue.made[slot]
