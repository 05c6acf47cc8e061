"""The loop over many windows: each group of rows has a window, runs and answers of its own, in shared pools.

A group's rows are taken query by query, in blocks, so that what a query keeps for a group is fetched once per block and
not once per row. Ten thousand groups cost ten thousand turns of a compiled loop and no Python object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.bits import WIDTH
from topwatch.algorithms.topk.kernels.find_rows import find_run
from topwatch.algorithms.topk.kernels.grouped_rows import Block, Turns, admit_singly, all_stay
from topwatch.algorithms.topk.kernels.pages import PAGE, Arrivals, Pages, append, count, fill_by_pages, release
from topwatch.algorithms.topk.kernels.report import Answers, report, touch
from topwatch.algorithms.topk.kernels.run_updates import admit, expire
from topwatch.algorithms.topk.kernels.sorted_runs import Runs
from topwatch.core.jit import ZERO, inlined, kernel, leaf, prefetch
from topwatch.core.kernels.rows import Log, Rows, with_room
from topwatch.core.kernels.scoring import BLOCK, Floats, Ints, Queries, inside


class Span(NamedTuple):
    """How far windows reach, and how often they are evaluated."""

    rows: int  # 0: by time
    span: int  # nanoseconds
    every: int


# Where the loop stands: the group and how often it is evaluated, its next row and evaluation, the log's line before
# them; within a block the query, and the row and evaluation at which it stands; then where the group's window begins.
GROUP, EVALUATED, START, TURN, LINE, QUERY, ROW, AT, PAGE_NOW, GONE, HELD = range(11)
NEW, DONE = -1, 1  # no block of the group has begun; all groups have been processed


@kernel
def drive_all(
    pages: Pages,
    arrivals: Arrivals,
    span: Span,
    table: Queries,
    runs: Runs,
    answers: Answers,
    none: Rows,
    log: Log,
) -> tuple[Log, Ints]:
    """Take in rows; return the log, and where each group's part of it ends. There must be free pages."""
    groups = len(arrivals.group)
    ends = np.empty(groups, np.int64)
    most = ZERO
    for i in range(groups):
        most = max(most, arrivals.start[i + 1] - arrivals.start[i])
    turns = Turns(
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most + 1, np.int64),
        np.empty(most, np.int64),
        span.every == 1 and len(arrivals.at) == 0,
    )
    room = Room(
        np.empty(BLOCK + 1, np.int64),
        np.empty((256, 4), np.int64),
        np.empty(256),
        np.empty(BLOCK, np.int64),
        np.empty((arrivals.rows.shape[1], BLOCK + WIDTH)),
    )
    here = np.zeros(11, np.int64)
    here[QUERY] = NEW
    while True:
        result = _go_on(pages, arrivals, span, table, runs, answers, none, log, turns, room, here, ends)
        if result == DONE:
            return log, ends
        if result < 0:  # lines that are put in order need room beside
            size = 2 * (log.size[0] - here[LINE])
            room = Room(room.indices, np.empty((size, 4), np.int64), np.empty(size), room.hits, room.columns)
        else:
            log = with_room(log, 2 * table.k[here[QUERY]])


class Room(NamedTuple):
    """Memory that is used for each group again."""

    indices: Ints  # of evaluations
    what: Ints
    key: Floats
    hits: Ints
    columns: Floats  # values of a block, with room for as many more as are looked at together


@leaf
def _go_on(
    pages: Pages,
    arrivals: Arrivals,
    span: Span,
    table: Queries,
    runs: Runs,
    answers: Answers,
    none: Rows,
    log: Log,
    turns: Turns,
    room: Room,
    here: Ints,
    ends: Ints,
) -> int:
    """Go on without a reference count (decision 1) until memory is needed: 0 for the log, -1 beside it."""
    queries = len(table.k)
    follow = arrivals.group[:0]
    while here[GROUP] < len(arrivals.group):
        i = here[GROUP]
        g = arrivals.group[i]
        base = arrivals.start[i]
        stop = arrivals.start[i + 1]
        if here[QUERY] == NEW:
            if i + 1 < len(arrivals.group):
                _ask_for(pages, runs, answers, arrivals.group[i + 1], queries)
            count(pages, arrivals, i)
            if not arrivals.later:
                append(pages, arrivals, i, follow)
            here[EVALUATED] = _plan(pages, arrivals, span, i, turns, here)
            here[START] = base
            here[TURN] = 0
            _begin_block(log, here)
        while here[START] < stop:
            behind = min(stop, here[START] + BLOCK)
            j = here[TURN]
            j_end = j
            while j_end < here[EVALUATED] and turns.taken[j_end] <= behind - base:
                j_end += 1
            if here[QUERY] < queries:
                _turn_over(arrivals.rows, here[START], behind, room.columns)
                block = Block(g, base, here[START], behind, j, j_end, arrivals.tick + here[START], room.columns)
                _serve_block(pages, turns, table, runs, answers, none, log, block, room.hits, here)
                if here[QUERY] < queries:
                    return 0
            lines = log.size[0] - here[LINE]
            if lines > 1 and j_end > j + 1:
                if lines > len(room.key):
                    return -1
                _by_evaluation(log, here[LINE], j, room.indices[: j_end - j + 1], room)
            for line in range(here[LINE], log.size[0]):
                log.what[line, 0] = turns.at[log.what[line, 0]]
            here[START] = behind
            here[TURN] = j_end
            _begin_block(log, here)
        release(pages, g, here[PAGE_NOW], here[GONE], here[HELD])
        ends[i] = log.size[0]
        here[GROUP] = i + 1
        here[QUERY] = NEW
    return DONE


