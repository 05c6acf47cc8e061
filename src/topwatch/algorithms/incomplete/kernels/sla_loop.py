"""The loop of SLA: a sorted list of objects for each source, and the threshold algorithm when too few are left."""

from __future__ import annotations

from typing import NamedTuple

from topwatch.algorithms.incomplete.kernels.best_objects import (
    ANSWERED,
    KEEP,
    SIZE,
    TOUCHED,
    Bests,
    clear,
    cut,
    report,
    reseat,
    seat,
    starved,
)
from topwatch.algorithms.incomplete.kernels.object_scores import (
    HEAD,
    NOBODY,
    USED,
    Objects,
    arrive,
    bury,
    combined,
    expire,
)
from topwatch.algorithms.incomplete.kernels.tally_loop import Arrivals
from topwatch.core.jit import kernel, leaf
from topwatch.core.kernels.rows import Log, Step, with_room
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.core.kernels.sorted_lists import BUCKET, Ordered, put, take_out

READ, ALWAYS = range(2)  # entries read; whether every evaluation searches


class Lists(NamedTuple):
    """Objects by what each source says of them; an entry is called by the source's newest row of the object."""

    ordered: Ordered
    value: Floats  # (objects, sources): what the entry was made with
    tick: Ints  # (objects, sources): 0 where there is no entry
    counters: Ints


@leaf
def _list(o: Objects, lists: Lists, number: int, source: int) -> None:
    """Bring the entry of an object in a source's list up to date."""
    if lists.tick[number, source] != 0:
        take_out(lists.ordered, source, lists.value[number, source], lists.tick[number, source])
    lists.tick[number, source] = o.last[number, source]
    if o.last[number, source] != 0:
        lists.value[number, source] = o.part[number, source]
        put(lists.ordered, source, o.part[number, source], o.last[number, source], number)


@kernel
def list_all(o: Objects, lists: Lists) -> None:
    """Fill empty lists."""
    for number in range(o.now[USED]):
        for source in range(len(o.factor)):
            _list(o, lists, number, source)


@leaf
def _release(o: Objects, b: Bests, lists: Lists, head: int) -> None:
    while o.now[HEAD] < head:
        source = o.source[o.now[HEAD] & (len(o.object) - 1)]
        number = expire(o, o.now[HEAD])
        if number != NOBODY:
            _list(o, lists, number, source)
            reseat(o, b, number)


@leaf
def _take(o: Objects, b: Bests, lists: Lists, rows: Arrivals, start: int, stop: int) -> None:
    for i in range(start, stop):
        _release(o, b, lists, rows.head[i])
        number = arrive(o, rows.ordinal[i], rows.id[i], rows.source[i], rows.value[i])
        if number != NOBODY:
            _list(o, lists, number, rows.source[i])
            reseat(o, b, number)


@leaf
def _search(o: Objects, b: Bests, lists: Lists) -> None:
    """Find the best objects by the threshold algorithm: read the lists in turn until nothing better can come."""
    clear(b)
    ordered = lists.ordered
    ordered.search[0] += 1
    sources = len(o.factor)
    for s in range(sources):
        last = ordered.buckets[s] - 1
        ordered.right[2 * s] = last
        ordered.right[2 * s + 1] = ordered.size[ordered.order[s, last]] - 1 if last >= 0 else -1
    more = True
    while more:
        more = False
        for s in range(sources):
            ordered.high[s] = 0.0  # a source without a row counts as the lowest value
            at = ordered.right[2 * s]
            if at < 0:
                continue
            more = True
            entry = ordered.order[s, at] * BUCKET + ordered.right[2 * s + 1]
            ordered.high[s] = max(0.0, ordered.value[entry])
            number = ordered.slot[entry]
            lists.counters[READ] += 1
            ordered.right[2 * s + 1] -= 1
            if ordered.right[2 * s + 1] < 0:
                ordered.right[2 * s] = at - 1
                if at > 0:
                    ordered.right[2 * s + 1] = ordered.size[ordered.order[s, at - 1]] - 1
            if ordered.seen[number] != ordered.search[0]:
                ordered.seen[number] = ordered.search[0]
                seat(b, number, o.score[number], o.newest[number])
        if b.now[SIZE] == b.now[KEEP] and b.score[b.now[KEEP] - 1] > combined(o, ordered.high):
            cut(b)
            more = False


@kernel
def drive_sla(o: Objects, b: Bests, lists: Lists, rows: Arrivals, step: Step, index: int, log: Log) -> Log:
    """Take a step of the window; log the changes at its evaluations."""
    done = 0
    for j in range(len(step.at)):
        _take(o, b, lists, rows, done, step.arrivals[j])
        done = step.arrivals[j]
        _release(o, b, lists, step.heads[j + 1])
        if starved(b) or lists.counters[ALWAYS] != 0:
            _search(o, b, lists)
        if b.now[TOUCHED] != 0:
            log = with_room(log, b.now[ANSWERED] + b.now[SIZE])
            report(o, b, step.at[j], index, log)
        bury(o)
    _take(o, b, lists, rows, done, len(rows.ordinal))
    return log
