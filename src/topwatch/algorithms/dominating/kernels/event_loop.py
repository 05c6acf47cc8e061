"""The loop of ``eva`` and what is built on it: rows are examined when their safe intervals end.

``g`` is the state that never moves, ``b`` the rows by cell, ``c`` the contenders and ``s`` the samples of ``ahba``.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import (
    NO_BOUND,
    Blocks,
    entries_needed,
    put,
    remove,
    span,
    with_space,
)
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED, cell_of
from topwatch.algorithms.dominating.kernels.contenders import (
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
from topwatch.algorithms.dominating.kernels.event_state import (
    EventState,
    by_cell,
    collect,
    count_recent,
    dequeue,
    enqueue,
    exact_score,
    is_among,
    make_suffix_counts,
    measure,
    update_threshold,
)
from topwatch.algorithms.dominating.kernels.intervals import (
    adjust_delta,
    bound_of,
    demote,
    excluded,
    interval,
    is_fresh,
    least_interval,
    make_event,
    make_life_table,
    outlook,
    schedule,
)
from topwatch.algorithms.dominating.kernels.reference import by_reference, sampled_bound
from topwatch.core.arrays import Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, long, stepwise
from topwatch.core.kernels.rows import Log, Step

FEW = 64  # contenders beyond k: up to so many, each new one rebuilds the life table


@leaf
def arrive(g: EventState, b: Blocks, c: Contenders, s: Contenders, code: int, cell: int, slot: int) -> None:
    """Add a ranked row; it is examined at the next evaluation."""
    put(b, cell, code, slot, long(g.passed[cell]))
    add_to_dominators(g.lanes, g.rows, c, code, slot, 1)
    if g.rules.samples > 0:
        add_to_dominators(g.lanes, g.rows, s, code, slot, 1)
    if g.rules.later:
        _add_recent(g, b, cell, slot)
    g.queue.score[slot] = NO_BOUND
    enqueue(g.queue, slot, g.now.clock)


@leaf
def _add_recent(g: EventState, b: Blocks, cell: int, slot: int) -> None:
    """Add an arrival that the cells behind its own do not count yet; once there are enough, count all of them."""
    g.coming[cell] += 1
    g.recent[g.now.recent] = g.rows.seq[slot]
    g.now.recent += 1
    if g.now.recent == len(g.recent):
        count_recent(g, b)


@inner
def _add_all_recent(g: EventState, b: Blocks, slots: Ints) -> None:
    """Add the arrivals of rows that are in their cells, oldest first there as in ``slots``."""
    seen = np.zeros(len(b.count), np.int32)
    g.now.end = g.rows.seq[slots[len(slots) - 1]]
    for i in range(len(slots)):
        code = g.codes[slots[i]]
        if code != NOT_RANKED:
            cell = cell_of(g.lanes, code)
            first, _ = span(b, cell)
            b.bound[first + seen[cell]] = g.passed[cell]
            seen[cell] += 1
            _add_recent(g, b, cell, slots[i])


@leaf
def expire(g: EventState, b: Blocks, c: Contenders, s: Contenders, slot: int) -> None:
    """Remove a row."""
    code = g.codes[slot]
    if code == NOT_RANKED:
        return
    dequeue(g.queue, slot)
    remove(b, cell_of(g.lanes, code), slot)
    _drop_expired(c, g.rows.seq[slot])
    add_to_dominators(g.lanes, g.rows, c, code, slot, -1)
    if g.rules.samples > 0:
        _drop_expired(s, g.rows.seq[slot])
        add_to_dominators(g.lanes, g.rows, s, code, slot, -1)


@leaf
def _drop_expired(c: Contenders, seq: int) -> None:
    index = index_of(c, seq)
    if index < c.size[ROWS] and c.seq[index] == seq:
        drop_expired(c, index)


@inner
def admit(g: EventState, c: Contenders, slot: int, score: int) -> Contenders:
    """Make a row a contender, and elect again."""
    c = with_capacity(c, 1)
    insert(g.lanes, c, g.codes[slot], slot, g.rows.seq[slot], score)
    elect(c, g.rules.k)
    update_threshold(g, c)
    if g.rules.later and c.size[ROWS] <= g.rules.k + FEW:
        make_life_table(g, c)  # every row more makes intervals longer
    return c


@leaf
def postpone_from(
    g: EventState, b: Blocks, c: Contenders, s: Contenders, due: Ints, bounds: Ints, first: int, end: int
) -> int:
    """Postpone the rows that are due, up to one that cannot be: returns its index, and writes their bounds.

    Nearly all rows are handled here, in a loop that makes no arrays and has no reference counts.
    """
    for i in range(first, end):
        done, bounds[i] = postpone(g, b, c, s, due[i], bounds[i])
        if not done:
            return i
    return end


@inlined
def postpone(g: EventState, b: Blocks, c: Contenders, s: Contenders, slot: int, bound: int) -> tuple[bool, int]:
    """Give a row that is due another event, by a bound of its score; False and the bound where that is too high.

    In ADA a bound is too high where the row would be due again well within Δt: each such event would halve what is left
    of its interval, since only half of all events raise the bound, and there would be a dozen of them. Where it
    is due within Δt, it is bounded by the rows in cells not before its own first: a count would begin with that.
    """
    g.now.events += 1
    if g.now.threshold < 0 or (g.rules.samples > 0 and is_among(g, s, slot)):
        return False, bound
    code = g.codes[slot]
    if g.rules.suffix:
        bound = min(bound, by_cell(g, code))
    if excluded(g, code, bound):
        make_event(g, code, slot, bound, ZERO)
        return True, bound
    least, needed = outlook(g, b, c, code, slot)
    bound = min(bound, least)
    wait = interval(g, needed, bound)
    if g.rules.most > 0 and wait < least_interval(g, needed, 0):
        bound = min(bound, by_cell(g, code))
        wait = interval(g, needed, bound)
    if wait < least_interval(g, needed, 6):
        limit = g.now.threshold - (min(g.now.near, g.now.threshold) >> 1 if g.rules.most > 0 else 0)
        bound = min(bound, by_reference(g, b, code, slot, limit))
        wait = interval(g, needed, bound)
        if wait < least_interval(g, needed, 3) or bound >= g.now.threshold:
            return False, bound
    make_event(g, code, slot, bound, wait)
    return True, bound


@inner
def examine(
    g: EventState, b: Blocks, c: Contenders, s: Contenders, slot: int, bound: int
) -> tuple[Contenders, Contenders]:
    """Examine a row that this bound cannot postpone: take the bound of a sample of its cell, or count its score."""
    code = g.codes[slot]
    rules = g.rules
    short = g.now.threshold < 0
    known = is_among(g, s, slot)
    if rules.samples > 0 and not short and not known:
        estimate, s = sampled_bound(g, b, s, code)
        estimate = min(estimate, bound)
        known = is_among(g, s, slot)
        if not known and estimate < g.now.threshold and schedule(g, b, c, slot, estimate, 1):
            return c, s
    near = ZERO
    if rules.most > 0 and c.size[ROWS] < rules.k + rules.most:
        near = g.now.near
    if known:
        score, exact = s.score[index_of(s, g.rows.seq[slot])], True
    else:
        score, exact = measure(g, b, code, slot)
    if short or score >= g.now.threshold:
        return admit(g, c, slot, score), s
    late = schedule(g, b, c, slot, score, near if exact else 0)
    return (c if late else admit(g, c, slot, score)), s


@inner
def due_now(g: EventState, due: Ints) -> tuple[Ints, int]:
    """Remove all rows that are due; returns them, in an array that may be a larger one, and how many there are."""
    n = collect(g.queue, g.now.evaluated, g.now.clock, due)
    while n < 0:
        due = np.empty(4 * len(due), np.int64)
        n = collect(g.queue, g.now.evaluated, g.now.clock, due)
    g.now.evaluated = g.now.clock
    return due, n


@inner
def review(g: EventState, b: Blocks, c: Contenders) -> None:
    """Demote contenders that need not be followed: at once in EVA, now and then in ADA, which adjusts Δt first."""
    if g.rules.most > 0 and g.now.arrivals - g.now.adjusted_arrivals < len(g.recent):
        return
    update_threshold(g, c)
    if g.now.threshold < 0:
        return
    if g.rules.most > 0:
        adjust_delta(g, c)
    if g.rules.later:
        make_life_table(g, c)
    demote(g, b, c)


@inner
def evaluate(
    g: EventState, b: Blocks, c: Contenders, s: Contenders, due: Ints, query: int, at: int, log: Log
) -> tuple[Contenders, Contenders, Ints, Log]:
    """Examine all rows that are due, then report."""
    _, worst, best = standing(c, ZERO)
    if c.size[GONE] > 0 or c.size[MEMBERS] < g.rules.k or not is_settled(c, g.rules.k, worst, best):
        elect(c, g.rules.k)
    update_threshold(g, c)
    due, n = due_now(g, due)
    if g.rules.later and n > 0 and not is_fresh(g):
        make_life_table(g, c)
    bounds = np.empty(n, np.int64)
    for i in range(n):
        bounds[i] = bound_of(g, due[i]) if g.queue.score[due[i]] != NO_BOUND else NO_BOUND
    if g.now.threshold < 0 and n > 0:
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
    i = postpone_from(g, b, c, s, due, bounds, ZERO, n)
    while i < n:
        c, s = examine(g, b, c, s, due[i], bounds[i])
        i = postpone_from(g, b, c, s, due, bounds, i + 1, n)
    if g.rules.samples > 0:
        # Rows that a mean postponed and that have been drawn since: their scores are known now, and draw no others.
        due, n = due_now(g, due)
        for i in range(n):
            done, bound = postpone(g, b, c, s, due[i], NO_BOUND)
            if not done:
                c, s = examine(g, b, c, s, due[i], bound)
    if c.size[ROWS] > c.size[MEMBERS]:
        review(g, b, c)
    return c, s, due, report(g.rows, c, at, query, log)


@inner
def begin(g: EventState, b: Blocks, c: Contenders, start: Start) -> Contenders:
    """Begin with rows in their cells: score the seeds, and let all others be due with the bounds of their cells."""
    make_suffix_counts(g, b)
    if g.rules.later:
        _add_all_recent(g, b, start.slots)
    for i in range(len(start.seeds)):
        slot = start.seeds[i]
        if is_among(g, c, slot):
            continue
        c = with_capacity(c, 1)
        code = g.codes[slot]
        index = insert(g.lanes, c, code, slot, g.rows.seq[slot], exact_score(g, b, code, slot))
        if i < len(start.reported):
            c.shown[index] = 1
            c.reported[index] = start.reported[i]
    elect(c, g.rules.k)
    for i in range(len(start.slots)):
        slot = start.slots[i]
        if g.codes[slot] != NOT_RANKED and not is_among(g, c, slot):
            g.queue.score[slot] = by_cell(g, g.codes[slot])
            g.queue.made[slot] = g.now.arrivals
            enqueue(g.queue, slot, g.now.clock)
    return c


@stepwise
@kernel
def drive_events(
    g: EventState, b: Blocks, c: Contenders, s: Contenders, start: Start, step: Step, query: int, log: Log
) -> tuple[Blocks, Contenders, Contenders, Log]:
    """Begin, if rows are given to begin with, and process a step: returns what may have moved to larger arrays."""
    if len(start.slots) > 0:
        c = begin(g, b, c, start)
    due = np.empty(1024, np.int64)
    epoch = max(64, long(np.sqrt(np.float64(b.count.sum()))))
    sums = g.rules.suffix or g.rules.most > 0
    i = ZERO
    for j in range(len(step.at) + 1):
        last = j == len(step.at)
        for r in range(i, len(step.arrived) if last else step.arrivals[j]):
            slot = step.arrived[r]
            g.now.clock += 1
            g.now.end = g.rows.seq[slot]
            code = g.codes[slot]
            if code != NOT_RANKED:
                g.now.arrivals += 1
                cell = cell_of(g.lanes, code)
                if entries_needed(b, cell) > 0:
                    b = with_space(b, entries_needed(b, cell))
                arrive(g, b, c, s, code, cell, slot)
                if sums and g.now.arrivals - g.now.summed_at >= epoch:
                    make_suffix_counts(g, b)
        if last:
            break
        i = step.arrivals[j]
        for ordinal in range(step.heads[j], step.heads[j + 1]):
            g.now.clock += 1
            expire(g, b, c, s, ordinal & g.rows.mask)
        g.now.head = step.heads[j + 1]
        c, s, due, log = evaluate(g, b, c, s, due, query, step.at[j], log)
        remember_scores(c)
    return b, c, s, log
