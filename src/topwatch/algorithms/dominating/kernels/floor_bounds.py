"""What bounds the scores of the rows that ``floor`` does not follow, and the pivots that do it by comparison.

The invariant: a row that is no contender has a score below the floor until the epoch ends. An epoch is a number of
arrivals; in it no score rises by more. What is written with a row is a bound of its score at the epoch's beginning,
less its cell's drift, so that one number per cell keeps the bounds of all its rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import BEGIN, CONTENDS, FIRST, NO_BOUND, SIZE, Blocks
from topwatch.algorithms.dominating.kernels.codes import GUARD, Lanes, cell_of, covers, strictly_within, surely, within
from topwatch.algorithms.dominating.kernels.counting import (
    COMPARED,
    COUNTED,
    Walk,
    behind,
    count_beside,
    put_slabs_in_order,
    suffix_sums,
)
from topwatch.algorithms.dominating.kernels.exact_scores import Contenders, join
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, long
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Ints

NEVER = -(2**40)  # a floor that every row reaches
MOST_NEAR = 32  # epochs' worth of arrivals: how far below the floor scores are followed
LEAST_REST, MOST_REST = 8, 64  # and how far below it a bound is counted down
SHARE = 16  # of the floor is the longest epoch: where scores are low, most rows would reach it in a long one
DEAREST = 4  # comparisons that cost as much as following a contender through one arrival and one expiry
REFINES = 24  # epochs' worth of comparisons in a count, without which bounds by cells are good enough

# Of Floor.now: the floor, arrivals and expiries of this epoch, pivots, least bound of a pivot, ranked rows, surveys,
# refills, how far below the floor scores are followed, comparisons until this epoch, how far below the floor bounds
# are counted down, comparisons of this epoch with rows that had a bound before, arrivals that end the epoch, rows that
# have been counted and found below the floor, tick of this epoch's first arrival.
(
    LEVEL, CAME, WENT, PIVOTS, PIVOT_LEVEL, LIVE, SURVEYS, REFILLS, NEAR, SPENT, REST, RECOUNTED, LENGTH, LOW, SINCE,
) = range(15)  # fmt: skip
NUMBERS = 15


class Floor(NamedTuple):
    """What bounds the scores of the rows that are no contenders."""

    now: Ints
    sums: np.ndarray  # by cell, int32: rows in cells not before it when the epoch began
    drift: np.ndarray  # by cell, int32: what the bounds of its rows have risen by
    before: np.ndarray  # by cell, int32: the drift in the epoch before this one
    arrived: np.ndarray  # by cell, int32: arrivals of this epoch
    came: Ints  # codes of this epoch's arrivals; as long as the longest epoch
    went: Ints  # codes of its expiries
    pivot: Ints  # rows below the floor as codes: what is no better in any column is below it too
    pivot_bound: Ints
    low: Ints  # (2, rows): codes of the last rows found below the floor, and their bounds less their cells' drifts
    k: int
    slack: int


class Ground(NamedTuple):
    """What all steps read and write."""

    rows: Rows
    lanes: Lanes
    codes: Ints  # by slot
    floor: Floor
    walk: Walk


@leaf
def measure(g: Ground, b: Blocks, code: int, slot: int, limit: int, close: int) -> tuple[int, int]:
    """Return a row's score now and the bound of it when the epoch began; exact where the bound reaches ``close``.

    A bound above ``limit`` is counted down as far as that needs no look at values.
    """
    f = g.floor
    came = f.came[: f.now[CAME]]
    went = f.went[: f.now[WENT]]
    cell = cell_of(g.lanes, code)
    first = behind(g.lanes, code)
    more = within(code, came, g.lanes)
    less = strictly_within(code, went, g.lanes) if first >= 0 else ZERO
    most = f.sums[cell] + more - within(code, went, g.lanes)
    back = less - more
    if most + back >= limit:
        put_slabs_in_order(g.lanes, code, g.walk)
        _, most = count_beside(g.lanes, g.rows, b, code, slot, most, limit - back, close - back, g.walk)
    return most, most + back


@leaf
def below_a_pivot(g: Ground, code: int) -> int:
    """Return the bound of a pivot that is at least as good as a row of this code, NO_BOUND where there is none."""
    f = g.floor
    guard = g.lanes.masks[GUARD]
    guarded = code | guard
    n = f.now[PIVOTS]
    for first in range(0, n, 64):
        part = f.pivot[first : min(n, first + 64)]
        result = ZERO
        for i in range(len(part)):
            result += int((guarded - part[i]) & guard == guard)
        if result > 0:
            for i in range(len(part)):
                if covers(code, part[i], guard):
                    return f.pivot_bound[first + i]
    return NO_BOUND


@leaf
def note_pivot(g: Ground, code: int, bound: int) -> None:
    """Let a row that is below the floor for the rest of the epoch be a pivot, where there is room."""
    f = g.floor
    n = f.now[PIVOTS]
    if n < len(f.pivot):
        f.pivot[n] = surely(g.lanes, code)
        f.pivot_bound[n] = bound
        f.now[PIVOTS] = n + 1


@leaf
def note_low(g: Ground, code: int, cell: int, bound: int) -> None:
    """Remember a row that was counted and is below the floor: a pivot for now, and while it is one of the last such."""
    f = g.floor
    note_pivot(g, code, bound)
    i = f.now[LOW] % f.low.shape[1]
    f.low[0, i] = code
    f.low[1, i] = bound - f.drift[cell]
    f.now[LOW] += 1


@inlined
def end_of_line(g: Ground, first: int) -> int:
    """Return where the cells end, of a line that begins with ``first``, whose rows may reach the floor in this epoch.

    The counts of cells not before a cell fall along a line, so of most lines only the first cell is looked at.
    """
    f = g.floor
    least = f.now[LEVEL] - f.now[LENGTH]
    cell = first
    while cell < first + (1 << g.lanes.bits[0]) and f.sums[cell] >= least:
        cell += 1
    return cell


@inner
def choose_pivots(g: Ground, b: Blocks) -> None:
    """Take rows with high bounds below the floor, lowest first; the level that makes enough of them is learnt.

    And the last that were counted: where a stream changes, they tell most of what comes next. Rows that have expired
    serve as well; their bounds are those of what such a row would score.
    """
    f = g.floor
    epoch = f.now[LENGTH]
    limit = f.now[LEVEL] - epoch
    room = len(f.pivot) - 2 * f.low.shape[1]
    f.now[PIVOT_LEVEL] = min(f.now[PIVOT_LEVEL], limit - 1)
    f.now[PIVOTS] = 0
    result = ZERO
    for first in range(0, len(f.sums), 1 << g.lanes.bits[0]):
        for cell in range(first, end_of_line(g, first)):
            start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
            drift = f.drift[cell]
            for at in range(start, start + b.cell[cell, SIZE]):
                bound = b.bound[at]
                if bound != CONTENDS and bound != NO_BOUND and f.now[PIVOT_LEVEL] <= bound + drift < limit:
                    result += 1
                    if result <= room:
                        note_pivot(g, b.code[at], bound + drift)
    n = f.now[PIVOTS]
    keys = np.empty(n, np.int64)
    codes = np.empty(n, np.int64)
    for i in range(n):
        keys[i] = f.pivot_bound[i] * room + i
        codes[i] = f.pivot[i]
    keys.sort()
    for i in range(n):
        f.pivot[i] = codes[keys[i] % room]
        f.pivot_bound[i] = keys[i] // room
    gap = limit - f.now[PIVOT_LEVEL]
    if result > room:
        f.now[PIVOT_LEVEL] = limit - max(1, gap - gap // 4)
    elif result < room // 2:
        f.now[PIVOT_LEVEL] -= gap // 2 + 1
    for i in range(min(f.now[LOW], f.low.shape[1])):
        bound = f.low[1, i] + f.drift[cell_of(g.lanes, f.low[0, i])]
        if bound < limit:
            note_pivot(g, f.low[0, i], bound)


@leaf
def place_row(g: Ground, b: Blocks, c: Contenders, at: int, cell: int) -> None:
    """Find a bound that keeps the row at an index below the floor, or make it a contender, which needs room."""
    f = g.floor
    code = b.code[at]
    epoch = f.now[LENGTH]
    bound = below_a_pivot(g, code)
    if bound == NO_BOUND:
        before = g.walk.counters[COMPARED]
        close = f.now[LEVEL] - max(epoch, f.now[NEAR])
        # A contender's score must be exact, so that counting never stops above what makes it one.
        score, bound = measure(g, b, code, long(b.slot[at]), min(close, f.now[LEVEL] - f.now[REST]), close)
        if b.bound[at] != NO_BOUND:
            f.now[RECOUNTED] += g.walk.counters[COMPARED] - before
        if bound >= close:
            slot = long(b.slot[at])
            join(g.lanes, c, code, slot, g.rows.seq[slot], score)
            b.bound[at] = CONTENDS
            return
        note_low(g, code, cell, bound)
    b.bound[at] = bound - f.drift[cell]


@leaf
def begin_epoch(g: Ground, b: Blocks) -> None:
    """Count all cells again and move their drifts on by what has come and gone."""
    f = g.floor
    suffix_sums(g.lanes, f.arrived)
    step = ZERO
    for j in range(len(g.lanes.cell_shift)):
        step += 1 << g.lanes.cell_shift[j]
    # Rows that went from cells not before a cell: what was there, and came, and is not there now.
    for cell in range(len(f.sums)):
        f.before[cell] = f.drift[cell]
        f.drift[cell] += f.arrived[cell]
        f.arrived[cell] += f.sums[cell]
        f.sums[cell] = b.count[cell]
    suffix_sums(g.lanes, f.sums)
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
    for cell in range(len(f.sums)):
        f.arrived[cell] = 0
    f.now[CAME] = 0
    f.now[WENT] = 0


@leaf
def refine(g: Ground, b: Blocks, came: int, went: int) -> None:
    """At an epoch's beginning, bound rows not far below the floor by what came and went in the last one, row by row.

    A cell's drift takes all that came beside the cell for dominated, and nothing that went there; with many columns,
    that is most of what there is. Rows that came themselves have bounds that only go with their cell's drift.
    """
    f = g.floor
    if g.walk.counters[COMPARED] < REFINES * f.now[LENGTH] * g.walk.counters[COUNTED]:
        return  # a count is cheap
    least = f.now[LEVEL] - f.now[REST]
    for first in range(0, len(f.sums), 1 << g.lanes.bits[0]):
        for cell in range(first, end_of_line(g, first)):
            start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
            for at in range(start, start + b.cell[cell, SIZE]):
                bound = long(b.bound[at])
                known = bound != CONTENDS and bound != NO_BOUND
                if known and bound + f.drift[cell] >= least and g.rows.seq[b.slot[at]] < f.now[SINCE]:
                    code = b.code[at]
                    change = _at_least(g.lanes, f.came[:came], code, ZERO - 1)
                    change -= _at_least(g.lanes, f.went[:went], surely(g.lanes, code), code)
                    b.bound[at] = min(bound, bound + f.before[cell] + change - f.drift[cell])


@inlined
def _at_least(lanes: Lanes, codes: Ints, least: int, but: int) -> int:
    """Count the codes that are at least another in every column, but for those equal to ``but``."""
    guard = lanes.masks[GUARD]
    result = ZERO
    for i in range(len(codes)):
        result += int(((codes[i] | guard) - least) & guard == guard) & int(codes[i] != but)
    return result


@leaf
def balance(g: Ground, below: int) -> None:
    """Follow scores further below the floor where counting rows again costs more than that, given how many are.

    And count bounds down further where a fifth of all comparisons are with rows that were counted before, less far
    where fewer are.
    """
    f = g.floor
    epoch = f.now[LENGTH]
    spent = g.walk.counters[COMPARED] - f.now[SPENT]
    f.now[SPENT] += spent
    near = f.now[NEAR]
    near += near >> 2 if f.now[RECOUNTED] > DEAREST * below * epoch else -(near >> 3)
    f.now[NEAR] = near
    rest = f.now[REST]
    rest += rest >> 2 if 5 * f.now[RECOUNTED] > spent else -(rest >> 3)
    f.now[REST] = rest
    f.now[RECOUNTED] = 0
    set_pace(g)


@leaf
def set_pace(g: Ground) -> None:
    """Choose the length of an epoch that begins now, and what depends on it, given the floor."""
    f = g.floor
    epoch = long(len(f.came))
    if f.now[LEVEL] > 0:
        epoch = min(epoch, max(16, f.now[LEVEL] // SHARE))
    f.now[LENGTH] = epoch
    f.now[NEAR] = min(max(f.now[NEAR], 2 * epoch), MOST_NEAR * epoch)
    f.now[REST] = min(max(f.now[REST], LEAST_REST * epoch), MOST_REST * epoch)


@leaf
def clear(numbers: np.ndarray) -> None:
    """Set all to zero."""
    for i in range(len(numbers)):
        numbers[i] = 0


@kernel
def bounds_by_slot(g: Ground, b: Blocks, out: np.ndarray) -> None:
    """Begin an epoch, and write each row's bound at its slot (int32)."""
    begin_epoch(g, b)
    for cell in range(len(b.count)):
        start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
        for at in range(start, start + b.cell[cell, SIZE]):
            bound = b.bound[at]
            known = bound != CONTENDS and bound != NO_BOUND
            out[b.slot[at]] = bound + g.floor.drift[cell] if known else bound
