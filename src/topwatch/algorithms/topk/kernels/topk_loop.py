"""The loop that all top-k algorithms share: arrivals to the queries they concern, expiries, evaluations, changes.

What differs between the algorithms is data: which rows a run keeps (:class:`Runs`), and whether there is a grid.
``lists`` are its influence lists; where they are None, arrivals are compared with all queries. ``points`` are the rows
by cell, over which a starving run is filled by a walk; where they are None, it is filled by a scan of the window. Numba
compiles only what the types of these two call for. Cost: that of the algorithm, and O(1) per row and evaluation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.cells import locate
from topwatch.algorithms.topk.kernels.find_rows import (
    Counts,
    Hits,
    SlotRange,
    add_hits,
    new_hits,
    route_by_scan,
)
from topwatch.algorithms.topk.kernels.influence import Lists, move_level, route_by_lists
from topwatch.algorithms.topk.kernels.run_updates import admit, expire, remove
from topwatch.algorithms.topk.kernels.scan_window import fill_by_scan
from topwatch.algorithms.topk.kernels.sorted_runs import (
    FAR,
    Answers,
    QueryState,
    Runs,
    enlarge,
    prefetch_answer,
    prefetch_run,
    put_in_order,
    report,
    touch,
)
from topwatch.algorithms.topk.kernels.walk_cells import Points, fill_by_walk, link, prefetch_end, prefetch_next, unlink
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, entry, inlined, kernel, leaf, long, stepwise
from topwatch.core.kernels.memory import PREFETCH_DISTANCE, record
from topwatch.core.kernels.rows import Log, Rows, Step, with_room
from topwatch.core.kernels.scoring import BLOCK, Queries, score_row

BEGIN, ROUTE, TAKE, EVALUATE = range(4)  # phases
ALIKE = 5  # the ages of 2^5 queries are kept together
SOON = 4  # hits or reports between prefetching a query's rows and using them


class Position:
    """Where the loop stands in a step: the fields of a record that kernels change."""

    phase: int  # what is to be done next
    arrival: int  # the next one
    evaluation: int  # the next one
    block: int  # first arrival of the block that was routed
    stop: int  # and the arrival behind it
    room: int  # for how many arrivals the next block has room
    hit: int  # the next one
    stale: int  # how many queries are stale
    next_stale: int  # the one that is reported next
    oldest: int  # oldest row in any run, or an older one
    fell: int  # 1 when a threshold fell and its new hits found no room: the block must be routed again


class Work(NamedTuple):
    """State of the loop within a step: its position, and lists of queries and rows to come back to."""

    position: Position
    hits: Hits  # of the block
    subscribed: Floats  # the thresholds by which the block was routed
    stale: Ints  # queries whose answers may have changed
    oldest: Ints  # the oldest row in the runs of 2^ALIKE queries, or an older one
    counts: Counts


def new_work(queries: int, counts: Counts) -> Work:
    """Allocate what the loop needs for a step."""
    position = record(Position, room=BLOCK)
    oldest = np.empty((queries >> ALIKE) + 1, np.int64)
    return Work(position, new_hits(queries), np.empty(queries), np.empty(queries, np.int64), oldest, counts)


@stepwise
@kernel
def run_by_lists(
    rows: Rows,
    state: QueryState,
    lists: Lists,
    points: Points | None,
    expired: Ints | None,
    step: Step,
    log: Log,
    work: Work,
) -> tuple[Log, Lists]:
    """Take a step with influence lists, which follow the thresholds; return the log and the lists, which may move."""
    here = work.position
    while not run(rows, state, lists, points, expired, step, log, work):
        q = work.stale[here.next_stale]
        lists = move_level(lists, state.table, q, state.runs.threshold[q])
        log = with_room(log, 2 * state.table.k[q])
    return log, lists


@stepwise
@entry
def run(
    rows: Rows,
    state: QueryState,
    lists: Lists | None,
    points: Points | None,
    expired: Ints | None,
    step: Step,
    log: Log,
    work: Work,
) -> bool:
    """Take a step until a stale query's lists must move or the log has no room for it; True when the step is done.

    ``expired`` are the slots of rows that expire in no order of time; None in a first-in-first-out window.
    """
    table, runs, _ = state
    here = work.position
    if here.phase == BEGIN:
        begin(state, work)
    while True:
        if here.phase == ROUTE:
            route_block(table, runs.threshold, rows.columns, lists, step.arrived, work)
            here.phase = TAKE
        j = here.evaluation
        if here.phase == TAKE:
            if expired is None and points is None and here.stale == 0:
                j = _skip(step, j, work)
            until = min(here.stop, step.arrivals[j]) if j < len(step.at) else here.stop
            take_in(rows, state, lists, points, step, until, work)
            if j == len(step.at) or step.arrivals[j] > until:  # the block is used up
                if until == len(step.arrived) and j == len(step.at):
                    return True
                here.phase = ROUTE
                continue
            release(rows, state, lists, points, expired, step, work)
            here.phase = EVALUATE
        while here.next_stale < here.stale:
            if evaluate(rows, state, lists, step.at[j], log, work):
                break
            q = work.stale[here.next_stale]
            if runs.size[q] < table.k[q] and runs.whole[q] == 0:
                counts = work.counts
                counts.fills += 1
                enlarge(runs, q)
                if lists is not None and points is not None:
                    fill_by_walk(table, q, rows, lists, points, runs, counts)
                else:
                    fill_by_scan(table, q, rows, step.heads[j + 1], step.moment[j], runs)
                age(work, q, runs.oldest[q])
                if runs.threshold[q] < work.subscribed[q]:
                    _subscribe(table, q, runs.threshold[q], rows.columns, step.arrived, work)
            if lists is not None or not _has_room(log, table.k[q]):
                return False
        here.stale = 0
        here.evaluation = j + 1
        here.phase = ROUTE if here.fell == 1 else TAKE


@leaf
def begin(state: QueryState, work: Work) -> None:
    """Find the oldest row in any run, and the queries whose answers are stale since the last evaluation."""
    here = work.position
    for some in range(len(work.oldest)):
        work.oldest[some] = FAR
    here.oldest = FAR
    for q in range(len(state.runs.threshold)):
        age(work, q, state.runs.oldest[q])
        if state.answers.stale[q] == 1:
            work.stale[here.stale] = q
            here.stale += 1
    here.phase = ROUTE


@leaf
def route_block(
    table: Queries, thresholds: Floats, columns: Floats, lists: Lists | None, slots: Ints, work: Work
) -> None:
    """Find the hits among the arrivals of the next block; fewer rows make a block while the hits of more do not fit."""
    here = work.position
    start = here.arrival
    hits = work.hits
    while True:
        stop = min(len(slots), start + here.room)
        arrivals = SlotRange(slots, start, stop)
        hits.size[0] = 0
        if start == stop:
            break
        if lists is not None:
            fits = route_by_lists(table, thresholds, columns, lists, arrivals, hits, work.counts)
        else:
            fits = route_by_scan(table, thresholds, columns, arrivals, hits, work.counts)
        if fits:
            break
        here.room = max(1, here.room // 4)
    for q in range(len(thresholds)):
        work.subscribed[q] = thresholds[q]
    here.room = min(BLOCK, 2 * here.room)
    here.stop = stop
    here.block = start
    here.hit = 0
    here.fell = 0


@leaf
def _subscribe(table: Queries, q: int, threshold: float, columns: Floats, slots: Ints, work: Work) -> None:
    """Add the hits of a query whose threshold fell to those of the block's remaining rows."""
    here = work.position
    arrivals = SlotRange(slots, here.arrival, here.stop)
    work.counts.scores += arrivals.stop - arrivals.start
    if not add_hits(table, q, columns, arrivals, threshold, work.subscribed[q], work.hits, here.hit):
        here.fell = 1
    work.subscribed[q] = threshold


