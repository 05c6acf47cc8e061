"""Safe intervals: for how many events a row surely stays out of the answer (TKDE 2011, sections 4, 5.1, 5.2 and 7.2).

A row stays out as long as k others are above it. Of the contenders, members and candidates alike, each is above it for
min(life, score_j - score) events at least: the corrected Lemma 2 over all rows whose scores are followed. The *life
table* has levels of score, and for each one the lives of the contenders that reach it, longest first: of n that are
needed, so many live for at least the n-th life. It is made again now and then; an event takes at most one from each
life and each gap, and so from what the table shows.

Δt is the interval below which a row becomes a candidate, whose score is followed; it grows and shrinks with the costs.
"""

from __future__ import annotations

from topwatch.algorithms.dominating.kernels.blocks import NO_BOUND, Blocks, find
from topwatch.algorithms.dominating.kernels.codes import cell_behind, cell_of
from topwatch.algorithms.dominating.kernels.contenders import ROWS, Contenders, drop
from topwatch.algorithms.dominating.kernels.event_state import (
    FAR,
    LEVELS,
    NO_EVENT,
    OBSOLETE,
    EventState,
    enqueue,
    life,
)
from topwatch.core.jit import ZERO, inlined, inner, leaf, long

ABOVE = 4  # levels above the k-th score: they serve rows with later dominators
FAR_BELOW = 2  # the k-th score is halved so often: a row that is so much below it is far below
COUNT, EVENT = 4, 500  # costs, in comparisons with a candidate: of a comparison in a count, and of an event


@leaf
def make_life_table(g: EventState, c: Contenders) -> None:
    """Make the life table of the contenders as they are now; the k-th score must be known if there are k."""
    n = c.size[ROWS]
    level = g.table.level
    lives = g.table.lives
    worst = ZERO + FAR
    best = ZERO - 1
    for i in range(n):
        worst = min(worst, c.score[i])
        best = max(best, c.score[i])
    threshold = g.now.threshold if g.now.threshold >= 0 else worst
    for i in range(LEVELS):
        if i < ABOVE:
            level[i] = threshold + ((best - threshold) * (ABOVE - i)) // (ABOVE + 1)
        else:
            # Closer to each other near the k-th score: there are more rows below it than far below it.
            level[i] = threshold - ((threshold - worst) * (i - ABOVE) ** 2) // (LEVELS - 1 - ABOVE) ** 2
    for r in range(1, len(lives)):
        for i in range(LEVELS):
            lives[r, i] = 0
    for i in range(LEVELS):
        reach = ZERO
        # They stand in the order of arrival, so that the last has the longest life.
        for j in range(n - 1, -1, -1):
            if c.score[j] >= level[i]:
                reach += 1
                lives[reach, i] = life(g, c.seq[j])
                if reach == len(lives) - 1:
                    break
    g.now.best = best
    g.now.table_made = g.now.clock


@inlined
def is_fresh(g: EventState) -> bool:
    """Return whether there is a life table, not so old that its intervals are much shorter than they could be."""
    return 0 <= g.now.clock - g.now.table_made <= g.now.near >> 4 and g.now.table_made >= 0


@inlined
def stays_out(g: EventState, needed: int, score: int) -> int:
    """Return for how many events so many contenders surely stay above a row of at most this score."""
    level = g.table.level
    lives = g.table.lives[needed]
    longest = ZERO
    for i in range(LEVELS):
        longest = max(longest, min(lives[i], level[i] - score))
    return longest - (g.now.clock - g.now.table_made)


@inlined
def guaranteed_life(g: EventState, needed: int) -> int:
    """Return for how many events so many contenders are there at least, whatever their scores."""
    return g.table.lives[needed, LEVELS - 1] - (g.now.clock - g.now.table_made)


@inlined
def compare(g: EventState, c: Contenders, code: int, slot: int) -> tuple[int, int, int]:
    """Compare a row with all contenders: returns the least score of those that are at least as good in every column.

    Also how many of the newer ones dominate the row, and how many of these its cell has counted.
    """
    guard = g.lanes.guard
    coordinates = g.lanes.coordinates
    step = g.lanes.step
    guarded = code | guard
    seq = g.rows.seq[slot]
    n = c.size[ROWS]
    codes = c.code[:n]
    sures = c.sure[:n]
    seqs = c.seq[:n]
    scores = c.score[:n]
    least = ZERO + NO_BOUND
    later = ZERO
    counted = ZERO
    for i in range(len(codes)):
        sure = (guarded - sures[i]) & guard == guard
        newer = int(seqs[i] > seq)
        least = min(least, scores[i] if sure else NO_BOUND)
        later += int(sure) & newer & int(codes[i] != code)
        counted += int((guarded - ((codes[i] & coordinates) + step)) & guard == guard) & newer
    return least, later, counted


@inlined
def outlook(g: EventState, b: Blocks, c: Contenders, code: int, slot: int) -> tuple[int, int]:
    """Return a bound of a row's score by the contenders, and how many of these must stay above it to keep it out.

    Later dominators are always above it. What its cell has counted since the row came are later dominators in cells
    before its own; contenders among them are counted apart, since as such they are above it for a while only. None is
    needed where k later dominators are known, contenders among them.
    """
    if not g.rules.later:
        return ZERO + NO_BOUND, g.rules.k
    least, later, counted = compare(g, c, code, slot)
    cell = cell_of(g.lanes, code)
    others = max(ZERO, long(g.passed[cell] - b.bound[find(b, cell, slot)]) - counted)
    return least, (ZERO if others + later >= g.rules.k else g.rules.k - others)


