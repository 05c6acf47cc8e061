"""The loop of EAA and of its approximate form: instances of objects, given up once k objects dominate them.

An instance stands for what is left of an object once all rows older than one of its rows have gone; that row
names it. What the rows after a moment make of the k-th best object, S(moment), decides dominance: an instance
is dominated by k distinct objects if and only if S(its row) is above its best score. An object's own instances never
count, since none of its scores is above its best one. One walk over the instances from the newest back knows S at each
of them; S only rises while rows come, so that a walk now and then gives up the same instances as one after each row,
a little later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.incomplete.kernels.best_objects import Bests, evaluate, refill, set_score, starved
from topwatch.algorithms.incomplete.kernels.object_scores import (
    LARGEST,
    NO_OBJECT,
    SINGLE,
    Objects,
    Observations,
    arrive,
    combined,
    expire,
    score_of,
)
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, kernel, leaf, stepwise
from topwatch.core.kernels.memory import move
from topwatch.core.kernels.rows import Log, Step

BLOCK = 64  # slots that a walk can pass over at once
LEAST_APART = 16  # rows between two walks
SHARE_APART = 64  # of a window


class InstanceScalars:
    """Numbers beside the arrays; a record."""

    retained: int
    objects: int  # with a retained instance
    pruned: int
    revived: int
    swept: int  # the last row when a walk was made
    apart: int  # rows between two walks, 0 for a share of the window
    revives: int  # 1 where an instance that was given up may come back
    mask: int  # of the sets of sources that ``promise`` tells apart
    times: int  # rows of a source that an object is expected to have


class Instances(NamedTuple):
    """Instances by the slot of their row."""

    current: Floats
    best: Floats  # of one that was given up: as it was then
    retained: Ints
    dense: Ints  # by block of slots: how many of them have a retained instance
    alive: Ints  # by object: how many of its instances are retained
    seen: Ints  # by object: a bit for each source that has reported it while an instance of it was retained
    promise: Floats  # (sets of sources seen, sources): the most expected of a source that has not reported
    low: Floats  # room for the value that each source reports
    high: Floats  # room for the most that it may report
    top: Floats  # the best scores of a walk, best first
    holder: Ints  # their objects
    now: InstanceScalars


@leaf
def _measure(o: Objects, e: Instances, number: int, row: int) -> float:
    """Compute the current score of an instance, and into ``e.high`` what its best score is made of."""
    mask = len(o.object) - 1
    seen = e.seen[number]
    for s in range(len(o.factor)):
        value = 0.0
        times = ZERO
        any_yet = False
        each = o.first[number, s]
        while each != 0:
            times += 1
            if each >= row:
                reported = o.value[each & mask]
                if not any_yet:
                    value = reported
                elif o.rule.occurrences == LARGEST:
                    value = max(value, reported)
                else:
                    value += reported
                any_yet = True
            each = o.next_row[each & mask]
        known = (seen >> s) & 1
        if o.rule.occurrences == SINGLE:
            times = max(times, known)
        expected = 1.0 if known != 0 else e.promise[seen & e.now.mask, s]
        more = max(0, e.now.times - times)
        e.low[s] = value
        if more == 0:
            e.high[s] = value
        elif o.rule.occurrences == LARGEST:
            e.high[s] = max(value, expected)
        else:
            e.high[s] = value + more * expected
    return combined(o, e.low)


@leaf
def _score(o: Objects, e: Instances, number: int, row: int) -> None:
    """Compute the scores of an instance; where they are no numbers, nothing is known of it."""
    slot = row & (len(o.object) - 1)
    current = _measure(o, e, number, row)
    best = combined(o, e.high)
    e.current[slot] = -np.inf if np.isnan(current) else current
    e.best[slot] = np.inf if np.isnan(best) else best


@leaf
def _renew(o: Objects, e: Instances, number: int, new: int, source: int) -> None:
    """Bring an object's instances up to date with its new row, which is one itself."""
    mask = len(o.object) - 1
    e.seen[number] = (e.seen[number] if e.alive[number] != 0 else ZERO) | (1 << source)
    _retain(e, number, new & mask)
    if e.alive[number] == 1 and e.now.revives == 0:
        _score(o, e, number, new)
        return
    for s in range(len(o.factor)):
        row = o.first[number, s]
        while row != 0:
            slot = row & mask
            if e.retained[slot] != 0:
                _score(o, e, number, row)
            elif e.now.revives != 0:
                before = e.best[slot]
                _score(o, e, number, row)
                if e.best[slot] > before:
                    _retain(e, number, slot)
                    e.now.revived += 1
                else:
                    e.best[slot] = before
            row = o.next_row[slot]


