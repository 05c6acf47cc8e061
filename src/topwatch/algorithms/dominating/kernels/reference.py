"""Bounds of a row's score by other rows that are at least as good: reference rows, and the samples of AHBA.

A reference row is any row with an event (TKDE 2011, section 4.2). AHBA also takes the mean score of a sample of a
cell's rows for a bound of the others (section 7.1).
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import NO_BOUND, Blocks, span
from topwatch.algorithms.dominating.kernels.codes import any_covered, cell_of, coordinate, covers, no_worse
from topwatch.algorithms.dominating.kernels.contenders import ROWS, Contenders, insert, with_capacity
from topwatch.algorithms.dominating.kernels.event_state import (
    FAR,
    NO_EVENT,
    EventState,
    dequeue,
    enqueue,
    exact_score,
    is_among,
)
from topwatch.algorithms.dominating.kernels.intervals import bound_of
from topwatch.core.jit import ZERO, inlined, inner, leaf, long

MOST_ROWS = 32_768  # that a search for a reference row visits: far fewer than are compared to count a score


@leaf
def by_reference(g: EventState, b: Blocks, code: int, slot: int, limit: int) -> int:
    """Return a bound below a limit, by a row that is at least as good and has an event; NO_BOUND where there is none.

    Cells are searched in the order of section 4.2, those near the row's own first, but by lines along the first column:
    the cells of a line lie side by side, and empty ones cost next to nothing.
    """
    last = coordinate(g.lanes, 0, code)
    visited = ZERO
    steps = ZERO
    total = ZERO
    for j in range(1, len(g.offset)):
        total += coordinate(g.lanes, j, code)
    while steps <= total:
        more = _first_offset(g, code, steps)
        while more:
            line = ZERO
            for j in range(1, len(g.offset)):
                line |= (coordinate(g.lanes, j, code) - g.offset[j]) << g.lanes.cell_shift[j]
            for cell in range(line + last, line - 1, -1):
                if b.count[cell] > 0:
                    bound = _by_reference_in(g, b, cell, code, slot, limit)
                    if bound != NO_BOUND:
                        return bound
                    visited += b.count[cell]
            if visited > MOST_ROWS:
                return NO_BOUND
            more = _next_offset(g, code)
        steps += 1
    return NO_BOUND


@inlined
def _by_reference_in(g: EventState, b: Blocks, cell: int, code: int, slot: int, limit: int) -> int:
    start, stop = span(b, cell)
    codes = b.code[start:stop]
    if any_covered(g.lanes, code, codes):
        for i in range(len(codes)):
            if covers(code, codes[i], g.lanes.guard):
                r = long(b.slot[start + i])
                if r != slot and g.queue.due[r] != NO_EVENT and g.queue.score[r] != NO_BOUND:
                    if bound_of(g, r) < limit and no_worse(g.lanes, g.rows, r, slot):
                        return bound_of(g, r)
    return NO_BOUND


@leaf
def _first_offset(g: EventState, code: int, steps: int) -> bool:
    """Take so many steps back in all columns but the first; False where there are fewer."""
    left = steps
    for j in range(1, len(g.offset)):
        g.offset[j] = min(left, coordinate(g.lanes, j, code))
        left -= g.offset[j]
    return left == 0


@leaf
def _next_offset(g: EventState, code: int) -> bool:
    """Go to the next way to take as many steps back, as one writes a number as a sum of bounded numbers."""
    freed = ZERO
    for j in range(1, len(g.offset) - 1):
        freed += g.offset[j]
        if freed > 0 and g.offset[j + 1] < coordinate(g.lanes, j + 1, code):
            g.offset[j + 1] += 1
            freed -= 1
            for i in range(1, j + 1):
                g.offset[i] = min(freed, coordinate(g.lanes, i, code))
                freed -= g.offset[i]
            return True
    return False


@leaf
def below_samples(g: EventState, s: Contenders, code: int) -> tuple[int, bool]:
    """Return the least score of the sampled rows that are at least as good, and whether one's cell is wholly before.

    Scores of samples are exact, and so is this bound. A cell behind a sampled one needs no sample (section 7.1).
    """
    guard = g.lanes.guard
    index = code & g.lanes.coordinates
    least = ZERO + FAR
    behind_one = False
    for i in range(s.size[ROWS]):
        if covers(code, s.sure[i], guard):
            least = min(least, s.score[i])
            behind_one |= covers(index, (s.code[i] & g.lanes.coordinates) + g.lanes.step, guard)
    return least, behind_one


@inner
def estimate(g: EventState, b: Blocks, s: Contenders, code: int) -> tuple[float, Contenders]:
    """Return the mean score of a sample of a cell's rows, drawn where there is none, and the samples."""
    cell = cell_of(g.lanes, code)
    mine = code & g.lanes.coordinates
    sampled = ZERO
    total = ZERO
    for i in range(s.size[ROWS]):
        if s.code[i] & g.lanes.coordinates == mine:
            sampled += 1
            total += s.score[i]
    start, stop = span(b, cell)
    size = stop - start
    while sampled < min(size, g.rules.samples):
        g.now.drawn = (g.now.drawn * 1103515245 + 12345) & 0x7FFFFFFF
        draw = (g.now.drawn >> 8) % size
        while is_among(g, s, long(b.slot[start + draw])):
            draw = (draw + 1) % size
        at = start + draw
        slot = long(b.slot[at])
        s = with_capacity(s, 1)
        score = exact_score(g, b, b.code[at], slot)
        insert(g.lanes, s, b.code[at], slot, g.rows.seq[slot], score)
        if g.queue.due[slot] != NO_EVENT:
            # Its score may be higher than the bound by which it was postponed.
            dequeue(g.queue, slot)
            g.queue.score[slot] = score
            g.queue.made[slot] = g.now.arrivals
            enqueue(g.queue, slot, g.now.clock)
        sampled += 1
        total += score
    return total / max(1, sampled), s


@inner
def sampled_bound(g: EventState, b: Blocks, s: Contenders, code: int) -> tuple[int, Contenders]:
    """Return what AHBA takes for a bound of a row: the score of a sampled row, or the mean of its cell's sample."""
    bound, behind_one = below_samples(g, s, code)
    if bound < g.now.threshold or behind_one:
        return bound, s
    mean, s = estimate(g, b, s, code)
    g.now.estimates += 1
    return min(bound, long(np.ceil(mean))), s
