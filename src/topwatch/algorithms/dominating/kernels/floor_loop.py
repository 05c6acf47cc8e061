"""The loop of ``floor``: exact scores for the rows that can reach a floor below the k-th score, bounds for the rest."""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import (
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
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED, cell_of
from topwatch.algorithms.dominating.kernels.exact_scores import (
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
from topwatch.algorithms.dominating.kernels.floor_bounds import (
    CAME,
    LENGTH,
    LEVEL,
    LIVE,
    NEAR,
    NEVER,
    PIVOT_LEVEL,
    PIVOTS,
    REFILLS,
    SINCE,
    SURVEYS,
    WENT,
    Ground,
    balance,
    begin_epoch,
    choose_pivots,
    clear,
    end_of_line,
    measure,
    place_row,
    refine,
    set_pace,
)
from topwatch.core.jit import PREFETCH_DISTANCE, ZERO, inlined, inner, kernel, leaf, long, prefetch
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import Ints

ON, ANEW, AGAIN = range(3)  # how a drive begins: it goes on, from rows alone, in a new grid
NOTHING, ROOM, EPOCH, ANSWER = range(4)  # what is needed to go on: larger arrays, another epoch, another answer
EVALUATED, ARRIVED, EXPIRED = range(3)  # of the way through a step: what has been taken of it


@inlined
def arrive(g: Ground, b: Blocks, c: Contenders, code: int, cell: int, slot: int) -> None:
    """Take a ranked row in, for which both the blocks and the contenders must have room."""
    put(b, cell, code, slot, NO_BOUND)
    f = g.floor
    f.arrived[cell] += 1
    if f.now[CAME] == 0:
        f.now[SINCE] = g.rows.seq[slot]
    f.came[f.now[CAME]] = code
    f.now[CAME] += 1
    f.now[LIVE] += 1
    bump(g.lanes, g.rows, c, code, slot, 1)
    if f.sums[cell] + f.now[LENGTH] >= f.now[LEVEL]:
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


@inlined
def look_ahead(g: Ground, b: Blocks, later: int, soon: int, arrives: bool) -> None:
    """Prefetch the cell of a later row, and the entry that a row takes, or leaves, soon."""
    cell = cell_of(g.lanes, g.codes[later])
    prefetch(b.cell, 4 * cell)
    prefetch(g.floor.sums, cell)
    cell = cell_of(g.lanes, g.codes[soon])
    at = long(b.cell[cell, FIRST] + b.cell[cell, BEGIN])
    if arrives:
        at += b.cell[cell, SIZE]
    prefetch(b.code, at)
    prefetch(b.slot, at)
    prefetch(b.bound, at)


@inner
def next_epoch(g: Ground, b: Blocks, c: Contenders) -> Contenders:
    """End an epoch: raise the floor when many rows reach it, and look at every row that may reach it now."""
    came = g.floor.now[CAME]
    went = g.floor.now[WENT]
    begin_epoch(g, b)
    refine(g, b, came, went)
    trim(g, b, c)
    return survey(g, b, with_seats(c, 1))


@inner
def ranked_score(c: Contenders, rank: int) -> int:
    """Return the score at a rank among the contenders."""
    scores = c.score[: c.size[ROWS]].copy()
    scores.sort()
    return scores[len(scores) - rank]


@inner
def trim(g: Ground, b: Blocks, c: Contenders) -> None:
    """Raise the floor when too many contenders reach it, and drop those far below it."""
    f = g.floor
    reach, _, _ = standing(c, f.now[LEVEL])
    if reach > f.k + 2 * f.slack:
        f.now[LEVEL] = ranked_score(c, f.k + f.slack)
        reach, _, _ = standing(c, f.now[LEVEL])
    balance(g, c.size[ROWS] - reach)
    far = f.now[NEAR] + max(2 * f.now[LENGTH], f.now[NEAR] >> 2)
    kept = ZERO
    for i in range(c.size[ROWS]):
        if c.score[i] + far < f.now[LEVEL] and c.member[i] + c.shown[i] == 0:
            cell = cell_of(g.lanes, c.code[i])
            b.bound[find(b, cell, c.slot[i])] = c.score[i] - f.drift[cell]
        else:
            if kept < i:
                c.code[kept] = c.code[i]
                c.sure[kept] = c.sure[i]
                c.slot[kept] = c.slot[i]
                c.seq[kept] = c.seq[i]
                c.score[kept] = c.score[i]
                c.reported[kept] = c.reported[i]
                c.member[kept] = c.member[i]
                c.shown[kept] = c.shown[i]
            kept += 1
    c.size[ROWS] = kept


@inner
def survey(g: Ground, b: Blocks, c: Contenders) -> Contenders:
    """Look at all rows of cells that can reach the floor in this epoch, at its beginning."""
    f = g.floor
    epoch = f.now[LENGTH]
    f.now[SURVEYS] += 1
    choose_pivots(g, b)
    many = max(4 * (f.k + f.slack) + 64, c.size[ROWS] + (c.size[ROWS] >> 1))
    for first in range(0, len(f.sums), 1 << g.lanes.bits[0]):
        for cell in range(first, end_of_line(g, first)):
            start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
            drift = f.drift[cell]
            for at in range(start, start + b.cell[cell, SIZE]):
                bound = b.bound[at]
                if bound == CONTENDS or (bound != NO_BOUND and bound + drift + epoch < f.now[LEVEL]):
                    continue
                if c.size[ROWS] == len(c.code):
                    c = with_seats(c, 1)
                place_row(g, b, c, long(at), cell)
                if c.size[ROWS] > many:
                    _raise(g, c)
                    many = 2 * c.size[ROWS]
    return c


@inner
def _raise(g: Ground, c: Contenders) -> None:
    """Raise the floor while contenders are being found: those at hand are enough."""
    f = g.floor
    level = ranked_score(c, f.k + f.slack)
    if level > f.now[LEVEL]:
        f.now[LEVEL] = level


@inner
def refill(g: Ground, b: Blocks, c: Contenders) -> Contenders:
    """Lower the floor until k rows reach it."""
    f = g.floor
    begin_epoch(g, b)
    epoch = f.now[LENGTH]
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
        set_pace(g)
        c = survey(g, b, c)


@inner
def settle_in(g: Ground, b: Blocks, c: Contenders, seeds: Ints, reported: Ints) -> Contenders:
    """Begin with rows in their cells and no bounds: score the seeds, set the floor below the best, look at the rest.

    The first seeds are the last evaluation's answer, with the scores that were reported.
    """
    f = g.floor
    f.now[LEVEL] = NEVER
    begin_epoch(g, b)
    clear(f.drift)
    for i in range(len(seeds)):
        code = g.codes[seeds[i]]
        at = find(b, cell_of(g.lanes, code), seeds[i])
        if b.bound[at] != CONTENDS:
            score, _ = measure(g, b, code, seeds[i], NEVER, NEVER)
            c = with_seats(c, 1)
            index = join(g.lanes, c, code, seeds[i], g.rows.seq[seeds[i]], score)
            b.bound[at] = CONTENDS
            if i < len(reported):
                c.member[index] = 1
                c.shown[index] = 1
                c.reported[index] = reported[i]
                c.size[MEMBERS] += 1
    if c.size[ROWS] >= f.k + f.slack and f.now[LIVE] > f.k + 2 * f.slack:
        f.now[LEVEL] = ranked_score(c, f.k + f.slack)
    f.now[PIVOT_LEVEL] = f.now[LEVEL] // 2
    set_pace(g)
    c = survey(g, b, c)
    trim(g, b, c)
    return c


@inner
def settle_again(g: Ground, b: Blocks, c: Contenders) -> Contenders:
    """Go on in a new grid, with the contenders and bounds of the old one."""
    begin_epoch(g, b)
    clear(g.floor.drift)
    trim(g, b, c)
    return survey(g, b, c)


@leaf
def go_on(g: Ground, b: Blocks, c: Contenders, step: Step, way: Ints) -> int:
    """Take events and evaluations up to one that needs more than the arrays at hand; returns what it needs.

    Nearly all are done with here, in a loop that makes no arrays and has no reference counts.
    """
    f = g.floor
    while True:
        j = way[EVALUATED]
        last = j == len(step.at)
        for r in range(way[ARRIVED], len(step.arrived) if last else step.arrivals[j]):
            if r + 2 * PREFETCH_DISTANCE < len(step.arrived):
                look_ahead(g, b, step.arrived[r + 2 * PREFETCH_DISTANCE], step.arrived[r + PREFETCH_DISTANCE], True)
            code = g.codes[step.arrived[r]]
            if code != NOT_RANKED:
                cell = cell_of(g.lanes, code)
                if c.size[ROWS] == len(c.code) or b.end[0] + needs(b, cell) > len(b.code):
                    return ROOM
                arrive(g, b, c, code, cell, step.arrived[r])
            way[ARRIVED] = r + 1
            if f.now[CAME] == f.now[LENGTH]:
                return EPOCH
        if last:
            return NOTHING
        for e in range(way[EXPIRED], step.heads[j + 1] if g.rows.fifo else step.expiries[j]):
            if g.rows.fifo:
                look_ahead(
                    g, b, (e + 2 * PREFETCH_DISTANCE) & g.rows.mask, (e + PREFETCH_DISTANCE) & g.rows.mask, False
                )
            expire(g, b, c, e & g.rows.mask if g.rows.fifo else step.expired[e])
            way[EXPIRED] = e + 1
            if f.now[WENT] == len(f.went):
                return EPOCH
        reach, worst, best = standing(c, f.now[LEVEL])
        if reach < min(f.k, f.now[LIVE]) or c.size[GONE] > 0 or not settled(c, f.k, worst, best):
            return ANSWER
        note_scores(c)
        way[EVALUATED] = j + 1


@kernel
def drive_floor(
    g: Ground, b: Blocks, c: Contenders, seeds: Ints, reported: Ints, begin: int, step: Step, query: int, log: Log
) -> tuple[Blocks, Contenders, Log]:
    """Begin, if ``begin`` says so, and take a step: returns what may have moved to larger arrays."""
    if begin == ANEW:
        c = settle_in(g, b, c, seeds, reported)
    elif begin == AGAIN:
        c = settle_again(g, b, c)
    f = g.floor
    way = np.zeros(3, np.int64)
    if g.rows.fifo and len(step.heads) > 0:
        way[EXPIRED] = step.heads[0]
    while True:
        want = go_on(g, b, c, step, way)
        if want == NOTHING:
            return b, c, log
        if want == ROOM:
            c = with_seats(c, 1)
            b = with_space(b, needs(b, cell_of(g.lanes, g.codes[step.arrived[way[ARRIVED]]])))
        elif want == EPOCH:
            c = next_epoch(g, b, c)
        else:
            reach, _, _ = standing(c, f.now[LEVEL])
            if reach < min(f.k, f.now[LIVE]):
                c = refill(g, b, c)
            elect(c, f.k)
            log = report(g.rows, c, step.at[way[EVALUATED]], query, log)
            note_scores(c)
            way[EVALUATED] += 1
