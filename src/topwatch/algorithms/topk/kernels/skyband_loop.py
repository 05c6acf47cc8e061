"""The loop of the top-k/w algorithms (TODS'15): arrivals, the recent buffer, expiries, evaluations.

Each query has a skyband and, with a buffer, a filter: a skyband of the buffer's rows. A row is offered to the skyband
when it arrives, if it is among the filter's best k, and again when it leaves the buffer (section 5). In between it
cannot become an answer: the rows that beat it live as long as it is in the buffer.

Rows are routed a block ahead, by what queries listen to. When a query loses a row it may have to listen to more; then
the rest of the block is looked through for it once more.

A block is run without a reference count (decision 1): whatever needs memory makes it return to :func:`glide`.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.calendar import any_noted
from topwatch.algorithms.topk.kernels.candidates import (
    ARRIVAL,
    AT,
    EVALUATION,
    FELL,
    FULL,
    GONE,
    HIT,
    MOST,
    MOVED,
    PHASE,
    ROOM,
    SIZE,
    STALE,
    STOP,
    TURN,
    UNSUBSCRIBED,
    Kept,
    Todo,
    arrive,
    leave,
    release,
)
from topwatch.algorithms.topk.kernels.influence import Influence, move_level
from topwatch.algorithms.topk.kernels.report import Answers, report
from topwatch.algorithms.topk.kernels.route import Index, new_hits
from topwatch.algorithms.topk.kernels.route_block import PATIENCE, Report, catch_up, route_ahead
from topwatch.algorithms.topk.kernels.skyband_kinds import full, with_places
from topwatch.algorithms.topk.kernels.topk_loop import put_in_order
from topwatch.algorithms.topk.kernels.walk_cells import HITS
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf
from topwatch.core.kernels.rows import Log, Rows, Step, with_room
from topwatch.core.kernels.scoring import BLOCK, Ints, Queries, inside, score_row

ROUTE, TAKE, LEAVE, JUDGE = range(4)  # phases


@kernel
def glide(
    rows: Rows, table: Queries, kept: Kept, index: Index, step: Step, log: Log, counters: Ints
) -> tuple[Kept, Influence, Log]:
    """Take a step: returns what may have moved to larger arrays."""
    queries = len(table.k)
    todo = _new_todo(queries)
    room = max(4096, 8 * queries)
    result = Report(
        new_hits(room),
        new_hits(room if kept.filtered else 1),
        np.empty(BLOCK, np.int64),
        np.zeros(2, np.int64),
        _ordinal(rows, step.arrived),
    )
    here = np.zeros(16, np.int64)
    here[FULL] = -1
    here[MOST] = BLOCK // 4 if kept.filtered else BLOCK
    here[SIZE] = here[MOST]
    _begin(kept.answers, todo, here)
    while not _run(rows, table, kept, index, step, log, result, todo, here, counters):
        if here[MOVED] > 0 and here[PHASE] == ROUTE:
            index = _follow(index, table, kept, todo, here)
        if here[FULL] >= 0:
            kept = _with_places(kept, here)
        if here[ROOM] > 0:
            log = with_room(log, here[ROOM])
            here[ROOM] = 0
    if here[MOVED] > 0:
        index = _follow(index, table, kept, todo, here)
    return kept, index.influence, log


@leaf
def _run(
    rows: Rows,
    table: Queries,
    kept: Kept,
    index: Index,
    step: Step,
    log: Log,
    result: Report,
    todo: Todo,
    here: Ints,
    counters: Ints,
) -> bool:
    """Go on until a block is done, or memory is needed; True when the step is done."""
    if here[PHASE] == ROUTE:
        route_ahead(rows, table, kept, index, step.arrived, result, todo, here, counters)
        here[PHASE] = TAKE
    while True:
        j = here[EVALUATION]
        if here[PHASE] == TAKE:
            if here[STALE] == 0:
                j = here[EVALUATION] = _skip(rows.mask, kept, step, j, result, here)
            until = min(here[STOP], step.arrivals[j]) if j < len(step.at) else here[STOP]
            _take_in(rows, table, kept, step.arrived, until, result, todo, here, counters)
            if here[FULL] >= 0:
                return False
            if here[UNSUBSCRIBED] == 1 or j == len(step.at) or step.arrivals[j] > here[ARRIVAL]:
                here[PHASE] = ROUTE
                return here[ARRIVAL] == len(step.arrived) and j == len(step.at)
            here[PHASE] = LEAVE
        if here[PHASE] == LEAVE:
            while kept.filtered and _must_leave(kept.buffer, step.heads[j + 1], step.moment[j]):
                _let_out(rows, table, kept, todo, here)
                if here[FULL] >= 0:
                    return False
            release(rows, table, kept, step.heads[j], step.heads[j + 1], todo, here, counters)
            if here[FELL] > 0:
                catch_up(rows, table, kept, step.arrived, result, todo, here, counters)
            if here[STALE] > 1:
                put_in_order(kept.answers, todo.stale, here)
            here[TURN] = 0
            here[PHASE] = JUDGE
        while here[TURN] < here[STALE]:
            q = todo.stale[here[TURN]]
            if log.size[0] + 2 * table.k[q] > len(log.key):
                here[ROOM] = 2 * table.k[q]
                return False
            report(kept.answers, kept.main.runs, rows, q, table.k[q], step.at[j], log)
            here[TURN] += 1
        here[STALE] = 0
        here[EVALUATION] = j + 1
        here[PHASE] = TAKE
        if here[UNSUBSCRIBED] == 1:
            here[PHASE] = ROUTE
            return False


@inlined
def _ordinal(rows: Rows, arrived: Ints) -> int:
    return rows.seq[arrived[0]] if len(arrived) > 0 else ZERO


@inner
def _new_todo(queries: int) -> Todo:
    return Todo(
        np.empty(queries, np.int64),
        np.empty(queries, np.int64),
        np.zeros(queries, np.int64),
        np.empty(queries, np.int64),
        np.zeros(queries, np.int64),
        np.empty(queries, np.float64),
        np.zeros(queries, np.int64),
    )


@leaf
def _begin(answers: Answers, todo: Todo, here: Ints) -> None:
    for q in range(len(answers.stale)):
        if answers.stale[q] == 1:
            todo.stale[here[STALE]] = q
            here[STALE] += 1


@inlined
def _next_gone(buffer: Ints, result: Report, here: Ints, until: int) -> int:
    """Return the arrival at which the next row that concerns a query leaves the buffer, ``until`` where there is none.

    Rows that had to leave before are passed over.
    """
    gone = result.gone
    while here[GONE] < gone.size[0]:
        ordinal = result.low[0] + gone.row[here[GONE]]
        if ordinal >= buffer[0]:
            return min(until, ordinal + buffer[1] - result.begin)
        here[GONE] += 1
    return until


@inlined
def _next_hit(result: Report, here: Ints, until: int) -> int:
    return min(until, result.hits.row[here[HIT]]) if here[HIT] < result.hits.size[0] else until


@inlined
def _must_leave(buffer: Ints, head: int, last: int) -> bool:
    """Tell whether the buffer's first row must leave since rows that may have kept it out are about to expire."""
    return buffer[0] <= last and buffer[0] - buffer[1] + 1 < head