@inlined
def _retain(e: Instances, number: int, slot: int) -> None:
    e.retained[slot] = 1
    e.dense[slot // BLOCK] += 1
    e.now.retained += 1
    e.now.objects += int(e.alive[number] == 0)
    e.alive[number] += 1


@inlined
def _give_up(e: Instances, number: int, slot: int) -> None:
    e.retained[slot] = 0
    e.dense[slot // BLOCK] -= 1
    e.now.retained -= 1
    e.alive[number] -= 1
    e.now.objects -= int(e.alive[number] == 0)


@leaf
def _standing(o: Objects, e: Instances, number: int) -> float:
    """Return the current score of an object's oldest retained instance; NaN where it has none."""
    mask = len(o.object) - 1
    oldest = ZERO
    if e.alive[number] == 0:
        return np.nan
    for s in range(len(o.factor)):
        row = o.first[number, s]
        while row != 0 and e.retained[row & mask] == 0:
            row = o.next_row[row & mask]
        if row != 0 and (oldest == 0 or row < oldest):
            oldest = row
    if oldest == 0 or e.current[oldest & mask] == -np.inf:
        return np.nan
    return e.current[oldest & mask]


@leaf
def _rank(e: Instances, size: int, number: int, score: float) -> int:
    """Enter an object's score among the best of a walk; return how many there are."""
    old = ZERO
    while old < size and e.holder[old] != number:
        old += 1
    if old < size and e.top[old] >= score:
        return size
    if old == size and size < len(e.top):
        size += 1
    behind = min(old, size - 1)  # the rank that becomes free: the object's own, or the last
    rank = behind
    while rank > 0 and e.top[rank - 1] < score:
        rank -= 1
    move(e.top, rank + 1, rank, behind - rank)
    move(e.holder, rank + 1, rank, behind - rank)
    e.top[rank] = score
    e.holder[rank] = number
    return size


@leaf
def sweep(o: Objects, e: Instances) -> None:
    """Give up all instances that k objects dominate, from the newest back."""
    mask = len(o.object) - 1
    size = ZERO
    threshold = -np.inf  # S: the k-th best score that the rows after this one make
    gone = 0
    row = o.now.end + 1
    while row > o.now.head:
        row -= 1
        slot = row & mask
        if e.dense[slot // BLOCK] == 0:
            row -= slot % BLOCK
            continue
        if e.retained[slot] == 0:
            continue
        if threshold > e.best[slot]:
            _give_up(e, o.object[slot], slot)
            gone += 1
        elif e.current[slot] > threshold:
            size = _rank(e, size, o.object[slot], e.current[slot])
            if size == len(e.top):
                threshold = e.top[size - 1]
    e.now.pruned += gone
    e.now.swept = o.now.end


@leaf
def _release(o: Objects, b: Bests, e: Instances, head: int) -> None:
    while o.now.head < head:
        row = o.now.head
        slot = row & (len(o.object) - 1)
        if e.retained[slot] != 0:
            _give_up(e, o.object[slot], slot)
        number = expire(o, row)
        if number != NO_OBJECT and (b.entry_row[number] != 0 or e.alive[number] != 0):
            set_score(o, b, number, _standing(o, e, number))
        elif number != NO_OBJECT:
            o.score[number] = np.nan


@leaf
def _take(o: Objects, b: Bests, e: Instances, rows: Observations, start: int, stop: int) -> None:
    for r in range(start, stop):
        _release(o, b, e, rows.head[r])
        new = rows.ordinal[r]
        number = arrive(o, new, rows.id[r], rows.source[r], rows.value[r])
        if number != NO_OBJECT:
            _renew(o, e, number, new, rows.source[r])
            set_score(o, b, number, _standing(o, e, number))
        apart = e.now.apart
        if apart == 0:
            apart = max(LEAST_APART, (new - o.now.head + 1) // SHARE_APART)
        if new - e.now.swept >= apart:
            sweep(o, e)


@stepwise
@kernel
def drive_eaa(o: Objects, b: Bests, e: Instances, rows: Observations, step: Step, index: int, log: Log) -> Log:
    """Take a step of the window; log the changes at its evaluations."""
    e.now.times = max(e.now.times, 1)
    done = 0
    for j in range(len(step.at)):
        _take(o, b, e, rows, done, step.arrivals[j])
        done = step.arrivals[j]
        _release(o, b, e, step.heads[j + 1])
        if starved(b):
            refill(o, b)
        log = evaluate(o, b, step.at[j], index, log)
    _take(o, b, e, rows, done, len(rows.ordinal))
    return log


@kernel
def exact_scores(o: Objects, scores: Floats) -> int:
    """Fill in the scores that all live rows make, NaN where an object has none; return how many objects there are."""
    for number in range(o.now.used):
        scores[number] = score_of(o, number) if o.rows[number] != 0 else np.nan
    return o.now.used
