"""What each source reports of each object, in sorted lists, and the threshold algorithm, which searches them.

Lists are read from the largest value down, in turn. No object that has not been met can score more than the values read
last make together: when the last of those wanted scores more, nothing better is left (CIKM 2009, section 3.1).
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.algorithms.incomplete.kernels.best_objects import Bests, clear, cut, insert
from topwatch.algorithms.incomplete.kernels.object_scores import Objects, combined
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import kernel, leaf
from topwatch.core.sorted_lists import Ordered, put, row_at, step_back, take_out, to_last


class ListScalars:
    """Numbers beside the arrays; a record."""

    read: int  # entries that have been read
    always: int  # 1 where every evaluation searches


class SourceLists(NamedTuple):
    """Objects by what each source reports of them; an entry is called by the source's newest row of the object."""

    ordered: Ordered
    value: Floats  # (objects, sources): what the entry was made with
    tick: Ints  # (objects, sources): 0 where there is no entry
    now: ListScalars


@leaf
def update_entry(o: Objects, lists: SourceLists, number: int, source: int) -> None:
    """Bring the entry of an object in a source's list up to date."""
    if lists.tick[number, source] != 0:
        take_out(lists.ordered, source, lists.value[number, source], lists.tick[number, source])
    lists.tick[number, source] = o.last[number, source]
    if o.last[number, source] != 0:
        lists.value[number, source] = o.part[number, source]
        put(lists.ordered, source, o.part[number, source], o.last[number, source], number)


@kernel
def list_all(o: Objects, lists: SourceLists) -> None:
    """Fill empty lists."""
    for number in range(o.now.used):
        for source in range(len(o.factor)):
            update_entry(o, lists, number, source)


@leaf
def search(o: Objects, b: Bests, lists: SourceLists) -> None:
    """Find the best objects."""
    clear(b)
    ordered = lists.ordered
    ordered.now.search += 1
    sources = len(o.factor)
    for s in range(sources):
        to_last(ordered, s, ordered.right, ordered.buckets[s] - 1)
    more = True
    while more:
        more = False
        for s in range(sources):
            ordered.high[s] = 0.0  # a source without a row counts as the lowest value
            if ordered.right.bucket[s] < 0:
                continue
            more = True
            entry = row_at(ordered, s, ordered.right)
            step_back(ordered, s, ordered.right)
            ordered.high[s] = max(0.0, ordered.value[entry])
            number = ordered.slot[entry]
            lists.now.read += 1
            if ordered.seen[number] != ordered.now.search:
                ordered.seen[number] = ordered.now.search
                insert(b, number, o.score[number], o.newest[number])
        if b.now.entries == b.now.keep and b.score[b.now.keep - 1] > combined(o, ordered.high):
            cut(b)
            more = False
