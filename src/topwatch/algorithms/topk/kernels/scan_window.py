"""A query's best rows by a vectorised scan of the window: the computation from scratch that needs no index.

Cost: O(rows · terms), and a few rows that enter the run.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.find_rows import find_run
from topwatch.algorithms.topk.kernels.run_updates import form_band, lift, shed, sort, thin
from topwatch.algorithms.topk.kernels.sorted_runs import (
    FAR,
    QueryState,
    Runs,
    capacity_of,
    cut,
    insert,
    report,
    write_row,
)
from topwatch.core.jit import ZERO, entry, inlined, leaf
from topwatch.core.kernels.rows import Log, Rows, alive
from topwatch.core.kernels.scoring import BLOCK, Queries, inside


@inlined
def start_filling(runs: Runs, q: int) -> None:
    """Empty a run before a computation from scratch."""
    runs.size[q] = 0
    runs.top[q] = 0
    runs.threshold[q] = -np.inf
    runs.whole[q] = 1
    runs.oldest[q] = FAR


@inlined
def offer(runs: Runs, q: int, key: float, seq: int, slot: int) -> None:
    """Take a candidate into a run that is being filled; from ``target`` rows on, the last one falls out."""
    insert(runs, q, key, seq, slot)
    runs.top[q] = runs.size[q]
    if runs.size[q] >= runs.target[q]:
        cut(runs, q, runs.target[q])


@inlined
def _collect(runs: Runs, q: int, key: float, seq: int, slot: int) -> None:
    """Take a candidate into an unsorted run that is being filled; when the run is full, only the best rows stay."""
    capacity = capacity_of(runs, q)
    write_row(runs, runs.first[q] + runs.size[q], key, seq, slot)
    runs.size[q] += 1
    if runs.size[q] == capacity:
        wanted = runs.target[q] + runs.extra[q]
        thin(runs, q, ZERO, wanted, wanted + (capacity - wanted) // 8)


@leaf
def fill_by_scan(table: Queries, q: int, rows: Rows, head: int, moment: int, runs: Runs) -> None:
    """Fill a run with the best rows that are live at a moment (ordinals ``head`` to ``moment``).

    These are ``target`` rows, of an unsorted run some more, up to ``limit`` and its extra ones.
    """
    start_filling(runs, q)
    start = head & rows.mask if rows.fifo else ZERO
    left = moment - head + 1 if rows.fifo else len(rows.seq)
    while left > 0:
        size = min(left, rows.mask + 1 - start)
        _scan(table, q, rows, start, start + size, moment, runs)
        start = ZERO
        left -= size
    if runs.banded:
        form_band(runs, q, table.k[q])
    if runs.unsorted:
        # Near the target: each row more above a threshold is met once more in every window. A run that starved wants
        # more.
        margin = runs.limit[q] - runs.target[q]
        least = runs.target[q] + runs.extra[q]
        most = least + (margin if runs.extra[q] > 0 else margin // 4)
        if not rows.fifo and runs.whole[q] == 0 and runs.size[q] > least:
            # Slots are in no order of time: behind a cut among equal keys an older row may have come in without a newer
            # one, which is right in all ranks before the cut's only.
            sort(runs, runs.first[q], runs.size[q])
            cut(runs, q, least)
        elif runs.size[q] > (most if runs.whole[q] == 0 else least + margin):
            thin(runs, q, ZERO, least, most)
        lift(runs, q, table.k[q], ZERO)


@leaf
def _scan(table: Queries, q: int, rows: Rows, start: int, stop: int, moment: int, runs: Runs) -> None:
    """Take the rows of consecutive slots that reach the threshold, which rises meanwhile."""
    while start < stop:
        size = min(BLOCK, stop - start)
        dense = runs.whole[q] == 1
        for i in range(find_run(table, q, rows.columns, start, size, runs.threshold[q], dense)):
            slot = start + table.rows[i]
            key = table.keys[i]
            if key >= runs.threshold[q] and inside(table, q, rows.columns, slot):
                if rows.fifo or alive(rows, slot, moment):
                    if runs.unsorted:
                        _collect(runs, q, key, rows.seq[slot], slot)
                    else:
                        offer(runs, q, key, rows.seq[slot], slot)
        start += size


@entry
def evaluate_from_scratch(
    state: QueryState, q: int, rows: Rows, head: int, moment: int, now: int, at: int, log: Log
) -> None:
    """Log a query's answer as of a moment, from a run filled as of then; leave the run filled as of now.

    The log must have room for 2k changes.
    """
    table = state.table
    fill_by_scan(table, q, rows, head, moment, state.runs)
    report(state.answers, state.runs, rows, q, table.k[q], at, log)
    if moment != now:
        fill_by_scan(table, q, rows, head, now, state.runs)


@entry
def trim(state: QueryState, head: int) -> None:
    """Cut all runs back to their targets, which raises their thresholds."""
    runs = state.runs
    for q in range(len(runs.size)):
        if runs.size[q] > runs.target[q] > 0:
            if runs.unsorted:
                shed(runs, q, head, runs.target[q])
            else:
                cut(runs, q, runs.target[q])
