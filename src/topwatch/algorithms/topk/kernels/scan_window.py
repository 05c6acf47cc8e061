"""A query's best rows by a vectorised scan of the window: the computation from scratch that needs no index."""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.best_of_unsorted import lift, sort, thin
from topwatch.algorithms.topk.kernels.bits import WIDTH, lowest
from topwatch.algorithms.topk.kernels.find_rows import count_run, fused, goal_of, reach_64
from topwatch.algorithms.topk.kernels.form_skyband import form_band
from topwatch.algorithms.topk.kernels.sorted_runs import FAR, Runs, cut, indices_of, insert, write
from topwatch.core.jit import ZERO, inlined, leaf
from topwatch.core.kernels.rows import Rows, alive
from topwatch.core.kernels.scoring import BLOCK, Queries, inside, score_row, score_run


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
    indices = indices_of(runs, q)
    write(runs, runs.first[q] + runs.size[q], key, seq, slot)
    runs.size[q] += 1
    if runs.size[q] == indices:
        wanted = runs.target[q] + runs.extra[q]
        thin(runs, q, ZERO, wanted, wanted + (indices - wanted) // 8)


@inlined
def _take(runs: Runs, q: int, key: float, seq: int, slot: int) -> None:
    if runs.unsorted:
        _collect(runs, q, key, seq, slot)
    else:
        offer(runs, q, key, seq, slot)


@leaf
def fill_by_scan(table: Queries, q: int, rows: Rows, head: int, moment: int, runs: Runs) -> None:
    """Fill a run with the best rows that are live at a moment (ordinals ``head`` to ``moment``).

    These are ``target`` rows, of an unsorted run some more, up to ``limit`` and its extra ones.
    """
    start_filling(runs, q)
    if not rows.fifo:
        _scan(table, q, rows, ZERO, len(rows.seq), moment, runs)
    elif moment >= head:
        a = head & rows.mask
        b = (moment & rows.mask) + 1
        if a < b:
            _scan(table, q, rows, a, b, moment, runs)
        else:
            _scan(table, q, rows, a, rows.mask + 1, moment, runs)
            _scan(table, q, rows, ZERO, b, moment, runs)
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
    without_keys = fused(table, q)
    while without_keys and start + WIDTH <= stop:
        kind = table.kind[q]
        goal = goal_of(kind, runs.threshold[q])
        bits = reach_64(kind, table.terms[q], table.column[q], table.value[q], rows.columns, start, goal)
        while bits != 0:
            slot = start + lowest(bits)
            bits &= bits - 1
            key = score_row(table, q, rows.columns, slot)
            if key >= runs.threshold[q] and inside(table, q, rows.columns, slot):
                if rows.fifo or alive(rows, slot, moment):
                    _take(runs, q, key, rows.seq[slot], slot)
        start += WIDTH
    while start < stop:
        size = min(BLOCK, stop - start)
        out = table.keys[:size]
        if count_run(table, q, rows.columns, start, runs.threshold[q], out) > 0:
            if without_keys:
                score_run(table, q, rows.columns, start, out)
            for i in range(size):
                slot = start + i
                if out[i] >= runs.threshold[q] and inside(table, q, rows.columns, slot):
                    if rows.fifo or alive(rows, slot, moment):
                        _take(runs, q, out[i], rows.seq[slot], slot)
        start += size
