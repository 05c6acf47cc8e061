"""The loop of ``eva`` and what is built on it: rows are looked at when their safe intervals end.

The clock counts single events: an arrival can raise a row's score by one, an expiry can lower the k-th score by one. So
the interval lemmas of the paper hold for windows of rows and of time, for bursts and for rare judgements alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.kernels.blocks import BEGIN, FIRST, NO_BOUND, SIZE, Blocks, find, needs, put, take_away, with_space
from topwatch.kernels.compile import ZERO, inner, kernel, leaf, long
from topwatch.kernels.contenders import (
    GONE,
    MEMBERS,
    ROWS,
    Contenders,
    bump,
    drop,
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
from topwatch.kernels.counting import (
    Walk,
    behind,
    coordinate,
    count_behind,
    count_beside,
    put_slabs_in_order,
    suffix_sums,
)
from topwatch.kernels.lanes import COORDINATES, GUARD, NOT_RANKED, STEP, Lanes, cell_of, covers, no_worse
from topwatch.kernels.queue import NO_EVENT, OBSOLETE, Queue, collect, dequeue, enqueue
from topwatch.kernels.rows import Log, Rows, Step
from topwatch.kernels.scoring import Ints

LOOKED_AT = 2048  # rows at most, for a reference row
FAR = 2**60

# Of Course.now: moments, arrivals, first and last ordinal, k-th score, first expiry of a member, interval of
# candidates, arrivals when the suffix counts were made, and counters: events, kept obsolete ones, evicted ones,
# exclusions; the moment of the last judgement, and the last random number.
CLOCK, ARRIVALS, HEAD, END, BAR, FIRST_GONE, NEAR, SUMMED, EVENTS, OBSOLETES, EVICTED, EXCLUDED, LAST, DRAWN = range(14)


class Rules(NamedTuple):
    """What one algorithm does its own way."""

    k: int
    rows: int  # of a window of rows, 0 for one of time
    later: bool  # later dominators lengthen intervals (ADA, section 5.1)
    most: int  # candidates at most (section 5.2); 0: there are none
    suffix: bool  # suffix counts bound scores too
    exclude: bool  # rows of cells far below are given no events (AMSA, section 7.2)
    kept: float  # share of obsolete events that are kept (section 5.3)
    samples: int  # rows of a cell whose mean stands for the others (AHBA, section 7.1); 0: none


class Course(NamedTuple):
    """What all steps read and write."""

    rows: Rows
    lanes: Lanes
    codes: Ints  # by slot
    queue: Queue
    passed: np.ndarray  # by cell, int32: rows that have arrived in cells before it in every column
    sums: np.ndarray  # by cell, int32: suffix counts
    now: Ints
    walk: Walk
    offset: Ints  # room for the search of reference rows
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
    """Note the k-th score, -1 where there are fewer rows, and which member expires first."""
    g.now[BAR] = -1
    oldest = ZERO + FAR
    worst = ZERO + FAR
    for i in range(c.size[ROWS]):
        if c.member[i] == 1:
            oldest = min(oldest, c.seq[i])
            worst = min(worst, c.score[i])
    if c.size[MEMBERS] == g.rules.k:
        g.now[BAR] = worst
    g.now[FIRST_GONE] = life(g, oldest) if oldest < FAR else 0


@leaf
def later_dominators(g: Course, b: Blocks, c: Contenders, code: int, slot: int) -> int:
    """Return how many rows outside the answer surely dominate a row and expire later."""
    cell = cell_of(g.lanes, code)
    found = g.passed[cell] - b.bound[find(b, cell, slot)]
    guard = g.lanes.masks[GUARD]
    place = code & g.lanes.masks[COORDINATES]
    seq = g.rows.seq[slot]
    for i in range(c.size[ROWS]):
        ahead = covers(place, (c.code[i] & g.lanes.masks[COORDINATES]) + g.lanes.masks[STEP], guard)
        found -= int(ahead and c.member[i] == 1 and c.seq[i] > seq)
    return max(ZERO, long(found))


@leaf
def interval(g: Course, b: Blocks, c: Contenders, code: int, slot: int, score: int) -> int:
    """Return for how many events a row with at most this score surely stays out of the answer.

    With r later dominators it stays out until r + 1 of the k members have expired or been overtaken, each whichever
    comes first for it: the (r + 1)-th smallest of min(life, score_j - score). (Lemma 2 takes the smaller of two order
    statistics instead, which is too long where one member expires and another is overtaken.)
    """
    shortest = min(g.now[FIRST_GONE], g.now[BAR] - score)
    if not g.rules.later:
        return shortest
    r = later_dominators(g, b, c, code, slot)
    if r == 0:
        return shortest
    if r >= g.rules.k:
        return FAR
    n = ZERO
    for i in range(c.size[ROWS]):
        if c.member[i] == 1:
            left = min(life(g, c.seq[i]), c.score[i] - score)
            # The r + 1 smallest so far, rising.
            j = min(n, r + 1)
            if j == r + 1:
                if left >= g.lives[r]:
                    continue
                j = r
            while j > 0 and g.lives[j - 1] > left:
                g.lives[j] = g.lives[j - 1]
                j -= 1
            g.lives[j] = left
            n += 1
    return g.lives[r]


@leaf
def schedule(g: Course, b: Blocks, c: Contenders, slot: int, score: int, least: int) -> bool:
    """Make a row's event; False when it is due in less than ``least`` events, and then none is made."""
    code = g.codes[slot]
    wait = interval(g, b, c, code, slot, score)
    if wait < least:
        return False
    q = g.queue
    q.score[slot] = score
    q.made[slot] = g.now[ARRIVALS]
    if wait > life(g, g.rows.seq[slot]) + 1:
        # Obsolete: the row expires first. What is kept serves as reference row.
        spread = (g.rows.seq[slot] * 0x9E3779B1) & 0xFFFFFF
        keep = spread < g.rules.kept * 0x1000000
        q.due[slot] = OBSOLETE if keep else NO_EVENT
        g.now[OBSOLETES] += int(keep)
        g.now[EVICTED] += int(not keep)
    else:
        enqueue(q, slot, g.now[CLOCK] + max(1, wait))
    return True


