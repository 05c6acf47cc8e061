"""The loop of ``floor``: exact scores for the rows that can reach a floor below the k-th score, bounds for the rest.

The invariant: a row that is no contender has a score below the floor until the epoch ends. An epoch is a fixed number
of arrivals; in it no score rises by more. What is written with a row is a bound of its score at the epoch's beginning,
less its cell's drift, so that one number per cell keeps the bounds of all its rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.kernels.blocks import (
    BEGIN,
    CONTENDS,
    FIRST,
    NO_BOUND,
    SIZE,
    Blocks,
    find,
    needs,
    put,
    take_away,
    with_space,
)
from topwatch.kernels.compile import ZERO, inlined, inner, kernel, leaf, long
from topwatch.kernels.contenders import (
    GONE,
    MEMBERS,
    ROWS,
    Contenders,
    bump,
    elect,
    join,
    lose,
    note_scores,
    report,
    seat_of,
    settled,
    standing,
    with_seats,
)
from topwatch.kernels.counting import Walk, behind, count_beside, put_slabs_in_order, suffix_sums
from topwatch.kernels.lanes import GUARD, NOT_RANKED, Lanes, cell_of, covers, strictly_within, surely, within
from topwatch.kernels.rows import Log, Rows, Step
from topwatch.kernels.scoring import Ints

NEVER = -(2**40)  # a floor that every row reaches
REST = 16  # epochs' worth of arrivals: how far below the floor a bound is counted down, so that it holds for a while

ON, ANEW, AGAIN = range(3)  # how a drive begins: it goes on, from rows alone, in a new grid

# Of Floor.now: the floor, arrivals and expiries of this epoch, pivots, least bound of a pivot, ranked rows, surveys.
LEVEL, CAME, WENT, PIVOTS, PIVOT_LEVEL, LIVE, SURVEYS, REFILLS = range(8)


class Floor(NamedTuple):
    """What bounds the scores of the rows that are no contenders."""

    now: Ints
    sums: np.ndarray  # by cell, int32: rows in cells not before it when the epoch began
    drift: np.ndarray  # by cell, int32: what the bounds of its rows have risen by
    arrived: np.ndarray  # by cell, int32: arrivals of this epoch
    came: Ints  # codes of this epoch's arrivals; as long as an epoch
    went: Ints  # codes of its expiries
    pivot: Ints  # rows below the floor as codes: what is no better in any column is below it too
    pivot_bound: Ints
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
def measure(g: Ground, b: Blocks, code: int, slot: int, limit: int) -> tuple[int, int]:
    """Return a row's score now and the bound of it when the epoch began; exact where the bound reaches ``limit``."""
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
        _, most = count_beside(g.lanes, g.rows, b, code, slot, most, limit - back, g.walk)
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
        found = ZERO
        for i in range(len(part)):
            found += int((guarded - part[i]) & guard == guard)
        if found > 0:
            for i in range(len(part)):
                if covers(code, part[i], guard):
                    return f.pivot_bound[first + i]
    return NO_BOUND


@leaf
def note_pivot(g: Ground, code: int, bound: int) -> None:
    """Remember a row that is below the floor for the rest of the epoch."""
    f = g.floor
    n = f.now[PIVOTS]
    if n < len(f.pivot) and bound >= f.now[PIVOT_LEVEL]:
        f.pivot[n] = surely(g.lanes, code)
        f.pivot_bound[n] = bound
        f.now[PIVOTS] = n + 1


@leaf
def place_row(g: Ground, b: Blocks, c: Contenders, at: int, cell: int) -> None:
    """Find a bound for the row at a place that keeps it below the floor, or make it a contender; needs a seat."""
    f = g.floor
    code = b.code[at]
    epoch = len(f.came)
    bound = below_a_pivot(g, code)
    if bound == NO_BOUND:
        limit = f.now[LEVEL] - REST * epoch
        score, bound = measure(g, b, code, long(b.slot[at]), limit)
        if bound + epoch >= f.now[LEVEL]:
            slot = long(b.slot[at])
            join(g.lanes, c, code, slot, g.rows.seq[slot], score)
            b.bound[at] = CONTENDS
            return
        note_pivot(g, code, bound)
    b.bound[at] = bound - f.drift[cell]


@inlined
def arrive(g: Ground, b: Blocks, c: Contenders, code: int, cell: int, slot: int) -> None:
    """Take a ranked row in; needs a seat and places."""
    put(b, cell, code, slot, NO_BOUND)
    f = g.floor
    f.arrived[cell] += 1
    f.came[f.now[CAME]] = code
    f.now[CAME] += 1
    f.now[LIVE] += 1
    bump(g.lanes, g.rows, c, code, slot, 1)
    if f.sums[cell] + len(f.came) >= f.now[LEVEL]:
        place_row(g, b, c, long(b.cell[cell, FIRST] + b.cell[cell, BEGIN] + b.cell[cell, SIZE] - 1), cell)


