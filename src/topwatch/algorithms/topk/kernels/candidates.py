"""Candidates: what a top-k/w query keeps, and does when a row arrives, leaves the recent buffer, or expires (TODS'15).

The calendar finds the queries that keep a row which expires next without a pass over all of them: each query is entered
at the ordinal of the oldest row it keeps (or an older one: then a check changes nothing). As the head of the window
passes, the queries entered there are checked. Cost: O(1) per entry, one look per row that expires.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.find_rows import Counts, Hits
from topwatch.algorithms.topk.kernels.run_updates import expire
from topwatch.algorithms.topk.kernels.skyband_kinds import Skybands, admit, index_of, settle, shrunk, stands_at
from topwatch.algorithms.topk.kernels.sorted_runs import FAR, Answers, shift, touch
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, kernel
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Queries


class Calendar(NamedTuple):
    """Queries by the slot of the ordinal they are noted at, in lists linked both ways."""

    first: np.ndarray  # int32, by slot; -1 where no query is noted
    following: np.ndarray  # int32, by query
    before: np.ndarray  # int32, by query; -1 for the first of a list
    due: Ints  # by query: ordinal it is noted at, FAR when at none


def new_calendar(slots: int, queries: int) -> Calendar:
    """Return a calendar with nothing noted."""
    none = np.full(queries, -1, np.int32)
    return Calendar(np.full(slots, -1, np.int32), none, none.copy(), np.full(queries, FAR))


@kernel
def note_all(calendar: Calendar, oldest: Ints, mask: int) -> None:
    """Note each query at the ordinal of its oldest row."""
    for q in range(len(oldest)):
        note(calendar, q, oldest[q], mask)


@inlined
def note(calendar: Calendar, q: int, ordinal: int, mask: int) -> None:
    """Note a query at another ordinal, or at none (FAR)."""
    due = calendar.due[q]
    if due == ordinal:
        return
    if due != FAR:
        after = calendar.following[q]
        previous = calendar.before[q]
        if previous >= 0:
            calendar.following[previous] = after
        else:
            calendar.first[due & mask] = after
        if after >= 0:
            calendar.before[after] = previous
    calendar.due[q] = ordinal
    if ordinal != FAR:
        after = calendar.first[ordinal & mask]
        calendar.first[ordinal & mask] = q
        calendar.following[q] = after
        calendar.before[q] = -1
        if after >= 0:
            calendar.before[after] = q


@inlined
def any_noted(calendar: Calendar, start: int, stop: int, mask: int) -> bool:
    """Tell whether a query is noted at one of some ordinals."""
    for ordinal in range(start, stop):
        if calendar.first[ordinal & mask] >= 0:
            return True
    return False


class Buffer:
    """The recent buffer; a record."""

    first: int  # ordinal of its first row
    room: int  # for so many rows


class Kept(NamedTuple):
    """All that is kept of the stream."""

    main: Skybands
    filters: Skybands
    filtered: bool
    buffer: Buffer
    calendar: Calendar
    answers: Answers


class Position:
    """Where the loop stands in a step: the fields of a record that kernels change."""

    phase: int  # what is to be done next
    arrival: int  # the next one
    evaluation: int  # the next one
    stop: int  # end of the block that was routed
    room: int  # for how many arrivals the next block has room
    most: int  # the largest room
    hit: int  # the next one among the arrivals
    leaving: int  # how many rows leave the buffer during the block
    leaving_from: int  # ordinal of the first of them
    gone: int  # the next hit among them
    stale: int  # how many queries are stale
    next_stale: int  # the one that is reported next
    moved: int  # how many queries' lists lag behind
    fell: int  # how many queries' routing thresholds fell
    full: int  # the query whose run has no room for another row, or -1
    checked: int  # queries that have been offered the row which leaves the buffer, where that was interrupted
    missing: int  # room that the log lacks
    again: int  # 1 when the block must be routed again


class Work(NamedTuple):
    """State of the loop within a step: its position, and lists of queries and rows to come back to."""

    position: Position
    hits: Hits  # arrivals of the block that concern queries
    gone: Hits  # and rows that leave the buffer
    leaving: Ints  # slots of all rows that leave the buffer during the block
    begin: int  # ordinal of the step's first arrival
    stale: Ints  # queries whose answers may have changed
    moved: Ints  # queries whose routing thresholds are not those of their lists
    marked: Ints  # by query: 1 when among the moved
    fell: Ints  # queries whose routing threshold is lower than when the block was routed
    requested: Ints  # by query: 1 when among those
    subscribed: Floats  # by query: the threshold by which the block was routed
    lagging: Ints  # by query: for how many blocks its lists have lagged behind
    counts: Counts


@inlined
def arrive(kept: Kept, q: int, k: int, key: float, seq: int, mask: int, work: Work) -> None:
    """Offer a new row to a query: to its filter first, and if it is among the best there, to its skyband."""
    if kept.filtered:
        if not key >= kept.filters.runs.threshold[q]:
            return
        rank = admit(kept.filters, q, k, key, seq, False)
        _settle(kept.filters, q, k, work)
        if rank >= k:
            return
    elif not key >= kept.main.runs.threshold[q]:
        return
    _keep(kept, q, k, key, seq, mask, False, work)
    if not kept.filtered:
        _settle(kept.main, q, k, work)


@inlined
def leave(kept: Kept, q: int, k: int, key: float, seq: int, mask: int, work: Work) -> None:
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
        _settle(kept.filters, q, k, work)
    if rank < k and not stands_at(kept.main.runs, q, index_of(kept.main.runs, q, key, seq), seq):
        _keep(kept, q, k, key, seq, mask, True, work)


@inlined
def _keep(kept: Kept, q: int, k: int, key: float, seq: int, mask: int, late: bool, work: Work) -> None:
    """Take a row into a query's skyband."""
    rank = admit(kept.main, q, k, key, seq, late)
    if kept.main.runs.oldest[q] < kept.calendar.due[q]:
        note(kept.calendar, q, kept.main.runs.oldest[q], mask)
    if rank < k:
        _mark(kept.answers, q, rank, work)


@inlined
def _settle(bands: Skybands, q: int, k: int, work: Work) -> None:
    """Note when the routing threshold of a query moves."""
    here = work.position
    change = settle(bands, q, k)
    if bands.routing[q] < work.subscribed[q] and work.requested[q] == 0:
        work.requested[q] = 1
        work.fell[here.fell] = q
        here.fell += 1
    if change != 0 and work.marked[q] == 0:
        work.marked[q] = 1
        work.moved[here.moved] = q
        here.moved += 1


@inlined
def _mark(answers: Answers, q: int, rank: int, work: Work) -> None:
    """Mark a query's answer as one that may have changed from a rank on."""
    here = work.position
    if answers.stale[q] == 0:
        work.stale[here.stale] = q
        here.stale += 1
    touch(answers, q, rank)


@inlined
def release(rows: Rows, table: Queries, kept: Kept, start: int, head: int, work: Work) -> None:
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
                _mark(kept.answers, q, rank, work)
            if not kept.filtered:
                threshold = runs.threshold[q]
                shrunk(kept.main, q, k, before - runs.size[q])
                work.counts.fills += int(runs.threshold[q] == -np.inf and threshold > -np.inf)
                _settle(kept.main, q, k, work)
