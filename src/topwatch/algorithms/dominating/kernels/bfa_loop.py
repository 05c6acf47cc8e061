"""The loop of ``bfa``: every event is compared with every row, in vectorised passes over the window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, long, stepwise
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, Rows, Step, with_room, write

BLOCK = 1024
OUT = -(2**30)  # the score of a row that is not ranked


class ScoreScalars:
    """Numbers beside the arrays; a record."""

    floor: int  # rows that reach it are collected
    collected: int  # how many there are, also where there was no room for all; -1 where that is not known
    live: int  # ranked rows
    answered: int  # rows in the last evaluation's answer
    head: int  # first ordinal
    end: int  # last ordinal
    passes: int
    compared: int
    selections: int


class Scores(NamedTuple):
    """All rows' values and scores, by slot."""

    value: Floats  # (columns, slots); smaller is better, NaN where no row is ranked
    score: Ints  # int32
    answer: Ints  # (3, k): slots, units (see :func:`_unit`) and scores of the last evaluation
    now: ScoreScalars
    room: np.ndarray  # (4, BLOCK) of bool


@leaf
def sweep(s: Scores, first: int, last: int, come: int, gone: Floats, result: Ints) -> int:
    """Compare the rows in slots ``first`` to ``last`` with one that has come (-1: none) and one that has gone (NaN).

    Adds to the rows' scores, and returns how many the row that has come dominates. Rows that reach the floor are
    collected in ``result``, as far as there is room.
    """
    d = len(s.value)
    dominated = ZERO
    floor = np.int32(max(s.now.floor, OUT + 1))
    for start in range(first, last, BLOCK):
        stop = min(last, start + BLOCK)
        if d <= 4:
            mine, reach = _compare_and_add(s, start, stop, come, gone, floor)
        else:
            for j in range(0, d, 4):
                _compare(s, start, stop, j, come, gone)
            mine, reach = _add(s, start, stop, floor)
        dominated += long(mine)
        if reach > 0:
            scores = s.score[start:stop]
            for i in range(len(scores)):
                if scores[i] >= floor:
                    if s.now.collected < len(result):
                        result[s.now.collected] = start + i
                    s.now.collected += 1
    return dominated


@inlined
def _compare_and_add(
    s: Scores, start: int, stop: int, come: int, gone: Floats, floor: np.int32
) -> tuple[np.int32, np.int32]:
    """Compare rows in up to four columns (the last one again where there are fewer) and add to their scores, at once.

    Memory is read at full speed then: nothing is written but the scores.
    """
    d = len(s.value)
    j1, j2, j3 = min(1, d - 1), min(2, d - 1), min(3, d - 1)
    x0, x1, x2, x3 = s.value[0, start:stop], s.value[j1, start:stop], s.value[j2, start:stop], s.value[j3, start:stop]
    p0, p1, p2, p3 = _value(s, 0, come), _value(s, j1, come), _value(s, j2, come), _value(s, j3, come)
    e0, e1, e2, e3 = gone[0], gone[j1], gone[j2], gone[j3]
    scores = s.score[start:stop]
    mine = np.int32(0)
    reach = np.int32(0)
    for i in range(len(scores)):
        le = (x0[i] <= p0) & (x1[i] <= p1) & (x2[i] <= p2) & (x3[i] <= p3)
        ge = (x0[i] >= p0) & (x1[i] >= p1) & (x2[i] >= p2) & (x3[i] >= p3)
        was_le = (x0[i] <= e0) & (x1[i] <= e1) & (x2[i] <= e2) & (x3[i] <= e3)
        was_ge = (x0[i] >= e0) & (x1[i] >= e1) & (x2[i] >= e2) & (x3[i] >= e3)
        up = np.int32(le) & np.int32(not ge)
        down = np.int32(was_le) & np.int32(not was_ge)
        mine = np.int32(mine + (np.int32(ge) & np.int32(not le)))
        scores[i] = np.int32(scores[i] + np.int32(up - down))
        reach = np.int32(reach + np.int32(scores[i] >= floor))
    return mine, reach


