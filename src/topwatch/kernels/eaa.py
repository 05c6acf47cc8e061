"""The loop of EAA: instances of objects, each with the score it has and the best it may still get, and who beats it.

An instance stands for what is left of an object once all rows older than one of its rows have gone; it is called by
that row. Its current score only rises and its best score only falls.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from topwatch.kernels.bests import ANSWERED, KEEP, SIZE, TOUCHED, Bests, K, clear, cut, report, reseat, seat, starved
from topwatch.kernels.compile import kernel, leaf
from topwatch.kernels.objects import COMBINE, END, HEAD, MAX, MEAN, NOBODY, Objects, arrive, bury, expire
from topwatch.kernels.ordered import BUCKET, Ordered, bucket_for, place_in, put, take_out
from topwatch.kernels.rows import Log, Step, with_room
from topwatch.kernels.scoring import Floats, Ints
from topwatch.kernels.tally import Arrivals

# With a type: as literals they would compile every function that they are passed to once more.
CURRENT, BEST = cast(int, np.int64(0)), cast(int, np.int64(1))  # the two sorted lists
FIRST, LAST = cast(int, np.int64(-1)), cast(int, np.int64(2**62))  # before and after all rows
EVENT, RETAINED, PRUNED, COMPARED, ONCE = range(5)


class Instances(NamedTuple):
    """Instances by the slot of their row; those that are retained are in both lists."""

    ordered: Ordered  # csorted and bsorted
    current: Floats
    best: Floats
    dominators: Ints  # how many objects are known to dominate it
    retained: Ints
    met: Ints  # by slot: the last event that met it
    counted: Ints  # by object: the last count that it took part in
    seen: Ints  # by object: a bit for each source that has told of it since it came
    before: Floats  # (2, sources): scores of an object's instances before an event
    doomed: Ints  # instances to be given up at the end of an event
    now: Ints


@leaf
def _bound(o: Objects, number: int, row: int, rest: float, seen: int) -> float:
    """Return the score of an instance, where a source without a row from ``row`` on says ``rest``, or 0 if ``seen``."""
    total = 0.0
    weight = 0.0
    largest = -np.inf
    for s in range(len(o.factor)):
        value = 0.0 if (seen >> s) & 1 else rest
        if o.last[number, s] >= row:
            value = o.part[number, s]
        term = o.factor[s] * value
        total += term
        weight += o.factor[s]
        largest = max(largest, term)
    if o.rule[COMBINE] == MAX:
        return largest
    return total / weight if o.rule[COMBINE] == MEAN else total


@leaf
def _retain(i: Instances, slot: int, row: int) -> None:
    put(i.ordered, CURRENT, i.current[slot], row, row)
    put(i.ordered, BEST, i.best[slot], row, row)
    i.retained[slot] = 1
    i.now[RETAINED] += 1


@leaf
def _give_up(i: Instances, slot: int, row: int) -> None:
    take_out(i.ordered, CURRENT, i.current[slot], row)
    take_out(i.ordered, BEST, i.best[slot], row)
    i.retained[slot] = 0
    i.now[RETAINED] -= 1


@leaf
def _renew(o: Objects, i: Instances, number: int, new: int) -> None:
    """Compute the scores of an object's instances after a row has come; keep those they had in ``before``."""
    for s in range(len(o.factor)):
        row = o.last[number, s]
        if row == 0:
            continue
        slot = row & (len(o.object) - 1)
        i.before[CURRENT, s] = -np.inf
        i.before[BEST, s] = np.inf
        if row == new:
            i.dominators[slot] = 0
            i.retained[slot] = 0
        else:
            i.before[CURRENT, s] = i.current[slot]
            i.before[BEST, s] = i.best[slot]
            if i.retained[slot] == 1:
                _give_up(i, slot, row)
                i.retained[slot] = 2
        i.current[slot] = _bound(o, number, row, 0.0, i.seen[number])
        i.best[slot] = _bound(o, number, row, 1.0, i.seen[number] * i.now[ONCE])


@leaf
def _dominated_before(o: Objects, i: Instances, number: int, row: int, best: float) -> bool:
    for s in range(len(o.factor)):
        if o.last[number, s] > row and i.before[CURRENT, s] > best:
            return True
    return False


@leaf
def _dominate(o: Objects, b: Bests, i: Instances, number: int) -> None:
    """Count the object at all instances that it has come to dominate; the object's own are in no list now."""
    mask = len(o.object) - 1
    dooms = 0
    ordered = i.ordered
    if ordered.buckets[BEST] == 0:
        return
    for s in range(len(o.factor)):
        mine = o.last[number, s]
        if mine == 0:
            continue
        low = i.before[CURRENT, s]
        high = i.current[mine & mask]
        at = bucket_for(ordered, BEST, low, FIRST)
        place = place_in(ordered, ordered.order[BEST, at], low, FIRST)
        more = True
        while more and at < ordered.buckets[BEST]:
            bucket = ordered.order[BEST, at]
            if place == ordered.size[bucket]:
                at += 1
                place = 0
                continue
            entry = bucket * BUCKET + place
            best = ordered.value[entry]
            if best >= high:
                more = False
                continue
            row = ordered.slot[entry]
            slot = row & mask
            i.now[COMPARED] += 1
            if row < mine and i.met[slot] != i.now[EVENT]:
                i.met[slot] = i.now[EVENT]
                if not _dominated_before(o, i, number, row, best):
                    i.dominators[slot] += 1
                    if i.dominators[slot] == b.now[K]:
                        i.doomed[dooms] = row
                        dooms += 1
            place += 1
    for d in range(dooms):
        _give_up(i, i.doomed[d] & mask, i.doomed[d])
    i.now[PRUNED] += dooms