@leaf
def bound_of(g: Course, slot: int) -> int:
    """Return the bound of a row's score that its event tells."""
    return g.queue.score[slot] + g.now[ARRIVALS] - g.queue.made[slot]


@leaf
def by_reference(g: Course, b: Blocks, code: int, slot: int) -> int:
    """Return a bound by a row that is at least as good and has an event, NO_BOUND where none is found that helps.

    Cells are searched in the order of section 4.2: the row's own, then by how many steps they lie before it.
    """
    d = len(g.lanes.place)
    guard = g.lanes.masks[GUARD]
    looked = ZERO
    steps = ZERO
    total = ZERO
    for j in range(d):
        total += coordinate(g.lanes, j, code)
    while steps <= total and looked < LOOKED_AT:
        more = _first_offset(g, code, steps)
        while more and looked < LOOKED_AT:
            cell = 0
            for j in range(d):
                cell |= (coordinate(g.lanes, j, code) - g.offset[j]) << g.lanes.place[j]
            start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
            looked += b.count[cell] + 1
            for at in range(start, start + b.cell[cell, SIZE]):
                if covers(code, b.code[at], guard):
                    r = long(b.slot[at])
                    if r != slot and g.queue.due[r] != NO_EVENT and g.queue.score[r] != NO_BOUND:
                        if bound_of(g, r) < g.now[BAR] and no_worse(g.lanes, g.rows, r, slot):
                            return bound_of(g, r)
            more = _next_offset(g, code, steps)
        steps += 1
    return NO_BOUND


@leaf
def _first_offset(g: Course, code: int, steps: int) -> bool:
    left = steps
    for j in range(len(g.offset)):
        g.offset[j] = min(left, coordinate(g.lanes, j, code))
        left -= g.offset[j]
    return left == 0


@leaf
def _next_offset(g: Course, code: int, steps: int) -> bool:
    """Go to the next way to take so many steps back, as one writes a number as a sum of bounded numbers."""
    d = len(g.offset)
    freed = ZERO
    for j in range(d - 1):
        freed += g.offset[j]
        if freed > 0 and g.offset[j + 1] < coordinate(g.lanes, j + 1, code):
            g.offset[j + 1] += 1
            freed -= 1
            for i in range(j + 1):
                g.offset[i] = min(freed, coordinate(g.lanes, i, code))
                freed -= g.offset[i]
            return True
    return False


@leaf
def exact_score(g: Course, b: Blocks, code: int, slot: int) -> int:
    """Count the rows that a row dominates."""
    put_slabs_in_order(g.lanes, code, g.walk)
    found, _ = count_beside(g.lanes, g.rows, b, code, slot, ZERO + FAR, -ZERO - FAR, g.walk)
    return found + count_behind(g.lanes, b, code, g.walk)


@leaf
def by_cell(g: Course, code: int) -> int:
    """Return a bound by the suffix counts."""
    return g.sums[cell_of(g.lanes, code)] + g.now[ARRIVALS] - g.now[SUMMED]


