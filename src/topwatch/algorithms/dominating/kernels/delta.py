"""Δt: which rows become candidates, whose scores are followed, and which need not be any longer (TKDE 2011, 5.2)."""

from __future__ import annotations

from topwatch.algorithms.dominating.kernels.blocks import Blocks
from topwatch.algorithms.dominating.kernels.counting import COMPARED
from topwatch.algorithms.dominating.kernels.event_state import (
    ARRIVALS,
    EVENTS,
    LOOKED,
    MADE,
    NEAR,
    SPENT,
    TENDED,
    THRESHOLD,
    Course,
)
from topwatch.algorithms.dominating.kernels.exact_scores import ROWS, Contenders, drop
from topwatch.algorithms.dominating.kernels.intervals import schedule
from topwatch.core.jit import ZERO, inner, leaf

# What is spent, in comparisons with a candidate: on one with a row whose score is counted, and on an event.
COUNT, EVENT = 4, 500


@leaf
def adjust(g: Course, c: Contenders) -> None:
    """Let Δt grow while more is spent on events and counts than on following candidates, and shrink otherwise.

    Every arrival, every expiry and every row that is due is compared with all candidates. There are ``most`` of them
    at most.
    """
    counted = g.walk.counters[COMPARED] - g.now[SPENT]
    seen = g.now[EVENTS] - g.now[LOOKED]
    came = g.now[ARRIVALS] - g.now[TENDED]
    spent = COUNT * counted + EVENT * (seen - came)
    passed = 2 * came + seen
    others = c.size[ROWS] - g.rules.k
    near = g.now[NEAR]
    if others < g.rules.most and spent > others * passed:
        near += max(1, near >> 3)
    else:
        near -= near >> 6
    g.now[NEAR] = max(2, min(near, 3 * g.now[THRESHOLD] >> 3))
    g.now[SPENT] += counted
    g.now[LOOKED] = g.now[EVENTS]
    g.now[TENDED] = g.now[ARRIVALS]


@inner
def dismiss(g: Course, b: Blocks, c: Contenders) -> None:
    """Give events to the contenders that need not be followed: all but members, or those due late.

    Not in the paper, which has no rule for candidates to leave.
    """
    near = 2 * g.now[NEAR] + 1 if g.rules.most > 0 else 0
    if g.rules.most > 0 and c.size[ROWS] >= g.rules.k + g.rules.most:
        near = g.now[NEAR]
    i = ZERO
    while i < c.size[ROWS]:
        if c.member[i] + c.shown[i] == 0 and schedule(g, b, c, c.slot[i], c.score[i], near):
            drop(c, i)
        else:
            i += 1
    g.now[MADE] = -1  # what was dropped may be among its cell's later dominators now
