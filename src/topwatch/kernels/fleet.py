"""The loop over many small windows: each group of rows has a ring, runs and answers of its own, in shared pools.

A group is a slice of every pool, and the loop over its rows is the one that a single window has. So ten thousand
groups cost ten thousand turns of a compiled loop and no Python object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.kernels.compile import ZERO, inlined, inner, kernel
from topwatch.kernels.drive import drive
from topwatch.kernels.report import Answers
from topwatch.kernels.route import Index
from topwatch.kernels.rows import Log, Rows, Step
from topwatch.kernels.runs import Runs
from topwatch.kernels.scoring import Floats, Ints, Queries
from topwatch.kernels.select import fill_by_scan


class Rings(NamedTuple):
    """The windows of all groups. A group's ring has ``mask`` + 1 slots from ``first`` on, a power of two."""

    first: Ints
    mask: Ints
    head: Ints  # first live ordinal at the last judgement
    end: Ints  # ordinal of the last row
    judged: Ints  # ordinal of the last row that a judgement has seen
    values: Floats  # a ring's columns one after the other, from ``first`` times their number on
    seq: Ints
    tick: Ints  # number of the row among those of all groups
    time: Ints  # nanoseconds; empty in windows of a number of rows


class Arrivals(NamedTuple):
    """Rows sorted by group: those of ``group[i]`` lie from ``start[i]`` to ``start[i + 1]``."""

    group: Ints
    start: Ints
    columns: Floats  # (columns, rows)
    tick: Ints
    time: Ints


class Reach(NamedTuple):
    """How far windows reach, and how often they are judged."""

    rows: int  # 0: by time
    span: int  # nanoseconds
    every: int


@kernel
def drive_all(
    rings: Rings,
    arrivals: Arrivals,
    reach: Reach,
    table: Queries,
    runs: Runs,
    answers: Answers,
    none: Index,
    log: Log,
    counters: Ints,
) -> tuple[Log, Ints]:
    """Take in rows; return the log, and where each group's part of it ends. Rings must have room."""
    groups = len(arrivals.group)
    ends = np.empty(groups, np.int64)
    most = ZERO
    for i in range(groups):
        most = max(most, arrivals.start[i + 1] - arrivals.start[i])
    slots = np.empty(most, np.int64)
    at = np.empty(most, np.int64)
    count = np.empty(most, np.int64)
    heads = np.empty(most + 1, np.int64)
    nothing = np.empty(0, np.int64)
    size = len(table.k)
    for i in range(groups):
        g = arrivals.group[i]
        n = arrivals.start[i + 1] - arrivals.start[i]
        before = rings.end[g]
        _write(rings, arrivals, i, slots)
        judgements = _plan(rings, reach, g, before, n, at, count, heads)
        rows = _ring(rings, g, arrivals.columns.shape[0])
        mine = slice(g * size, (g + 1) * size)
        step = Step(
            slots[:n], nothing, at[:judgements], at[:judgements], count[:judgements], heads[: judgements + 1], nothing
        )
        log, _ = drive(rows, table, _runs(runs, mine), _answers(answers, mine), none, step, log, counters)
        if judgements > 0:
            rings.head[g] = heads[judgements]
            rings.judged[g] = at[judgements - 1]
        # A row is known by its tick from here on: its slot is its group's own.
        for line in range(ends[i - 1] if i > 0 else 0, log.size[0]):
            log.what[line, 3] = rings.tick[rings.first[g] + log.what[line, 3]]
        ends[i] = log.size[0]
    return log, ends


@inner
def _ring(rings: Rings, g: int, columns: int) -> Rows:
    first = rings.first[g]
    size = rings.mask[g] + 1
    values = rings.values[first * columns : (first + size) * columns].reshape((columns, size))
    seq = rings.seq[first : first + size]
    return Rows(values, seq, seq[:0], seq[:0], True, rings.mask[g])