@leaf
def excluded(g: Course, c: Contenders, code: int) -> bool:
    """Tell whether a cell is so far below the answer that its rows are given no events (section 7.2)."""
    if g.now[BAR] < 0:
        return False
    best = g.now[BAR]
    for i in range(c.size[ROWS]):
        if c.member[i] == 1:
            best = max(best, c.score[i])
    first = behind(g.lanes, code)
    least = g.sums[first] if first >= 0 else 0
    return best - g.now[BAR] < g.now[BAR] - least


@leaf
def is_among(g: Course, s: Contenders, slot: int) -> bool:
    """Tell whether a row is one of these."""
    seat = seat_of(s, g.rows.seq[slot])
    return seat < s.size[ROWS] and s.seq[seat] == g.rows.seq[slot]


@inner
def estimate(g: Course, b: Blocks, s: Contenders, code: int) -> tuple[float, Contenders]:
    """Return the mean score of a sample of a cell's rows, drawn where there is none, and the samples (section 7.1)."""
    cell = cell_of(g.lanes, code)
    mine = code & g.lanes.masks[COORDINATES]
    have = ZERO
    total = ZERO
    for i in range(s.size[ROWS]):
        if s.code[i] & g.lanes.masks[COORDINATES] == mine:
            have += 1
            total += s.score[i]
    size = long(b.cell[cell, SIZE])
    start = b.cell[cell, FIRST] + b.cell[cell, BEGIN]
    while have < min(size, g.rules.samples):
        g.now[DRAWN] = (g.now[DRAWN] * 1103515245 + 12345) & 0x7FFFFFFF
        draw = (g.now[DRAWN] >> 8) % size
        while is_among(g, s, long(b.slot[start + draw])):
            draw = (draw + 1) % size
        at = start + draw
        slot = long(b.slot[at])
        s = with_seats(s, 1)
        score = exact_score(g, b, b.code[at], slot)
        join(g.lanes, s, b.code[at], slot, g.rows.seq[slot], score)
        have += 1
        total += score
    return total / max(1, have), s


@leaf
def arrive(g: Course, b: Blocks, c: Contenders, s: Contenders, code: int, cell: int, slot: int) -> None:
    """Take a ranked row in; it is looked at, at the next judgement."""
    put(b, cell, code, slot, long(g.passed[cell]))
    bump(g.lanes, g.rows, c, code, slot, 1)
    if g.rules.samples > 0:
        bump(g.lanes, g.rows, s, code, slot, 1)
    if g.rules.later:
        _pass_by(g, code)
    g.queue.score[slot] = NO_BOUND
    enqueue(g.queue, slot, g.now[CLOCK])


@leaf
def _pass_by(g: Course, code: int) -> None:
    """Count an arrival in all cells behind its own."""
    w = g.walk
    d = len(g.lanes.place)
    for j in range(d):
        w.least[j] = coordinate(g.lanes, j, code) + 1
        w.most[j] = (1 << g.lanes.bits[j]) - 1
        w.at[j] = w.least[j]
        if w.least[j] > w.most[j]:
            return
    while True:
        cell = 0
        for j in range(d):
            cell |= w.at[j] << g.lanes.place[j]
        line = g.passed[cell : cell + w.most[0] - w.least[0] + 1]
        for i in range(len(line)):
            line[i] = np.int32(line[i] + np.int32(1))
        j = 1
        while j < d and w.at[j] == w.most[j]:
            w.at[j] = w.least[j]
            j += 1
        if j >= d:
            return
        w.at[j] += 1


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
    seat = seat_of(c, seq)
    if seat < c.size[ROWS] and c.seq[seat] == seq:
        lose(c, seat)


@inner
def admit(g: Course, b: Blocks, c: Contenders, slot: int, score: int) -> Contenders:
    """Make a row a contender, and elect anew."""
    c = with_seats(c, 1)
    join(g.lanes, c, g.codes[slot], slot, g.rows.seq[slot], score)
    elect(c, g.rules.k)
    take_stock(g, c)
    return c


