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
    least = long(g.sums[first]) if first >= 0 else ZERO
    return g.now[TOP] - g.now[BAR] < g.now[BAR] - least