@inlined
def _skip(mask: int, kept: Kept, step: Step, j: int, result: Report, here: Ints) -> int:
    """Return the next evaluation before which a row concerns a query, leaves or expires."""
    buffer = kept.buffer
    last = min(_next_hit(result, here, here[STOP]), _next_gone(buffer, result, here, here[STOP]))
    while j < len(step.at) and step.arrivals[j] <= last:
        if any_noted(kept.calendar, step.heads[j], step.heads[j + 1], mask):
            return j
        if kept.filtered:
            first = max(buffer[0], result.begin + step.arrivals[j] - buffer[1]) if step.arrivals[j] > 0 else buffer[0]
            if first <= step.moment[j] and first - buffer[1] + 1 < step.heads[j + 1]:
                return j
        j += 1
    return j


@inlined
def _take_in(
    rows: Rows,
    table: Queries,
    kept: Kept,
    slots: Ints,
    until: int,
    result: Report,
    todo: Todo,
    here: Ints,
    counters: Ints,
) -> None:
    """Let rows in, and out of the buffer, before arrival ``until``, or until a query needs more room."""
    hits = result.hits
    gone = result.gone
    while here[UNSUBSCRIBED] == 0:
        hit = _next_hit(result, here, until)
        goes = _next_gone(kept.buffer, result, here, until) if kept.filtered else until
        if goes <= hit and goes < until:
            here[ARRIVAL] = goes
            row = gone.row[here[GONE]]
            while here[GONE] < gone.size[0] and gone.row[here[GONE]] == row:
                q = gone.query[here[GONE]]
                if full(kept.main, q):
                    here[FULL] = q
                    return
                leave(kept, q, table.k[q], gone.key[here[GONE]], result.low[0] + row, rows.mask, todo, here)
                here[GONE] += 1
            kept.buffer[0] = result.low[0] + row + 1
            if here[FELL] > 0:
                catch_up(rows, table, kept, slots, result, todo, here, counters)
        elif hit < until:
            here[ARRIVAL] = hit
            q = hits.query[here[HIT]]
            if full(kept.main, q) or (kept.filtered and full(kept.filters, q)):
                here[FULL] = q
                return
            arrive(kept, q, table.k[q], hits.key[here[HIT]], result.begin + hit, rows.mask, todo, here)
            counters[HITS] += 1
            here[HIT] += 1
        else:
            here[ARRIVAL] = until
            if kept.filtered:
                kept.buffer[0] = max(kept.buffer[0], result.begin + until - kept.buffer[1])
            return


