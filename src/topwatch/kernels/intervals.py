"""Safe intervals: for how many events a row surely stays out of the answer (TKDE 2011, sections 4 and 5.1)."""

from __future__ import annotations

from topwatch.kernels.blocks import Blocks, find
from topwatch.kernels.compile import ZERO, leaf, long
from topwatch.kernels.contenders import ROWS, Contenders
from topwatch.kernels.course import ARRIVALS, BAR, CLOCK, EVICTED, EXCLUDED, FAR, FIRST_GONE, OBSOLETES, Course, life
from topwatch.kernels.exclusion import excluded
from topwatch.kernels.lanes import COORDINATES, GUARD, STEP, cell_of, covers
from topwatch.kernels.queue import NO_EVENT, OBSOLETE, enqueue


@leaf
def later_dominators(g: Course, b: Blocks, c: Contenders, code: int, slot: int) -> int:
    """Return how many rows outside the answer surely dominate a row and expire later."""
    cell = cell_of(g.lanes, code)
    found = g.passed[cell] - b.bound[find(b, cell, slot)]
    guard = g.lanes.masks[GUARD]
    place = code & g.lanes.masks[COORDINATES]
    seq = g.rows.seq[slot]
    for i in range(c.size[ROWS]):
        ahead = covers(place, (c.code[i] & g.lanes.masks[COORDINATES]) + g.lanes.masks[STEP], guard)
        found -= int(ahead and c.member[i] == 1 and c.seq[i] > seq)
    return max(ZERO, long(found))


@leaf
def interval(g: Course, b: Blocks, c: Contenders, code: int, slot: int, score: int) -> int:
    """Return for how many events a row with at most this score surely stays out of the answer.

    With r later dominators it stays out until r + 1 of the k members have expired or been overtaken, each whichever
    comes first for it: the (r + 1)-th smallest of min(life, score_j - score). (Lemma 2 takes the smaller of two order
    statistics instead, which is too long where one member expires and another is overtaken.)
    """
    shortest = min(g.now[FIRST_GONE], g.now[BAR] - score)
    if not g.rules.later:
        return shortest
    r = later_dominators(g, b, c, code, slot)
    if r == 0:
        return shortest
    if r >= g.rules.k:
        return FAR
    n = ZERO
    for i in range(c.size[ROWS]):
        if c.member[i] == 1:
            left = min(life(g, c.seq[i]), c.score[i] - score)
            # The r + 1 smallest so far, rising.
            j = min(n, r + 1)
            if j == r + 1:
                if left >= g.lives[r]:
                    continue
                j = r
            while j > 0 and g.lives[j - 1] > left:
                g.lives[j] = g.lives[j - 1]
                j -= 1
            g.lives[j] = left
            n += 1
    return g.lives[r]


@leaf
def schedule(g: Course, b: Blocks, c: Contenders, slot: int, score: int, least: int) -> bool:
    """Make a row's event; False when it is due in less than ``least`` events, and then none is made."""
    code = g.codes[slot]
    wait = interval(g, b, c, code, slot, score)
    if wait < least:
        return False
    q = g.queue
    q.score[slot] = score
    q.made[slot] = g.now[ARRIVALS]
    out = excluded(g, code)
    g.now[EXCLUDED] += int(out)
    if out or wait > life(g, g.rows.seq[slot]) + 1:
        # Obsolete: the row expires first. What is kept serves as reference row.
        spread = (g.rows.seq[slot] * 0x9E3779B1) & 0xFFFFFF
        keep = spread < g.rules.kept * 0x1000000
        q.due[slot] = OBSOLETE if keep else NO_EVENT
        g.now[OBSOLETES] += int(keep)
        g.now[EVICTED] += int(not keep)
    else:
        enqueue(q, slot, g.now[CLOCK] + max(1, wait))
    return True


@leaf
def bound_of(g: Course, slot: int) -> int:
    """Return the bound of a row's score that its event tells."""
    return g.queue.score[slot] + g.now[ARRIVALS] - g.queue.made[slot]
