"""The loop over many windows: each group of rows has a window, runs and answers of its own, in shared pools.

A group's rows are taken query by query, in blocks, so that what a query keeps for a group is read from memory once per
block and not once per row. Ten thousand groups cost ten thousand rounds of a compiled loop and no Python object.

Where a group is evaluated after each of its rows and none of a run expires within a block, the answer is the beginning
of the run before and after every row. So what a row changes is known when it has its rank, nothing is compared, and
what was last reported is brought up to date once for all rows of the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.find_rows import WIDTH, find_run
from topwatch.algorithms.topk.kernels.pages import (
    Batch,
    Evaluations,
    Pages,
    Span,
    append,
    count,
    fill_by_pages,
    plan,
    release,
)
from topwatch.algorithms.topk.kernels.run_updates import admit, expire
from topwatch.algorithms.topk.kernels.sorted_runs import QueryState, report, touch
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, entry, inlined, leaf, stepwise
from topwatch.core.kernels.memory import record
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, Rows, new_log, write
from topwatch.core.kernels.scoring import BLOCK, inside

LOG_FULL, SPARE_FULL, DONE = range(3)  # why :func:`drive_groups` returns
NEW = -1  # no block of the group has begun


class Position:
    """Where the loop stands in a batch: the fields of a record that kernels change."""

    group: int  # the next one, of those in the batch
    due: int  # how often it is evaluated
    start: int  # its next row
    evaluation: int  # its next evaluation
    line: int  # the log's first line of the block
    query: int  # the next one that takes the block
    row: int  # the block's next row for that query
    at: int  # and the next evaluation
    page: int  # where the group's window begins after the batch: page, index in it, rows held
    gone: int
    held: int


class GroupedWork(NamedTuple):
    """State of the loop within a batch, and memory that is used for each group again."""

    position: Position
    evaluations: Evaluations  # of the group
    ends: Ints  # by group: where its part of the log ends
    indices: Ints  # room for sorting by evaluation
    spare: Log  # room for the lines that are sorted
    columns: Floats  # values of a block, with room for as many more as are compared at once


class Block(NamedTuple):
    """Rows of one group, and the evaluations that they bring: both from a first one to before a last one."""

    group: int
    base: int  # first row of the group in the batch
    start: int
    stop: int
    first: int
    last: int
    tick: int  # of its first row
    columns: Floats  # its values: (columns, rows), and room behind them


def new_work(batch: Batch, span: Span) -> GroupedWork:
    """Allocate what the loop needs for a batch."""
    most = int(np.diff(batch.start).max(initial=0))
    at, taken, heads, of_row = (np.empty(size, np.int64) for size in (most, most, most + 1, most))
    return GroupedWork(
        position=record(Position, query=NEW),
        evaluations=Evaluations(at, taken, heads, of_row, each=span.every == 1 and len(batch.at) == 0),
        ends=np.empty(len(batch.group), np.int64),
        indices=np.empty(BLOCK + 1, np.int64),
        spare=new_log(256),
        columns=np.empty((batch.rows.shape[1], BLOCK + WIDTH)),
    )


@stepwise
@entry
def drive_groups(
    pages: Pages, batch: Batch, span: Span, state: QueryState, rows: Rows, log: Log, work: GroupedWork
) -> int:
    """Take in rows until the log or the room for sorting it is full, or all are taken. There must be free pages.

    ``rows`` is an imaginary window, in which a row's slot is its tick.
    """
    queries = len(state.table.k)
    evaluations = work.evaluations
    here = work.position
    follow = batch.group[:0]
    while here.group < len(batch.group):
        i = here.group
        g = batch.group[i]
        base = batch.start[i]
        stop = batch.start[i + 1]
        if here.query == NEW:
            count(pages, batch, i)
            append(pages, batch, i, follow)
            here.due, here.page, here.gone, here.held = plan(pages, batch, span, i, evaluations)
            here.start = base
            here.evaluation = 0
            _begin_block(log, work)
        while here.start < stop:
            behind = min(stop, here.start + BLOCK)
            j = here.evaluation
            j_end = j
            while j_end < here.due and evaluations.taken[j_end] <= behind - base:
                j_end += 1
            if here.query < queries:
                _transpose(batch.rows, here.start, behind, work.columns)
                block = Block(g, base, here.start, behind, j, j_end, batch.tick + here.start, work.columns)
                _take_block(pages, state, rows, log, block, work)
                if here.query < queries:
                    return LOG_FULL
            lines = log.size[0] - here.line
            if lines > 1 and j_end > j + 1:
                if lines > len(work.spare.key):
                    return SPARE_FULL
                _by_evaluation(log, here.line, j, work.indices[: j_end - j + 1], work.spare)
            for line in range(here.line, log.size[0]):
                log.what[line, 0] = evaluations.at[log.what[line, 0]]
            here.start = behind
            here.evaluation = j_end
            _begin_block(log, work)
        release(pages, g, here.page, here.gone, here.held)
        work.ends[i] = log.size[0]
        here.group = i + 1
        here.query = NEW
    return DONE


@inlined
def _begin_block(log: Log, work: GroupedWork) -> None:
    here = work.position
    here.line = log.size[0]
    here.query = 0
    here.row = here.start
    here.at = here.evaluation


@inlined
def _transpose(rows: Floats, start: int, stop: int, columns: Floats) -> None:
    """Write the values of some rows column by column."""
    for r in range(stop - start):
        for c in range(len(columns)):
            columns[c, r] = rows[start + r, c]


@leaf
def _take_block(pages: Pages, state: QueryState, rows: Rows, log: Log, block: Block, work: GroupedWork) -> None:
    """Take a block of rows query by query, until all are processed or the log has no room for one."""
    here = work.position
    queries = len(state.table.k)
    for q in range(here.query, queries):
        if state.table.k[q] > 0 and not _take_for_query(pages, state, rows, q, log, block, work):
            here.query = q
            return
        here.row = block.start
        here.at = block.first
    here.query = queries


@inlined
def _take_for_query(
    pages: Pages, state: QueryState, rows: Rows, q: int, log: Log, block: Block, work: GroupedWork
) -> bool:
    """Take a block's rows into one query's run, and report it; False when the log has no room."""
    table, runs, answers = state
    here = work.position
    evaluations = work.evaluations
    k = table.k[q]
    run = block.group * len(table.k) + q
    first = here.row  # rows from here on are compared with the threshold as it is
    j = here.at
    size = _find_hits(state, q, run, block, first)
    t = ZERO
    while True:
        if answers.stale[run] == 0 and runs.oldest[run] >= evaluations.heads[block.last]:
            # Nothing happens before the next row that reaches the threshold.
            if t == size:
                return True
            row = first + table.rows[t]
            if _all_stay(evaluations, block, row) and log.size[0] + 2 * (size - t) <= len(log.key):
                _admit_singly(state, q, block, first, t, size, evaluations, log)
                return True
            j = min(block.last, evaluations.of_row[row - block.base])
        until = min(block.stop, block.base + evaluations.taken[j]) if j < block.last else block.stop
        while t < size and first + table.rows[t] < until:
            row = first + table.rows[t] - block.start
            key = table.keys[t]
            if key >= runs.threshold[run] and inside(table, q, block.columns, row):
                rank = admit(runs, run, k, key, block.tick + row, ZERO, evaluations.heads[j])
                if rank < k:
                    touch(answers, run, rank)
            t += 1
        if j == block.last:
            return True
        head = evaluations.heads[j + 1]
        if runs.oldest[run] < head:
            rank = expire(runs, run, k, head)
            if rank < k:
                touch(answers, run, rank)
        if answers.stale[run] == 1:
            if log.size[0] + 2 * k > len(log.key):
                here.row = until
                here.at = j
                return False
            if runs.size[run] < k and runs.whole[run] == 0:
                fill_by_pages(table, q, pages, block.group, head, block.tick + until - block.start - 1, runs, run)
                # The threshold may be lower now.
                first = until
                size = _find_hits(state, q, run, block, first)
                t = ZERO
            _report_as(state, rows, q, run, j, log)
        j += 1


@inlined
def _report_as(state: QueryState, rows: Rows, q: int, run: int, at: int, log: Log) -> None:
    """Log the changes of a run as those of its query."""
    line = log.size[0]
    report(state.answers, state.runs, rows, run, state.table.k[q], at, log)
    while line < log.size[0]:
        log.what[line, 1] = q
        line += 1


@inlined
def _find_hits(state: QueryState, q: int, run: int, block: Block, first: int) -> int:
    """Find the rows of a block, from ``first`` on, that reach a run's threshold; return how many."""
    if first == block.stop:
        return ZERO
    runs = state.runs
    dense = runs.whole[run] == 1  # a run that holds all rows lets all in
    start = first - block.start
    return find_run(state.table, q, block.columns, start, block.stop - first, runs.threshold[run], dense)


