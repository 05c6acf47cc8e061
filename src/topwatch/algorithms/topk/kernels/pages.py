"""The windows of many groups, in pages that all of them share, and when their answers are evaluated.

A group's rows lie in a chain of pages, oldest first. Pages are small, so that a million groups of a few rows are cheap,
and none ever moves: a window grows by a page at its end and gives one back at its beginning. Cost: O(1) per row.
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.algorithms.topk.kernels.find_rows import find_run
from topwatch.algorithms.topk.kernels.scan_window import offer, start_filling
from topwatch.algorithms.topk.kernels.sorted_runs import Runs
from topwatch.core.arrays import EARLIEST, Floats, Ints
from topwatch.core.jit import ZERO, entry, inlined, leaf
from topwatch.core.kernels.scoring import Queries, inside

PAGE = 32  # rows
FIRST, FREE, USED = range(3)  # the first free page or -1, how many are free, how many have ever been used


class Batch(NamedTuple):
    """A batch, sorted by group: the rows of ``group[i]`` lie from ``start[i]`` to ``start[i + 1]``."""

    group: Ints
    start: Ints
    rows: Floats  # (rows, columns)
    tick: int  # of the first row; the others follow
    time: Ints  # nanoseconds; empty in windows of a number of rows
    at: Ints  # what an evaluation after the row is called, -1 where there is none; empty: evaluated as usual


class Pages(NamedTuple):
    """Chains of pages by group, and the pages."""

    first: Ints  # page of the oldest row held, -1 before the first row
    last: Ints  # page of the newest
    gone: Ints  # rows at the beginning of the first page that are not held any more
    fill: Ints  # rows in the last page
    held: Ints  # rows held
    end: Ints  # rows that came so far: the ordinal of the newest
    after: Ints  # the page behind a page, of its group or among the free ones
    values: Floats  # (pages, columns, PAGE)
    tick: Ints  # (pages, PAGE): number of the row among those of all groups
    time: Ints  # (pages, PAGE), or (0, PAGE)
    free: Ints  # by FIRST, FREE, USED


class Span(NamedTuple):
    """How far windows reach, and how often they are evaluated."""

    rows: int  # 0: by time
    span: int  # nanoseconds
    every: int


class Evaluations(NamedTuple):
    """The evaluations of one group in a batch."""

    at: Ints  # ordinal of the last row
    taken: Ints  # rows of the batch before it
    heads: Ints  # tick of the first live row: at the evaluation before the batch, then per evaluation
    of_row: Ints  # for each row of the batch the first evaluation that sees it
    each: bool  # every row is evaluated


@inlined
def count(pages: Pages, batch: Batch, i: int) -> None:
    """Count the rows of the i-th group of a batch."""
    n = batch.start[i + 1] - batch.start[i]
    pages.held[batch.group[i]] += n
    pages.end[batch.group[i]] += n


@inlined
def append(pages: Pages, batch: Batch, i: int, ticks: Ints) -> None:
    """Write the rows of the i-th group of a batch behind its others; ``ticks`` is empty where they follow."""
    g = batch.group[i]
    start = batch.start[i]
    stop = batch.start[i + 1]
    row = start
    while row < stop:
        if pages.last[g] < 0 or pages.fill[g] == PAGE:
            _chain(pages, g)
        page = pages.last[g]
        fill = pages.fill[g]
        n = min(stop - row, PAGE - fill)
        for r in range(n):
            for c in range(batch.rows.shape[1]):
                pages.values[page, c, fill + r] = batch.rows[row + r, c]
        for r in range(n):
            pages.tick[page, fill + r] = ticks[row + r] if len(ticks) > 0 else batch.tick + row + r
        if len(pages.time) > 0:
            for r in range(n):
                pages.time[page, fill + r] = batch.time[row + r]
        pages.fill[g] = fill + n
        row += n


@inlined
def _chain(pages: Pages, g: int) -> None:
    """Hang a free page behind a group's last one. There must be one."""
    page = pages.free[FIRST]
    if page >= 0:
        pages.free[FIRST] = pages.after[page]
        pages.free[FREE] -= 1
    else:
        page = pages.free[USED]
        pages.free[USED] = page + 1
    if pages.last[g] < 0:
        pages.first[g] = page
    else:
        pages.after[pages.last[g]] = page
    pages.after[page] = -1
    pages.last[g] = page
    pages.fill[g] = 0