@inlined
def _begin_block(log: Log, here: Ints) -> None:
    here[LINE] = log.size[0]
    here[QUERY] = 0
    here[ROW] = here[START]
    here[AT] = here[TURN]


@inlined
def _turn_over(rows: Floats, start: int, stop: int, columns: Floats) -> None:
    """Transpose the values of some rows."""
    for r in range(stop - start):
        for c in range(len(columns)):
            columns[c, r] = rows[start + r, c]


@inlined
def _ask_for(pages: Pages, runs: Runs, answers: Answers, g: int, queries: int) -> None:
    """Prefetch what the next group has, which lies anywhere in memory, while the one before it is processed."""
    a = g * queries
    b = a + queries - 1
    for index in range(runs.first[a], runs.first[b] + runs.room[b], 8):
        prefetch(runs.key, index)
        prefetch(runs.seq, index)
    for index in range(answers.first[a], answers.first[b] + 8, 8):
        prefetch(answers.key, index)
        prefetch(answers.seq, index)
    for index in range(a, b + 8, 8):
        prefetch(runs.size, index)
        prefetch(runs.threshold, index)
        prefetch(runs.whole, index)
        prefetch(runs.top, index)
        prefetch(runs.oldest, index)
        prefetch(answers.size, index)
        prefetch(answers.stale, index)
        prefetch(answers.since, index)
    prefetch(pages.after, max(ZERO, pages.last[g]))


@leaf
def _serve_block(
    pages: Pages,
    turns: Turns,
    table: Queries,
    runs: Runs,
    answers: Answers,
    none: Rows,
    log: Log,
    block: Block,
    hits: Ints,
    here: Ints,
) -> None:
    """Take a block of rows query by query, until all are processed or the log has no room for one."""
    queries = len(table.k)
    base = block.base
    behind = block.stop
    j_end = block.last
    for q in range(here[QUERY], queries):
        k = table.k[q]
        if k == 0:
            continue
        run = block.group * queries + q
        first = here[ROW]  # rows from here on are looked at with the threshold as it is
        j = here[AT]
        size = _hits(table, q, block, first, runs, run, hits)
        t = ZERO
        while True:
            if answers.stale[run] == 0 and runs.oldest[run] >= turns.heads[j_end]:
                # Nothing happens before the next row that reaches the threshold.
                if t == size:
                    break
                if all_stay(turns, block, first + hits[t]) and log.size[0] + 2 * (size - t) <= len(log.key):
                    admit_singly(table, q, turns, block, first, runs, run, answers, log, hits[:size], t)
                    break
                j = min(j_end, turns.of_row[first + hits[t] - base])
            until = min(behind, base + turns.taken[j]) if j < j_end else behind
            while t < size and first + hits[t] < until:
                row = first + hits[t]
                key = table.keys[t]
                if key >= runs.threshold[run] and inside(table, q, block.columns, row - block.start):
                    rank = admit(runs, run, k, key, block.tick + row - block.start, ZERO, turns.heads[j])
                    if rank < k:
                        touch(answers, run, rank)
                t += 1
            if j == j_end:
                break
            head = turns.heads[j + 1]
            if runs.oldest[run] < head:
                rank = expire(runs, run, k, head)
                if rank < k:
                    touch(answers, run, rank)
            if answers.stale[run] == 1:
                if log.size[0] + 2 * k > len(log.key):
                    here[QUERY] = q
                    here[ROW] = until
                    here[AT] = j
                    return
                if runs.size[run] < k and runs.whole[run] == 0:
                    _fill(table, q, pages, block.group, head, block.tick + until - block.start - 1, runs, run)
                    # The threshold may be lower now.
                    first = until
                    size = _hits(table, q, block, first, runs, run, hits)
                    t = ZERO
                line = log.size[0]
                report(answers, runs, none, run, k, j, log)
                while line < log.size[0]:
                    log.what[line, 1] = q
                    line += 1
            j += 1
        here[ROW] = block.start
        here[AT] = block.turn
    here[QUERY] = queries


