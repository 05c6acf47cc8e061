"""The loop of ``floor``: exact scores for the rows that can reach a floor below the k-th score, bounds for the rest."""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import (
    CONTENDS,
    NO_BOUND,
    Blocks,
    entries_needed,
    find,
    put,
    remove,
    span,
    with_space,
)
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED, cell_of
from topwatch.algorithms.dominating.kernels.contenders import (
    COLUMNS,
    GONE,
    MEMBERS,
    ROWS,
    Contenders,
    Start,
    add_to_dominators,
    drop_expired,
    elect,
    index_of,
    insert,
    is_settled,
    remember_scores,
    report,
    standing,
    with_capacity,
)
from topwatch.algorithms.dominating.kernels.floor_bounds import (
    NEVER,
    FloorState,
    balance,
    begin_epoch,
    bound_or_follow,
    choose_pivots,
    clear,
    end_of_line,
    measure,
    refine,
    set_length,
)
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, stepwise
from topwatch.core.kernels.rows import Log, Step

CONTINUE, FROM_ROWS, IN_NEW_GRID = range(3)  # how a drive begins
DONE, ROOM, EPOCH, ANSWER = range(4)  # what processing events needs next: larger arrays, another epoch, another answer


@inlined
def arrive(g: FloorState, b: Blocks, c: Contenders, code: int, cell: int, slot: int) -> None:
    """Add a ranked row, for which both the blocks and the contenders must have room."""
    put(b, cell, code, slot, NO_BOUND)
    f = g.floor
    f.arrived[cell] += 1
    if f.now.came == 0:
        f.now.since = g.rows.seq[slot]
    f.came[f.now.came] = code
    f.now.came += 1
    f.now.live += 1
    add_to_dominators(g.lanes, g.rows, c, code, slot, 1)
    if f.sums[cell] + f.now.length >= f.now.level:
        _, stop = span(b, cell)
        bound_or_follow(g, b, c, stop - 1, cell)


@inlined
def expire(g: FloorState, b: Blocks, c: Contenders, slot: int) -> None:
    """Remove a row."""
    code = g.codes[slot]
    if code == NOT_RANKED:
        return
    f = g.floor
    if remove(b, cell_of(g.lanes, code), slot) == CONTENDS:
        drop_expired(c, index_of(c, g.rows.seq[slot]))
    f.went[f.now.went] = code
    f.now.went += 1
    f.now.live -= 1
    add_to_dominators(g.lanes, g.rows, c, code, slot, -1)


@inner
def next_epoch(g: FloorState, b: Blocks, c: Contenders) -> Contenders:
    """End an epoch: raise the floor when many rows reach it, and survey all rows that may reach it now."""
    came = g.floor.now.came
    went = g.floor.now.went
    begin_epoch(g, b)
    refine(g, b, came, went)
    trim(g, b, c)
    return survey(g, b, with_capacity(c, 1))


@inner
def ranked_score(c: Contenders, rank: int) -> int:
    """Return the score at a rank among the contenders."""
    scores = c.score[: c.size[ROWS]].copy()
    scores.sort()
    return scores[len(scores) - rank]


@inner
def trim(g: FloorState, b: Blocks, c: Contenders) -> None:
    """Raise the floor when too many contenders reach it, and drop those far below it."""
    f = g.floor
    reach, _, _ = standing(c, f.now.level)
    if reach > f.k + 2 * f.slack:
        f.now.level = ranked_score(c, f.k + f.slack)
        reach, _, _ = standing(c, f.now.level)
    balance(g, c.size[ROWS] - reach)
    far = f.now.near + max(2 * f.now.length, f.now.near >> 2)
    kept = ZERO
    for i in range(c.size[ROWS]):
        if c.score[i] + far < f.now.level and c.member[i] + c.shown[i] == 0:
            cell = cell_of(g.lanes, c.code[i])
            b.bound[find(b, cell, c.slot[i])] = c.score[i] - f.drift[cell]
        else:
            if kept < i:
                for j in range(COLUMNS):
                    c.table[j, kept] = c.table[j, i]
            kept += 1
    c.size[ROWS] = kept


@inner
def survey(g: FloorState, b: Blocks, c: Contenders) -> Contenders:
    """Look at all rows of cells that can reach the floor in this epoch, at its beginning."""
    f = g.floor
    epoch = f.now.length
    f.now.surveys += 1
    choose_pivots(g, b)
    many = max(4 * (f.k + f.slack) + 64, c.size[ROWS] + (c.size[ROWS] >> 1))
    for first in range(0, len(f.sums), 1 << g.lanes.bits[0]):
        for cell in range(first, end_of_line(g, first)):
            start, stop = span(b, cell)
            drift = f.drift[cell]
            for at in range(start, stop):
                bound = b.bound[at]
                if bound == CONTENDS or (bound != NO_BOUND and bound + drift + epoch < f.now.level):
                    continue
                if c.size[ROWS] == len(c.code):
                    c = with_capacity(c, 1)
                bound_or_follow(g, b, c, at, cell)
                if c.size[ROWS] > many:
                    _raise(g, c)
                    many = 2 * c.size[ROWS]
    return c


@inner
def _raise(g: FloorState, c: Contenders) -> None:
    """Raise the floor in the middle of a survey, when there are more than enough contenders."""
    f = g.floor
    level = ranked_score(c, f.k + f.slack)
    if level > f.now.level:
        f.now.level = level


