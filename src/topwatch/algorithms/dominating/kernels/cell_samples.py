"""What AHBA believes of a cell's rows instead of counting them: the mean of a sample (TKDE 2011, section 7.1)."""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import BEGIN, FIRST, SIZE, Blocks
from topwatch.algorithms.dominating.kernels.codes import COORDINATES, GUARD, STEP, cell_of, covers
from topwatch.algorithms.dominating.kernels.event_queue import NO_EVENT, dequeue, enqueue
from topwatch.algorithms.dominating.kernels.event_state import (
    ARRIVALS,
    CLOCK,
    DRAWN,
    ESTIMATES,
    FAR,
    THRESHOLD,
    Course,
    exact_score,
    is_among,
)
from topwatch.algorithms.dominating.kernels.exact_scores import ROWS, Contenders, join, with_seats
from topwatch.core.jit import ZERO, inner, leaf, long


@leaf
def below_samples(g: Course, s: Contenders, code: int) -> tuple[int, bool]:
    """Return the least score of the sampled rows that are at least as good, and whether one's cell is wholly before.

    Scores of samples are exact, and so is this bound. A cell behind a sampled one needs no sample (section 7.1).
    """
    guard = g.lanes.masks[GUARD]
    index = code & g.lanes.masks[COORDINATES]
    least = ZERO + FAR
    behind_one = False
    for i in range(s.size[ROWS]):
        if covers(code, s.sure[i], guard):
            least = min(least, s.score[i])
            behind_one |= covers(index, (s.code[i] & g.lanes.masks[COORDINATES]) + g.lanes.masks[STEP], guard)
    return least, behind_one


@inner
def estimate(g: Course, b: Blocks, s: Contenders, code: int) -> tuple[float, Contenders]:
    """Return the mean score of a sample of a cell's rows, drawn where there is none, and the samples (section 7.1)."""
    cell = cell_of(g.lanes, code)
    mine = code & g.lanes.masks[COORDINATES]
    have = ZERO
    total = ZERO
    for i in range(s.size[ROWS]):
        if s.code[i] & g.lanes.masks[COORDINATES] == mine:
            have += 1
            total += s.score[i]
    size = long(b.cell[cell, SIZE])
    start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
    while have < min(size, g.rules.samples):
        g.now[DRAWN] = (g.now[DRAWN] * 1103515245 + 12345) & 0x7FFFFFFF
        draw = (g.now[DRAWN] >> 8) % size
        while is_among(g, s, long(b.slot[start + draw])):
            draw = (draw + 1) % size
        at = start + draw
        slot = long(b.slot[at])
        s = with_seats(s, 1)
        score = exact_score(g, b, b.code[at], slot)
        join(g.lanes, s, b.code[at], slot, g.rows.seq[slot], score)
        if g.queue.due[slot] != NO_EVENT:
            # What is known of it now may be more than what it was put off by.
            dequeue(g.queue, slot)
            g.queue.score[slot] = score
            g.queue.made[slot] = g.now[ARRIVALS]
            enqueue(g.queue, slot, g.now[CLOCK])
        have += 1
        total += score
    return total / max(1, have), s


@inner
def believe(g: Course, b: Blocks, s: Contenders, code: int) -> tuple[int, Contenders]:
    """Return what AHBA takes for a bound of a row: a sampled row's score, or the mean of its cell's (section 7.1)."""
    bound, behind_one = below_samples(g, s, code)
    if bound < g.now[THRESHOLD] or behind_one:
        return bound, s
    mean, s = estimate(g, b, s, code)
    g.now[ESTIMATES] += 1
    return min(bound, long(np.ceil(mean))), s
