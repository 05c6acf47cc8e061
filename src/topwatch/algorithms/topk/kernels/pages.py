"""The windows of many groups, in pages that all of them share.

A group's rows lie in a chain of pages, oldest first. Pages are small, so that a million groups of a few rows are cheap,
and none ever moves: a window grows by a page at its end and gives one back at its beginning. O(1) per row. Groups that
are *unmaterialised* have no pages: their rows are only counted, and lie where they came from.
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.algorithms.topk.kernels.find_rows import count_run, fused
from topwatch.algorithms.topk.kernels.scan_window import offer, start_filling
from topwatch.algorithms.topk.kernels.sorted_runs import Runs
from topwatch.core.jit import ZERO, inlined, kernel
from topwatch.core.kernels.scoring import Floats, Ints, Queries, inside, score_run

PAGE = 32  # rows


class Arrivals(NamedTuple):
    """Rows sorted by group: those of ``group[i]`` lie from ``start[i]`` to ``start[i + 1]``."""

    group: Ints
    start: Ints
    rows: Floats  # (rows, columns)
    tick: int  # of the first row; the others follow
    time: Ints  # nanoseconds; empty in windows of a number of rows
    at: Ints  # what an evaluation after the row is called, -1 where there is none; empty: evaluated as usual
    later: bool  # rows are only counted, and written when all have been evaluated: no window loses one meanwhile


class Pages(NamedTuple):
    """Chains of pages by group, and the pages."""

    first: Ints  # page of the oldest row held, -1 before the first row
    last: Ints  # page of the newest
    gone: Ints  # rows at the beginning of the first page that are not held any more
    fill: Ints  # rows in the last page
    held: Ints  # rows held
    end: Ints  # rows that came so far: the ordinal of the newest
    unmaterialised: Ints  # 1: its rows are held elsewhere, in no page
    after: Ints  # the page behind a page, of its group or among the free ones
    values: Floats  # (pages, columns, PAGE)
    tick: Ints  # (pages, PAGE): number of the row among those of all groups
    time: Ints  # (pages, PAGE), or (0, PAGE)
    free: Ints  # first free page or -1, how many are free, how many have ever been used


@inlined
def count(pages: Pages, arrivals: Arrivals, i: int) -> None:
    """Count the rows of the i-th group of some arrivals."""
    n = arrivals.start[i + 1] - arrivals.start[i]
    pages.held[arrivals.group[i]] += n
    pages.end[arrivals.group[i]] += n


@kernel
def append_all(pages: Pages, arrivals: Arrivals, ticks: Ints) -> None:
    """Write rows that have been counted behind the others of their groups; ``ticks`` is empty where they follow."""
    for i in range(len(arrivals.group)):
        append(pages, arrivals, i, ticks)


@inlined
def append(pages: Pages, arrivals: Arrivals, i: int, ticks: Ints) -> None:
    """Write the rows of the i-th group of some arrivals behind its others, unless these are unmaterialised."""
    g = arrivals.group[i]
    if pages.unmaterialised[g] == 1:
        return
    start = arrivals.start[i]
    stop = arrivals.start[i + 1]
    row = start
    while row < stop:
        if pages.last[g] < 0 or pages.fill[g] == PAGE:
            _chain(pages, g)
        page = pages.last[g]
        fill = pages.fill[g]
        n = min(stop - row, PAGE - fill)
        for r in range(n):
            for c in range(arrivals.rows.shape[1]):
                pages.values[page, c, fill + r] = arrivals.rows[row + r, c]
        for r in range(n):
            pages.tick[page, fill + r] = ticks[row + r] if len(ticks) > 0 else arrivals.tick + row + r
        if len(pages.time) > 0:
            for r in range(n):
                pages.time[page, fill + r] = arrivals.time[row + r]
        pages.fill[g] = fill + n
        row += n


@inlined
def _chain(pages: Pages, g: int) -> None:
    """Hang a free page behind a group's last one. There must be one."""
    page = pages.free[0]
    if page >= 0:
        pages.free[0] = pages.after[page]
        pages.free[1] -= 1
    else:
        page = pages.free[2]
        pages.free[2] = page + 1
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
        pages.after[old] = pages.free[0]
        pages.free[0] = old
        pages.free[1] += 1
    pages.gone[g] = gone
    pages.held[g] = count


@inlined
def fill_by_pages(table: Queries, q: int, pages: Pages, g: int, head: int, moment: int, runs: Runs, run: int) -> None:
    """Fill a run with the best ``target`` rows of a group whose ticks are from ``head`` to ``moment``."""
    start_filling(runs, run)
    keyless = fused(table, q)
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
            out = table.keys[: high - low]
            if count_run(table, q, columns, low, runs.threshold[run], out) > 0:
                if keyless:
                    score_run(table, q, columns, low, out)
                for r in range(high - low):
                    if out[r] >= runs.threshold[run] and inside(table, q, columns, low + r):
                        offer(runs, run, out[r], pages.tick[page, low + r], ZERO)
        page = pages.after[page]
        low = ZERO


@kernel
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