@inlined
def _hits(table: Queries, q: int, block: Block, first: int, runs: Runs, run: int, hits: Ints) -> int:
    """Find the rows of a block, from ``first`` on, that reach the threshold, and their keys; return how many."""
    if first == block.stop:
        return ZERO
    dense = runs.whole[run] == 1  # a run that holds all rows lets all in
    keys = table.keys[: block.stop - first]
    return find_run(table, q, block.columns, first - block.start, runs.threshold[run], dense, keys, hits)


@leaf
def _fill(table: Queries, q: int, pages: Pages, g: int, head: int, moment: int, runs: Runs, run: int) -> None:
    fill_by_pages(table, q, pages, g, head, moment, runs, run)


@inlined
def _plan(pages: Pages, arrivals: Arrivals, span: Span, i: int, turns: Turns, here: Ints) -> int:
    """Compute when a group is evaluated and which row is the first live one then; return how often.

    Where its window begins after that is noted in ``here``: page, index in it, rows held.
    """
    g = arrivals.group[i]
    n = arrivals.start[i + 1] - arrivals.start[i]
    before = pages.end[g] - n
    page = pages.first[g]
    gone = pages.gone[g]
    held = pages.held[g]  # from here to the last row
    turns.heads[0] = pages.tick[page, gone] if page >= 0 else ZERO  # rows that come are not written yet
    here[PAGE_NOW] = page
    here[GONE] = gone
    here[HELD] = held
    if turns.each and span.rows > 0 and held <= span.rows:
        _plan_growth(turns, before, n)
        return n
    evaluations = ZERO
    start = arrivals.start[i]
    chosen = len(arrivals.at) > 0
    row = ZERO if chosen else span.every - before % span.every - 1
    seen = ZERO
    while row < n:
        if chosen and arrivals.at[start + row] < 0:
            row += 1
            continue
        if span.rows > 0:
            steps = max(ZERO, held - (n - row - 1) - span.rows)
            held -= steps
            gone += steps
            while gone >= PAGE:
                gone -= PAGE
                page = pages.after[page]
        else:
            oldest = arrivals.time[start + row] - span.span
            while pages.time[page, gone] <= oldest:
                held -= 1
                gone += 1
                if gone == PAGE:
                    gone = ZERO
                    page = pages.after[page]
        turns.at[evaluations] = arrivals.at[start + row] if chosen else before + row + 1
        turns.taken[evaluations] = row + 1
        while seen <= row:
            turns.of_row[seen] = evaluations
            seen += 1
        evaluations += 1
        turns.heads[evaluations] = pages.tick[page, gone] if page >= 0 else ZERO
        row += 1 if chosen else span.every
    while seen < n:
        turns.of_row[seen] = evaluations
        seen += 1
    here[PAGE_NOW] = page
    here[GONE] = gone
    here[HELD] = held
    return evaluations


@inlined
def _plan_growth(turns: Turns, before: int, n: int) -> None:
    """Plan an evaluation after each row, while no row expires."""
    for row in range(n):
        turns.at[row] = before + row + 1
    for row in range(n):
        turns.taken[row] = row + 1
    for row in range(n):
        turns.of_row[row] = row
    for row in range(n):
        turns.heads[row + 1] = turns.heads[0]


@leaf
def _by_evaluation(log: Log, start: int, first: int, indices: Ints, room: Room) -> None:
    """Sort the log's lines from ``start`` on by evaluation; those of one stay in the order of their queries."""
    n = log.size[0] - start
    what = room.what
    keys = room.key
    for line in range(n):
        keys[line] = log.key[start + line]
        for c in range(4):
            what[line, c] = log.what[start + line, c]
    indices[:] = 0
    for line in range(n):
        indices[what[line, 0] - first + 1] += 1
    for t in range(1, len(indices)):
        indices[t] += indices[t - 1]
    for line in range(n):
        t = what[line, 0] - first
        to = start + indices[t]
        indices[t] += 1
        log.key[to] = keys[line]
        for c in range(4):
            log.what[to, c] = what[line, c]


@kernel
def refill(pages: Pages, arrivals: Arrivals, ticks: Ints, table: Queries, runs: Runs) -> None:
    """Write saved rows into their windows and fill all runs from them."""
    for i in range(len(arrivals.group)):
        g = arrivals.group[i]
        count(pages, arrivals, i)
        append(pages, arrivals, i, ticks)
        for q in range(len(table.k)):
            if table.k[q] != 0:
                last = ticks[arrivals.start[i + 1] - 1]
                _fill(table, q, pages, g, ticks[arrivals.start[i]], last, runs, g * len(table.k) + q)
