"""The loop of the top-k/w algorithms (TODS'15): arrivals, the recent buffer, expiries, evaluations.

Each query has a skyband and, with a buffer, a filter: a skyband of the buffer's rows. A row is offered to the skyband
when it arrives, if it is among the filter's best k, and again when it leaves the buffer (section 5). In between it
cannot become an answer: the rows that beat it live as long as it is in the buffer.

Rows are routed by the block, to the queries whose routing threshold they reach. When a query loses a row its threshold
may fall; then the remaining rows of the block are compared with it once more. A block is run without a reference count
(decision 1): whatever needs memory makes it return to :func:`run_skybands`.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.candidates import Buffer, Kept, Position, Work, any_noted, arrive, leave, release
from topwatch.algorithms.topk.kernels.find_rows import Counts, Hits, SlotRange, add_hits, new_hits, route_by_scan
from topwatch.algorithms.topk.kernels.influence import Lists, move_level, route_by_lists
from topwatch.algorithms.topk.kernels.skyband_kinds import Skybands, enlarged, full, tighten
from topwatch.algorithms.topk.kernels.sorted_runs import Answers, Runs, put_in_order, report
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, entry, inlined, inner, kernel, leaf, stepwise
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import Log, Rows, Step, with_room
from topwatch.core.kernels.scoring import BLOCK, Queries, inside, score_row

ROUTE, TAKE, LEAVE, EVALUATE = range(4)  # phases
PATIENCE = 32  # blocks that a query's lists lag behind


def new_work(queries: int, filtered: bool, begin: int, counts: Counts) -> Work:
    """Allocate what the loop needs for a step, whose first arrival has ordinal ``begin``."""
    most = BLOCK // 4 if filtered else BLOCK
    room = max(4096, 8 * queries)
    return Work(
        position=record(Position, full=-1, room=most, most=most),
        hits=new_hits(room),
        gone=new_hits(room if filtered else 1),
        leaving=np.empty(BLOCK, np.int64),
        begin=begin,
        stale=np.empty(queries, np.int64),
        moved=np.empty(queries, np.int64),
        marked=np.zeros(queries, np.int64),
        fell=np.empty(queries, np.int64),
        requested=np.zeros(queries, np.int64),
        subscribed=np.empty(queries),
        lagging=np.zeros(queries, np.int64),
        counts=counts,
    )


@stepwise
@entry
def first_report(answers: Answers, runs: Runs, rows: Rows, q: int, k: int, at: int, log: Log) -> None:
    """Log an answer as it is now; the log must have room for 2k changes."""
    report(answers, runs, rows, q, k, at, log)


@stepwise
@kernel
def run_skybands(
    rows: Rows, table: Queries, kept: Kept, lists: Lists | None, step: Step, log: Log, work: Work
) -> tuple[Skybands, Skybands, Lists | None, Log]:
    """Take a step: returns the skybands, the filters, the lists and the log, which may have moved to larger arrays."""
    here = work.position
    for q in range(len(kept.answers.stale)):
        if kept.answers.stale[q] == 1:
            work.stale[here.stale] = q
            here.stale += 1
    done = False
    while not done:
        done = _run(rows, table, kept, lists, step, log, work)
        if here.moved > 0 and (done or here.phase == ROUTE):
            lists = _follow(lists, table, kept, work)
        if here.full >= 0:
            main, filters = _enlarged(kept, here.full)
            kept = Kept(main, filters, kept.filtered, kept.buffer, kept.calendar, kept.answers)
            here.full = -1
        if here.missing > 0:
            log = with_room(log, here.missing)
            here.missing = 0
    return kept.main, kept.filters, lists, log


@leaf
def _run(rows: Rows, table: Queries, kept: Kept, lists: Lists | None, step: Step, log: Log, work: Work) -> bool:
    """Go on until a block is done, or memory is needed; True when the step is done."""
    here = work.position
    if here.phase == ROUTE:
        _route_block(rows, table, kept, lists, step.arrived, work)
        here.phase = TAKE
    while True:
        j = here.evaluation
        if here.phase == TAKE:
            if here.stale == 0:
                j = here.evaluation = _skip(rows.mask, kept, step, j, work)
            until = min(here.stop, step.arrivals[j]) if j < len(step.at) else here.stop
            _take_in(rows, table, kept, step.arrived, until, work)
            if here.full >= 0:
                return False
            if here.again == 1 or j == len(step.at) or step.arrivals[j] > here.arrival:
                here.phase = ROUTE
                return here.arrival == len(step.arrived) and j == len(step.at)
            here.phase = LEAVE
        if here.phase == LEAVE:
            while kept.filtered and _must_leave(kept.buffer, step.heads[j + 1], step.moment[j]):
                _take_out(rows, table, kept, work)
                if here.full >= 0:
                    return False
            release(rows, table, kept, step.heads[j], step.heads[j + 1], work)
            if here.fell > 0:
                _catch_up(rows, table, kept, step.arrived, work)
            if here.stale > 1:
                put_in_order(kept.answers, work.stale, here.stale)
            here.next_stale = 0
            here.phase = EVALUATE
        while here.next_stale < here.stale:
            q = work.stale[here.next_stale]
            if log.size[0] + 2 * table.k[q] > len(log.key):
                here.missing = 2 * table.k[q]
                return False
            report(kept.answers, kept.main.runs, rows, q, table.k[q], step.at[j], log)
            here.next_stale += 1
        here.stale = 0
        here.evaluation = j + 1
        here.phase = TAKE
        if here.again == 1:
            here.phase = ROUTE
            return False


@leaf
def _route_block(rows: Rows, table: Queries, kept: Kept, lists: Lists | None, slots: Ints, work: Work) -> None:
    """Find the queries that the arrivals of the next block concern, and the rows that leave the buffer for them.

    Lists may lag behind a query whose routing threshold fell: such a query is scored apart, until its lists are worth
    moving.
    """
    here = work.position
    bands = kept.filters if kept.filtered else kept.main
    if lists is None:
        tighten(bands)
    if here.again == 0 and 4 * max(work.hits.size[0], work.gone.size[0]) <= len(work.hits.row):
        here.room = min(here.most, 2 * here.room)
    here.hit = 0
    here.gone = 0
    low = here.leaving_from = kept.buffer.first
    while True:
        here.again = 0
        start = here.arrival
        stop = min(len(slots), start + here.room)
        here.stop = stop
        count = max(ZERO, work.begin + stop - kept.buffer.room - low) if kept.filtered and start < stop else ZERO
        here.leaving = count
        for t in range(count):
            work.leaving[t] = (low + t) & rows.mask
        for q in range(len(bands.routing)):
            work.subscribed[q] = bands.routing[q]
            if lists is not None and bands.routing[q] < lists.influence.level[q]:
                work.subscribed[q] = lists.influence.level[q]
        fits = _route_part(table, rows.columns, lists, SlotRange(slots, start, stop), work.hits, work)
        fits = fits and _route_part(table, rows.columns, lists, SlotRange(work.leaving, ZERO, count), work.gone, work)
        if lists is not None and fits and start < stop:
            _collect_lagging(bands.routing, work)
            if here.fell > 0:
                _catch_up(rows, table, kept, slots, work)
        if fits and here.again == 0:
            return
        here.room = max(1, here.room // 4)


@leaf
def _route_part(
    table: Queries, columns: Floats, lists: Lists | None, arrivals: SlotRange, hits: Hits, work: Work
) -> bool:
    hits.size[0] = 0
    if arrivals.start == arrivals.stop:
        return True
    if lists is not None:
        return route_by_lists(table, work.subscribed, columns, lists, arrivals, hits, work.counts)
    return route_by_scan(table, work.subscribed, columns, arrivals, hits, work.counts)


@inlined
def _collect_lagging(routing: Floats, work: Work) -> None:
    """Note the queries whose lists lag behind; lists that have done so for long are to be moved."""
    here = work.position
    for q in range(len(routing)):
        if routing[q] < work.subscribed[q] and work.requested[q] == 0:
            work.requested[q] = 1
            work.fell[here.fell] = q
            here.fell += 1
            work.lagging[q] += 1
            if work.lagging[q] > PATIENCE and work.marked[q] == 0:
                work.marked[q] = 1
                work.moved[here.moved] = q
                here.moved += 1


@leaf
def _catch_up(rows: Rows, table: Queries, kept: Kept, slots: Ints, work: Work) -> None:
    """Add the hits of queries whose routing threshold fell; the block is routed again if they do not fit."""
    here = work.position
    routing = kept.filters.routing if kept.filtered else kept.main.routing
    arrivals = SlotRange(slots, here.arrival, here.stop)
    gone = SlotRange(work.leaving, max(ZERO, kept.buffer.first - here.leaving_from), here.leaving)
    for t in range(here.fell):
        q = work.fell[t]
        high = work.subscribed[q]
        work.subscribed[q] = routing[q]
        work.requested[q] = 0
        work.counts.scores += arrivals.stop - arrivals.start
        if not add_hits(table, q, rows.columns, arrivals, routing[q], high, work.hits, here.hit):
            here.again = 1
        if kept.filtered and gone.start < gone.stop:
            work.counts.scores += gone.stop - gone.start
            if not add_hits(table, q, rows.columns, gone, routing[q], high, work.gone, here.gone):
                here.again = 1
    here.fell = 0


@inlined
def _next_gone(buffer: Buffer, work: Work, until: int) -> int:
    """Return the arrival at which the next row that concerns a query leaves the buffer, ``until`` where there is none.

    Rows that had to leave before are passed over.
    """
    here = work.position
    gone = work.gone
    while here.gone < gone.size[0]:
        ordinal = here.leaving_from + gone.row[here.gone]
        if ordinal >= buffer.first:
            return min(until, ordinal + buffer.room - work.begin)
        here.gone += 1
    return until


@inlined
def _next_hit(work: Work, until: int) -> int:
    here = work.position
    return min(until, work.hits.row[here.hit]) if here.hit < work.hits.size[0] else until


@inlined
def _must_leave(buffer: Buffer, head: int, last: int) -> bool:
    """Tell whether the buffer's first row must leave since rows that may have kept it out are about to expire."""
    return buffer.first <= last and buffer.first - buffer.room + 1 < head


