"""The skyline of a table: easily where it is small, by strong rows, and by sorting.

A few strong rows dominate much of a table. Rows that they leave come in the order of the sum of their levels
(:mod:`topwatch.tables.kernels.levels`). What dominates a row has a
smaller sum, or the same word; so each row is compared with the skyline so far, word by word, and the values decide
where the words leave it open. The skyline lies in groups by the halves of the first columns that its rows are in: a row
has no dominator in a group that is in the worse half of a column in which the row is in the better one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, kernel, leaf, long
from topwatch.tables.kernels.levels import compare_rows, level_of

CHUNK = 256  # rows of a group that lie together
HALVES = 8  # columns that make groups
ROOM = 1024  # rows of a skyline that is computed easily
LEEWAY = 4096  # rows on which more comparisons may be spent at first
OUT, ALONE = -2, -1  # the result for a row: dominated, or neither that nor the same as another


class Scale(NamedTuple):
    """How values become levels, column by column: by a table of equal slots, or by a search among bounds."""

    low: Floats
    high: Floats
    slots: Floats  # for each unit of the column; 0: no table, since values are too uneven
    level: np.ndarray  # (columns, slots); uint16
    bound: Floats
    bounds: Ints
    half: Ints  # the first level of the worse half
    coarse: Ints  # a level shifted by this is the coordinate of a cell
    shift: Ints  # where that stands in the number of a cell


class Sorted(NamedTuple):
    """Rows in the order in which they are compared."""

    value: Floats  # (rows, columns), in another order
    row: Ints  # their indices there
    word: Ints
    group: Ints
    guard: int
    keep: np.ndarray  # of bool: in the skyline so far
    twin: Ints  # another row with the same values, which stands for it, or -1


class Groups(NamedTuple):
    """Rows of the skyline by group, in chunks."""

    chunk: Ints  # a group's first one, or -1
    newest: Ints
    after: Ints  # of a chunk
    size: Ints  # of a chunk
    member: Ints  # rows, chunk by chunk
    word: Ints  # their words
    used: Ints  # one number: chunks


@kernel
def keep_easily(values: Floats, most: float, keep: np.ndarray) -> bool:
    """Mark the rows that no other dominates, each compared with those so far; give up when that takes too much.

    That is block-nested loops: best where the skyline is small. ``most`` is how many rows one may be compared with,
    on average. A row that dominates another moves forward, since it is likely to dominate more.
    """
    d, n = values.shape
    rows = np.empty(ROOM, np.int64)
    held = np.empty((ROOM, d))
    size = ZERO
    compared = ZERO
    x = np.empty(d)
    for r in range(n):
        for j in range(d):
            x[j] = values[j, r]
        at = ZERO
        beaten = False
        while at < size:
            compared += 1
            less = False
            more = False
            for j in range(d):
                less |= held[at, j] < x[j]
                more |= held[at, j] > x[j]
                if less and more:
                    break
            if less and not more:
                beaten = True
                break
            if more and not less:
                keep[rows[at]] = False
                size -= 1
                rows[at] = rows[size]
                for j in range(d):
                    held[at, j] = held[size, j]
            else:
                at += 1
        if not beaten:
            if size == ROOM:
                return False
            keep[r] = True
            rows[size] = r
            for j in range(d):
                held[size, j] = x[j]
            size += 1
        elif at > 0:
            to = at >> 1
            rows[at], rows[to] = rows[to], rows[at]
            for j in range(d):
                held[at, j], held[to, j] = held[to, j], held[at, j]
        if compared > most * (r + LEEWAY):
            return False
    return True


@kernel
def choose_strong(sample: Floats, most: int, gain: float) -> Ints:
    """Return rows of a sample, each of which dominates more than a share of what those before it leave."""
    n = sample.shape[1]
    beats = np.empty((n, n), np.bool_)
    gains = np.zeros(n, np.int64)
    for a in range(n):
        for b in range(n):
            less, more = compare_rows(sample, a, b)
            beats[a, b] = less and not more
            gains[a] += int(less and not more)
    chosen = np.empty(most, np.int64)
    result = ZERO
    left = n
    while result < most and n > 0:
        best = np.argmax(gains)
        if gains[best] <= gain * left:
            break
        chosen[result] = best
        result += 1
        left -= gains[best]
        for b in range(n):
            if beats[best, b]:
                for a in range(n):
                    gains[a] -= int(beats[a, b])
                    beats[a, b] = False
    return chosen[:result]


@kernel
def drop_beaten(values: Floats, strong: Floats, left: Ints) -> int:
    """Write the rows (columns, rows) that none of the strong ones (rows, columns) dominates; return how many.

    ``left`` has room for one more.
    """
    d, n = values.shape
    result = ZERO
    for i in range(n):
        beaten = False
        for s in range(len(strong)):
            worse = True
            differs = False
            for j in range(d):
                worse &= values[j, i] >= strong[s, j]
                differs |= values[j, i] > strong[s, j]
                if s > 0 and not worse:  # most rows that are left by the first differ soon
                    break
            if worse and differs:
                beaten = True
                break
        left[result] = i
        result += int(not beaten)
    return result


@kernel
def encode_rows(values: Floats, scale: Scale, width: int, words: Ints, sums: np.ndarray) -> None:
    """Write for each row its word, its group and its cell, and the sum of its levels (uint16)."""
    for i in range(len(sums)):
        word = ZERO
        total = ZERO
        group = ZERO
        cell = ZERO
        for j in range(len(scale.low)):
            x = values[j, i]
            if scale.slots[j] > 0:
                x = min(max(x, scale.low[j]), scale.high[j])
                level = long(scale.level[j, long((x - scale.low[j]) * scale.slots[j])])
            else:
                level = level_of(scale.bound[j], scale.bounds[j], x)
            word |= level << (j * width)
            total += level
            group |= long(level >= scale.half[j]) << j
            cell |= (level >> scale.coarse[j]) << scale.shift[j]
        words[0, i] = word
        words[1, i] = group & ((1 << HALVES) - 1)
        words[2, i] = cell
        sums[i] = total


@kernel
def keep_front(rows: Sorted, groups: int) -> None:
    """Mark the rows that no other dominates."""
    n = len(rows.word)
    chunks = n // CHUNK + groups + 1
    held = Groups(
        np.full(groups, -1),
        np.full(groups, -1),
        np.full(chunks, -1),
        np.zeros(chunks, np.int64),
        np.empty(chunks * CHUNK, np.int64),
        np.empty(chunks * CHUNK, np.int64),
        np.zeros(1, np.int64),
    )
    for r in range(n):
        result = _look(rows, held, r)
        if result == ALONE:
            rows.keep[r] = True
            _put(rows, held, r)
        elif result >= 0:
            rows.twin[r] = result
    for r in range(n):
        if rows.twin[r] >= 0:
            rows.keep[r] = rows.keep[rows.twin[r]]


@leaf
def _look(rows: Sorted, held: Groups, r: int) -> int:
    """Return whether a row of the skyline dominates row r, or which one is the same."""
    mine = rows.word[r] | rows.guard
    halves = rows.group[r]
    group = ZERO
    while True:  # over the groups that are in the worse half of no column but those in which the row is
        chunk = held.chunk[group]
        while chunk >= 0:
            first = chunk * CHUNK
            words = held.word[first : first + held.size[chunk]]
            hits = 0
            for i in range(len(words)):
                hits += int((mine - words[i]) & rows.guard == rows.guard)
            if hits > 0:
                result = _decide(rows, held, first, len(words), r)
                if result != ALONE:
                    return result
            chunk = held.after[chunk]
        if group == halves:
            return ALONE
        group = (group - halves) & halves
    return ALONE


@leaf
def _decide(rows: Sorted, held: Groups, first: int, size: int, r: int) -> int:
    """Compare the values of rows whose words may dominate that of row r."""
    mine = rows.word[r] | rows.guard
    for i in range(first, first + size):
        if (mine - held.word[i]) & rows.guard == rows.guard:
            other = held.member[i]
            if not rows.keep[other]:
                continue
            less = False
            more = False
            for j in range(rows.value.shape[1]):
                less |= rows.value[rows.row[other], j] < rows.value[rows.row[r], j]
                more |= rows.value[rows.row[other], j] > rows.value[rows.row[r], j]
            if less and not more:
                return OUT
            if not less and not more:
                return other
            if more and not less:
                rows.keep[other] = False
    return ALONE


@inlined
def _put(rows: Sorted, held: Groups, r: int) -> None:
    group = rows.group[r]
    chunk = held.newest[group]
    if chunk < 0 or held.size[chunk] == CHUNK:
        fresh = held.used[0]
        held.used[0] += 1
        if chunk < 0:
            held.chunk[group] = fresh
        else:
            held.after[chunk] = fresh
        held.newest[group] = fresh
        chunk = fresh
    at = chunk * CHUNK + held.size[chunk]
    held.member[at] = r
    held.word[at] = rows.word[r]
    held.size[chunk] += 1
