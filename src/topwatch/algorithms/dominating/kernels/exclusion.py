"""AMSA's exclusion: rows of cells far below the answer are not looked at again (TKDE 2011, section 7.2)."""

from __future__ import annotations

from topwatch.algorithms.dominating.kernels.counting import behind
from topwatch.algorithms.dominating.kernels.event_state import THRESHOLD, TOP, Course
from topwatch.core.jit import ZERO, leaf, long

FAR_BELOW = 2  # the k-th score is halved so often: a row that is so much below it is far below


@leaf
def excluded(g: Course, code: int, bound: int) -> bool:
    """Tell whether a row of at most this score is given no event: its cell is far below the answer, and so is it."""
    threshold = g.now[THRESHOLD]
    if not g.rules.exclude or threshold < 0 or bound > threshold - (threshold >> FAR_BELOW):
        return False
    first = behind(g.lanes, code)
    least = long(g.sums[first]) if first >= 0 else ZERO
    return g.now[TOP] - threshold < threshold - least
