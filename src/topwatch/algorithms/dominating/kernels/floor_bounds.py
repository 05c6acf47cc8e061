"""What bounds the scores of the rows that ``floor`` does not follow, and the pivots that do it by comparison.

The invariant: a row that is no contender has a score below the floor until the epoch ends. An epoch is a number of
arrivals; in it no score rises by more. What is written with a row is a bound of its score at the epoch's beginning,
less its cell's drift, so that one number per cell keeps the bounds of all its rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import CONTENDS, NO_BOUND, Blocks, span
from topwatch.algorithms.dominating.kernels.codes import (
    Lanes,
    any_covered,
    cell_behind,
    cell_of,
    covers,
    diagonal,
    strictly_within,
    sum_cells,
    surely,
    within,
)
from topwatch.algorithms.dominating.kernels.contenders import Contenders, insert
from topwatch.algorithms.dominating.kernels.counting import Walk, count_beside, row_of
from topwatch.core.arrays import Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, long
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Rows

NEVER = -(2**40)  # a floor that every row reaches
MOST_NEAR = 32  # epochs' worth of arrivals: how far below the floor scores are followed
LEAST_DEPTH, MOST_DEPTH = 8, 64  # and how far below it a bound is counted down
SHARE = 16  # of the floor is the longest epoch: where scores are low, most rows would reach it in a long one
FOLLOWING = 4  # comparisons that cost as much as following a contender through one arrival and one expiry
REFINES = 24  # epochs' worth of comparisons in a count, without which bounds by cells are good enough


class FloorScalars:
    """Numbers beside the arrays; a record."""

    level: int  # the floor
    came: int  # arrivals of this epoch
    went: int  # expiries of this epoch
    length: int  # arrivals that end the epoch
    since: int  # tick of the epoch's first arrival
    near: int  # how far below the floor scores are followed
    depth: int  # how far below the floor bounds are counted down
    live: int  # ranked rows
    pivots: int
    pivot_level: int  # least bound of a pivot
    low: int  # rows that have been counted and found below the floor
    compared: int  # comparisons until this epoch
    recounted: int  # comparisons of this epoch with rows that had a bound before
    surveys: int
    refills: int
    step_evaluations: int  # how much of a step of the window has been processed
    step_arrivals: int
    step_expiries: int


def new_scalars(length: int) -> FloorScalars:
    """Return the numbers of a floor that every row reaches; epochs end after so many arrivals at most."""
    # Little is near at first: too little is learnt sooner than too much.
    return record(FloorScalars, level=NEVER, length=length, near=3 * length, depth=MOST_DEPTH * length)


class Floor(NamedTuple):
    """What bounds the scores of the rows that are no contenders."""

    now: FloorScalars
    sums: np.ndarray  # by cell, int32: rows in cells not before it when the epoch began
    drift: np.ndarray  # by cell, int32: what the bounds of its rows have risen by
    before: np.ndarray  # by cell, int32: the drift in the epoch before this one
    arrived: np.ndarray  # by cell, int32: arrivals of this epoch
    came: Ints  # codes of this epoch's arrivals; as long as the longest epoch
    went: Ints  # codes of its expiries
    pivot: Ints  # rows below the floor as codes: what is no better in any column is below it too
    pivot_bound: Ints
    low: Ints  # (2, rows): codes of the last rows counted below the floor, and their bounds less their cells' drifts
    k: int
    slack: int


class FloorState(NamedTuple):
    """What all functions of ``floor`` read and write."""

    rows: Rows
    lanes: Lanes
    codes: Ints  # by slot
    floor: Floor
    walk: Walk


@leaf
def measure(g: FloorState, b: Blocks, code: int, slot: int, limit: int, close: int) -> tuple[int, int]:
    """Return a row's score now and the bound of it when the epoch began; exact where the bound reaches ``close``.

    A bound above ``limit`` is counted down as far as that needs no values.
    """
    f = g.floor
    came = f.came[: f.now.came]
    went = f.went[: f.now.went]
    cell = cell_of(g.lanes, code)
    more = within(code, came, g.lanes)
    less = strictly_within(code, went, g.lanes) if cell_behind(g.lanes, code) >= 0 else ZERO
    most = f.sums[cell] + more - within(code, went, g.lanes)
    back = less - more
    if most + back >= limit:
        row = row_of(g.lanes, code, slot)
        _, most = count_beside(g.lanes, g.rows, b, row, most, limit - back, close - back, g.walk)
    return most, most + back


@leaf
def below_a_pivot(g: FloorState, code: int) -> int:
    """Return the bound of a pivot that is at least as good as a row of this code, NO_BOUND where there is none."""
    f = g.floor
    n = f.now.pivots
    for first in range(0, n, 64):
        part = f.pivot[first : min(n, first + 64)]
        if any_covered(g.lanes, code, part):
            for i in range(len(part)):
                if covers(code, part[i], g.lanes.guard):
                    return f.pivot_bound[first + i]
    return NO_BOUND


@leaf
def add_pivot(g: FloorState, code: int, bound: int) -> None:
    """Make a row that is below the floor for the rest of the epoch a pivot, where there is room."""
    f = g.floor
    n = f.now.pivots
    if n < len(f.pivot):
        f.pivot[n] = surely(g.lanes, code)
        f.pivot_bound[n] = bound
        f.now.pivots = n + 1


@leaf
def add_low(g: FloorState, code: int, cell: int, bound: int) -> None:
    """Add a row that was counted and is below the floor: a pivot for now, and while it is one of the last such."""
    f = g.floor
    add_pivot(g, code, bound)
    i = f.now.low % f.low.shape[1]
    f.low[0, i] = code
    f.low[1, i] = bound - f.drift[cell]
    f.now.low += 1


@inlined
def end_of_line(g: FloorState, first: int) -> int:
    """Return where the cells end, of a line that begins with ``first``, whose rows may reach the floor in this epoch.

    The counts of cells not before a cell fall along a line, so of most lines only the first cell is read.
    """
    f = g.floor
    least = f.now.level - f.now.length
    cell = first
    while cell < first + (1 << g.lanes.bits[0]) and f.sums[cell] >= least:
        cell += 1
    return cell


@inner
def choose_pivots(g: FloorState, b: Blocks) -> None:
    """Choose rows with high bounds below the floor, lowest first; the level that makes enough of them is learnt.

    And the last that were counted: where a stream changes, they cover most of what comes next. Rows that have expired
    serve as well; their bounds are those of what such a row would score.
    """
    f = g.floor
    epoch = f.now.length
    limit = f.now.level - epoch
    room = len(f.pivot) - 2 * f.low.shape[1]
    f.now.pivot_level = min(f.now.pivot_level, limit - 1)
    f.now.pivots = 0
    result = ZERO
    for first in range(0, len(f.sums), 1 << g.lanes.bits[0]):
        for cell in range(first, end_of_line(g, first)):
            start, stop = span(b, cell)
            drift = f.drift[cell]
            for at in range(start, stop):
                bound = b.bound[at]
                if bound != CONTENDS and bound != NO_BOUND and f.now.pivot_level <= bound + drift < limit:
                    result += 1
                    if result <= room:
                        add_pivot(g, b.code[at], bound + drift)
    n = f.now.pivots
    keys = np.empty(n, np.int64)
    codes = np.empty(n, np.int64)
    for i in range(n):
        keys[i] = f.pivot_bound[i] * room + i
        codes[i] = f.pivot[i]
    keys.sort()
    for i in range(n):
        f.pivot[i] = codes[keys[i] % room]
        f.pivot_bound[i] = keys[i] // room
    gap = limit - f.now.pivot_level
    if result > room:
        f.now.pivot_level = limit - max(1, gap - gap // 4)
    elif result < room // 2:
        f.now.pivot_level -= gap // 2 + 1
    for i in range(min(f.now.low, f.low.shape[1])):
        bound = f.low[1, i] + f.drift[cell_of(g.lanes, f.low[0, i])]
        if bound < limit:
            add_pivot(g, f.low[0, i], bound)


@leaf
def bound_or_follow(g: FloorState, b: Blocks, c: Contenders, at: int, cell: int) -> None:
    """Find a bound that keeps the row at an index below the floor, or make it a contender, which needs room."""
    f = g.floor
    code = b.code[at]
    epoch = f.now.length
    bound = below_a_pivot(g, code)
    if bound == NO_BOUND:
        compared = g.walk.counters.compared
        close = f.now.level - max(epoch, f.now.near)
        # A contender's score must be exact, so that counting never stops above what makes it one.
        score, bound = measure(g, b, code, long(b.slot[at]), min(close, f.now.level - f.now.depth), close)
        if b.bound[at] != NO_BOUND:
            f.now.recounted += g.walk.counters.compared - compared
        if bound >= close:
            slot = long(b.slot[at])
            insert(g.lanes, c, code, slot, g.rows.seq[slot], score)
            b.bound[at] = CONTENDS
            return
        add_low(g, code, cell, bound)
    b.bound[at] = bound - f.drift[cell]


@leaf
def begin_epoch(g: FloorState, b: Blocks) -> None:
    """Count all cells again and update their drifts by what has come and gone."""
    f = g.floor
    sum_cells(g.lanes, f.arrived, True)
    step = diagonal(g.lanes)
    # Rows that went from cells not before a cell: what was there, and came, and is not there now.
    for cell in range(len(f.sums)):
        f.before[cell] = f.drift[cell]
        f.drift[cell] += f.arrived[cell]
        f.arrived[cell] += f.sums[cell]
        f.sums[cell] = b.count[cell]
    sum_cells(g.lanes, f.sums, True)
    line = 1 << g.lanes.bits[0]
    for first in range(0, len(f.sums), line):
        some = True
        for j in range(1, len(g.lanes.cell_shift)):
            last = (1 << g.lanes.bits[j]) - 1
            some &= (first >> g.lanes.cell_shift[j]) & last != last
        if some:
            drift = f.drift[first : first + line - 1]
            were = f.arrived[first + step : first + step + len(drift)]
            are = f.sums[first + step : first + step + len(drift)]
            for i in range(len(drift)):
                drift[i] = np.int32(drift[i] - np.int32(were[i] - are[i]))
    clear(f.arrived)
    f.now.came = 0
    f.now.went = 0


@leaf
def refine(g: FloorState, b: Blocks, came: int, went: int) -> None:
    """At an epoch's beginning, bound rows not far below the floor by what came and went in the last one, row by row.

    A cell's drift counts all that came beside the cell as dominated, and nothing that went there; with many columns,
    that is most of what there is. Rows that came themselves have bounds that only go with their cell's drift.
    """
    f = g.floor
    if g.walk.counters.compared < REFINES * f.now.length * g.walk.counters.counted:
        return  # a count is cheap
    least = f.now.level - f.now.depth
    for first in range(0, len(f.sums), 1 << g.lanes.bits[0]):
        for cell in range(first, end_of_line(g, first)):
            start, stop = span(b, cell)
            for at in range(start, stop):
                bound = long(b.bound[at])
                known = bound != CONTENDS and bound != NO_BOUND
                if known and bound + f.drift[cell] >= least and g.rows.seq[b.slot[at]] < f.now.since:
                    code = b.code[at]
                    change = _count_covering(g.lanes, f.came[:came], code, ZERO - 1)
                    change -= _count_covering(g.lanes, f.went[:went], surely(g.lanes, code), code)
                    b.bound[at] = min(bound, bound + f.before[cell] + change - f.drift[cell])


@inlined
def _count_covering(lanes: Lanes, codes: Ints, least: int, but: int) -> int:
    """Count the codes that are at least another in every column, but for those equal to ``but``."""
    guard = lanes.guard
    result = ZERO
    for i in range(len(codes)):
        result += int(((codes[i] | guard) - least) & guard == guard) & int(codes[i] != but)
    return result


@leaf
def balance(g: FloorState, below: int) -> None:
    """Follow scores further below the floor where counting rows again costs more than that, given how many are.

    And count bounds down further where a fifth of all comparisons are with rows that were counted before, less far
    where fewer are.
    """
    f = g.floor
    epoch = f.now.length
    spent = g.walk.counters.compared - f.now.compared
    f.now.compared += spent
    near = f.now.near
    near += near >> 2 if f.now.recounted > FOLLOWING * below * epoch else -(near >> 3)
    f.now.near = near
    depth = f.now.depth
    depth += depth >> 2 if 5 * f.now.recounted > spent else -(depth >> 3)
    f.now.depth = depth
    f.now.recounted = 0
    set_length(g)


@leaf
def set_length(g: FloorState) -> None:
    """Choose the length of an epoch that begins now, and what depends on it, given the floor."""
    f = g.floor
    epoch = long(len(f.came))
    if f.now.level > 0:
        epoch = min(epoch, max(16, f.now.level // SHARE))
    f.now.length = epoch
    f.now.near = min(max(f.now.near, 2 * epoch), MOST_NEAR * epoch)
    f.now.depth = min(max(f.now.depth, LEAST_DEPTH * epoch), MOST_DEPTH * epoch)


@leaf
def clear(numbers: np.ndarray) -> None:
    """Set all to zero."""
    for i in range(len(numbers)):
        numbers[i] = 0


@kernel
def bounds_by_slot(g: FloorState, b: Blocks, out: np.ndarray) -> None:
    """Begin an epoch, and write each row's bound at its slot (int32)."""
    begin_epoch(g, b)
    for cell in range(len(b.count)):
        start, stop = span(b, cell)
        for at in range(start, stop):
            bound = b.bound[at]
            known = bound != CONTENDS and bound != NO_BOUND
            out[b.slot[at]] = bound + g.floor.drift[cell] if known else bound