@inlined
def _value(s: Scores, j: int, slot: int) -> float:
    return s.value[j, slot] if slot >= 0 else np.nan


@leaf
def _compare(s: Scores, start: int, stop: int, j: int, come: int, gone: Floats) -> None:
    """Compare rows in four columns from j on, and store what holds in all columns so far."""
    d = len(s.value)
    j1, j2, j3 = min(j + 1, d - 1), min(j + 2, d - 1), min(j + 3, d - 1)
    x0, x1, x2, x3 = s.value[j, start:stop], s.value[j1, start:stop], s.value[j2, start:stop], s.value[j3, start:stop]
    p0, p1, p2, p3 = _value(s, j, come), _value(s, j1, come), _value(s, j2, come), _value(s, j3, come)
    e0, e1, e2, e3 = gone[j], gone[j1], gone[j2], gone[j3]
    le, ge, was_le, was_ge = s.room[0, : stop - start], s.room[1], s.room[2], s.room[3]
    if j == 0:
        le[:], ge[:], was_le[:], was_ge[:] = True, True, True, True
    for i in range(len(le)):
        le[i] &= (x0[i] <= p0) & (x1[i] <= p1) & (x2[i] <= p2) & (x3[i] <= p3)
        ge[i] &= (x0[i] >= p0) & (x1[i] >= p1) & (x2[i] >= p2) & (x3[i] >= p3)
        was_le[i] &= (x0[i] <= e0) & (x1[i] <= e1) & (x2[i] <= e2) & (x3[i] <= e3)
        was_ge[i] &= (x0[i] >= e0) & (x1[i] >= e1) & (x2[i] >= e2) & (x3[i] >= e3)


@leaf
def _add(s: Scores, start: int, stop: int, floor: np.int32) -> tuple[np.int32, np.int32]:
    """Add what was stored to the rows' scores; return how many are dominated, and how many reach the floor."""
    le, ge, was_le, was_ge = s.room[0], s.room[1], s.room[2], s.room[3]
    scores = s.score[start:stop]
    mine = np.int32(0)
    reach = np.int32(0)
    for i in range(len(scores)):
        up = np.int32(le[i]) & np.int32(not ge[i])
        down = np.int32(was_le[i]) & np.int32(not was_ge[i])
        mine = np.int32(mine + (np.int32(ge[i]) & np.int32(not le[i])))
        scores[i] = np.int32(scores[i] + np.int32(up - down))
        reach = np.int32(reach + np.int32(scores[i] >= floor))
    return mine, reach


@inner
def sweep_all(s: Scores, rows: Rows, come: int, gone: Floats, result: Ints) -> None:
    """Pass over all rows held, once, for an arrival and an expiry."""
    s.now.collected = 0
    s.now.passes += 1
    mine = ZERO
    if rows.fifo:
        a = s.now.head & rows.mask
        b = (s.now.end & rows.mask) + 1
        if s.now.end < s.now.head:
            return
        if a < b:
            mine = sweep(s, a, b, come, gone, result)
        else:
            mine = sweep(s, a, rows.mask + 1, come, gone, result) + sweep(s, ZERO, b, come, gone, result)
    else:
        mine = sweep(s, ZERO, rows.mask + 1, come, gone, result)
    s.now.compared += s.now.live
    if come >= 0:
        s.score[come] = mine
        if mine >= s.now.floor:
            if s.now.collected < len(result):
                result[s.now.collected] = come
            s.now.collected += 1


@inner
def select(s: Scores, k: int) -> Ints:
    """Set the floor below the k-th score and return the rows that reach it."""
    s.now.selections += 1
    wanted = k + k // 2 + 64
    ranked = s.score[s.score > OUT]
    if len(ranked) > wanted:
        s.now.floor = np.partition(ranked, len(ranked) - wanted)[len(ranked) - wanted]
    else:
        s.now.floor = 0
    result = np.flatnonzero(s.score >= s.now.floor) if len(ranked) > 0 else np.empty(0, np.int64)
    s.now.collected = len(result)
    return result


