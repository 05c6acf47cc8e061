"""What the loop of ``eva`` and of what is built on it reads and writes at every step.

The clock counts single events: an arrival can raise a row's score by one, an expiry can lower the k-th score by one. So
the interval lemmas of the paper hold for windows of rows and of time, for bursts and for rare evaluations alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import Blocks, find
from topwatch.algorithms.dominating.kernels.codes import Lanes, cell_of
from topwatch.algorithms.dominating.kernels.counting import (
    Walk,
    count_behind,
    count_beside,
    prefix_sums,
    put_slabs_in_order,
    suffix_sums,
)
from topwatch.algorithms.dominating.kernels.event_queue import Queue
from topwatch.algorithms.dominating.kernels.exact_scores import MEMBERS, ROWS, Contenders, seat_of, standing
from topwatch.core.jit import ZERO, inlined, inner, leaf
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Ints

FAR = 2**60

# Of Course.now: moments, arrivals, first and last ordinal, k-th score, first expiry of a member, interval of
# candidates, arrivals when the suffix counts were made, and counters: events, kept obsolete ones, evicted ones,
# exclusions; the moment of the last evaluation, the last random number, the best score, what estimates there were, how
# many recent arrivals there are; the moment when the board was made, -1 for none; arrivals, comparisons and events when
# the interval of candidates was last adjusted.
(
    CLOCK, ARRIVALS, HEAD, END, THRESHOLD, FIRST_GONE, NEAR, SUMMED, EVENTS, OBSOLETES, EVICTED, EXCLUDED, LAST, DRAWN,
    TOP, ESTIMATES, RECENT, MADE, TENDED, SPENT, LOOKED,
) = range(21)  # fmt: skip
NUMBERS = 21


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


class Board(NamedTuple):
    """Lives of contenders by what they score at least (:mod:`topwatch.algorithms.dominating.kernels.safe_time`)."""

    level: Ints  # (levels,), falling
    lives: Ints  # (k + 1, levels): the n-th longest life, 0 where there are fewer


class Course(NamedTuple):
    """What all steps read and write."""

    rows: Rows
    lanes: Lanes
    codes: Ints  # by slot
    queue: Queue
    passed: np.ndarray  # by cell, int32: rows that have arrived in cells before it in every column, but for recent ones
    coming: np.ndarray  # by cell, int32: recent arrivals in it
    recent: Ints  # ordinals of the recent arrivals
    sums: np.ndarray  # by cell, int32: suffix counts
    now: Ints
    walk: Walk
    offset: Ints  # room for the search of reference rows
    board: Board
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
    """Note the k-th score, -1 where there are fewer rows, and for EVA when the first member expires."""
    _, worst, _ = standing(c, ZERO)
    g.now[THRESHOLD] = worst if c.size[MEMBERS] == g.rules.k else -1
    if not g.rules.later:
        first = ZERO + FAR
        i = ZERO
        while first == FAR and i < c.size[ROWS]:
            if c.member[i] == 1:
                first = life(g, c.seq[i])
            i += 1
        g.now[FIRST_GONE] = first if i > 0 else 0


@leaf
def exact_score(g: Course, b: Blocks, code: int, slot: int) -> int:
    """Count the rows that a row dominates."""
    put_slabs_in_order(g.lanes, code, g.walk)
    result, _ = count_beside(g.lanes, g.rows, b, code, slot, ZERO + FAR, -ZERO - FAR, -ZERO - FAR, g.walk)
    return result + count_behind(g.lanes, b, code, g.walk)


@leaf
def measure(g: Course, b: Blocks, code: int, slot: int) -> tuple[int, bool]:
    """Return a row's score, or only a bound of it that is far below the k-th score, and whether it is the score.

    ADA counts down from the rows in cells not before the row's own, and stops when the row is known to be out for long.
    """
    if g.rules.most == 0 or g.now[THRESHOLD] < 0:
        return exact_score(g, b, code, slot), True
    limit = g.now[THRESHOLD] - max(g.now[NEAR], g.now[THRESHOLD] >> 2)
    most = by_cell(g, code)
    if most < limit:
        return most, False
    put_slabs_in_order(g.lanes, code, g.walk)
    result, most = count_beside(g.lanes, g.rows, b, code, slot, most, limit, limit, g.walk)
    if most < limit:
        return most, False
    return result + count_behind(g.lanes, b, code, g.walk), True


@leaf
def pass_by(g: Course, b: Blocks) -> None:
    """Count the recent arrivals in all cells behind their own (TKDE 2011, 5.1), for all rows that were there before.

    All at once, which costs a fraction of one by one. For rows that came among them it is as if they had come last:
    their later dominators are fewer than they might be, which is safe.
    """
    prefix_sums(g.lanes, g.coming)
    step = ZERO
    for j in range(len(g.lanes.cell_shift)):
        step += 1 << g.lanes.cell_shift[j]
    line = 1 << g.lanes.bits[0]
    for first in range(0, len(g.passed), line):
        if is_behind(g.lanes, first + 1):
            passed = g.passed[first + 1 : first + line]
            more = g.coming[first + 1 - step : first + 1 - step + len(passed)]
            for i in range(len(passed)):
                passed[i] = np.int32(passed[i] + more[i])
    for i in range(g.now[RECENT]):
        # By ordinals and not by slots: where few rows are ranked, a slot may have another row by now.
        if g.recent[i] >= g.now[HEAD]:
            slot = g.recent[i] & (len(g.codes) - 1)
            cell = cell_of(g.lanes, g.codes[slot])
            if is_behind(g.lanes, cell):
                b.bound[find(b, cell, slot)] += g.coming[cell - step]
    for cell in range(len(g.coming)):
        g.coming[cell] = 0
    g.now[RECENT] = 0


@inlined
def is_behind(lanes: Lanes, cell: int) -> bool:
    """Tell whether there are cells before a cell in every column."""
    some = True
    for j in range(len(lanes.cell_shift)):
        some &= (cell >> lanes.cell_shift[j]) & ((1 << lanes.bits[j]) - 1) > 0
    return some


@leaf
def by_cell(g: Course, code: int) -> int:
    """Return a bound by the suffix counts."""
    return g.sums[cell_of(g.lanes, code)] + g.now[ARRIVALS] - g.now[SUMMED]


@inner
def sum_cells(g: Course, b: Blocks) -> None:
    """Make the suffix counts again."""
    for cell in range(len(g.sums)):
        g.sums[cell] = b.count[cell]
    suffix_sums(g.lanes, g.sums)
    g.now[SUMMED] = g.now[ARRIVALS]


@leaf
def is_among(g: Course, c: Contenders, slot: int) -> bool:
    """Tell whether a row is one of these."""
    index = seat_of(c, g.rows.seq[slot])
    return index < c.size[ROWS] and c.seq[index] == g.rows.seq[slot]