@leaf
def _had_beaten(o: Objects, i: Instances, other: int, row: int, best: float) -> bool:
    for s in range(len(o.factor)):
        theirs = o.last[other, s]
        if theirs > row and i.current[theirs & (len(o.object) - 1)] > best:
            return True
    return False


@leaf
def _suffer(o: Objects, b: Bests, i: Instances, number: int, row: int, high: float) -> None:
    """Count the objects that have come to dominate an instance whose best score has fallen from ``high``."""
    mask = len(o.object) - 1
    slot = row & mask
    ordered = i.ordered
    low = i.best[slot]
    if ordered.buckets[CURRENT] == 0 or low >= high:
        return
    i.now[EVENT] += 1
    at = bucket_for(ordered, CURRENT, low, LAST)
    place = place_in(ordered, ordered.order[CURRENT, at], low, LAST)
    while at < ordered.buckets[CURRENT] and i.dominators[slot] < b.now[K]:
        bucket = ordered.order[CURRENT, at]
        if place == ordered.size[bucket]:
            at += 1
            place = 0
            continue
        entry = bucket * BUCKET + place
        if ordered.value[entry] > high:
            return
        theirs = ordered.slot[entry]
        other = o.object[theirs & mask]
        i.now[COMPARED] += 1
        if theirs > row and other != number and i.counted[other] != i.now[EVENT]:
            i.counted[other] = i.now[EVENT]
            if not _had_beaten(o, i, other, row, high):
                i.dominators[slot] += 1
        place += 1


@kernel
def list_retained(o: Objects, i: Instances) -> None:
    """Fill empty lists."""
    for row in range(o.now[HEAD], o.now[END] + 1):
        slot = row & (len(o.object) - 1)
        if o.object[slot] != NOBODY and i.retained[slot] == 1:
            put(i.ordered, CURRENT, i.current[slot], row, row)
            put(i.ordered, BEST, i.best[slot], row, row)


@leaf
def _let_go(o: Objects, b: Bests, i: Instances, head: int) -> None:
    while o.now[HEAD] < head:
        row = o.now[HEAD]
        slot = row & (len(o.object) - 1)
        if o.object[slot] != NOBODY and i.retained[slot] == 1:
            _give_up(i, slot, row)
        number = expire(o, row)
        if number != NOBODY:
            reseat(o, b, number)


@leaf
def _take(o: Objects, b: Bests, i: Instances, rows: Arrivals, start: int, stop: int) -> None:
    for r in range(start, stop):
        _let_go(o, b, i, rows.head[r])
        new = rows.ordinal[r]
        number = arrive(o, new, rows.id[r], rows.source[r], rows.value[r])
        if number == NOBODY:
            continue
        i.now[EVENT] += 1
        if o.rows[number] == 1:
            i.seen[number] = 0
        i.seen[number] |= 1 << rows.source[r]
        _renew(o, i, number, new)
        _dominate(o, b, i, number)
        for s in range(len(o.factor)):
            row = o.last[number, s]
            slot = row & (len(o.object) - 1)
            if row == new:
                _retain(i, slot, row)
            elif row != 0 and i.retained[slot] == 2:
                _suffer(o, b, i, number, row, i.before[BEST, s])
                i.retained[slot] = 0
                if i.dominators[slot] < b.now[K]:
                    _retain(i, slot, row)
                else:
                    i.now[PRUNED] += 1
        reseat(o, b, number)


@leaf
def _search(o: Objects, b: Bests, i: Instances) -> None:
    """Read csorted from the best score down until the view is full."""
    clear(b)
    ordered = i.ordered
    i.now[EVENT] += 1
    for back in range(ordered.buckets[CURRENT]):
        bucket = ordered.order[CURRENT, ordered.buckets[CURRENT] - 1 - back]
        for place in range(ordered.size[bucket] - 1, -1, -1):
            entry = bucket * BUCKET + place
            if b.now[SIZE] >= b.now[KEEP] and ordered.value[entry] < b.score[b.now[KEEP] - 1]:
                cut(b)
                return
            number = o.object[ordered.slot[entry] & (len(o.object) - 1)]
            if i.counted[number] != i.now[EVENT]:
                i.counted[number] = i.now[EVENT]
                seat(b, number, o.score[number], o.newest[number])


@kernel
def drive_eaa(o: Objects, b: Bests, i: Instances, rows: Arrivals, step: Step, place: int, log: Log) -> Log:
    """Take a step of the window; log the changes at its judgements."""
    done = 0
    for j in range(len(step.at)):
        _take(o, b, i, rows, done, step.arrivals[j])
        done = step.arrivals[j]
        _let_go(o, b, i, step.heads[j + 1])
        if starved(b):
            _search(o, b, i)
        if b.now[TOUCHED] != 0:
            log = with_room(log, b.now[ANSWERED] + b.now[SIZE])
            report(o, b, step.at[j], place, log)
        bury(o)
    _take(o, b, i, rows, done, len(rows.ordinal))
    return log