@inlined
def expire(g: Ground, b: Blocks, c: Contenders, slot: int) -> None:
    """Let a row go."""
    code = g.codes[slot]
    if code == NOT_RANKED:
        return
    f = g.floor
    if take_away(b, cell_of(g.lanes, code), slot) == CONTENDS:
        lose(c, seat_of(c, g.rows.seq[slot]))
    f.went[f.now[WENT]] = code
    f.now[WENT] += 1
    f.now[LIVE] -= 1
    bump(g.lanes, g.rows, c, code, slot, -1)


@leaf
def begin_epoch(g: Ground, b: Blocks) -> None:
    """Count all cells anew and move their drifts on by what has come and gone."""
    f = g.floor
    suffix_sums(g.lanes, f.arrived)
    step = ZERO
    for j in range(len(g.lanes.place)):
        step += 1 << g.lanes.place[j]
    # Rows that went from cells not before a cell: what was there, and came, and is not there now.
    for cell in range(len(f.sums)):
        f.drift[cell] += f.arrived[cell]
        f.arrived[cell] += f.sums[cell]
        f.sums[cell] = b.count[cell]
    suffix_sums(g.lanes, f.sums)
    for cell in range(len(f.sums)):
        whole = True
        for j in range(len(g.lanes.place)):
            last = (1 << g.lanes.bits[j]) - 1
            whole &= (cell >> g.lanes.place[j]) & last != last
        if whole:
            f.drift[cell] -= f.arrived[cell + step] - f.sums[cell + step]
    for cell in range(len(f.sums)):
        f.arrived[cell] = 0
    f.now[CAME] = 0
    f.now[WENT] = 0


@inner
def next_epoch(g: Ground, b: Blocks, c: Contenders) -> Contenders:
    """End an epoch: raise the floor when many rows reach it, and look at every row that may reach it now."""
    begin_epoch(g, b)
    trim(g, b, c)
    return survey(g, b, c)


@inner
def ranked_score(c: Contenders, rank: int) -> int:
    """Return the score at a rank among the contenders."""
    scores = c.score[: c.size[ROWS]].copy()
    scores.sort()
    return scores[len(scores) - rank]


@inner
def trim(g: Ground, b: Blocks, c: Contenders) -> None:
    """Raise the floor when too many contenders reach it, and let go of those far below it."""
    f = g.floor
    reach, _, _ = standing(c, f.now[LEVEL])
    if reach > f.k + 2 * f.slack:
        f.now[LEVEL] = ranked_score(c, f.k + f.slack)
    epoch = len(f.came)
    kept = ZERO
    for i in range(c.size[ROWS]):
        if c.score[i] + 4 * epoch < f.now[LEVEL] and c.member[i] + c.shown[i] == 0:
            cell = cell_of(g.lanes, c.code[i])
            b.bound[find(b, cell, c.slot[i])] = c.score[i] - f.drift[cell]
        else:
            if kept < i:
                c.code[kept] = c.code[i]
                c.sure[kept] = c.sure[i]
                c.slot[kept] = c.slot[i]
                c.seq[kept] = c.seq[i]
                c.score[kept] = c.score[i]
                c.told[kept] = c.told[i]
                c.member[kept] = c.member[i]
                c.shown[kept] = c.shown[i]
            kept += 1
    c.size[ROWS] = kept


@inner
def survey(g: Ground, b: Blocks, c: Contenders) -> Contenders:
    """Look at all rows of cells that can reach the floor in this epoch, at its beginning."""
    f = g.floor
    epoch = len(f.came)
    f.now[SURVEYS] += 1
    _choose_pivots(g, b)
    for cell in range(len(f.sums)):
        if b.count[cell] == 0 or f.sums[cell] + epoch < f.now[LEVEL]:
            continue
        start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
        drift = f.drift[cell]
        for at in range(start, start + b.cell[cell, SIZE]):
            bound = b.bound[at]
            if bound == CONTENDS or (bound != NO_BOUND and bound + drift + epoch < f.now[LEVEL]):
                continue
            if c.size[ROWS] == len(c.code):
                c = with_seats(c, 1)
            place_row(g, b, c, long(at), cell)
            if c.size[ROWS] > 4 * (f.k + f.slack) + 64:
                _raise(g, c)
    return c


@inner
def _raise(g: Ground, c: Contenders) -> None:
    """Raise the floor while contenders are being found: those at hand are enough."""
    f = g.floor
    level = ranked_score(c, f.k + f.slack)
    if level > f.now[LEVEL]:
        f.now[LEVEL] = level


