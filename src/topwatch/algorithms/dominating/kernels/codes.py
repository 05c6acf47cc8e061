"""Rows as codes: one word in which every preferred column has a lane, so that dominance is three operations.

A lane holds the *level* of a value: how many of the column's bounds lie below it. Bounds are quantiles, so levels mean
the same whatever the scale, and smaller is better in every lane. Each lane has a guard bit above its level: with the
guards set in q, the guards of q - p tell at once in which lanes q >= p. Where two levels are equal the values decide;
but a level that only one value can have is *single*, and then equal levels are equal values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.jit import inlined, kernel, leaf
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Floats, Ints

NOT_RANKED = -1  # the code of a row that a query does not rank
CHUNK = 32  # contenders looked at together


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
    masks: Ints  # guards, cell coordinates, one step of a cell in every lane; a level in the first


GUARD, COORDINATES, STEP, LEVEL = range(4)


@inlined
def covers(q: int, p: int, guard: int) -> bool:
    """Tell whether q is at least p in every lane."""
    return ((q | guard) - p) & guard == guard


@inlined
def cell_of(lanes: Lanes, code: int) -> int:
    """Return the cell of a code."""
    cell = 0
    for j in range(len(lanes.shift)):
        at = (code >> (lanes.shift[j] + lanes.coarse[j])) & ((1 << lanes.bits[j]) - 1)
        cell |= at << lanes.cell_shift[j]
    return cell


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
        # Their number, with one more, is a power of two: the search has no branch that could be foreseen wrongly.
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
        level = (code >> lanes.shift[j]) & lanes.masks[LEVEL]
        if lanes.single[j, level] == 0:
            sure += 1 << lanes.shift[j]
    return sure


@leaf
def beats(lanes: Lanes, rows: Rows, p: int, code: int, q: int, other: int) -> bool:
    """Tell whether the row in slot p dominates the row in slot q, whose code, ``other``, covers that of p.

    Only columns in which levels are equal need their values: these lie all over memory.
    """
    better = False
    mask = lanes.masks[LEVEL]
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
    """Tell by their values whether the row in slot p is at least as good as the row in slot q in every column."""
    for j in range(len(lanes.column)):
        if not rows.columns[lanes.column[j], p] * lanes.sign[j] <= rows.columns[lanes.column[j], q] * lanes.sign[j]:
            return False
    return True


@leaf
def strictly_within(code: int, of: np.ndarray, lanes: Lanes) -> int:
    """Count the codes whose cells lie behind the cell of ``code`` in every column."""
    guard = lanes.masks[GUARD]
    least = (code & lanes.masks[COORDINATES]) + lanes.masks[STEP]
    result = 0
    for i in range(len(of)):
        result += int(covers(of[i] & lanes.masks[COORDINATES], least, guard))
    return result


@leaf
def within(code: int, of: np.ndarray, lanes: Lanes) -> int:
    """Count the codes whose cells are not before the cell of ``code`` in any column."""
    guard = lanes.masks[GUARD]
    least = code & lanes.masks[COORDINATES]
    result = 0
    for i in range(len(of)):
        result += int(covers(of[i], least, guard))
    return result
