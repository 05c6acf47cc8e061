"""The loop that all top-k algorithms share: arrivals to the queries they concern, expiries, evaluations, changes.

What differs between the algorithms is data: which rows a run keeps (:class:`Runs`), how an arrival finds its queries
(influence lists, or a fused scan when there are none) and how a starving run is filled (a walk over the cells when rows
are kept by cell, else a scan of the window).
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.cells import locate
from topwatch.algorithms.topk.kernels.influence import Influence, move_level
from topwatch.algorithms.topk.kernels.report import Answers, prefetch_answer, report, touch
from topwatch.algorithms.topk.kernels.route import Hits, Index, new_hits, route_by_lists, route_by_scan, subscribe
from topwatch.algorithms.topk.kernels.run_updates import admit, expire, remove
from topwatch.algorithms.topk.kernels.scan_window import fill_by_scan
from topwatch.algorithms.topk.kernels.sorted_runs import FAR, Runs, ask_for_more, prefetch_run
from topwatch.algorithms.topk.kernels.walk_cells import (
    FILLS,
    HITS,
    SCORES,
    fill_by_walk,
    link,
    prefetch_behind,
    prefetch_end,
    unlink,
)
from topwatch.core.jit import PREFETCH_DISTANCE, ZERO, inlined, inner, kernel, leaf
from topwatch.core.kernels.rows import Log, Rows, Step, with_room
from topwatch.core.kernels.scoring import BLOCK, Floats, Ints, Queries, score_row

# Where the loop stands: next hit, stale queries, oldest row in any run, first row of the block, next arrival, next
# evaluation, end and size of the block, what is next to do, the stale query to report next, whether a threshold fell;
# then the oldest row in any run of each 32 queries, so that an expiry is not looked for in all of them. Ages are lower
# bounds.
HIT, STALE, OLDEST, BLOCK_START, ARRIVAL, EVALUATION, STOP, SIZE, PHASE, TURN, FELL, OLDEST_OF = range(12)
ALIKE = 5  # 2^5 queries
ROUTE, TAKE, JUDGE = range(3)  # phases
SOON = 4  # hits or reports between prefetching a query's rows and using them


@kernel
def drive(
    rows: Rows, table: Queries, runs: Runs, answers: Answers, index: Index, step: Step, log: Log, counters: Ints
) -> tuple[Log, Influence]:
    """Take a step: returns the log and the influence lists, which may have moved to larger arrays."""
    hits = new_hits(len(runs.threshold))
    stale = np.empty(len(runs.threshold), np.int64)  # queries whose answers may have changed
    subscribed = np.empty(len(runs.threshold), np.float64)  # the thresholds by which the block was routed
    here = new_index(len(runs.threshold))
    here[SIZE] = BLOCK
    begin(runs, answers, stale, here)
    while not _run(rows, table, runs, answers, index, step, log, hits, subscribed, stale, here, counters):
        q = stale[here[TURN]]
        index = _level(index, table, q, runs.threshold[q])
        log = with_room(log, 2 * table.k[q])
    return log, index.influence


@leaf
def _run(
    rows: Rows,
    table: Queries,
    runs: Runs,
    answers: Answers,
    index: Index,
    step: Step,
    log: Log,
    hits: Hits,
    subscribed: Floats,
    stale: Ints,
    here: Ints,
    counters: Ints,
) -> bool:
    """Go on without a reference count (decision 1) until a stale query needs memory; True when the step is done."""
    while True:
        if here[PHASE] == ROUTE:
            _route_ahead(table, runs.threshold, rows.columns, index, step.arrived, hits, subscribed, here, counters)
            here[PHASE] = TAKE
        j = here[EVALUATION]
        if here[PHASE] == TAKE:
            stop = here[STOP]
            if rows.fifo and not index.walked and here[STALE] == 0:
                next_hit = hits.row[here[HIT]] if here[HIT] < hits.size[0] else stop
                quiet = _skip(step, j, stop, next_hit, here[OLDEST])
                if quiet > j:
                    j = here[EVALUATION] = quiet
                    here[ARRIVAL] = step.arrivals[j - 1]
            until = min(stop, step.arrivals[j]) if j < len(step.at) else stop
            if index.walked or (here[HIT] < hits.size[0] and hits.row[here[HIT]] < until):
                take_in(rows, table, runs, answers, index, step, j, here[ARRIVAL], until, hits, stale, here, counters)
            here[ARRIVAL] = until
            if j == len(step.at) or step.arrivals[j] > until:  # the block is used up
                if until == len(step.arrived) and j == len(step.at):
                    return True
                here[PHASE] = ROUTE
                continue
            if index.walked or not rows.fifo or here[OLDEST] < step.heads[j + 1]:
                release(rows, table, runs, answers, index, step, j, stale, here)
            if here[STALE] > 1:
                put_in_order(answers, stale, here)
            here[TURN] = 0
            here[PHASE] = JUDGE
        while here[TURN] < here[STALE]:
            next_stale = evaluate(rows, table, runs, answers, index, stale, here[TURN], here[STALE], step.at[j], log)
            here[TURN] = next_stale
            if next_stale < here[STALE]:
                # This query cannot be reported yet: its run starves, its lists lag behind, or the log is full.
                q = stale[next_stale]
                if runs.size[q] < table.k[q] and runs.whole[q] == 0:
                    _fill(rows, table, runs, index, q, step.heads[j + 1], step.moment[j], here, counters)
                    if runs.threshold[q] < subscribed[q]:
                        _hear_again(rows, table, runs, step.arrived, q, hits, subscribed, here, counters)
                return False
        here[STALE] = 0
        here[EVALUATION] = j + 1
        here[PHASE] = ROUTE if here[FELL] == 1 else TAKE


@leaf
def _hear_again(
    rows: Rows,
    table: Queries,
    runs: Runs,
    slots: Ints,
    q: int,
    hits: Hits,
    subscribed: Floats,
    here: Ints,
    counters: Ints,
) -> None:
    """Look through the rest of the block for a query whose threshold fell; route it again if the hits do not fit."""
    start = here[ARRIVAL]
    stop = here[STOP]
    counters[SCORES] += stop - start
    if not subscribe(table, q, rows.columns, slots, start, stop, runs.threshold[q], subscribed[q], hits, here[HIT]):
        here[FELL] = 1
    subscribed[q] = runs.threshold[q]


@leaf
def _route_ahead(
    table: Queries,
    thresholds: Floats,
    columns: Floats,
    index: Index,
    slots: Ints,
    hits: Hits,
    subscribed: Floats,
    here: Ints,
    counters: Ints,
) -> None:
    """Note whom the arrivals of the next block concern; fewer rows make a block while the hits of more do not fit."""
    while True:
        start = here[ARRIVAL]
        stop = min(len(slots), start + here[SIZE])
        if _route(table, thresholds, columns, index, slots, start, stop, hits, counters):
            break
        here[SIZE] = max(1, here[SIZE] // 4)
    for q in range(len(thresholds)):
        subscribed[q] = thresholds[q]
    here[SIZE] = min(BLOCK, 2 * here[SIZE])
    here[STOP] = stop
    here[BLOCK_START] = start
    here[HIT] = 0
    here[FELL] = 0


@leaf
def _skip(step: Step, j: int, stop: int, next_hit: int, oldest: int) -> int:
    """Return the next evaluation from ``j`` on before which a row reaches a threshold or one that is kept expires."""
    last = min(stop, next_hit)
    while j < len(step.at) and step.arrivals[j] <= last and step.heads[j + 1] <= oldest:
        j += 1
    return j


@inner
def new_index(queries: int) -> Ints:
    """Make room for where the loop stands."""
    return np.full(OLDEST_OF + (queries >> ALIKE) + 1, 0)


@leaf
def begin(runs: Runs, answers: Answers, stale: Ints, here: Ints) -> None:
    """Find the oldest row in any run, and the queries that were touched since the last evaluation."""
    for position in range(OLDEST_OF, len(here)):
        here[position] = FAR
    here[OLDEST] = FAR
    for q in range(len(runs.threshold)):
        age(here, q, runs.oldest[q])
        if answers.stale[q] == 1:
            stale[here[STALE]] = q
            here[STALE] += 1


@leaf
def _route(
    table: Queries,
    thresholds: Floats,
    columns: Floats,
    index: Index,
    slots: Ints,
    start: int,
    stop: int,
    hits: Hits,
    counters: Ints,
) -> bool:
    hits.size[0] = 0
    if start == stop:
        return True
    if index.listed:
        return route_by_lists(table, thresholds, columns, index, slots, start, stop, hits, counters)
    return route_by_scan(table, thresholds, columns, slots, start, stop, hits, counters)


@inlined
def take_in(
    rows: Rows,
    table: Queries,
    runs: Runs,
    answers: Answers,
    index: Index,
    step: Step,
    j: int,
    start: int,
    stop: int,
    hits: Hits,
    stale: Ints,
    here: Ints,
    counters: Ints,
) -> None:
    """Let arrivals before evaluation ``j`` into their cells and into the runs whose threshold they reach."""
    slots = step.arrived
    head = step.heads[j]
    if index.walked:
        cells = hits.cells[start - here[BLOCK_START] : stop - here[BLOCK_START]]
        for r in range(start, stop):
            upcoming = r - start + PREFETCH_DISTANCE
            if upcoming + PREFETCH_DISTANCE < len(cells):
                prefetch_end(index.points, cells[upcoming + PREFETCH_DISTANCE])
            if upcoming < len(cells):
                prefetch_behind(index.points, cells[upcoming])
            link(index.points, index.cells, rows.columns, slots[r], hits.cells[r - here[BLOCK_START]])
    h = here[HIT]
    while h < hits.size[0] and hits.row[h] < stop:
        if h + SOON < hits.size[0]:
            prefetch_run(runs, hits.query[h + SOON], runs.top[hits.query[h + SOON]])
        q = hits.query[h]
        if hits.key[h] >= runs.threshold[q]:
            slot = slots[hits.row[h]]
            rank = admit(runs, q, table.k[q], hits.key[h], rows.seq[slot], slot, head)
            counters[HITS] += 1
            age(here, q, rows.seq[slot])
            if rank < table.k[q]:
                _mark(answers, q, rank, stale, here)
        h += 1
    here[HIT] = h


@inlined
def release(
    rows: Rows,
    table: Queries,
    runs: Runs,
    answers: Answers,
    index: Index,
    step: Step,
    j: int,
    stale: Ints,
    here: Ints,
) -> None:
    """Take out what has expired before an evaluation."""
    if rows.fifo:
        head = step.heads[j + 1]
        if index.walked:
            for ordinal in range(step.heads[j], head):
                if ordinal + 2 * PREFETCH_DISTANCE < head:
                    prefetch_end(index.points, index.points.cell[(ordinal + 2 * PREFETCH_DISTANCE) & rows.mask])
                unlink(index.points, ordinal & rows.mask, True)
        if here[OLDEST] < head:
            here[OLDEST] = FAR
            for position in range(OLDEST_OF, len(here)):
                if here[position] < head:
                    here[position] = FAR
                    some = (position - OLDEST_OF) << ALIKE
                    last = min(some + (1 << ALIKE), len(runs.threshold))
                    for q in range(some, last):
                        if runs.oldest[q] < head:
                            prefetch_run(runs, q, runs.top[q])
                    for q in range(some, last):
                        if runs.oldest[q] < head:
                            rank = expire(runs, q, table.k[q], head)
                            if rank < table.k[q]:
                                _mark(answers, q, rank, stale, here)
                        here[position] = min(here[position], runs.oldest[q])
                here[OLDEST] = min(here[OLDEST], here[position])
    else:
        first = step.expiries[j - 1] if j > 0 else 0
        for e in range(first, step.expiries[j]):
            _withdraw(table, rows, runs, answers, index, step.expired[e], stale, here)


@leaf
def put_in_order(answers: Answers, stale: Ints, here: Ints) -> None:
    """Sort the stale queries: changes are reported in the order of their indices."""
    n = here[STALE]
    if n > 32:
        n = 0
        for q in range(len(answers.stale)):
            stale[n] = q
            n += answers.stale[q]
    else:
        for i in range(1, n):
            q = stale[i]
            position = i
            while position > 0 and stale[position - 1] > q:
                stale[position] = stale[position - 1]
                position -= 1
            stale[position] = q


@inlined
def evaluate(
    rows: Rows,
    table: Queries,
    runs: Runs,
    answers: Answers,
    index: Index,
    stale: Ints,
    start: int,
    stop: int,
    at: int,
    log: Log,
) -> int:
    """Report stale queries one after the other; return the index of the first that needs something before it can be."""
    for t in range(start, stop):
        if t + SOON < stop:
            prefetch_answer(answers, stale[t + SOON])
        q = stale[t]
        if runs.size[q] < table.k[q] and runs.whole[q] == 0:
            return t
        if index.listed and runs.room[q] > runs.target[q] and runs.threshold[q] > index.influence.level[q]:
            return t
        if log.size[0] + 2 * table.k[q] > len(log.key):
            return t
        report(answers, runs, rows, q, table.k[q], at, log)
    return stop


@leaf
def _fill(
    rows: Rows, table: Queries, runs: Runs, index: Index, q: int, head: int, moment: int, here: Ints, counters: Ints
) -> None:
    """Compute a starving run from scratch."""
    counters[FILLS] += 1
    ask_for_more(runs, q)
    if index.walked:
        fill_by_walk(table, q, rows, index.cells, index.reach, index.points, runs, counters)
    else:
        fill_by_scan(table, q, rows, head, moment, runs)
    age(here, q, runs.oldest[q])


@inlined
def age(here: Ints, q: int, oldest: int) -> None:
    """Note the age of a query's oldest row, or one that is no younger."""
    here[OLDEST] = min(here[OLDEST], oldest)
    position = OLDEST_OF + (q >> ALIKE)
    here[position] = min(here[position], oldest)