@inner
def _choose_pivots(g: Ground, b: Blocks) -> None:
    """Take rows with high bounds below the floor, lowest first; the level that makes enough of them is learnt."""
    f = g.floor
    epoch = len(f.came)
    limit = f.now[LEVEL] - epoch
    room = len(f.pivot)
    f.now[PIVOT_LEVEL] = min(f.now[PIVOT_LEVEL], limit - 1)
    f.now[PIVOTS] = 0
    found = ZERO
    for cell in range(len(f.sums)):
        if b.count[cell] == 0 or f.sums[cell] + epoch < f.now[LEVEL]:
            continue
        start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
        drift = f.drift[cell]
        for at in range(start, start + b.cell[cell, SIZE]):
            bound = b.bound[at]
            if bound != CONTENDS and bound != NO_BOUND and f.now[PIVOT_LEVEL] <= bound + drift < limit:
                found += 1
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
    if found > room:
        f.now[PIVOT_LEVEL] = limit - max(1, gap - gap // 4)
    elif found < room // 2:
        f.now[PIVOT_LEVEL] -= gap // 2 + 1


@inner
def refill(g: Ground, b: Blocks, c: Contenders) -> Contenders:
    """Lower the floor until k rows reach it."""
    f = g.floor
    begin_epoch(g, b)
    epoch = len(f.came)
    steps = ZERO
    while True:
        reach, _, _ = standing(c, f.now[LEVEL])
        if reach >= min(f.k, f.now[LIVE]):
            return c
        f.now[REFILLS] += 1
        level = f.now[LEVEL]
        lower = level - max(2 * epoch, level >> 4) * (1 << min(steps, 20))
        known = c.size[ROWS] + f.now[PIVOTS]
        if steps == 0 and known >= f.k + f.slack:
            bounds = np.empty(known, np.int64)
            for i in range(known):
                mine = i < c.size[ROWS]
                bounds[i] = c.score[i] if mine else f.pivot_bound[i - c.size[ROWS]]
            bounds.sort()
            lower = min(level - 1, bounds[known - f.k - f.slack])
        f.now[LEVEL] = lower if lower > 0 else NEVER
        steps += 1
        c = survey(g, b, c)


@leaf
def _clear(numbers: np.ndarray) -> None:
    for i in range(len(numbers)):
        numbers[i] = 0


@inner
def settle_in(g: Ground, b: Blocks, c: Contenders, seeds: Ints, told: Ints) -> Contenders:
    """Begin with rows in their cells and no bounds: score the seeds, set the floor below the best, look at the rest.

    The first seeds are the last judgement's answer, with the scores that were told.
    """
    f = g.floor
    f.now[LEVEL] = NEVER
    begin_epoch(g, b)
    _clear(f.drift)
    for i in range(len(seeds)):
        code = g.codes[seeds[i]]
        at = find(b, cell_of(g.lanes, code), seeds[i])
        if b.bound[at] != CONTENDS:
            score, _ = measure(g, b, code, seeds[i], NEVER)
            c = with_seats(c, 1)
            seat = join(g.lanes, c, code, seeds[i], g.rows.seq[seeds[i]], score)
            b.bound[at] = CONTENDS
            if i < len(told):
                c.member[seat] = 1
                c.shown[seat] = 1
                c.told[seat] = told[i]
                c.size[MEMBERS] += 1
    if c.size[ROWS] >= f.k + f.slack and f.now[LIVE] > f.k + 2 * f.slack:
        f.now[LEVEL] = ranked_score(c, f.k + f.slack)
    f.now[PIVOT_LEVEL] = f.now[LEVEL] // 2
    c = survey(g, b, c)
    trim(g, b, c)
    return c


@inner
def settle_again(g: Ground, b: Blocks, c: Contenders) -> Contenders:
    """Go on in a new grid, with the contenders and bounds of the old one."""
    begin_epoch(g, b)
    _clear(g.floor.drift)
    trim(g, b, c)
    return survey(g, b, c)


@kernel
def drive_floor(
    g: Ground, b: Blocks, c: Contenders, seeds: Ints, told: Ints, begin: int, step: Step, query: int, log: Log
) -> tuple[Blocks, Contenders, Log]:
    """Begin, if that is asked for, and take a step: returns what may have moved to larger arrays."""
    if begin == ANEW:
        c = settle_in(g, b, c, seeds, told)
    elif begin == AGAIN:
        c = settle_again(g, b, c)
    f = g.floor
    i = ZERO
    for j in range(len(step.at) + 1):
        last = j == len(step.at)
        for r in range(i, len(step.arrived) if last else step.arrivals[j]):
            code = g.codes[step.arrived[r]]
            if code != NOT_RANKED:
                cell = cell_of(g.lanes, code)
                if needs(b, cell) > 0:
                    b = with_space(b, needs(b, cell))
                if c.size[ROWS] == len(c.code):
                    c = with_seats(c, 1)
                arrive(g, b, c, code, cell, step.arrived[r])
                if f.now[CAME] == len(f.came):
                    c = next_epoch(g, b, c)
        if last:
            break
        i = step.arrivals[j]
        first = step.heads[j] if g.rows.fifo else (step.expiries[j - 1] if j > 0 else ZERO)
        for e in range(first, step.heads[j + 1] if g.rows.fifo else step.expiries[j]):
            expire(g, b, c, e & g.rows.mask if g.rows.fifo else step.expired[e])
            if f.now[WENT] == len(f.went):
                c = next_epoch(g, b, c)
        reach, worst, best = standing(c, f.now[LEVEL])
        if reach < f.k and reach < f.now[LIVE]:
            c = refill(g, b, c)
            _, worst, best = standing(c, f.now[LEVEL])
        if c.size[GONE] > 0 or not settled(c, f.k, worst, best):
            elect(c, f.k)
            log = report(g.rows, c, step.at[j], query, log)
        note_scores(c)
    return b, c, log


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
