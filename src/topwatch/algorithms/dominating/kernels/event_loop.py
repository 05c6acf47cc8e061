"""The loop of ``eva`` and what is built on it: rows are looked at when their safe intervals end."""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import (
    BEGIN,
    FIRST,
    NO_BOUND,
    Blocks,
    needs,
    put,
    take_away,
    with_space,
)
from topwatch.algorithms.dominating.kernels.cell_samples import believe
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED, cell_of
from topwatch.algorithms.dominating.kernels.delta import adjust, dismiss
from topwatch.algorithms.dominating.kernels.event_queue import collect, dequeue, enqueue
from topwatch.algorithms.dominating.kernels.event_state import (
    ARRIVALS,
    CLOCK,
    END,
    EVENTS,
    HEAD,
    LAST,
    NEAR,
    RECENT,
    SUMMED,
    TENDED,
    THRESHOLD,
    Course,
    by_cell,
    exact_score,
    is_among,
    measure,
    pass_by,
    sum_cells,
    take_stock,
)
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
from topwatch.algorithms.dominating.kernels.exclusion import excluded
from topwatch.algorithms.dominating.kernels.intervals import bound_of, interval, make_event, outlook, schedule, worth
from topwatch.algorithms.dominating.kernels.reference import by_reference
from topwatch.algorithms.dominating.kernels.safe_time import is_fresh, make_board
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, long
from topwatch.core.kernels.rows import Log, Step
from topwatch.core.kernels.scoring import Ints

FEW = 64  # contenders beyond k: up to so many, each new one rebuilds the board


@leaf
def arrive(g: Course, b: Blocks, c: Contenders, s: Contenders, code: int, cell: int, slot: int) -> None:
    """Take a ranked row in; it is looked at, at the next evaluation."""
    put(b, cell, code, slot, long(g.passed[cell]))
    bump(g.lanes, g.rows, c, code, slot, 1)
    if g.rules.samples > 0:
        bump(g.lanes, g.rows, s, code, slot, 1)
    if g.rules.later:
        _expect(g, b, cell, slot)
    g.queue.score[slot] = NO_BOUND
    enqueue(g.queue, slot, g.now[CLOCK])


@leaf
def _expect(g: Course, b: Blocks, cell: int, slot: int) -> None:
    """Note an arrival that the cells behind its own do not count yet; once there are enough, count all of them."""
    g.coming[cell] += 1
    g.recent[g.now[RECENT]] = g.rows.seq[slot]
    g.now[RECENT] += 1
    if g.now[RECENT] == len(g.recent):
        pass_by(g, b)


@inner
def _expect_all(g: Course, b: Blocks, slots: Ints) -> None:
    """Note the arrivals of rows that are in their cells, oldest first there as in ``slots``."""
    seen = np.zeros(len(b.count), np.int32)
    g.now[END] = g.rows.seq[slots[len(slots) - 1]]
    for i in range(len(slots)):
        code = g.codes[slots[i]]
        if code != NOT_RANKED:
            cell = cell_of(g.lanes, code)
            b.bound[b.cell[cell, FIRST] + b.cell[cell, BEGIN] + seen[cell]] = g.passed[cell]
            seen[cell] += 1
            _expect(g, b, cell, slots[i])


@leaf
def expire(g: Course, b: Blocks, c: Contenders, s: Contenders, slot: int) -> None:
    """Let a row go."""
    code = g.codes[slot]
    if code == NOT_RANKED:
        return
    dequeue(g.queue, slot)
    take_away(b, cell_of(g.lanes, code), slot)
    _leave(c, g.rows.seq[slot])
    bump(g.lanes, g.rows, c, code, slot, -1)
    if g.rules.samples > 0:
        _leave(s, g.rows.seq[slot])
        bump(g.lanes, g.rows, s, code, slot, -1)


@leaf
def _leave(c: Contenders, seq: int) -> None:
    index = seat_of(c, seq)
    if index < c.size[ROWS] and c.seq[index] == seq:
        lose(c, index)


@inner
def admit(g: Course, c: Contenders, slot: int, score: int) -> Contenders:
    """Make a row a contender, and elect again."""
    c = with_seats(c, 1)
    join(g.lanes, c, g.codes[slot], slot, g.rows.seq[slot], score)
    elect(c, g.rules.k)
    take_stock(g, c)
    if g.rules.later and c.size[ROWS] <= g.rules.k + FEW:
        make_board(g, c)  # every row more makes intervals longer
    return c