@inlined
def interval(g: EventState, needed: int, score: int) -> int:
    """Return for how many events a row with at most this score surely stays out of the answer.

    Lemma 1 for EVA. With r later dominators ADA needs k - r rows above it: with the k members alone, that is until
    r + 1 of them have expired or been overtaken, each whichever comes first for it. (Lemma 2 takes the smaller of two
    order statistics instead, which is too long where one member expires and another is overtaken.)
    """
    if needed == 0:
        return FAR
    if not g.rules.later:
        return min(g.now.first_expiry, g.now.threshold - score)
    return stays_out(g, needed, score)


@inlined
def least_interval(g: EventState, needed: int, halvings: int) -> int:
    """Return the interval that an event should have: Δt, halved so many times; less where no bound makes it longer.

    1 in EVA.
    """
    if g.rules.most == 0:
        return ZERO + 1
    return max(ZERO + 1, min(g.now.near >> halvings, guaranteed_life(g, needed)))


@leaf
def schedule(g: EventState, b: Blocks, c: Contenders, slot: int, score: int, near: int) -> bool:
    """Make a row's event; False when it is due in less than ``near`` events by its score, and then none is made."""
    code = g.codes[slot]
    _, needed = outlook(g, b, c, code, slot)
    wait = interval(g, needed, score)
    if wait < near and (needed == 0 or g.rules.most == 0 or wait < guaranteed_life(g, needed)):
        return False
    make_event(g, code, slot, score, wait)
    return True


@leaf
def make_event(g: EventState, code: int, slot: int, score: int, wait: int) -> None:
    """Make the event of a row with at most this score that stays out for so long."""
    q = g.queue
    q.score[slot] = score
    q.made[slot] = g.now.arrivals
    out = excluded(g, code, score)
    g.now.excluded += int(out)
    # How many events come before a row expires is known in a window of rows; in one of time any number may arrive.
    if out or wait >= FAR or (g.rules.rows > 0 and wait > life(g, g.rows.seq[slot]) + 1):
        # Obsolete: the row expires first, or never enters the answer. What is kept serves as reference row.
        spread = (g.rows.seq[slot] * 0x9E3779B1) & 0xFFFFFF
        keep = spread < g.rules.kept * 0x1000000
        q.due[slot] = OBSOLETE if keep else NO_EVENT
        g.now.obsolete += int(keep)
        g.now.evicted += int(not keep)
    else:
        enqueue(q, slot, g.now.clock + max(1, wait))


@inlined
def bound_of(g: EventState, slot: int) -> int:
    """Return the bound of a row's score that is known by its event."""
    return g.queue.score[slot] + g.now.arrivals - g.queue.made[slot]


@leaf
def excluded(g: EventState, code: int, bound: int) -> bool:
    """Return whether AMSA excludes a row of at most this score: its cell is far below the answer, and so is it."""
    threshold = g.now.threshold
    if not g.rules.exclude or threshold < 0 or bound > threshold - (threshold >> FAR_BELOW):
        return False
    first = cell_behind(g.lanes, code)
    least = long(g.sums[first]) if first >= 0 else ZERO
    return g.now.best - threshold < threshold - least


@leaf
def adjust_delta(g: EventState, c: Contenders) -> None:
    """Raise Δt while events and counts cost more than following candidates, and lower it otherwise (section 5.2).

    Every arrival, every expiry and every row that is due is compared with all candidates. There are ``most`` of them
    at most.
    """
    counted = g.walk.counters.compared - g.now.adjusted_compared
    seen = g.now.events - g.now.adjusted_events
    came = g.now.arrivals - g.now.adjusted_arrivals
    spent = COUNT * counted + EVENT * (seen - came)
    passed = 2 * came + seen
    others = c.size[ROWS] - g.rules.k
    near = g.now.near
    if others < g.rules.most and spent > others * passed:
        near += max(1, near >> 3)
    else:
        near -= near >> 6
    g.now.near = max(2, min(near, 3 * g.now.threshold >> 3))
    g.now.adjusted_compared += counted
    g.now.adjusted_events = g.now.events
    g.now.adjusted_arrivals = g.now.arrivals


@inner
def demote(g: EventState, b: Blocks, c: Contenders) -> None:
    """Give events to the contenders that need not be followed: all but members, or those due late.

    Not in the paper, which has no rule for candidates to leave.
    """
    near = 2 * g.now.near + 1 if g.rules.most > 0 else 0
    if g.rules.most > 0 and c.size[ROWS] >= g.rules.k + g.rules.most:
        near = g.now.near
    i = ZERO
    while i < c.size[ROWS]:
        if c.member[i] + c.shown[i] == 0 and schedule(g, b, c, c.slot[i], c.score[i], near):
            drop(c, i)
        else:
            i += 1
    g.now.table_made = -1  # what was dropped may be among its cell's later dominators now
