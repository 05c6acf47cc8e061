"""Safe intervals: for how many events a row surely stays out of the answer (TKDE 2011, sections 4 and 5.1)."""

from __future__ import annotations

from topwatch.algorithms.dominating.kernels.blocks import NO_BOUND, Blocks, find
from topwatch.algorithms.dominating.kernels.codes import COORDINATES, GUARD, STEP, cell_of
from topwatch.algorithms.dominating.kernels.event_queue import NO_EVENT, OBSOLETE, enqueue
from topwatch.algorithms.dominating.kernels.event_state import (
    ARRIVALS,
    CLOCK,
    EVICTED,
    EXCLUDED,
    FAR,
    FIRST_GONE,
    NEAR,
    OBSOLETES,
    THRESHOLD,
    Course,
    life,
)
from topwatch.algorithms.dominating.kernels.exact_scores import ROWS, Contenders
from topwatch.algorithms.dominating.kernels.exclusion import excluded
from topwatch.algorithms.dominating.kernels.safe_time import lasts, stays_out
from topwatch.core.jit import ZERO, inlined, leaf, long


@inlined
def compare(g: Course, c: Contenders, code: int, slot: int) -> tuple[int, int, int]:
    """Compare a row with all contenders: returns the least score of those that are at least as good in every column.

    Also how many of the newer ones dominate the row, and how many of these its cell has counted.
    """
    guard = g.lanes.masks[GUARD]
    coordinates = g.lanes.masks[COORDINATES]
    step = g.lanes.masks[STEP]
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
def outlook(g: Course, b: Blocks, c: Contenders, code: int, slot: int) -> tuple[int, int]:
    """Return a bound of a row's score by the contenders, and how many of these must stay above it to keep it out.

    Later dominators are always above it. What its cell has counted since the row came are later dominators in cells
    before its own, of which contenders are told apart: as such they are above it for a while only. None is needed
    where k later dominators are known, contenders among them.
    """
    if not g.rules.later:
        return ZERO + NO_BOUND, g.rules.k
    least, later, counted = compare(g, c, code, slot)
    cell = cell_of(g.lanes, code)
    others = max(ZERO, long(g.passed[cell] - b.bound[find(b, cell, slot)]) - counted)
    return least, (ZERO if others + later >= g.rules.k else g.rules.k - others)


@inlined
def interval(g: Course, needed: int, score: int) -> int:
    """Return for how many events a row with at most this score surely stays out of the answer.

    Lemma 1 for EVA. With r later dominators ADA needs k - r rows above it: with the k members alone, that is until
    r + 1 of them have expired or been overtaken, each whichever comes first for it. (Lemma 2 takes the smaller of two
    order statistics instead, which is too long where one member expires and another is overtaken.)
    """
    if needed == 0:
        return FAR
    if not g.rules.later:
        return min(g.now[FIRST_GONE], g.now[THRESHOLD] - score)
    return stays_out(g, needed, score)


@inlined
def worth(g: Course, needed: int, halvings: int) -> int:
    """Return an interval of Δt, halved so many times; less where a lower score would not make it longer; 1 in EVA."""
    if g.rules.most == 0:
        return ZERO + 1
    return max(ZERO + 1, min(g.now[NEAR] >> halvings, lasts(g, needed)))


@leaf
def schedule(g: Course, b: Blocks, c: Contenders, slot: int, score: int, near: int) -> bool:
    """Make a row's event; False when it is due in less than ``near`` events by its score, and then none is made."""
    code = g.codes[slot]
    _, needed = outlook(g, b, c, code, slot)
    wait = interval(g, needed, score)
    if wait < near and (needed == 0 or g.rules.most == 0 or wait < lasts(g, needed)):
        return False
    make_event(g, code, slot, score, wait)
    return True


@leaf
def make_event(g: Course, code: int, slot: int, score: int, wait: int) -> None:
    """Make the event of a row with at most this score that stays out for so long."""
    q = g.queue
    q.score[slot] = score
    q.made[slot] = g.now[ARRIVALS]
    out = excluded(g, code, score)
    g.now[EXCLUDED] += int(out)
    # How many events come before a row expires is known in a window of rows; in one of time any number may arrive.
    if out or wait >= FAR or (g.rules.rows > 0 and wait > life(g, g.rows.seq[slot]) + 1):
        # Obsolete: the row expires first, or never gets in. What is kept serves as reference row.
        spread = (g.rows.seq[slot] * 0x9E3779B1) & 0xFFFFFF
        keep = spread < g.rules.kept * 0x1000000
        q.due[slot] = OBSOLETE if keep else NO_EVENT
        g.now[OBSOLETES] += int(keep)
        g.now[EVICTED] += int(not keep)
    else:
        enqueue(q, slot, g.now[CLOCK] + max(1, wait))


@inlined
def bound_of(g: Course, slot: int) -> int:
    """Return the bound of a row's score that its event tells."""
    return g.queue.score[slot] + g.now[ARRIVALS] - g.queue.made[slot]
