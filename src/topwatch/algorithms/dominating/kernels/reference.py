"""Reference rows: a row is bounded by one that is at least as good in every column (TKDE 2011, section 4.2)."""

from __future__ import annotations

from topwatch.algorithms.dominating.kernels.blocks import BEGIN, FIRST, NO_BOUND, SIZE, Blocks
from topwatch.algorithms.dominating.kernels.codes import GUARD, covers, no_worse
from topwatch.algorithms.dominating.kernels.counting import coordinate
from topwatch.algorithms.dominating.kernels.event_queue import NO_EVENT
from topwatch.algorithms.dominating.kernels.event_state import Course
from topwatch.algorithms.dominating.kernels.intervals import bound_of
from topwatch.core.jit import ZERO, inlined, leaf, long

LOOKED_AT = 32_768  # rows at most, for a reference row: still far fewer than are compared to count a score


@leaf
def by_reference(g: Course, b: Blocks, code: int, slot: int, limit: int) -> int:
    """Return a bound below a limit, by a row that is at least as good and has an event; NO_BOUND where none is found.

    Cells are searched in the order of section 4.2, those near the row's own first, but by lines along the first column:
    the cells of a line lie side by side, and where there are no rows they are passed in no time.
    """
    last = coordinate(g.lanes, 0, code)
    looked = ZERO
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
                    looked += b.count[cell]
            if looked > LOOKED_AT:
                return NO_BOUND
            more = _next_offset(g, code)
        steps += 1
    return NO_BOUND


@inlined
def _by_reference_in(g: Course, b: Blocks, cell: int, code: int, slot: int, limit: int) -> int:
    guard = g.lanes.masks[GUARD]
    guarded = code | guard
    start = long(b.cell[cell, FIRST] + b.cell[cell, BEGIN])
    codes = b.code[start : start + b.cell[cell, SIZE]]
    result = ZERO
    for i in range(len(codes)):
        result += int((guarded - codes[i]) & guard == guard)
    if result > 0:
        for i in range(len(codes)):
            if covers(code, codes[i], guard):
                r = long(b.slot[start + i])
                if r != slot and g.queue.due[r] != NO_EVENT and g.queue.score[r] != NO_BOUND:
                    if bound_of(g, r) < limit and no_worse(g.lanes, g.rows, r, slot):
                        return bound_of(g, r)
    return NO_BOUND


@leaf
def _first_offset(g: Course, code: int, steps: int) -> bool:
    """Take so many steps back in all columns but the first; False where there are fewer."""
    left = steps
    for j in range(1, len(g.offset)):
        g.offset[j] = min(left, coordinate(g.lanes, j, code))
        left -= g.offset[j]
    return left == 0


@leaf
def _next_offset(g: Course, code: int) -> bool:
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
