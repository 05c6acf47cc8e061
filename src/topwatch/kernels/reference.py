"""Reference rows: a row is bounded by one that is at least as good in every column (TKDE 2011, section 4.2)."""

from __future__ import annotations

from topwatch.kernels.blocks import BEGIN, FIRST, NO_BOUND, SIZE, Blocks
from topwatch.kernels.compile import ZERO, leaf, long
from topwatch.kernels.counting import coordinate
from topwatch.kernels.course import BAR, Course
from topwatch.kernels.intervals import bound_of
from topwatch.kernels.lanes import GUARD, covers, no_worse
from topwatch.kernels.queue import NO_EVENT

LOOKED_AT = 2048  # rows at most, for a reference row


@leaf
def by_reference(g: Course, b: Blocks, code: int, slot: int) -> int:
    """Return a bound by a row that is at least as good and has an event, NO_BOUND where none is found that helps.

    Cells are searched in the order of section 4.2: the row's own, then by how many steps they lie before it.
    """
    d = len(g.lanes.place)
    guard = g.lanes.masks[GUARD]
    looked = ZERO
    steps = ZERO
    total = ZERO
    for j in range(d):
        total += coordinate(g.lanes, j, code)
    while steps <= total and looked < LOOKED_AT:
        more = _first_offset(g, code, steps)
        while more and looked < LOOKED_AT:
            cell = 0
            for j in range(d):
                cell |= (coordinate(g.lanes, j, code) - g.offset[j]) << g.lanes.place[j]
            start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
            looked += b.count[cell] + 1
            for at in range(start, start + b.cell[cell, SIZE]):
                if covers(code, b.code[at], guard):
                    r = long(b.slot[at])
                    if r != slot and g.queue.due[r] != NO_EVENT and g.queue.score[r] != NO_BOUND:
                        if bound_of(g, r) < g.now[BAR] and no_worse(g.lanes, g.rows, r, slot):
                            return bound_of(g, r)
            more = _next_offset(g, code, steps)
        steps += 1
    return NO_BOUND


@leaf
def _first_offset(g: Course, code: int, steps: int) -> bool:
    left = steps
    for j in range(len(g.offset)):
        g.offset[j] = min(left, coordinate(g.lanes, j, code))
        left -= g.offset[j]
    return left == 0


@leaf
def _next_offset(g: Course, code: int, steps: int) -> bool:
    """Go to the next way to take so many steps back, as one writes a number as a sum of bounded numbers."""
    d = len(g.offset)
    freed = ZERO
    for j in range(d - 1):
        freed += g.offset[j]
        if freed > 0 and g.offset[j + 1] < coordinate(g.lanes, j + 1, code):
            g.offset[j + 1] += 1
            freed -= 1
            for i in range(j + 1):
                g.offset[i] = min(freed, coordinate(g.lanes, i, code))
                freed -= g.offset[i]
            return True
    return False
