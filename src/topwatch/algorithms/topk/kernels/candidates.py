"""Candidates: what a top-k/w query does when a row arrives, leaves the recent buffer, or expires (TODS'15)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.calendar import Calendar, note
from topwatch.algorithms.topk.kernels.report import Answers, touch
from topwatch.algorithms.topk.kernels.run_updates import expire
from topwatch.algorithms.topk.kernels.skyband_kinds import Skybands, admit, index_of, settle, shrunk, stands_at
from topwatch.algorithms.topk.kernels.sorted_runs import shift
from topwatch.algorithms.topk.kernels.walk_cells import FILLS
from topwatch.core.jit import ZERO, inlined
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Floats, Ints, Queries

# Where the loop stands: next hit among arrivals; stale queries (the same index as in drive); next hit among rows that
# leave the buffer; queries whose lists lag behind; queries that listen to more; the query whose run is full, or -1;
# where a look at all queries was broken off; next arrival; next evaluation; end, size and largest size of the block;
# what is next to do; the stale query to report next; room that the log lacks; whether the block must be routed again.
HIT, STALE, GONE, MOVED, FELL, FULL, AT, ARRIVAL, EVALUATION, STOP, SIZE, MOST, PHASE, TURN, ROOM, UNSUBSCRIBED = range(
    16
)


class Kept(NamedTuple):
    """All that is kept of the stream."""

    main: Skybands
    filters: Skybands
    filtered: bool
    buffer: Ints  # first ordinal in the buffer, and how many rows it has room for
    calendar: Calendar
    answers: Answers


class Todo(NamedTuple):
    """Queries to come back to."""

    stale: Ints  # their answers may have changed
    moved: Ints  # they listen to more or less than their lists say
    marked: Ints  # by query: 1 when among the moved
    fell: Ints  # they listen to more than the block was looked through for
    asked: Ints  # by query: 1 when among those
    subscribed: Floats  # by query: the level from which on the block was looked through
    loud: Ints  # by query: for how many blocks its lists have lagged behind


@inlined
def arrive(kept: Kept, q: int, k: int, key: float, seq: int, mask: int, todo: Todo, here: Ints) -> None:
    """Offer a new row to a query: to its filter first, and if it is among the best there, to its skyband."""
    if kept.filtered:
        if not key >= kept.filters.runs.threshold[q]:
            return
        rank = admit(kept.filters, q, k, key, seq, False)
        _listen(kept.filters, q, k, todo, here)
        if rank >= k:
            return
    elif not key >= kept.main.runs.threshold[q]:
        return
    _keep(kept, q, k, key, seq, mask, False, todo, here)
    if not kept.filtered:
        _listen(kept.main, q, k, todo, here)


@inlined
def leave(kept: Kept, q: int, k: int, key: float, seq: int, mask: int, todo: Todo, here: Ints) -> None:
    """Take a row out of a query's filter; if fewer than k newer ones there are better, offer it again."""
    runs = kept.filters.runs
    n = runs.size[q]
    if n >= k and key < runs.key[runs.first[q] + n - 1]:
        return  # it is worse than all rows of the filter
    rank = index_of(runs, q, key, seq)
    if stands_at(runs, q, rank, seq):
        first = runs.first[q]
        shift(runs, first + rank, first + rank + 1, runs.size[q] - rank - 1)
        runs.size[q] -= 1
        shrunk(kept.filters, q, k, 1)
        _listen(kept.filters, q, k, todo, here)
    if rank < k and not stands_at(kept.main.runs, q, index_of(kept.main.runs, q, key, seq), seq):
        _keep(kept, q, k, key, seq, mask, True, todo, here)


@inlined
def _keep(kept: Kept, q: int, k: int, key: float, seq: int, mask: int, late: bool, todo: Todo, here: Ints) -> None:
    """Let a row into a query's skyband."""
    rank = admit(kept.main, q, k, key, seq, late)
    if kept.main.runs.oldest[q] < kept.calendar.due[q]:
        note(kept.calendar, q, kept.main.runs.oldest[q], mask)
    if rank < k:
        _mark(kept.answers, q, rank, todo, here)


@inlined
def _listen(bands: Skybands, q: int, k: int, todo: Todo, here: Ints) -> None:
    """Note when a query listens to more or to less now."""
    change = settle(bands, q, k)
    if bands.listen[q] < todo.subscribed[q] and todo.asked[q] == 0:
        todo.asked[q] = 1
        todo.fell[here[FELL]] = q
        here[FELL] += 1
    if change != 0 and todo.marked[q] == 0:
        todo.marked[q] = 1
        todo.moved[here[MOVED]] = q
        here[MOVED] += 1


@inlined
def _mark(answers: Answers, q: int, rank: int, todo: Todo, here: Ints) -> None:
    """Note that a query's answer may have changed from a rank on."""
    if answers.stale[q] == 0:
        todo.stale[here[STALE]] = q
        here[STALE] += 1
    touch(answers, q, rank)


@inlined
def release(
    rows: Rows, table: Queries, kept: Kept, start: int, head: int, todo: Todo, here: Ints, counters: Ints
) -> None:
    """Take out what has expired before an evaluation."""
    runs = kept.main.runs
    for ordinal in range(start, head):
        while kept.calendar.first[ordinal & rows.mask] >= 0:
            q = ZERO + kept.calendar.first[ordinal & rows.mask]
            k = table.k[q]
            before = runs.size[q]
            rank = expire(runs, q, k, head)
            note(kept.calendar, q, runs.oldest[q], rows.mask)
            if rank < k:
                _mark(kept.answers, q, rank, todo, here)
            if not kept.filtered:
                threshold = runs.threshold[q]
                shrunk(kept.main, q, k, before - runs.size[q])
                counters[FILLS] += int(runs.threshold[q] == -np.inf and threshold > -np.inf)
                _listen(kept.main, q, k, todo, here)
