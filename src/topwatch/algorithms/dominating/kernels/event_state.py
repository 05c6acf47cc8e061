"""What the loop of ``eva`` and of what is built on it reads and writes: the event queue, counts by cell, and numbers.

The clock counts single events: an arrival can raise a row's score by one, an expiry can lower the k-th score by one. So
the interval lemmas of the paper hold for windows of rows and of time, for bursts and for rare evaluations alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import Blocks, find
from topwatch.algorithms.dominating.kernels.codes import Lanes, cell_of, diagonal, sum_cells
from topwatch.algorithms.dominating.kernels.contenders import MEMBERS, ROWS, Contenders, index_of, standing
from topwatch.algorithms.dominating.kernels.counting import Walk, count_behind, count_beside, row_of
from topwatch.core.arrays import Ints
from topwatch.core.jit import ZERO, inlined, inner, leaf
from topwatch.core.kernels.rows import Rows

FAR = 2**60
NO_EVENT = -1  # nothing is known of the row, or it is a contender
OBSOLETE = -2  # the row expires before it is due; what is known of it still serves others
NOBODY = -1
LEVELS = 16  # of a life table


class EventScalars:
    """Numbers beside the arrays; a record."""

    clock: int  # single events so far
    arrivals: int
    head: int  # first and last ordinal
    end: int
    evaluated: int  # the moment of the last evaluation
    threshold: int  # the k-th score, -1 where there are fewer rows
    best: int  # the best score
    first_expiry: int  # in how many events the first member expires
    near: int  # Δt: rows due in fewer events become candidates
    summed_at: int  # arrivals when the suffix counts were made
    table_made: int  # the moment when the life table was made, -1 for none
    recent: int  # how many recent arrivals there are
    drawn: int  # the last random number
    adjusted_arrivals: int  # arrivals, comparisons and events when Δt was last adjusted
    adjusted_compared: int
    adjusted_events: int
    events: int  # this and what follows are counters since the start
    obsolete: int
    evicted: int
    excluded: int
    estimates: int


class Queue(NamedTuple):
    """For each row the moment at which it is examined again, in a ring of buckets.

    A bucket is a doubly linked list through the rows' slots, so that adding and removing are O(1); an event further off
    than the ring is long is met early, and put back.
    """

    due: Ints
    score: np.ndarray  # int32: the bound of the row's score when the event was made
    made: Ints  # arrivals until then
    after: np.ndarray  # int32: next in the bucket
    before: np.ndarray  # int32: previous in the bucket
    bucket: np.ndarray  # int32: first of each bucket


class Rules(NamedTuple):
    """What one algorithm does its own way."""

    k: int
    rows: int  # of a window of rows, 0 for one of time
    later: bool  # later dominators lengthen intervals (ADA, section 5.1)
    most: int  # candidates at most (section 5.2); 0: there are none
    suffix: bool  # suffix counts bound scores too
    exclude: bool  # rows of cells far below are examined once (AMSA, section 7.2)
    kept: float  # share of obsolete events that are kept (section 5.3)
    samples: int  # rows of a cell whose mean stands for the others (AHBA, section 7.1); 0: none


class LifeTable(NamedTuple):
    """Lives of contenders by what they score at least (:mod:`topwatch.algorithms.dominating.kernels.intervals`)."""

    level: Ints  # (levels,), falling
    lives: Ints  # (k + 1, levels): the n-th longest life, 0 where there are fewer


class EventState(NamedTuple):
    """What all functions of the loop read and write."""

    rows: Rows
    lanes: Lanes
    codes: Ints  # by slot
    queue: Queue
    passed: np.ndarray  # by cell, int32: rows that have arrived in cells before it in every column, but for recent ones
    coming: np.ndarray  # by cell, int32: recent arrivals in it
    recent: Ints  # ordinals of the recent arrivals
    sums: np.ndarray  # by cell, int32: suffix counts
    now: EventScalars
    walk: Walk
    offset: Ints  # room for the search of reference rows
    table: LifeTable
    rules: Rules


@leaf
def life(g: EventState, seq: int) -> int:
    """Return how many events there will be at least before a row expires."""
    left = seq - g.now.head
    if g.rules.rows > 0:
        left += max(0, seq + g.rules.rows - g.now.end)
    return left


@leaf
def update_threshold(g: EventState, c: Contenders) -> None:
    """Set the k-th score, -1 where there are fewer rows, and for EVA when the first member expires."""
    _, worst, _ = standing(c, ZERO)
    g.now.threshold = worst if c.size[MEMBERS] == g.rules.k else -1
    if not g.rules.later:
        first = ZERO + FAR
        i = ZERO
        while first == FAR and i < c.size[ROWS]:
            if c.member[i] == 1:
                first = life(g, c.seq[i])
            i += 1
        g.now.first_expiry = first if i > 0 else 0


@leaf
def exact_score(g: EventState, b: Blocks, code: int, slot: int) -> int:
    """Count the rows that a row dominates."""
    row = row_of(g.lanes, code, slot)
    result, _ = count_beside(g.lanes, g.rows, b, row, ZERO + FAR, -ZERO - FAR, -ZERO - FAR, g.walk)
    return result + count_behind(g.lanes, b, code, g.walk)


@leaf
def measure(g: EventState, b: Blocks, code: int, slot: int) -> tuple[int, bool]:
    """Return a row's score, or only a bound of it that is far below the k-th score, and whether it is the score.

    ADA counts down from the rows in cells not before the row's own, and stops when the row is known to be out for long.
    """
    if g.rules.most == 0 or g.now.threshold < 0:
        return exact_score(g, b, code, slot), True
    limit = g.now.threshold - max(g.now.near, g.now.threshold >> 2)
    most = by_cell(g, code)
    if most < limit:
        return most, False
    result, most = count_beside(g.lanes, g.rows, b, row_of(g.lanes, code, slot), most, limit, limit, g.walk)
    if most < limit:
        return most, False
    return result + count_behind(g.lanes, b, code, g.walk), True


@leaf
def count_recent(g: EventState, b: Blocks) -> None:
    """Count the recent arrivals in all cells behind their own (TKDE 2011, 5.1), for all rows that were there before.

    All at once, which costs a fraction of one by one. For rows that came among them it is as if they had come last:
    their later dominators are fewer than they might be, which is safe.
    """
    sum_cells(g.lanes, g.coming, False)
    step = diagonal(g.lanes)
    line = 1 << g.lanes.bits[0]
    for first in range(0, len(g.passed), line):
        if is_behind(g.lanes, first + 1):
            passed = g.passed[first + 1 : first + line]
            more = g.coming[first + 1 - step : first + 1 - step + len(passed)]
            for i in range(len(passed)):
                passed[i] = np.int32(passed[i] + more[i])
    for i in range(g.now.recent):
        # By ordinals and not by slots: where few rows are ranked, a slot may have another row by now.
        if g.recent[i] >= g.now.head:
            slot = g.recent[i] & (len(g.codes) - 1)
            cell = cell_of(g.lanes, g.codes[slot])
            if is_behind(g.lanes, cell):
                b.bound[find(b, cell, slot)] += g.coming[cell - step]
    for cell in range(len(g.coming)):
        g.coming[cell] = 0
    g.now.recent = 0


@inlined
def is_behind(lanes: Lanes, cell: int) -> bool:
    """Return whether there are cells before a cell in every column."""
    some = True
    for j in range(len(lanes.cell_shift)):
        some &= (cell >> lanes.cell_shift[j]) & ((1 << lanes.bits[j]) - 1) > 0
    return some


@leaf
def by_cell(g: EventState, code: int) -> int:
    """Return a bound by the suffix counts."""
    return g.sums[cell_of(g.lanes, code)] + g.now.arrivals - g.now.summed_at


@inner
def make_suffix_counts(g: EventState, b: Blocks) -> None:
    """Make the suffix counts again."""
    for cell in range(len(g.sums)):
        g.sums[cell] = b.count[cell]
    sum_cells(g.lanes, g.sums, True)
    g.now.summed_at = g.now.arrivals


@leaf
def is_among(g: EventState, c: Contenders, slot: int) -> bool:
    """Return whether a row is one of these."""
    index = index_of(c, g.rows.seq[slot])
    return index < c.size[ROWS] and c.seq[index] == g.rows.seq[slot]


@leaf
def enqueue(q: Queue, slot: int, due: int) -> None:
    """Add a row."""
    b = due & (len(q.bucket) - 1)
    first = q.bucket[b]
    q.due[slot] = due
    q.after[slot] = first
    q.before[slot] = NOBODY
    if first != NOBODY:
        q.before[first] = slot
    q.bucket[b] = slot


@leaf
def dequeue(q: Queue, slot: int) -> None:
    """Remove a row, if it is in, and forget its event."""
    due = q.due[slot]
    q.due[slot] = NO_EVENT
    if due < 0:
        return
    after = q.after[slot]
    before = q.before[slot]
    if after != NOBODY:
        q.before[after] = before
    if before != NOBODY:
        q.after[before] = after
    else:
        q.bucket[due & (len(q.bucket) - 1)] = after


@leaf
def collect(q: Queue, first: int, last: int, out: Ints) -> int:
    """Remove all rows that are due from moment ``first`` to ``last``; return how many, -1 where they do not fit."""
    result = 0
    for moment in range(max(first, last - len(q.bucket) + 1), last + 1):
        slot = q.bucket[moment & (len(q.bucket) - 1)]
        while slot != NOBODY:
            after = q.after[slot]
            if q.due[slot] <= last:
                if result == len(out):
                    for i in range(result):
                        enqueue(q, out[i], last)
                    return -1
                dequeue(q, slot)
                out[result] = slot
                result += 1
            slot = after
    return result