@inlined
def release(pages: Pages, g: int, page: int, gone: int, count: int) -> None:
    """Let a group's window begin at an index in one of its pages; the pages before it become free."""
    while pages.first[g] != page:
        old = pages.first[g]
        pages.first[g] = pages.after[old]
        pages.after[old] = pages.free[FIRST]
        pages.free[FIRST] = old
        pages.free[FREE] += 1
    pages.gone[g] = gone
    pages.held[g] = count


@leaf
def fill_by_pages(table: Queries, q: int, pages: Pages, g: int, head: int, moment: int, runs: Runs, run: int) -> None:
    """Fill a run with the best ``target`` rows of a group whose ticks are from ``head`` to ``moment``."""
    start_filling(runs, run)
    page = pages.first[g]
    low = pages.gone[g]
    while page >= 0:
        high = pages.fill[g] if page == pages.last[g] else ZERO + PAGE
        while low < high and pages.tick[page, low] < head:
            low += 1
        while low < high and pages.tick[page, high - 1] > moment:
            high -= 1
        if low < high:
            columns = pages.values[page]
            for i in range(find_run(table, q, columns, low, high - low, runs.threshold[run], True)):
                row = low + table.rows[i]
                if table.keys[i] >= runs.threshold[run] and inside(table, q, columns, row):
                    offer(runs, run, table.keys[i], pages.tick[page, row], ZERO)
        page = pages.after[page]
        low = ZERO


@entry
def gather(pages: Pages, groups: int, columns: Floats, ticks: Ints, times: Ints) -> None:
    """Copy all rows out: group by group, oldest first."""
    row = ZERO
    for g in range(groups):
        page = pages.first[g]
        low = pages.gone[g]
        while page >= 0:
            high = pages.fill[g] if page == pages.last[g] else ZERO + PAGE
            for r in range(low, high):
                for c in range(columns.shape[0]):
                    columns[c, row] = pages.values[page, c, r]
                ticks[row] = pages.tick[page, r]
                if len(pages.time) > 0:
                    times[row] = pages.time[page, r]
                row += 1
            page = pages.after[page]
            low = ZERO


@inlined
def plan(pages: Pages, batch: Batch, span: Span, i: int, evaluations: Evaluations) -> tuple[int, int, int, int]:
    """Compute when the i-th group is evaluated and which row is the first live one then.

    Returns how often, and where its window begins after that: page, index in it, rows held.
    """
    g = batch.group[i]
    n = batch.start[i + 1] - batch.start[i]
    before = pages.end[g] - n
    page = pages.first[g]
    gone = pages.gone[g]
    held = pages.held[g]  # from here to the last row
    evaluations.heads[0] = pages.tick[page, gone] if page >= 0 else ZERO  # rows that come are not written yet
    if evaluations.each and span.rows > 0 and held <= span.rows:
        _plan_growth(evaluations, before, n)
        return n, page, gone, held
    due = ZERO
    start = batch.start[i]
    chosen = len(batch.at) > 0
    row = ZERO if chosen else span.every - before % span.every - 1
    seen = ZERO
    while row < n:
        if chosen and batch.at[start + row] < 0:
            row += 1
            continue
        if span.rows > 0:
            more = max(ZERO, held - (n - row - 1) - span.rows)
            held -= more
            gone += more
            while gone >= PAGE:
                gone -= PAGE
                page = pages.after[page]
        else:
            oldest = max(batch.time[start + row], EARLIEST + span.span) - span.span
            while pages.time[page, gone] <= oldest:
                held -= 1
                gone += 1
                if gone == PAGE:
                    gone = ZERO
                    page = pages.after[page]
        evaluations.at[due] = batch.at[start + row] if chosen else before + row + 1
        evaluations.taken[due] = row + 1
        while seen <= row:
            evaluations.of_row[seen] = due
            seen += 1
        due += 1
        evaluations.heads[due] = pages.tick[page, gone] if page >= 0 else ZERO
        row += 1 if chosen else span.every
    while seen < n:
        evaluations.of_row[seen] = due
        seen += 1
    return due, page, gone, held


@inlined
def _plan_growth(evaluations: Evaluations, before: int, n: int) -> None:
    """Plan an evaluation after each row, while no row expires."""
    for row in range(n):
        evaluations.at[row] = before + row + 1
    for row in range(n):
        evaluations.taken[row] = row + 1
    for row in range(n):
        evaluations.of_row[row] = row
    for row in range(n):
        evaluations.heads[row + 1] = evaluations.heads[0]