@inlined
def _skip(mask: int, kept: Kept, step: Step, j: int, work: Work) -> int:
    """Return the next evaluation before which a row concerns a query, leaves or expires."""
    here = work.position
    buffer = kept.buffer
    last = min(_next_hit(work, here.stop), _next_gone(buffer, work, here.stop))
    while j < len(step.at) and step.arrivals[j] <= last:
        if any_noted(kept.calendar, step.heads[j], step.heads[j + 1], mask):
            return j
        if kept.filtered:
            first = (
                max(buffer.first, work.begin + step.arrivals[j] - buffer.room) if step.arrivals[j] > 0 else buffer.first
            )
            if first <= step.moment[j] and first - buffer.room + 1 < step.heads[j + 1]:
                return j
        j += 1
    return j


@inlined
def _take_in(rows: Rows, table: Queries, kept: Kept, slots: Ints, until: int, work: Work) -> None:
    """Let rows in, and out of the buffer, before arrival ``until``, or until a query needs more room."""
    here = work.position
    hits = work.hits
    gone = work.gone
    while here.again == 0:
        hit = _next_hit(work, until)
        goes = _next_gone(kept.buffer, work, until) if kept.filtered else until
        if goes <= hit and goes < until:
            here.arrival = goes
            row = gone.row[here.gone]
            while here.gone < gone.size[0] and gone.row[here.gone] == row:
                q = gone.query[here.gone]
                if full(kept.main, q):
                    here.full = q
                    return
                leave(kept, q, table.k[q], gone.key[here.gone], here.leaving_from + row, rows.mask, work)
                here.gone += 1
            kept.buffer.first = here.leaving_from + row + 1
            if here.fell > 0:
                _catch_up(rows, table, kept, slots, work)
        elif hit < until:
            here.arrival = hit
            q = hits.query[here.hit]
            if full(kept.main, q) or (kept.filtered and full(kept.filters, q)):
                here.full = q
                return
            arrive(kept, q, table.k[q], hits.key[here.hit], work.begin + hit, rows.mask, work)
            work.counts.hits += 1
            here.hit += 1
        else:
            here.arrival = until
            if kept.filtered:
                kept.buffer.first = max(kept.buffer.first, work.begin + until - kept.buffer.room)
            return