@leaf
def put_off_from(
    g: Course, b: Blocks, c: Contenders, s: Contenders, due: Ints, bounds: Ints, first: int, end: int
) -> int:
    """Put off the rows that are due, up to one that cannot be: returns its index, and writes their bounds.

    Nearly all rows are handled here, in a loop that makes no arrays and has no reference counts.
    """
    for i in range(first, end):
        done, bounds[i] = put_off(g, b, c, s, due[i], bounds[i])
        if not done:
            return i
    return end


@inlined
def put_off(g: Course, b: Blocks, c: Contenders, s: Contenders, slot: int, bound: int) -> tuple[bool, int]:
    """Give a row that is due another event, by a bound of its score; False and the bound where that is too high.

    In ADA a bound is too high where the row would be due again well within Δt: each such event would halve what is left
    of its interval, since only half of all events raise the bound, and there would be a dozen of them. Where it
    is due within Δt, how many rows are in cells not before its own is asked first: a count would begin with that.
    """
    g.now[EVENTS] += 1
    if g.now[THRESHOLD] < 0 or (g.rules.samples > 0 and is_among(g, s, slot)):
        return False, bound
    code = g.codes[slot]
    if g.rules.suffix:
        bound = min(bound, by_cell(g, code))
    if excluded(g, code, bound):
        make_event(g, code, slot, bound, ZERO)
        return True, bound
    reported, needed = outlook(g, b, c, code, slot)
    bound = min(bound, reported)
    wait = interval(g, needed, bound)
    if g.rules.most > 0 and wait < worth(g, needed, 0):
        bound = min(bound, by_cell(g, code))
        wait = interval(g, needed, bound)
    if wait < worth(g, needed, 6):
        limit = g.now[THRESHOLD] - (min(g.now[NEAR], g.now[THRESHOLD]) >> 1 if g.rules.most > 0 else 0)
        bound = min(bound, by_reference(g, b, code, slot, limit))
        wait = interval(g, needed, bound)
        if wait < worth(g, needed, 3) or bound >= g.now[THRESHOLD]:
            return False, bound
    make_event(g, code, slot, bound, wait)
    return True, bound


@inner
def examine(g: Course, b: Blocks, c: Contenders, s: Contenders, slot: int, bound: int) -> tuple[Contenders, Contenders]:
    """Look at a row that could not be put off by this bound: believe a sample of its cell, or count its score."""
    code = g.codes[slot]
    rules = g.rules
    short = g.now[THRESHOLD] < 0
    known = is_among(g, s, slot)
    if rules.samples > 0 and not short and not known:
        believed, s = believe(g, b, s, code)
        believed = min(believed, bound)
        known = is_among(g, s, slot)
        if not known and believed < g.now[THRESHOLD] and schedule(g, b, c, slot, believed, 1):
            return c, s
    near = ZERO
    if rules.most > 0 and c.size[ROWS] < rules.k + rules.most:
        near = g.now[NEAR]
    if known:
        score, exact = s.score[seat_of(s, g.rows.seq[slot])], True
    else:
        score, exact = measure(g, b, code, slot)
    if short or score >= g.now[THRESHOLD]:
        return admit(g, c, slot, score), s
    late = schedule(g, b, c, slot, score, near if exact else 0)
    return (c if late else admit(g, c, slot, score)), s


@inner
def due_now(g: Course, due: Ints) -> tuple[Ints, int]:
    """Take out all rows that are due; returns them, in an array that may be a larger one, and how many there are."""
    n = collect(g.queue, g.now[LAST], g.now[CLOCK], due)
    while n < 0:
        due = np.empty(4 * len(due), np.int64)
        n = collect(g.queue, g.now[LAST], g.now[CLOCK], due)
    g.now[LAST] = g.now[CLOCK]
    return due, n


@inner
def tend(g: Course, b: Blocks, c: Contenders) -> None:
    """Let contenders go that need not be followed: at once in EVA, now and then in ADA, which adjusts Δt first."""
    if g.rules.most > 0 and g.now[ARRIVALS] - g.now[TENDED] < len(g.recent):
        return
    take_stock(g, c)
    if g.now[THRESHOLD] < 0:
        return
    if g.rules.most > 0:
        adjust(g, c)
    if g.rules.later:
        make_board(g, c)
    dismiss(g, b, c)