@inlined
def _all_stay(evaluations: Evaluations, block: Block, row: int) -> bool:
    """Tell whether every row is evaluated, and none from ``row`` on expires within its block."""
    return evaluations.each and block.tick + row - block.start >= evaluations.heads[block.last]


@inlined
def _admit_singly(
    state: QueryState, q: int, block: Block, first: int, t: int, size: int, evaluations: Evaluations, log: Log
) -> None:
    """Take in the hits from the t-th on for a run that has nothing to report, and log what each changes.

    None of them and of the run may expire within the block; the log must have room for two lines of each. ``first`` is
    the row from which on ``table.rows`` counts.
    """
    table, runs = state.table, state.runs
    run = block.group * len(table.k) + q
    k = table.k[q]
    index = runs.first[run]
    best = k
    while t < size:
        row = first - block.start + table.rows[t]
        key = table.keys[t]
        if key >= runs.threshold[run] and inside(table, q, block.columns, row):
            j = evaluations.of_row[block.start - block.base + row]
            full = runs.size[run] >= k
            last_key = runs.key[index + k - 1]
            last_seq = runs.seq[index + k - 1]
            rank = admit(runs, run, k, key, block.tick + row, ZERO, evaluations.heads[j])
            if rank < k:
                if full:
                    write(log, j, q, LEAVE, last_seq, last_key)
                write(log, j, q, ENTER, block.tick + row, key)
                best = min(best, rank)
        t += 1
    if best < k:
        _remember(state, run, k, best)