@inner
def _level(index: Index, table: Queries, q: int, threshold: float) -> Index:
    """Bring the influence lists up to a query's new threshold."""
    if not index.listed or index.influence.level[q] == threshold:
        return index
    influence = move_level(index.influence, index.cells, index.reach, table, q, threshold)
    return Index(index.cells, index.reach, influence, index.points, index.listed, index.walked, index.kind)


@inlined
def _mark(answers: Answers, q: int, rank: int, stale: Ints, here: Ints) -> None:
    """Note that a query's answer may have changed from a rank on."""
    if answers.stale[q] == 0:
        stale[here[STALE]] = q
        here[STALE] += 1
    touch(answers, q, rank)


@leaf
def _withdraw(
    table: Queries, rows: Rows, runs: Runs, answers: Answers, index: Index, slot: int, stale: Ints, here: Ints
) -> None:
    """Take a row that was replaced or deleted out of the runs that hold it."""
    if index.walked:
        unlink(index.points, slot, False)
    first = ZERO
    number = len(runs.threshold)
    if index.listed:
        cell = locate(index.cells, rows.columns, slot)
        first = index.influence.first[cell]
        number = index.influence.size[cell]
    for position in range(number):
        q = index.influence.pool[first + position] if index.listed else position
        key = score_row(table, q, rows.columns, slot)
        if key >= runs.threshold[q]:
            rank = remove(runs, q, table.k[q], key, rows.seq[slot])
            if rank < table.k[q]:
                _mark(answers, q, rank, stale, here)