@inner
def evaluate(
    g: Course, b: Blocks, c: Contenders, s: Contenders, due: Ints, query: int, at: int, log: Log
) -> tuple[Contenders, Contenders, Ints, Log]:
    """Look at all rows that are due, then report."""
    _, worst, best = standing(c, ZERO)
    if c.size[GONE] > 0 or c.size[MEMBERS] < g.rules.k or not settled(c, g.rules.k, worst, best):
        elect(c, g.rules.k)
    take_stock(g, c)
    due, n = due_now(g, due)
    if g.rules.later and n > 0 and not is_fresh(g):
        make_board(g, c)
    bounds = np.empty(n, np.int64)
    for i in range(n):
        bounds[i] = bound_of(g, due[i]) if g.queue.score[due[i]] != NO_BOUND else NO_BOUND
    if g.now[THRESHOLD] < 0 and n > 0:
        # Members are missing: the rows with the highest bounds first, so that the k-th score is soon a high one.
        keys = np.empty(n, np.int64)
        slots = np.empty(n, np.int64)
        for i in range(n):
            keys[i] = -bounds[i] * n + i
            slots[i] = due[i]
        keys.sort()
        for i in range(n):
            due[i] = slots[keys[i] % n]
            bounds[i] = -(keys[i] // n)
    i = put_off_from(g, b, c, s, due, bounds, ZERO, n)
    while i < n:
        c, s = examine(g, b, c, s, due[i], bounds[i])
        i = put_off_from(g, b, c, s, due, bounds, i + 1, n)
    if g.rules.samples > 0:
        # Rows that were put off by a mean and have been drawn since: their scores are known now, and draw no others.
        due, n = due_now(g, due)
        for i in range(n):
            done, bound = put_off(g, b, c, s, due[i], NO_BOUND)
            if not done:
                c, s = examine(g, b, c, s, due[i], bound)
    if c.size[ROWS] > c.size[MEMBERS]:
        tend(g, b, c)
    return c, s, due, report(g.rows, c, at, query, log)


@inner
def settle(g: Course, b: Blocks, c: Contenders, seeds: Ints, reported: Ints, slots: Ints) -> Contenders:
    """Begin with rows in their cells: score the seeds, and let all others be due with what their cells tell.

    The first seeds are the last evaluation's answer, with the scores that were reported.
    """
    sum_cells(g, b)
    if g.rules.later:
        _expect_all(g, b, slots)
    for i in range(len(seeds)):
        if is_among(g, c, seeds[i]):
            continue
        c = with_seats(c, 1)
        code = g.codes[seeds[i]]
        index = join(g.lanes, c, code, seeds[i], g.rows.seq[seeds[i]], exact_score(g, b, code, seeds[i]))
        if i < len(reported):
            c.shown[index] = 1
            c.reported[index] = reported[i]
    elect(c, g.rules.k)
    for i in range(len(slots)):
        if g.codes[slots[i]] != NOT_RANKED and not is_among(g, c, slots[i]):
            g.queue.score[slots[i]] = by_cell(g, g.codes[slots[i]])
            g.queue.made[slots[i]] = g.now[ARRIVALS]
            enqueue(g.queue, slots[i], g.now[CLOCK])
    return c


@kernel
def drive_events(
    g: Course,
    b: Blocks,
    c: Contenders,
    s: Contenders,
    seeds: Ints,
    reported: Ints,
    slots: Ints,
    step: Step,
    query: int,
    log: Log,
) -> tuple[Blocks, Contenders, Contenders, Log]:
    """Begin, if rows are given to begin with, and take a step: returns what may have moved to larger arrays."""
    if len(slots) > 0:
        c = settle(g, b, c, seeds, reported, slots)
    due = np.empty(1024, np.int64)
    epoch = max(64, long(np.sqrt(np.float64(b.count.sum()))))
    sums = g.rules.suffix or g.rules.most > 0
    i = ZERO
    for j in range(len(step.at) + 1):
        last = j == len(step.at)
        for r in range(i, len(step.arrived) if last else step.arrivals[j]):
            slot = step.arrived[r]
            g.now[CLOCK] += 1
            g.now[END] = g.rows.seq[slot]
            code = g.codes[slot]
            if code != NOT_RANKED:
                g.now[ARRIVALS] += 1
                cell = cell_of(g.lanes, code)
                if needs(b, cell) > 0:
                    b = with_space(b, needs(b, cell))
                arrive(g, b, c, s, code, cell, slot)
                if sums and g.now[ARRIVALS] - g.now[SUMMED] >= epoch:
                    sum_cells(g, b)
        if last:
            break
        i = step.arrivals[j]
        for ordinal in range(step.heads[j], step.heads[j + 1]):
            g.now[CLOCK] += 1
            expire(g, b, c, s, ordinal & g.rows.mask)
        g.now[HEAD] = step.heads[j + 1]
        c, s, due, log = evaluate(g, b, c, s, due, query, step.at[j], log)
        note_scores(c)
    return b, c, s, log
