"""Which rows reach which query's threshold: of a run of slots for one query, of a block of arrivals for all.

Most rows reach no threshold. Linear scores of up to four columns and distances in two to four are therefore compared 64
rows at a time without storing a key; of distances the squares, which needs no roots. A row whose key falls short by a
rounding error may pass this comparison; it drops out when its key is computed. Cost: O(terms) per row and query, about
four multiplications per cycle of the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from topwatch.core.arrays import Floats, Ints
from topwatch.core.interpreted import interpreted, substitute
from topwatch.core.jit import COMPILED, ZERO, inlined, leaf
from topwatch.core.kernels.scoring import BLOCK, DISTANCE, LINEAR, Queries, inside, score_row, score_run, sum_terms

WIDTH = 64  # rows that are compared at once
FEW = 8  # where more than one row in so many reaches a threshold, keys are computed for all

# Of columns, the numbers of those that a score reads, its coefficients, the first row and the goal.
Reaching = Callable[[Floats, Ints, Floats, int, float], int]


class Counts:
    """Counters since the start; a record."""

    scores: int  # keys computed
    listed: int  # rows whose cell lists queries
    hits: int  # rows that reached the threshold of a query
    cells: int  # cells visited by walks
    fills: int  # runs filled from scratch


class SlotRange(NamedTuple):
    """Rows that follow each other in a step: ``slots`` from index ``start`` to ``stop``."""

    slots: Ints
    start: int
    stop: int


class Hits(NamedTuple):
    """SlotRange that reach the threshold of a query: row by row, and for one query in the order of arrival."""

    row: Ints  # index among the slots
    query: Ints
    key: Floats
    size: Ints  # one number
    cells: np.ndarray  # int32: buffer for the cells of a block
    indices: Ints  # buffer for sorting, and for the rows that have a list
    spare: Ints
    spare_query: Ints
    spare_key: Floats


def new_hits(room: int) -> Hits:
    """Allocate room for so many hits, or some more."""
    size = max(4096, room)
    row, query, spare, spare_query = (np.empty(size, np.int64) for _ in range(4))
    one, cells, indices = np.zeros(1, np.int64), np.empty(BLOCK, np.int32), np.empty(BLOCK + 1, np.int64)
    return Hits(row, query, np.empty(size), one, cells, indices, spare, spare_query, np.empty(size))


@inlined
def run_length(slots: Ints, start: int, stop: int) -> int:
    """Return how many slots from ``start`` on are consecutive."""
    first = slots[start]
    part = slots[start:stop]
    apart = 0
    for i in range(len(part)):
        apart += int(part[i] != first + i)
    if apart == 0:  # the usual case, detected without a branch per slot
        return stop - start
    n = 1
    while slots[start + n] == first + n:
        n += 1
    return n


def _run_length_at_once(slots: Ints, start: int, stop: int) -> int:
    part = slots[start:stop]
    apart = np.flatnonzero(part != part[0] + np.arange(len(part)))
    return int(apart[0]) if apart.size else len(part)


substitute(run_length, _run_length_at_once)


@leaf
def route_by_scan(
    table: Queries, thresholds: Floats, columns: Floats, arrivals: SlotRange, hits: Hits, counts: Counts
) -> bool:
    """Score arrivals against all queries and write those that reach the threshold; False when they do not fit."""
    total = ZERO
    scores = ZERO
    slots = arrivals.slots
    i = arrivals.start
    while i < arrivals.stop:
        n = run_length(slots, i, arrivals.stop)
        for q in range(len(thresholds)):
            if table.k[q] == 0:
                continue
            dense = total * FEW > scores
            scores += n
            for t in range(find_run(table, q, columns, slots[i], n, thresholds[q], dense)):
                r = table.rows[t]
                if inside(table, q, columns, slots[i] + r):
                    if total == len(hits.row):
                        return False
                    hits.row[total] = i + r
                    hits.query[total] = q
                    hits.key[total] = table.keys[t]
                    total += 1
        i += n
    counts.scores += scores
    hits.size[0] = total
    if total > 1:
        _sort_by_row(hits, arrivals.start, arrivals.stop)
    return True


@leaf
def _sort_by_row(hits: Hits, start: int, stop: int) -> None:
    """Sort hits by row; those of one row stay in their order."""
    n = hits.size[0]
    indices = hits.indices
    for r in range(stop - start + 1):
        indices[r] = 0
    for i in range(n):
        indices[hits.row[i] - start + 1] += 1
        hits.spare[i] = hits.row[i]
        hits.spare_query[i] = hits.query[i]
        hits.spare_key[i] = hits.key[i]
    for r in range(stop - start):
        indices[r + 1] += indices[r]
    for i in range(n):
        to = indices[hits.spare[i] - start]
        indices[hits.spare[i] - start] += 1
        hits.row[to] = hits.spare[i]
        hits.query[to] = hits.spare_query[i]
        hits.key[to] = hits.spare_key[i]


@leaf
def add_hits(
    table: Queries, q: int, columns: Floats, arrivals: SlotRange, low: float, high: float, hits: Hits, done: int
) -> bool:
    """Add one query's arrivals with a key from ``low`` to below ``high`` to the hits from ``done`` on; False: no room.

    For a query whose threshold has fallen after the block was routed.
    """
    new = ZERO
    slots = arrivals.slots
    i = arrivals.start
    while i < arrivals.stop:
        n = run_length(slots, i, arrivals.stop)
        out = table.keys[:n]
        score_run(table, q, columns, slots[i], out)
        for r in range(n):
            if low <= out[r] < high and inside(table, q, columns, slots[i] + r):
                hits.spare[new] = i + r
                hits.spare_key[new] = out[r]
                new += 1
        i += n
    to = hits.size[0] + new - 1
    if to >= len(hits.row):
        return False
    old = hits.size[0] - 1
    hits.size[0] += new
    while new > 0:
        if old >= done and hits.row[old] > hits.spare[new - 1]:
            hits.row[to] = hits.row[old]
            hits.query[to] = hits.query[old]
            hits.key[to] = hits.key[old]
            old -= 1
        else:
            new -= 1
            hits.row[to] = hits.spare[new]
            hits.query[to] = q
            hits.key[to] = hits.spare_key[new]
        to -= 1
    return True


@leaf
def find_run(table: Queries, q: int, columns: Floats, start: int, size: int, threshold: float, dense: bool) -> int:
    """Find the rows in ``size`` consecutive slots, at most ``BLOCK``, whose key reaches ``threshold``; return how many.

    Their indices from ``start`` on and their keys are the first of ``table.rows`` and ``table.keys``. ``dense``: so
    many rows reach the threshold that looking for them first does not pay.
    """
    out = table.keys
    rows = table.rows
    kind = table.kind[q]
    n = table.terms[q]
    result = ZERO
    first = ZERO
    if (kind == LINEAR and n <= 4) or (kind == DISTANCE and 2 <= n <= 4):
        column = table.column[q]
        value = table.value[q]
        goal = _goal_of(kind, threshold)
        while not dense and first < size and start + first + WIDTH <= columns.shape[1]:
            bits = _reach_64(kind, n, column, value, columns, start + first, goal)
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
        sum_terms(kind, n, column, value, columns, start + first, out[first:size])
        if kind == DISTANCE:
            for i in range(first, size):
                out[i] = -np.sqrt(out[i]) if out[i] <= goal else np.nan
    else:
        score_run(table, q, columns, start, out[:size])
    for i in range(first, size):
        if out[i] >= threshold:
            rows[result] = i
            out[result] = out[i]
            result += 1
    return result


def _find_run_at_once(
    table: Queries, q: int, columns: Floats, start: int, size: int, threshold: float, dense: bool
) -> int:
    keys = np.empty(size)
    interpreted(score_run)(table, q, columns, start, keys)
    rows = np.flatnonzero(keys >= threshold)
    table.rows[: rows.size], table.keys[: rows.size] = rows, keys[rows]
    return rows.size


substitute(find_run, _find_run_at_once)


@inlined
def _reach_64(kind: int, n: int, column: Ints, value: Floats, columns: Floats, start: int, goal: float) -> int:
    """Return which of the rows from ``start`` on may reach a goal, as bits."""
    if kind == DISTANCE:
        if n == 2:
            return near_2(columns, column, value, start, goal)
        return near_3(columns, column, value, start, goal) if n == 3 else near_4(columns, column, value, start, goal)
    if n <= 2:
        return far_1(columns, column, value, start, goal) if n == 1 else far_2(columns, column, value, start, goal)
    return far_3(columns, column, value, start, goal) if n == 3 else far_4(columns, column, value, start, goal)


@inlined
def _goal_of(kind: int, threshold: float) -> float:
    """Return what is compared with: of a distance, the square that a row may have at most, or a little more."""
    if kind != DISTANCE:
        return threshold
    return threshold * threshold * (1.0 + 1e-12) + 1e-300 if threshold <= 0.0 else -1.0


def _plain(distance: bool, terms: int) -> Reaching:
    """Return the function as it is without a compiler."""

    def reach(columns: Floats, column: Ints, value: Floats, start: int, goal: float) -> int:
        total = np.zeros(WIDTH)
        for t in range(terms):
            x = columns[column[t], start : start + WIDTH]
            with np.errstate(all="ignore"):  # there may be anything behind the rows that are requested
                total = total + ((x - value[t]) * (x - value[t]) if distance else value[t] * x)
        result = total <= goal if distance else total >= goal
        return sum(1 << i for i in np.flatnonzero(result).tolist())

    return reach


def _opaque(builder: Any, number: Any) -> Any:
    """Return a number from a register: no instruction, but LLVM does not look behind it.

    Where the functions for several scores meet it would carry 64 results on in place of a number, and take them apart
    byte by byte on processors without registers for masks: scans took twice as long on one.
    """
    kind = ir.FunctionType(number.type, [number.type])
    return builder.asm(kind, "", "=r,0", [number], side_effect=False)


def _compiled(distance: bool, terms: int) -> Reaching:
    """Return the function for squares of distances up to the goal, or for weighted sums from it on."""
    vector = ir.VectorType(ir.DoubleType(), WIDTH)

    @intrinsic
    def reach(typing: Any, columns: Any, column: Any, value: Any, start: Any, goal: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def of(number: int) -> Any:
                return context.make_array(signature.args[number])(context, builder, arguments[number])

            def all_of(x: Any) -> Any:
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
                spread = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
                return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), spread)

            table = of(0)
            length = builder.extract_value(table.shape, 1)
            total = None
            for t in range(terms):
                index = ir.Constant(ir.IntType(64), t)
                row = builder.load(builder.gep(of(1).data, [index]))
                a = all_of(builder.load(builder.gep(of(2).data, [index])))
                pointer = builder.gep(table.data, [builder.add(builder.mul(row, length), arguments[3])])
                x = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=8)
                if distance:
                    x = builder.fsub(x, a)
                    a = x
                part = builder.fmul(a, x)
                total = part if total is None else builder.fadd(total, part)
            result = builder.fcmp_ordered("<=" if distance else ">=", total, all_of(arguments[4]))
            return _opaque(builder, builder.bitcast(result, ir.IntType(64)))

        return types.int64(columns, column, value, types.int64, types.float64), build

    return reach


def _function(distance: bool, terms: int) -> Reaching:
    plain = _plain(distance, terms)
    if not COMPILED:
        return plain
    compiled = _compiled(distance, terms)
    substitute(compiled, plain)
    return compiled


far_1, far_2, far_3, far_4 = (_function(False, terms) for terms in (1, 2, 3, 4))
near_2, near_3, near_4 = (_function(True, terms) for terms in (2, 3, 4))


def _lowest_of(bits: int, count: int) -> int:
    """Return the lowest bits, fewer than all."""
    return int(bits) & ((1 << int(count)) - 1)


def _lowest(bits: int) -> int:
    """Return the index of the lowest bit that is set."""
    return (int(bits) & -int(bits)).bit_length() - 1


if COMPILED:

    @intrinsic
    def lowest(typing: Any, bits: Any) -> Any:
        """Return the index of the lowest bit that is set."""

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), build

    @inlined
    def lowest_of(bits: int, count: int) -> int:
        """Return the lowest bits, fewer than all."""
        return bits & ((1 << count) - 1)

    substitute(lowest, _lowest)
    substitute(lowest_of, _lowest_of)
else:
    lowest, lowest_of = _lowest, _lowest_of