@leaf
def _skip(step: Step, j: int, work: Work) -> int:
    """Pass over evaluations before which no row reaches a threshold and none that is kept expires; return the next."""
    here = work.position
    last = here.stop
    if here.hit < work.hits.size[0]:
        last = min(last, work.hits.row[here.hit])
    while j < len(step.at) and step.arrivals[j] <= last and step.heads[j + 1] <= here.oldest:
        j += 1
    if j > here.evaluation:
        here.evaluation = j
        here.arrival = step.arrivals[j - 1]
    return j


@inlined
def take_in(
    rows: Rows, state: QueryState, lists: Lists | None, points: Points | None, step: Step, until: int, work: Work
) -> None:
    """Let the arrivals before index ``until`` into their cells and into the runs whose threshold they reach."""
    table, runs, answers = state
    here = work.position
    hits = work.hits
    slots = step.arrived
    head = step.heads[here.evaluation]
    if lists is not None and points is not None:
        cells = hits.cells[here.arrival - here.block : until - here.block]
        for r in range(len(cells)):
            upcoming = r + PREFETCH_DISTANCE
            if upcoming + PREFETCH_DISTANCE < len(cells):
                prefetch_end(points, cells[upcoming + PREFETCH_DISTANCE])
            if upcoming < len(cells):
                prefetch_next(points, cells[upcoming])
            link(points, lists.cells, rows.columns, slots[here.arrival + r], cells[r])
    h = here.hit
    while h < hits.size[0] and hits.row[h] < until:
        if h + SOON < hits.size[0]:
            prefetch_run(runs, hits.query[h + SOON], runs.top[hits.query[h + SOON]])
        q = hits.query[h]
        if hits.key[h] >= runs.threshold[q]:
            slot = slots[hits.row[h]]
            rank = admit(runs, q, table.k[q], hits.key[h], rows.seq[slot], slot, head)
            work.counts.hits += 1
            age(work, q, rows.seq[slot])
            if rank < table.k[q]:
                _mark(answers, q, rank, work)
        h += 1
    here.hit = h
    here.arrival = until