@inner
def examine(g: Course, b: Blocks, c: Contenders, s: Contenders, slot: int, bound: int) -> tuple[Contenders, Contenders]:
    """Look at a row whose event is due: schedule it by the bound if that is low enough, else count its score."""
    code = g.codes[slot]
    rules = g.rules
    g.now[EVENTS] += 1
    short = g.now[BAR] < 0
    if rules.exclude and excluded(g, c, code):
        g.now[EXCLUDED] += 1
        return c, s
    if not short:
        if rules.suffix:
            bound = min(bound, by_cell(g, code))
        if bound >= g.now[BAR]:
            bound = min(bound, by_reference(g, b, code, slot))
        if bound >= g.now[BAR] and rules.samples > 0:
            mean, s = estimate(g, b, s, code)
            bound = min(bound, long(np.ceil(mean)))
        if bound < g.now[BAR] and schedule(g, b, c, slot, bound, 1):
            return c, s
    score = exact_score(g, b, code, slot)
    if short or score >= g.now[BAR]:
        return admit(g, b, c, slot, score), s
    near = g.now[NEAR] if rules.most > 0 and c.size[ROWS] < rules.k + rules.most else 0
    if not schedule(g, b, c, slot, score, near):
        if rules.most > 0:
            g.now[NEAR] += 1
        return admit(g, b, c, slot, score), s
    return c, s


@inner
def dismiss(g: Course, b: Blocks, c: Contenders) -> None:
    """Give events to the contenders that need not be followed: all but members, or those due late (section 5.2)."""
    near = 2 * g.now[NEAR] if g.rules.most > 0 else 0
    if g.rules.most > 0 and c.size[ROWS] >= g.rules.k + g.rules.most:
        g.now[NEAR] = max(1, g.now[NEAR] - 1)
        near = g.now[NEAR]
    i = ZERO
    while i < c.size[ROWS]:
        if c.member[i] + c.shown[i] == 0 and schedule(g, b, c, c.slot[i], c.score[i], near + 1 if near > 0 else 0):
            drop(c, i)
        else:
            i += 1


@inner
def judge(
    g: Course, b: Blocks, c: Contenders, s: Contenders, due: Ints, query: int, at: int, log: Log
) -> tuple[Contenders, Contenders, Ints, Log]:
    """Look at all rows that are due, then report."""
    _, worst, best = standing(c, ZERO)
    if c.size[GONE] > 0 or c.size[MEMBERS] < g.rules.k or not settled(c, g.rules.k, worst, best):
        elect(c, g.rules.k)
    take_stock(g, c)
    n = collect(g.queue, g.now[LAST], g.now[CLOCK], due)
    while n < 0:
        due = np.empty(4 * len(due), np.int64)
        n = collect(g.queue, g.now[LAST], g.now[CLOCK], due)
    g.now[LAST] = g.now[CLOCK]
    bounds = np.empty(n, np.int64)
    for i in range(n):
        bounds[i] = bound_of(g, due[i]) if g.queue.score[due[i]] != NO_BOUND else NO_BOUND
    if g.now[BAR] < 0 and n > 0:
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
    for i in range(n):
        c, s = examine(g, b, c, s, due[i], bounds[i])
    if c.size[ROWS] > c.size[MEMBERS] and (g.rules.most == 0 or at % 64 == 0):
        take_stock(g, c)
        if g.now[BAR] >= 0:
            dismiss(g, b, c)
    return c, s, due, report(g.rows, c, at, query, log)


@inner
def sum_cells(g: Course, b: Blocks) -> None:
    """Make the suffix counts anew."""
    for cell in range(len(g.sums)):
        g.sums[cell] = b.count[cell]
    suffix_sums(g.lanes, g.sums)
    g.now[SUMMED] = g.now[ARRIVALS]


@inner
def settle(g: Course, b: Blocks, c: Contenders, seeds: Ints, told: Ints, slots: Ints) -> Contenders:
    """Begin with rows in their cells: score the seeds, and let all others be due with what their cells tell.

    The first seeds are the last judgement's answer, with the scores that were told.
    """
    sum_cells(g, b)
    for i in range(len(seeds)):
        if is_among(g, c, seeds[i]):
            continue
        c = with_seats(c, 1)
        code = g.codes[seeds[i]]
        seat = join(g.lanes, c, code, seeds[i], g.rows.seq[seeds[i]], exact_score(g, b, code, seeds[i]))
        if i < len(told):
            c.shown[seat] = 1
            c.told[seat] = told[i]
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
    told: Ints,
    slots: Ints,
    step: Step,
    query: int,
    log: Log,
) -> tuple[Blocks, Contenders, Contenders, Log]:
    """Begin, if rows are given to begin with, and take a step: returns what may have moved to larger arrays."""
    if len(slots) > 0:
        c = settle(g, b, c, seeds, told, slots)
    due = np.empty(1024, np.int64)
    epoch = max(64, long(np.sqrt(np.float64(b.count.sum()))))
    sums = g.rules.suffix or g.rules.exclude
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
        c, s, due, log = judge(g, b, c, s, due, query, step.at[j], log)
        note_scores(c)
    return b, c, s, log
