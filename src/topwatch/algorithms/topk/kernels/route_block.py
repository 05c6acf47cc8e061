"""Routing a block of rows ahead, and once more for the queries that listen to more before it is used up."""

from __future__ import annotations

from typing import NamedTuple

from topwatch.algorithms.topk.kernels.candidates import (
    ARRIVAL,
    FELL,
    GONE,
    HIT,
    MOST,
    MOVED,
    SIZE,
    STOP,
    UNSUBSCRIBED,
    Kept,
    Todo,
)
from topwatch.algorithms.topk.kernels.route import Hits, Index, route_by_lists, route_by_scan, subscribe
from topwatch.algorithms.topk.kernels.skyband_kinds import tighten
from topwatch.algorithms.topk.kernels.walk_cells import SCORES
from topwatch.core.jit import ZERO, leaf
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Floats, Ints, Queries

PATIENCE = 32  # blocks that a query's lists lag behind


class Report(NamedTuple):
    """Rows of a block that concern queries: arrivals, and rows that leave the buffer from ordinal ``low`` on."""

    hits: Hits
    gone: Hits
    leaving: Ints  # slots of those
    low: Ints  # and how many they are
    begin: int  # ordinal of the step's first arrival


@leaf
def route_ahead(
    rows: Rows,
    table: Queries,
    kept: Kept,
    index: Index,
    slots: Ints,
    result: Report,
    todo: Todo,
    here: Ints,
    counters: Ints,
) -> None:
    """Note whom the arrivals of the next block concern, and the rows that leave the buffer for them.

    Lists may lag behind a query that listens to more: such a query is scored apart, until its lists are worth moving.
    """
    listen = kept.filters.listen if kept.filtered else kept.main.listen
    if not index.listed:
        tighten(kept.filters if kept.filtered else kept.main)
    if here[UNSUBSCRIBED] == 0 and 4 * max(result.hits.size[0], result.gone.size[0]) <= len(result.hits.row):
        here[SIZE] = min(here[MOST], 2 * here[SIZE])
    here[HIT] = here[GONE] = 0
    low = kept.buffer[0]
    result.low[0] = low
    while True:
        here[UNSUBSCRIBED] = 0
        start = here[ARRIVAL]
        stop = min(len(slots), start + here[SIZE])
        here[STOP] = stop
        count = max(ZERO, result.begin + stop - kept.buffer[1] - low) if kept.filtered and start < stop else ZERO
        result.low[1] = count
        for t in range(count):
            result.leaving[t] = (low + t) & rows.mask
        for q in range(len(listen)):
            todo.subscribed[q] = listen[q]
            if index.listed and listen[q] < index.influence.level[q]:
                todo.subscribed[q] = index.influence.level[q]
        fits = _route_part(table, todo.subscribed, rows.columns, index, slots, start, stop, result.hits, counters)
        fits = fits and _route_part(
            table, todo.subscribed, rows.columns, index, result.leaving, ZERO, count, result.gone, counters
        )
        if fits and index.listed and start < stop:
            for q in range(len(listen)):
                if listen[q] < todo.subscribed[q] and todo.asked[q] == 0:
                    todo.asked[q] = 1
                    todo.fell[here[FELL]] = q
                    here[FELL] += 1
                    todo.loud[q] += 1
                    if todo.loud[q] > PATIENCE and todo.marked[q] == 0:
                        todo.marked[q] = 1
                        todo.moved[here[MOVED]] = q
                        here[MOVED] += 1
            if here[FELL] > 0:
                catch_up(rows, table, kept, slots, result, todo, here, counters)
        if fits and here[UNSUBSCRIBED] == 0:
            return
        here[SIZE] = max(1, here[SIZE] // 4)


@leaf
def _route_part(
    table: Queries,
    listen: Floats,
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
        return route_by_lists(table, listen, columns, index, slots, start, stop, hits, counters)
    return route_by_scan(table, listen, columns, slots, start, stop, hits, counters)


@leaf
def catch_up(
    rows: Rows, table: Queries, kept: Kept, slots: Ints, result: Report, todo: Todo, here: Ints, counters: Ints
) -> None:
    """Look through the rest of the block for queries that listen to more now; it is routed again if hits do not fit."""
    listen = kept.filters.listen if kept.filtered else kept.main.listen
    start = here[ARRIVAL]
    stop = here[STOP]
    first = max(ZERO, kept.buffer[0] - result.low[0])
    for t in range(here[FELL]):
        q = todo.fell[t]
        high = todo.subscribed[q]
        todo.subscribed[q] = listen[q]
        todo.asked[q] = 0
        counters[SCORES] += stop - start
        if not subscribe(table, q, rows.columns, slots, start, stop, listen[q], high, result.hits, here[HIT]):
            here[UNSUBSCRIBED] = 1
        if kept.filtered and first < result.low[1]:
            counters[SCORES] += result.low[1] - first
            if not subscribe(
                table, q, rows.columns, result.leaving, first, result.low[1], listen[q], high, result.gone, here[GONE]
            ):
                here[UNSUBSCRIBED] = 1
    here[FELL] = 0