@inlined
def _remember(state: QueryState, run: int, k: int, best: int) -> None:
    """Let the answer be the beginning of its run, from a rank on; the rows before it are the same."""
    runs, answers = state.runs, state.answers
    a = answers.first[run]
    b = runs.first[run]
    new = min(k, runs.size[run])
    for i in range(best, new):
        answers.key[a + i] = runs.key[b + i]
        answers.seq[a + i] = runs.seq[b + i]
    answers.size[run] = new


@leaf
def _by_evaluation(log: Log, start: int, first: int, indices: Ints, spare: Log) -> None:
    """Sort the log's lines from ``start`` on by evaluation; those of one stay in the order of their queries."""
    n = log.size[0] - start
    for line in range(n):
        spare.key[line] = log.key[start + line]
        for c in range(4):
            spare.what[line, c] = log.what[start + line, c]
    indices[:] = 0
    for line in range(n):
        indices[spare.what[line, 0] - first + 1] += 1
    for t in range(1, len(indices)):
        indices[t] += indices[t - 1]
    for line in range(n):
        t = spare.what[line, 0] - first
        to = start + indices[t]
        indices[t] += 1
        log.key[to] = spare.key[line]
        for c in range(4):
            log.what[to, c] = spare.what[line, c]


@entry
def refill(pages: Pages, batch: Batch, ticks: Ints, evaluated: Ints, state: QueryState) -> None:
    """Write saved rows into their windows and fill all runs from them, and the answers from those up to some ticks."""
    table = state.table
    for i in range(len(batch.group)):
        g = batch.group[i]
        count(pages, batch, i)
        append(pages, batch, i, ticks)
        for q in range(len(table.k)):
            if table.k[q] != 0:
                head = ticks[batch.start[i]]
                last = ticks[batch.start[i + 1] - 1]
                run = g * len(table.k) + q
                fill_by_pages(table, q, pages, g, head, evaluated[i], state.runs, run)
                _remember(state, run, table.k[q], ZERO)
                if evaluated[i] < last:
                    fill_by_pages(table, q, pages, g, head, last, state.runs, run)