@leaf
def _take_out(rows: Rows, table: Queries, kept: Kept, work: Work) -> None:
    """Take the buffer's first row out, or begin to: a query may need more room before that can go on."""
    here = work.position
    ordinal = kept.buffer.first
    slot = ordinal & rows.mask
    for q in range(here.checked, len(table.k)):
        if table.k[q] == 0:
            continue
        key = score_row(table, q, rows.columns, slot)
        if key >= kept.filters.routing[q] and inside(table, q, rows.columns, slot):
            if full(kept.main, q):
                here.full = q
                here.checked = q
                return
            leave(kept, q, table.k[q], key, ordinal, rows.mask, work)
    here.checked = 0
    kept.buffer.first = ordinal + 1


@inner
def _enlarged(kept: Kept, q: int) -> tuple[Skybands, Skybands]:
    """Return the skybands and the filters with more room for a query where it needs it."""
    main = enlarged(kept.main, q) if full(kept.main, q) else kept.main
    filters = enlarged(kept.filters, q) if kept.filtered and full(kept.filters, q) else kept.filters
    return main, filters


@inner
def _follow(lists: Lists | None, table: Queries, kept: Kept, work: Work) -> Lists | None:
    """Bring the lists to the routing thresholds: at once to one that has risen, later to one that has fallen."""
    here = work.position
    count = here.moved
    here.moved = 0
    for t in range(count):
        work.marked[work.moved[t]] = 0
    if lists is None:
        return None
    routing = kept.filters.routing if kept.filtered else kept.main.routing
    moved = lists
    for t in range(count):
        q = work.moved[t]
        if routing[q] > moved.influence.level[q] or work.lagging[q] > PATIENCE:
            work.lagging[q] = 0
            moved = move_level(moved, table, q, routing[q])
    return moved
