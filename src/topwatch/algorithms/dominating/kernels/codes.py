"""Rows as codes: one word in which every preferred column has a lane, so that dominance is three operations.

A lane holds the *level* of a value: how many of the column's bounds lie below it. Bounds are quantiles, so levels mean
the same whatever the scale, and smaller is better in every lane. Each lane has a guard bit above its level: with the
guards set in q, the guards of q - p show at once in which lanes q >= p. Where two levels are equal the values decide;
but a level that only one value can have is *single*, and then equal levels are equal values.

The leading bits of the lanes are the coordinates of a *cell* of a grid, and put together they are its number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, kernel, leaf
from topwatch.core.kernels.rows import Rows

NOT_RANKED = -1  # the code of a row that a query does not rank


class Lanes(NamedTuple):
    """How rows become codes. One entry per preferred column, but for the ``where`` ranges."""

    column: Ints
    sign: Floats  # -1 where more is better: a value times its sign is better when smaller
    where: Ints  # columns of the ranges
    low: Floats
    high: Floats
    bound: Floats  # (columns, a power of two less one), rising; entries after the last are infinite
    bounds: Ints  # how many there are
    single: Ints  # (columns, bounds + 1): 1 for a level with one value
    shift: Ints  # where the lane begins
    coarse: Ints  # a level shifted by this is the coordinate of a cell
    bits: Ints  # of that coordinate
    cell_shift: Ints  # where these bits stand in the number of a cell
    guard: int  # mask: the guard bits
    coordinates: int  # mask: the coordinates of a cell
    step: int  # one cell further in every lane
    level: int  # mask: the level in the first lane


@inlined
def covers(q: int, p: int, guard: int) -> bool:
    """Return whether q is at least p in every lane."""
    return ((q | guard) - p) & guard == guard


@inlined
def any_covered(lanes: Lanes, code: int, codes: Ints) -> bool:
    """Return whether a code is at least one of some codes in every lane."""
    guard = lanes.guard
    guarded = code | guard
    covered = ZERO
    for i in range(len(codes)):
        covered += int((guarded - codes[i]) & guard == guard)
    return covered > 0


@inlined
def coordinate(lanes: Lanes, j: int, code: int) -> int:
    """Return the coordinate of a code's cell along a column."""
    return (code >> (lanes.shift[j] + lanes.coarse[j])) & ((1 << lanes.bits[j]) - 1)


@inlined
def cell_of(lanes: Lanes, code: int) -> int:
    """Return the cell of a code."""
    cell = 0
    for j in range(len(lanes.shift)):
        cell |= coordinate(lanes, j, code) << lanes.cell_shift[j]
    return cell


@leaf
def cell_behind(lanes: Lanes, code: int) -> int:
    """Return the first of the cells that lie behind a code's cell in every column, or -1 where there are none."""
    cell = 0
    for j in range(len(lanes.cell_shift)):
        at = coordinate(lanes, j, code) + 1
        if at >> lanes.bits[j]:
            return -1
        cell |= at << lanes.cell_shift[j]
    return cell


@inlined
def diagonal(lanes: Lanes) -> int:
    """Return by how much the numbers of two cells differ of which one is a step behind the other in every column."""
    step = ZERO
    for j in range(len(lanes.cell_shift)):
        step += 1 << lanes.cell_shift[j]
    return step


@leaf
def sum_cells(lanes: Lanes, counts: np.ndarray, backward: bool) -> None:
    """Turn counts by cell (int32) into sums over cells, in place.

    Backward, over the cells that are not before a cell in any column; else over those not behind it in any.
    """
    total = len(counts)
    line = 1 << lanes.bits[0]
    for first in range(0, total, line):
        more = np.int32(0)
        for i in range(line):
            at = first + (line - 1 - i if backward else i)
            more = np.int32(more + counts[at])
            counts[at] = more
    for j in range(1, len(lanes.cell_shift)):
        stride = 1 << lanes.cell_shift[j]
        span = stride << lanes.bits[j]
        for first in range(0, total, span):
            for i in range(1, 1 << lanes.bits[j]):
                at = first + (span - (i + 1) * stride if backward else i * stride)
                before = at + (stride if backward else -stride)
                to = counts[at : at + stride]
                more_of = counts[before : before + stride]
                for r in range(len(to)):
                    to[r] = np.int32(to[r] + more_of[r])


@leaf
def encode(lanes: Lanes, rows: Rows, slot: int) -> int:
    """Return the code of a row."""
    for i in range(len(lanes.where)):
        x = rows.columns[lanes.where[i], slot]
        if not (lanes.low[i] <= x <= lanes.high[i]):
            return NOT_RANKED
    code = 0
    for j in range(len(lanes.column)):
        x = rows.columns[lanes.column[j], slot] * lanes.sign[j]
        if x != x:
            return NOT_RANKED
        # Their number, with one more, is a power of two: the search has no branch that could be predicted wrongly.
        bound = lanes.bound[j]
        level = 0
        half = (len(bound) + 1) >> 1
        while half > 0:
            level += half * int(bound[level + half - 1] < x)
            half >>= 1
        code |= level << lanes.shift[j]
    return code


@kernel
def encode_all(lanes: Lanes, rows: Rows, slots: Ints, codes: Ints) -> None:
    """Write the codes of rows at their slots."""
    for i in range(len(slots)):
        codes[slots[i]] = encode(lanes, rows, slots[i])


@leaf
def surely(lanes: Lanes, code: int) -> int:
    """Return the least code whose rows are all at least as large as a row of ``code``, in every column."""
    sure = code
    for j in range(len(lanes.shift)):
        level = (code >> lanes.shift[j]) & lanes.level
        if lanes.single[j, level] == 0:
            sure += 1 << lanes.shift[j]
    return sure


@leaf
def beats(lanes: Lanes, rows: Rows, p: int, code: int, q: int, other: int) -> bool:
    """Return whether the row in slot p dominates the row in slot q, whose code, ``other``, covers that of p.

    Only columns in which levels are equal need their values: these lie all over memory.
    """
    better = False
    mask = lanes.level
    for j in range(len(lanes.column)):
        if ((code ^ other) >> lanes.shift[j]) & mask:
            better = True
            continue
        a = rows.columns[lanes.column[j], p] * lanes.sign[j]
        b = rows.columns[lanes.column[j], q] * lanes.sign[j]
        if not a <= b:
            return False
        better |= a < b
    return better


@leaf
def no_worse(lanes: Lanes, rows: Rows, p: int, q: int) -> bool:
    """Return by their values whether the row in slot p is at least as good as the row in slot q in every column."""
    for j in range(len(lanes.column)):
        if not rows.columns[lanes.column[j], p] * lanes.sign[j] <= rows.columns[lanes.column[j], q] * lanes.sign[j]:
            return False
    return True


@leaf
def strictly_within(code: int, of: Ints, lanes: Lanes) -> int:
    """Count the codes whose cells lie behind the cell of ``code`` in every column."""
    guard = lanes.guard
    least = (code & lanes.coordinates) + lanes.step
    result = 0
    for i in range(len(of)):
        result += int(covers(of[i] & lanes.coordinates, least, guard))
    return result


@leaf
def within(code: int, of: Ints, lanes: Lanes) -> int:
    """Count the codes whose cells are not before the cell of ``code`` in any column."""
    guard = lanes.guard
    least = code & lanes.coordinates
    result = 0
    for i in range(len(of)):
        result += int(covers(of[i], least, guard))
    return result
