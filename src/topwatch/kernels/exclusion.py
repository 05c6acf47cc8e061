"""AMSA's exclusion: rows of cells far below the answer are not looked at again (TKDE 2011, section 7.2)."""

from __future__ import annotations

from topwatch.kernels.compile import ZERO, leaf, long
from topwatch.kernels.counting import behind
from topwatch.kernels.course import BAR, TOP, Course


@leaf
def excluded(g: Course, code: int) -> bool:
    """Tell whether a cell is so far below the answer that its rows are given no events."""
    if not g.rules.exclude or g.now[BAR] < 0:
        return False
    first = behind(g.lanes, code)
    return _too_low(g, long(g.sums[first]) if first >= 0 else ZERO)


@leaf
def _too_low(g: Course, least: int) -> bool:
    return g.now[TOP] - g.now[BAR] < g.now[BAR] - least


@leaf
def look_no_further(g: Course) -> None:
    """Note along each column where excluded cells begin: later dominators of their rows need no counting.

    A cell has no more rows behind it than the cell on the axis with the same coordinate.
    """
    d = len(g.reach)
    for j in range(d):
        last = (1 << g.lanes.bits[j]) - 1
        cell = ZERO
        for i in range(d):
            if i != j:
                if g.lanes.bits[i] == 0:
                    last = -1
                cell |= 1 << g.lanes.place[i]
        g.reach[j] = 0
        while g.reach[j] < last and not _too_low(g, long(g.sums[cell | ((g.reach[j] + 1) << g.lanes.place[j])])):
            g.reach[j] += 1
