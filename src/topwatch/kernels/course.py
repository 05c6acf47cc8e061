"""What the loop of ``eva`` and of what is built on it reads and writes at every step.

The clock counts single events: an arrival can raise a row's score by one, an expiry can lower the k-th score by one. So
the interval lemmas of the paper hold for windows of rows and of time, for bursts and for rare judgements alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.kernels.blocks import Blocks, find
from topwatch.kernels.compile import ZERO, inlined, inner, leaf
from topwatch.kernels.contenders import ROWS, Contenders, seat_of
from topwatch.kernels.counting import (
    Walk,
    count_behind,
    count_beside,
    note_beside,
    prefix_sums,
    put_slabs_in_order,
    suffix_sums,
)
from topwatch.kernels.lanes import COORDINATES, STEP, Lanes, cell_of
from topwatch.kernels.queue import Queue
from topwatch.kernels.rows import Rows
from topwatch.kernels.scoring import Ints

FAR = 2**60

# Of Course.now: moments, arrivals, first and last ordinal, k-th score, first expiry of a member, interval of
# candidates, arrivals when the suffix counts were made, and counters: events, kept obsolete ones, evicted ones,
# exclusions; the moment of the last judgement, the last random number, the best score, what estimates there were, and
# how many recent arrivals there are.
(
    CLOCK, ARRIVALS, HEAD, END, BAR, FIRST_GONE, NEAR, SUMMED, EVENTS, OBSOLETES, EVICTED, EXCLUDED, LAST, DRAWN, TOP,
    ESTIMATES, RECENT,
) = range(17)  # fmt: skip


# Of Course.board, by member: the least code of the rows that may have counted it as a later dominator (those of cells
# behind its own, or all that it can dominate if it was noted), its ordinal, score and life.
BEHIND, SEQ, SCORE, LIFE = range(4)


class Rules(NamedTuple):
    """What one algorithm does its own way."""

    k: int
    rows: int  # of a window of rows, 0 for one of time
    later: bool  # later dominators lengthen intervals (ADA, section 5.1)
    most: int  # candidates at most (section 5.2); 0: there are none
    suffix: bool  # suffix counts bound scores too
    exclude: bool  # rows of cells far below are looked at once (AMSA, section 7.2)
    kept: float  # share of obsolete events that are kept (section 5.3)
    samples: int  # rows of a cell whose mean stands for the others (AHBA, section 7.1); 0: none


class Course(NamedTuple):
    """What all steps read and write."""

    rows: Rows
    lanes: Lanes
    codes: Ints  # by slot
    queue: Queue
    passed: np.ndarray  # by cell, int32: rows that have arrived in cells before it in every column, but for recent ones
    coming: np.ndarray  # by cell, int32: recent arrivals in it
    recent: Ints  # slots of the recent arrivals
    noted: np.ndarray  # by slot, bool: rows that were counted as later dominators in the cells beside their own too
    sums: np.ndarray  # by cell, int32: suffix counts
    now: Ints
    walk: Walk
    offset: Ints  # room for the search of reference rows
    board: Ints  # (4, k): the members, as they were when stock was last taken
    lives: Ints  # room for intervals, k of them
    rules: Rules


@leaf
def life(g: Course, seq: int) -> int:
    """Return how many events there will be at least before a row expires."""
    left = seq - g.now[HEAD]
    if g.rules.rows > 0:
        left += max(0, seq + g.rules.rows - g.now[END])
    return left


@leaf
def take_stock(g: Course, c: Contenders) -> None:
    """Write the members on the board; note the best and the k-th score, -1 where there are fewer rows."""
    g.now[BAR] = -1
    first = ZERO + FAR
    worst = ZERO + FAR
    best = ZERO - 1
    n = ZERO
    for i in range(c.size[ROWS]):
        if c.member[i] == 1:
            left = life(g, c.seq[i])
            first = min(first, left)
            worst = min(worst, c.score[i])
            best = max(best, c.score[i])
            behind_it = (c.code[i] & g.lanes.masks[COORDINATES]) + g.lanes.masks[STEP]
            g.board[BEHIND, n] = c.code[i] if g.noted[c.slot[i]] else behind_it
            g.board[SEQ, n] = c.seq[i]
            g.board[SCORE, n] = c.score[i]
            g.board[LIFE, n] = left
            n += 1
    g.now[TOP] = best
    if n == g.rules.k:
        g.now[BAR] = worst
    g.now[FIRST_GONE] = first if n > 0 else 0


@leaf
def exact_score(g: Course, b: Blocks, code: int, slot: int) -> int:
    """Count the rows that a row dominates."""
    put_slabs_in_order(g.lanes, code, g.walk)
    found, _ = count_beside(g.lanes, g.rows, b, code, slot, ZERO + FAR, -ZERO - FAR, g.walk)
    return found + count_behind(g.lanes, b, code, g.walk)


@leaf
def note(g: Course, b: Blocks, code: int, slot: int) -> None:
    """Tell the older rows beside a row's cell, once, that it is a later dominator (TKDE 2011, 5.1, end)."""
    if g.rules.later and not g.noted[slot]:
        g.noted[slot] = True
        put_slabs_in_order(g.lanes, code, g.walk)
        note_beside(g.lanes, b, code, slot, g.now[HEAD] & g.rows.mask, g.rows.mask, g.walk)


@leaf
def pass_by(g: Course, b: Blocks) -> None:
    """Count the recent arrivals in all cells behind their own (TKDE 2011, 5.1), for all rows that were there before.

    All at once, which costs a fraction of one by one. For rows that came among them it is as if they had come last:
    their later dominators are fewer than they might be, which is safe.
    """
    prefix_sums(g.lanes, g.coming)
    step = ZERO
    for j in range(len(g.lanes.place)):
        step += 1 << g.lanes.place[j]
    line = 1 << g.lanes.bits[0]
    for first in range(0, len(g.passed), line):
        if is_behind(g.lanes, first + 1):
            passed = g.passed[first + 1 : first + line]
            more = g.coming[first + 1 - step : first + 1 - step + len(passed)]
            for i in range(len(passed)):
                passed[i] = np.int32(passed[i] + more[i])
    for i in range(g.now[RECENT]):
        slot = g.recent[i]
        cell = cell_of(g.lanes, g.codes[slot])
        if g.now[HEAD] <= g.rows.seq[slot] <= g.now[END] and is_behind(g.lanes, cell):
            b.bound[find(b, cell, slot)] += g.coming[cell - step]
    for cell in range(len(g.coming)):
        g.coming[cell] = 0
    g.now[RECENT] = 0


@inlined
def is_behind(lanes: Lanes, cell: int) -> bool:
    """Tell whether there are cells before a cell in every column."""
    some = True
    for j in range(len(lanes.place)):
        some &= (cell >> lanes.place[j]) & ((1 << lanes.bits[j]) - 1) > 0
    return some


@leaf
def by_cell(g: Course, code: int) -> int:
    """Return a bound by the suffix counts."""
    return g.sums[cell_of(g.lanes, code)] + g.now[ARRIVALS] - g.now[SUMMED]


@inner
def sum_cells(g: Course, b: Blocks) -> None:
    """Make the suffix counts anew."""
    for cell in range(len(g.sums)):
        g.sums[cell] = b.count[cell]
    suffix_sums(g.lanes, g.sums)
    g.now[SUMMED] = g.now[ARRIVALS]


@leaf
def is_among(g: Course, c: Contenders, slot: int) -> bool:
    """Tell whether a row is one of these."""
    seat = seat_of(c, g.rows.seq[slot])
    return seat < c.size[ROWS] and c.seq[seat] == g.rows.seq[slot]