@inlined
def _write(rings: Rings, arrivals: Arrivals, i: int, slots: Ints) -> None:
    """Write a group's rows behind its others; note their slots."""
    g = arrivals.group[i]
    columns = arrivals.columns.shape[0]
    first = rings.first[g]
    size = rings.mask[g] + 1
    start = arrivals.start[i]
    for r in range(arrivals.start[i + 1] - start):
        ordinal = rings.end[g] + 1 + r
        slot = ordinal & rings.mask[g]
        slots[r] = slot
        for c in range(columns):
            rings.values[first * columns + c * size + slot] = arrivals.columns[c, start + r]
        rings.seq[first + slot] = ordinal
        rings.tick[first + slot] = arrivals.tick[start + r]
        if len(rings.time) > 0:
            rings.time[first + slot] = arrivals.time[start + r]
    rings.end[g] += arrivals.start[i + 1] - start


@inlined
def _plan(rings: Rings, reach: Reach, g: int, before: int, n: int, at: Ints, count: Ints, heads: Ints) -> int:
    """Say when a group is judged, and which row is the first live one then; return how often."""
    head = rings.head[g]
    heads[0] = head
    judgements = 0
    ordinal = before + reach.every - before % reach.every
    while ordinal <= before + n:
        if reach.rows > 0:
            head = max(head, ordinal - reach.rows + 1)
        else:
            oldest = rings.time[rings.first[g] + (ordinal & rings.mask[g])] - reach.span
            while rings.time[rings.first[g] + (head & rings.mask[g])] <= oldest:
                head += 1
        at[judgements] = ordinal
        count[judgements] = ordinal - before
        judgements += 1
        heads[judgements] = head
        ordinal += reach.every
    return judgements


@inner
def _runs(runs: Runs, mine: slice) -> Runs:
    return Runs(
        runs.first[mine],
        runs.room[mine],
        runs.limit[mine],
        runs.target[mine],
        runs.size[mine],
        runs.bar[mine],
        runs.whole[mine],
        runs.oldest[mine],
        runs.key,
        runs.seq,
        runs.slot,
        runs.beaten,
        runs.banded,
        runs.loose,
    )


@inner
def _answers(answers: Answers, mine: slice) -> Answers:
    return Answers(answers.first[mine], answers.size[mine], answers.key, answers.seq, answers.slot, answers.stale[mine])


@kernel
def move_rings(old: Rings, new: Rings, groups: Ints, columns: int) -> None:
    """Copy the rows of some groups to their rings in other places, as many at once as lie together in both."""
    for g in groups:
        size = old.mask[g] + 1
        larger = new.mask[g] + 1
        ordinal = old.head[g]
        while ordinal <= old.end[g]:
            a = ordinal & old.mask[g]
            b = ordinal & new.mask[g]
            n = min(min(size - a, larger - b), old.end[g] + 1 - ordinal)
            for c in range(columns):
                start = old.first[g] * columns + c * size + a
                place = new.first[g] * columns + c * larger + b
                new.values[place : place + n] = old.values[start : start + n]
            start = old.first[g] + a
            place = new.first[g] + b
            new.seq[place : place + n] = old.seq[start : start + n]
            new.tick[place : place + n] = old.tick[start : start + n]
            if len(old.time) > 0:
                new.time[place : place + n] = old.time[start : start + n]
            ordinal += n


@kernel
def refill(rings: Rings, arrivals: Arrivals, table: Queries, runs: Runs) -> None:
    """Write saved rows into their rings and fill all runs from them."""
    size = len(table.k)
    most = ZERO
    for i in range(len(arrivals.group)):
        most = max(most, arrivals.start[i + 1] - arrivals.start[i])
    slots = np.empty(most, np.int64)
    for i in range(len(arrivals.group)):
        g = arrivals.group[i]
        _write(rings, arrivals, i, slots)
        rows = _ring(rings, g, arrivals.columns.shape[0])
        mine = _runs(runs, slice(g * size, (g + 1) * size))
        for q in range(size):
            if table.k[q] != 0:
                fill_by_scan(table, q, rows, rings.head[g], rings.end[g], mine)