@inlined
def release(
    rows: Rows,
    state: QueryState,
    lists: Lists | None,
    points: Points | None,
    expired: Ints | None,
    step: Step,
    work: Work,
) -> None:
    """Take out what has expired before the next evaluation, and put the queries that are stale then in order."""
    here = work.position
    j = here.evaluation
    if expired is not None:
        for e in range(step.expiries[j - 1] if j > 0 else ZERO, step.expiries[j]):
            _withdraw(rows, state, lists, points, expired[e], work)
    else:
        if points is not None:
            for ordinal in range(step.heads[j], step.heads[j + 1]):
                if ordinal + 2 * PREFETCH_DISTANCE < step.heads[j + 1]:
                    prefetch_end(points, points.cell[(ordinal + 2 * PREFETCH_DISTANCE) & rows.mask])
                unlink(points, ordinal & rows.mask, True)
        if here.oldest < step.heads[j + 1]:
            _expire_before(step.heads[j + 1], state, work)
    here.next_stale = 0
    if here.stale > 1:
        put_in_order(state.answers, work.stale, here.stale)


@inlined
def _expire_before(head: int, state: QueryState, work: Work) -> None:
    """Take the rows before ordinal ``head`` out of the runs that hold one."""
    table, runs, answers = state
    here = work.position
    here.oldest = FAR
    for some in range(len(work.oldest)):
        if work.oldest[some] < head:
            work.oldest[some] = FAR
            start = some << ALIKE
            stop = min(start + (1 << ALIKE), len(runs.threshold))
            for q in range(start, stop):
                if runs.oldest[q] < head:
                    prefetch_run(runs, q, runs.top[q])
            for q in range(start, stop):
                if runs.oldest[q] < head:
                    rank = expire(runs, q, table.k[q], head)
                    if rank < table.k[q]:
                        _mark(answers, q, rank, work)
                work.oldest[some] = min(work.oldest[some], runs.oldest[q])
        here.oldest = min(here.oldest, work.oldest[some])


@inlined
def evaluate(rows: Rows, state: QueryState, lists: Lists | None, at: int, log: Log, work: Work) -> bool:
    """Report stale queries in order; False at one that lacks rows or whose lists lag behind, or if the log is full."""
    table, runs, answers = state
    here = work.position
    stop = here.stale
    for t in range(here.next_stale, stop):
        if t + SOON < stop:
            prefetch_answer(answers, work.stale[t + SOON])
        q = work.stale[t]
        blocked = (runs.size[q] < table.k[q] and runs.whole[q] == 0) or not _has_room(log, table.k[q])
        if lists is not None:
            blocked = blocked or (runs.room[q] > runs.target[q] and runs.threshold[q] > lists.influence.level[q])
        if blocked:
            here.next_stale = t
            return False
        report(answers, runs, rows, q, table.k[q], at, log)
    here.next_stale = stop
    return True


@inlined
def _has_room(log: Log, k: int) -> bool:
    """Tell whether the log has room for a report of one query."""
    return log.size[0] + 2 * k <= len(log.key)


@inlined
def age(work: Work, q: int, oldest: int) -> None:
    """Note the age of a query's oldest row, or one that is no younger."""
    here = work.position
    here.oldest = min(here.oldest, oldest)
    work.oldest[q >> ALIKE] = min(work.oldest[q >> ALIKE], oldest)


@inlined
def _mark(answers: Answers, q: int, rank: int, work: Work) -> None:
    """Mark a query's answer as one that may have changed from a rank on."""
    if answers.stale[q] == 0:
        here = work.position
        work.stale[here.stale] = q
        here.stale += 1
    touch(answers, q, rank)


@leaf
def _withdraw(rows: Rows, state: QueryState, lists: Lists | None, points: Points | None, slot: int, work: Work) -> None:
    """Take a row that was replaced or deleted out of the runs that hold it."""
    table, runs, answers = state
    if points is not None:
        unlink(points, slot, False)
    if lists is not None:
        cell = locate(lists.cells, rows.columns, slot)
        first = lists.influence.first[cell]
        for index in range(first, first + lists.influence.size[cell]):
            _remove_from(rows, table, runs, answers, long(lists.influence.pool[index]), slot, work)
    else:
        for q in range(len(runs.threshold)):
            _remove_from(rows, table, runs, answers, q, slot, work)


@inlined
def _remove_from(rows: Rows, table: Queries, runs: Runs, answers: Answers, q: int, slot: int, work: Work) -> None:
    """Take a row out of a query's run, if it is there."""
    key = score_row(table, q, rows.columns, slot)
    if key >= runs.threshold[q]:
        rank = remove(runs, q, table.k[q], key, rows.seq[slot])
        if rank < table.k[q]:
            _mark(answers, q, rank, work)
