"""Which rows of a run reach a query's threshold: found in one fused loop, with keys only for those that do.

Most rows reach no threshold. Linear scores of up to four columns and distances in two to four are therefore compared in
loops that store nothing and have no branch; of distances the squares, which needs no roots. A row may be counted there
whose key falls short by a rounding error; it is found out when its key is computed.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.bits import (
    WIDTH,
    far_1,
    far_2,
    far_3,
    far_4,
    lowest,
    lowest_of,
    near_2,
    near_3,
    near_4,
)
from topwatch.core.jit import ZERO, inlined, leaf
from topwatch.core.kernels.scoring import DISTANCE, LINEAR, Floats, Ints, Queries, score_row, score_run, sum_terms


@inlined
def fused(table: Queries, q: int) -> bool:
    """Tell whether rows are counted without keys."""
    n = table.terms[q]
    return (table.kind[q] == LINEAR and n <= 4) or (table.kind[q] == DISTANCE and 2 <= n <= 4)


@leaf
def count_run(table: Queries, q: int, columns: Floats, start: int, threshold: float, out: Floats) -> int:
    """Count the rows in consecutive slots from ``start`` whose key reaches ``threshold``.

    ``out`` is room for as many keys as there are rows; they are in it if the query is not :func:`fused`.
    """
    if fused(table, q):
        kind = table.kind[q]
        goal = goal_of(kind, threshold)
        return _count(kind, table.terms[q], table.column[q], table.value[q], columns, start, len(out), goal)
    score_run(table, q, columns, start, out)
    return _reach(out, threshold)


@leaf
def find_run(
    table: Queries, q: int, columns: Floats, start: int, threshold: float, dense: bool, out: Floats, rows: Ints
) -> int:
    """Find the rows in consecutive slots from ``start`` whose key reaches ``threshold``; return how many.

    ``out`` is room for keys, ``rows`` for as many numbers: the keys of these rows and their indices in the run come
    first in them. ``dense``: so many rows reach a threshold that looking for them first does not pay.
    """
    kind = table.kind[q]
    size = len(out)
    result = ZERO
    if not fused(table, q):
        score_run(table, q, columns, start, out)
        for i in range(size):
            if out[i] >= threshold:
                rows[result] = i
                out[result] = out[i]
                result += 1
        return result
    n = table.terms[q]
    column = table.column[q]
    value = table.value[q]
    goal = goal_of(kind, threshold)
    first = ZERO
    while not dense and first < size and start + first + WIDTH <= columns.shape[1]:
        bits = reach_64(kind, n, column, value, columns, start + first, goal)
        if first + WIDTH > size:  # what lies behind the run does not count
            bits = lowest_of(bits, size - first)
        while bits != 0:
            i = first + lowest(bits)
            bits &= bits - 1
            key = score_row(table, q, columns, start + i)
            if key >= threshold:
                rows[result] = i
                out[result] = key
                result += 1
        first += WIDTH
    if first >= size:
        return result
    keys = out[first:size]
    sum_terms(kind, n, column, value, columns, start + first, keys)
    if kind == DISTANCE:
        for i in range(len(keys)):
            if keys[i] <= goal:
                key = -np.sqrt(keys[i])
                if key >= threshold:
                    rows[result] = first + i
                    out[result] = key
                    result += 1
    else:
        for i in range(len(keys)):
            if keys[i] >= threshold:
                rows[result] = first + i
                out[result] = keys[i]
                result += 1
    return result


@inlined
def reach_64(kind: int, n: int, column: Ints, value: Floats, columns: Floats, start: int, goal: float) -> int:
    """Return which of the rows from ``start`` on may reach a goal, as bits."""
    if kind == DISTANCE:
        if n == 2:
            return near_2(columns, column, value, start, goal)
        return near_3(columns, column, value, start, goal) if n == 3 else near_4(columns, column, value, start, goal)
    if n <= 2:
        return far_1(columns, column, value, start, goal) if n == 1 else far_2(columns, column, value, start, goal)
    return far_3(columns, column, value, start, goal) if n == 3 else far_4(columns, column, value, start, goal)


@inlined
def goal_of(kind: int, threshold: float) -> float:
    """Return what is compared with: of a distance, the square that a row may have at most, or a little more."""
    if kind != DISTANCE:
        return threshold
    return threshold * threshold * (1.0 + 1e-12) + 1e-300 if threshold <= 0.0 else -1.0


@inlined
def _count(kind: int, n: int, column: Ints, value: Floats, columns: Floats, start: int, size: int, goal: float) -> int:
    stop = start + size
    x = columns[column[0], start:stop]
    a = value[0]
    if n == 1:
        return _count_1(x, a, goal)
    y = columns[column[1], start:stop]
    b = value[1]
    if n == 2:
        return _near_2(x, y, a, b, goal) if kind == DISTANCE else _count_2(x, y, a, b, goal)
    z = columns[column[2], start:stop]
    c = value[2]
    if n == 3:
        return _near_3(x, y, z, a, b, c, goal) if kind == DISTANCE else _count_3(x, y, z, a, b, c, goal)
    u = columns[column[3], start:stop]
    d = value[3]
    return _near_4(x, y, z, u, a, b, c, d, goal) if kind == DISTANCE else _count_4(x, y, z, u, a, b, c, d, goal)


@inlined
def _reach(keys: Floats, threshold: float) -> int:
    result = ZERO
    for i in range(len(keys)):
        result += int(keys[i] >= threshold)
    return result


@inlined
def _count_1(x: Floats, a: float, threshold: float) -> int:
    result = ZERO
    for i in range(len(x)):
        result += int(a * x[i] >= threshold)
    return result


@inlined
def _count_2(x: Floats, y: Floats, a: float, b: float, threshold: float) -> int:
    result = ZERO
    for i in range(len(x)):
        result += int(a * x[i] + b * y[i] >= threshold)
    return result


@inlined
def _count_3(x: Floats, y: Floats, z: Floats, a: float, b: float, c: float, threshold: float) -> int:
    result = ZERO
    for i in range(len(x)):
        result += int(a * x[i] + b * y[i] + c * z[i] >= threshold)
    return result


@inlined
def _count_4(
    x: Floats, y: Floats, z: Floats, u: Floats, a: float, b: float, c: float, d: float, threshold: float
) -> int:
    result = ZERO
    for i in range(len(x)):
        result += int(a * x[i] + b * y[i] + c * z[i] + d * u[i] >= threshold)
    return result


@inlined
def _near_2(x: Floats, y: Floats, a: float, b: float, far: float) -> int:
    result = ZERO
    for i in range(len(x)):
        result += int((x[i] - a) * (x[i] - a) + (y[i] - b) * (y[i] - b) <= far)
    return result


@inlined
def _near_3(x: Floats, y: Floats, z: Floats, a: float, b: float, c: float, far: float) -> int:
    result = ZERO
    for i in range(len(x)):
        s = (x[i] - a) * (x[i] - a) + (y[i] - b) * (y[i] - b) + (z[i] - c) * (z[i] - c)
        result += int(s <= far)
    return result


@inlined
def _near_4(x: Floats, y: Floats, z: Floats, u: Floats, a: float, b: float, c: float, d: float, far: float) -> int:
    result = ZERO
    for i in range(len(x)):
        s = (x[i] - a) * (x[i] - a) + (y[i] - b) * (y[i] - b) + (z[i] - c) * (z[i] - c) + (u[i] - d) * (u[i] - d)
        result += int(s <= far)
    return result