@leaf
def _let_out(rows: Rows, table: Queries, kept: Kept, todo: Todo, here: Ints) -> None:
    """Let the buffer's first row leave, or begin to: a query may need more room before that can go on."""
    ordinal = kept.buffer[0]
    slot = ordinal & rows.mask
    for q in range(here[AT], len(table.k)):
        if table.k[q] == 0:
            continue
        key = score_row(table, q, rows.columns, slot)
        if key >= kept.filters.listen[q] and inside(table, q, rows.columns, slot):
            if full(kept.main, q):
                here[FULL] = q
                here[AT] = q
                return
            leave(kept, q, table.k[q], key, ordinal, rows.mask, todo, here)
    here[AT] = 0
    kept.buffer[0] = ordinal + 1


@inner
def _with_places(kept: Kept, here: Ints) -> Kept:
    """Give a query more room where it needs it."""
    q = here[FULL]
    here[FULL] = -1
    main = with_places(kept.main, q) if full(kept.main, q) else kept.main
    filters = with_places(kept.filters, q) if kept.filtered and full(kept.filters, q) else kept.filters
    return Kept(main, filters, kept.filtered, kept.buffer, kept.calendar, kept.answers)


@inner
def _follow(index: Index, table: Queries, kept: Kept, todo: Todo, here: Ints) -> Index:
    """Bring the lists up to what queries listen to: to less at once, to more when it has lasted."""
    listen = kept.filters.listen if kept.filtered else kept.main.listen
    influence = index.influence
    for t in range(here[MOVED]):
        q = todo.moved[t]
        todo.marked[q] = 0
        if index.listed and (listen[q] > influence.level[q] or todo.loud[q] > PATIENCE):
            todo.loud[q] = 0
            influence = move_level(influence, index.cells, index.reach, table, q, listen[q])
    here[MOVED] = 0
    return Index(index.cells, index.reach, influence, index.points, index.listed, index.walked, index.kind)