@inner
def report(s: Scores, rows: Rows, best: Ints, query: int, at: int, log: Log) -> Log:
    """Log which rows left and which entered, given the best rows in order, and remember them."""
    old = s.now.answered
    new = len(best)
    log = with_room(log, old + new)
    units = rows.seq[best] if rows.fifo else rows.entity[best]
    before = np.argsort(s.answer[1, :old])
    after = np.argsort(units)
    i = ZERO
    j = ZERO
    while i < old or j < new:
        was = s.answer[1, before[i]] if i < old else 2**62
        now = units[after[j]] if j < new else 2**62
        if was < now:
            write(log, at, query, LEAVE, s.answer[0, before[i]], float(s.answer[2, before[i]]))
        elif now < was:
            write(log, at, query, ENTER, best[after[j]], float(s.score[best[after[j]]]))
        i += int(was <= now)
        j += int(now <= was)
    for i in range(new):
        s.answer[0, i] = best[i]
        s.answer[1, i] = units[i]
        s.answer[2, i] = s.score[best[i]]
    s.now.answered = new
    return log


@inner
def evaluate(s: Scores, rows: Rows, result: Ints, k: int, query: int, at: int, log: Log) -> tuple[Ints, Log]:
    """Report the changes since the last evaluation; returns the array of collected rows, which may have grown."""
    if s.now.collected < min(k, s.now.live) or s.now.collected > len(result) or s.now.collected > 4 * k + 256:
        chosen = select(s, k)
        if len(chosen) > len(result):
            result = np.empty(2 * len(chosen), np.int64)
        result[: len(chosen)] = chosen
    some = result[: s.now.collected]
    m = len(some)
    newest = some[np.argsort(-rows.seq[some])]
    keys = np.empty(m, np.int64)
    for i in range(m):
        keys[i] = -s.score[newest[i]] * m + i
    keys.sort()
    return result, report(s, rows, newest[keys[: min(k, m)] % m] if m > 0 else newest, query, at, log)


@stepwise
@kernel
def drive_bfa(
    s: Scores, rows: Rows, fresh: Floats, step: Step, result: Ints, k: int, query: int, log: Log
) -> tuple[Ints, Log]:
    """Process a step; ``fresh`` are the values of the rows that arrive."""
    d = len(s.value)
    i = ZERO
    none = np.full(d, np.nan)
    values = np.empty(d)
    for j in range(len(step.at) + 1):
        last = j == len(step.at)
        until = len(step.arrived) if last else step.arrivals[j]
        if rows.fifo:
            e = step.heads[j]
            gone = step.heads[j] if last else step.heads[j + 1]
            s.now.head = e
        else:
            e = step.expiries[j - 1] if j > 0 else ZERO
            gone = e if last else step.expiries[j]
        swept = False
        while i < until or e < gone:
            come = ZERO - 1
            if i < until:
                come = step.arrived[i]
                s.now.end = rows.seq[come]
                s.now.live += int(fresh[0, i] == fresh[0, i])
                i += 1
            went = none
            if e < gone and i == until:
                slot = e & rows.mask if rows.fifo else step.expired[e]
                if slot == come:  # it arrives and expires between evaluations: first the one, then the other
                    _admit(s, fresh, i - 1, come)
                    sweep_all(s, rows, come, none, result)
                    come = ZERO - 1
                e += 1
                for c in range(d):
                    values[c] = s.value[c, slot]
                    s.value[c, slot] = np.nan
                s.now.live -= int(values[0] == values[0])
                s.score[slot] = OUT
                went = values
                if rows.fifo:
                    s.now.head = e
            if come >= 0:
                _admit(s, fresh, i - 1, come)
            if come >= 0 and s.value[0, come] != s.value[0, come]:
                s.score[come] = OUT
                come = ZERO - 1
            sweep_all(s, rows, come, went, result)
            swept = True
        if not last:
            if not swept:
                s.now.collected = -1
            result, log = evaluate(s, rows, result, k, query, step.at[j], log)
    return result, log


@leaf
def _admit(s: Scores, fresh: Floats, i: int, slot: int) -> None:
    for c in range(len(s.value)):
        s.value[c, slot] = fresh[c, i]
    s.score[slot] = OUT