@inner
def refill(g: FloorState, b: Blocks, c: Contenders) -> Contenders:
    """Lower the floor until k rows reach it."""
    f = g.floor
    begin_epoch(g, b)
    epoch = f.now.length
    steps = ZERO
    while True:
        reach, _, _ = standing(c, f.now.level)
        if reach >= min(f.k, f.now.live):
            return c
        f.now.refills += 1
        level = f.now.level
        lower = level - max(2 * epoch, level >> 4) * (1 << min(steps, 20))
        known = c.size[ROWS] + f.now.pivots
        if steps == 0 and known >= f.k + f.slack:
            bounds = np.empty(known, np.int64)
            for i in range(known):
                mine = i < c.size[ROWS]
                bounds[i] = c.score[i] if mine else f.pivot_bound[i - c.size[ROWS]]
            bounds.sort()
            lower = min(level - 1, bounds[known - f.k - f.slack])
        f.now.level = lower if lower > 0 else NEVER
        steps += 1
        set_length(g)
        c = survey(g, b, c)


@inner
def begin_from_rows(g: FloorState, b: Blocks, c: Contenders, start: Start) -> Contenders:
    """Begin with rows in their cells and no bounds: score the seeds, set the floor below them, survey the others."""
    f = g.floor
    f.now.level = NEVER
    begin_epoch(g, b)
    clear(f.drift)
    for i in range(len(start.seeds)):
        slot = start.seeds[i]
        code = g.codes[slot]
        at = find(b, cell_of(g.lanes, code), slot)
        if b.bound[at] != CONTENDS:
            score, _ = measure(g, b, code, slot, NEVER, NEVER)
            c = with_capacity(c, 1)
            index = insert(g.lanes, c, code, slot, g.rows.seq[slot], score)
            b.bound[at] = CONTENDS
            if i < len(start.reported):
                c.member[index] = 1
                c.shown[index] = 1
                c.reported[index] = start.reported[i]
                c.size[MEMBERS] += 1
    if c.size[ROWS] >= f.k + f.slack and f.now.live > f.k + 2 * f.slack:
        f.now.level = ranked_score(c, f.k + f.slack)
    f.now.pivot_level = f.now.level // 2
    set_length(g)
    c = survey(g, b, c)
    trim(g, b, c)
    return c


@inner
def begin_in_new_grid(g: FloorState, b: Blocks, c: Contenders) -> Contenders:
    """Continue in a new grid, with the contenders and bounds of the old one."""
    begin_epoch(g, b)
    clear(g.floor.drift)
    trim(g, b, c)
    return survey(g, b, c)


@leaf
def process_events(g: FloorState, b: Blocks, c: Contenders, step: Step) -> int:
    """Process events and evaluations up to one that needs more than the arrays have; returns what it needs.

    Nearly all are done with here, in a loop that makes no arrays and has no reference counts.
    """
    f = g.floor
    now = f.now
    while True:
        j = now.step_evaluations
        last = j == len(step.at)
        for r in range(now.step_arrivals, len(step.arrived) if last else step.arrivals[j]):
            code = g.codes[step.arrived[r]]
            if code != NOT_RANKED:
                cell = cell_of(g.lanes, code)
                if c.size[ROWS] == len(c.code) or b.end[0] + entries_needed(b, cell) > len(b.code):
                    return ROOM
                arrive(g, b, c, code, cell, step.arrived[r])
            now.step_arrivals = r + 1
            if now.came == now.length:
                return EPOCH
        if last:
            return DONE
        for e in range(now.step_expiries, step.heads[j + 1] if g.rows.fifo else step.expiries[j]):
            expire(g, b, c, e & g.rows.mask if g.rows.fifo else step.expired[e])
            now.step_expiries = e + 1
            if now.went == len(f.went):
                return EPOCH
        reach, worst, best = standing(c, now.level)
        if reach < min(f.k, now.live) or c.size[GONE] > 0 or not is_settled(c, f.k, worst, best):
            return ANSWER
        remember_scores(c)
        now.step_evaluations = j + 1


@stepwise
@kernel
def drive_floor(
    g: FloorState, b: Blocks, c: Contenders, begin: int, start: Start, step: Step, query: int, log: Log
) -> tuple[Blocks, Contenders, Log]:
    """Begin, if ``begin`` says so, and process a step: returns what may have moved to larger arrays."""
    if begin == FROM_ROWS:
        c = begin_from_rows(g, b, c, start)
    elif begin == IN_NEW_GRID:
        c = begin_in_new_grid(g, b, c)
    f = g.floor
    f.now.step_evaluations = 0
    f.now.step_arrivals = 0
    f.now.step_expiries = step.heads[0] if g.rows.fifo and len(step.heads) > 0 else 0
    while True:
        need = process_events(g, b, c, step)
        if need == DONE:
            return b, c, log
        if need == ROOM:
            c = with_capacity(c, 1)
            b = with_space(b, entries_needed(b, cell_of(g.lanes, g.codes[step.arrived[f.now.step_arrivals]])))
        elif need == EPOCH:
            c = next_epoch(g, b, c)
        else:
            reach, _, _ = standing(c, f.now.level)
            if reach < min(f.k, f.now.live):
                c = refill(g, b, c)
            elect(c, f.k)
            log = report(g.rows, c, step.at[f.now.step_evaluations], query, log)
            remember_scores(c)
            f.now.step_evaluations += 1
