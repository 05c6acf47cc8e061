"""Scores of rows, of runs of rows and upper bounds over boxes.

All kernels rank by a *key*: larger is better. A distance's key is its negative. The order of operations is that of
:meth:`topwatch.query.scores.Score.evaluate`, so keys agree bit for bit wherever they are computed; and since every step
rounds monotonically, a box's bound is never below the key of a row inside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.interpreted import interpreted, substitute
from topwatch.core.jit import inlined, leaf

LINEAR, PRODUCT, QUADRATIC, DISTANCE, EXPR = range(5)
CONST, COLUMN, ADD, SUB, MUL, DIV, POW, NEG = range(8)
STACK = 80
BLOCK = 512


class Queries(NamedTuple):
    """The query table as kernels see it; one row per query, unused columns of the matrices are padding."""

    kind: Ints
    terms: Ints
    column: Ints  # (queries, terms): column of the window
    value: Floats  # (queries, terms): coefficient
    rising: Ints  # (queries, terms): for expr, +1 rises and -1 falls along the column
    first: Ints  # expr: first instruction
    steps: Ints  # expr: number of instructions
    op: Ints
    argument: Floats
    ranges: Ints  # number of where ranges
    where_column: Ints
    where_low: Floats
    where_high: Floats
    k: Ints
    floor: Floats  # the least key a row of the answer may have
    values: Floats  # room for an expression's inputs
    stack: Floats  # room for its results on the way
    keys: Floats  # room for the keys of a block
    rows: Ints  # room for the indices of the rows of a block that reach a threshold


@inlined
def score_row(table: Queries, q: int, columns: Floats, slot: int) -> float:
    """Return the key of one row; NaN where a value is missing."""
    kind = table.kind[q]
    n = table.terms[q]
    if kind == LINEAR:
        total = table.value[q, 0] * columns[table.column[q, 0], slot]
        for i in range(1, n):
            total += table.value[q, i] * columns[table.column[q, i], slot]
        return total
    return _score_other(table, q, columns, slot)


@leaf
def _score_other(table: Queries, q: int, columns: Floats, slot: int) -> float:
    kind = table.kind[q]
    n = table.terms[q]
    total = 0.0
    for i in range(n):
        x = columns[table.column[q, i], slot]
        a = table.value[q, i]
        if kind == DISTANCE:
            part = (x - a) * (x - a)
        elif kind == PRODUCT:
            part = a + x
        elif kind == QUADRATIC:
            part = a * (x * x)
        else:
            part = x
            table.values[i] = x
            if np.isnan(x):
                return np.nan
        if i == 0:
            total = part
        elif kind == PRODUCT:
            total *= part
        else:
            total += part
    if kind == DISTANCE:
        return -np.sqrt(total)
    return _run_program(table, q) if kind == EXPR else total


@inlined
def _run_program(table: Queries, q: int) -> float:
    """Run an expression's postfix program over ``table.values``."""
    return run_program(table.op, table.argument, table.first[q], table.steps[q], table.values, table.stack)


@leaf
def run_program(op_of: Ints, argument: Floats, first: int, steps: int, values: Floats, stack: Floats) -> float:
    """Run so many instructions of a postfix program, from ``first`` on, over some values."""
    top = -1
    for i in range(first, first + steps):
        op = op_of[i]
        if op == CONST:
            top += 1
            stack[top] = argument[i]
        elif op == COLUMN:
            top += 1
            stack[top] = values[int(argument[i])]
        elif op == NEG:
            stack[top] = -stack[top]
        else:
            right = stack[top]
            top -= 1
            if op == ADD:
                stack[top] = stack[top] + right
            elif op == SUB:
                stack[top] = stack[top] - right
            elif op == MUL:
                stack[top] = stack[top] * right
            elif op == DIV:
                stack[top] = stack[top] / right
            else:
                stack[top] = stack[top] ** right
    return stack[0]


@inlined
def inside(table: Queries, q: int, columns: Floats, slot: int) -> bool:
    """Return whether a row lies in the query's where ranges; a missing value lies in none."""
    for i in range(table.ranges[q]):
        x = columns[table.where_column[q, i], slot]
        if not (table.where_low[q, i] <= x <= table.where_high[q, i]):
            return False
    return True


@leaf
def score_run(table: Queries, q: int, columns: Floats, start: int, out: Floats) -> None:
    """Fill ``out`` with the keys of the rows in consecutive slots from ``start``."""
    if table.kind[q] == EXPR:
        for i in range(len(out)):
            out[i] = score_row(table, q, columns, start + i)
    else:
        sum_terms(table.kind[q], table.terms[q], table.column[q], table.value[q], columns, start, out)
        if table.kind[q] == DISTANCE:
            for i in range(len(out)):
                out[i] = -np.sqrt(out[i])


@leaf
def sum_terms(kind: int, n: int, column: Ints, value: Floats, columns: Floats, start: int, out: Floats) -> None:
    """Fill ``out`` with the keys of consecutive rows, term after term; of distances with their squares."""
    stop = start + len(out)
    for t in range(n):
        x = columns[column[t], start:stop]
        if kind == LINEAR:
            _add_linear(value[t], x, out, t == 0)
        elif kind == DISTANCE:
            _add_square(value[t], x, out, t == 0)
        elif kind == PRODUCT:
            _multiply(value[t], x, out, t == 0)
        else:
            _add_quadratic(value[t], x, out, t == 0)


def _score_run_at_once(table: Queries, q: int, columns: Floats, start: int, out: Floats) -> None:
    """Do what ``score_run`` does by operations on arrays, which are quick without a compiler too."""
    if table.kind[q] != EXPR:
        _sum_terms_at_once(table.kind[q], table.terms[q], table.column[q], table.value[q], columns, start, out)
        if table.kind[q] == DISTANCE:
            np.negative(np.sqrt(out, out=out), out=out)
        return
    first, steps, terms = table.first[q], table.steps[q], table.terms[q]
    if (table.op[first : first + steps] == POW).any():  # NumPy's powers of arrays differ in the last bit
        for i in range(len(out)):
            out[i] = interpreted(score_row)(table, q, columns, start + i)
        return
    values = columns[table.column[q, :terms], start : start + len(out)]
    stack = np.empty((STACK, len(out)))
    out[:] = interpreted(run_program)(table.op, table.argument, first, steps, values, stack)
    out[np.isnan(values).any(axis=0)] = np.nan


def _sum_terms_at_once(
    kind: int, n: int, column: Ints, value: Floats, columns: Floats, start: int, out: Floats
) -> None:
    for t in range(n):
        x, a = columns[column[t], start : start + len(out)], value[t]
        if kind == DISTANCE:
            part = (x - a) * (x - a)
        elif kind == PRODUCT:
            part = a + x
        else:
            part = a * x if kind == LINEAR else a * (x * x)
        if t == 0:
            out[:] = part
        elif kind == PRODUCT:
            out *= part
        else:
            out += part


substitute(score_run, _score_run_at_once)
substitute(sum_terms, _sum_terms_at_once)


@inlined
def _add_linear(a: float, x: Floats, out: Floats, first: bool) -> None:
    if first:
        for i in range(len(out)):
            out[i] = a * x[i]
    else:
        for i in range(len(out)):
            out[i] += a * x[i]


@inlined
def _add_square(a: float, x: Floats, out: Floats, first: bool) -> None:
    if first:
        for i in range(len(out)):
            out[i] = (x[i] - a) * (x[i] - a)
    else:
        for i in range(len(out)):
            out[i] += (x[i] - a) * (x[i] - a)


@inlined
def _multiply(a: float, x: Floats, out: Floats, first: bool) -> None:
    if first:
        for i in range(len(out)):
            out[i] = a + x[i]
    else:
        for i in range(len(out)):
            out[i] *= a + x[i]


@inlined
def _add_quadratic(a: float, x: Floats, out: Floats, first: bool) -> None:
    if first:
        for i in range(len(out)):
            out[i] = a * (x[i] * x[i])
    else:
        for i in range(len(out)):
            out[i] += a * (x[i] * x[i])


@inlined
def term_bound(table: Queries, q: int, i: int, low: float, high: float) -> float:
    """Return the best that a value in [low, high] adds to a sum of terms (for a distance: its least square)."""
    kind = table.kind[q]
    a = table.value[q, i]
    if kind == DISTANCE:
        x = min(max(a, low), high) - a
        return x * x
    if a == 0.0:
        return 0.0  # an infinite value makes no number here, and its row is not ranked
    if kind == LINEAR:
        return a * high if a >= 0 else a * low
    if a > 0:
        return a * max(low * low, high * high)
    return 0.0 if low <= 0 <= high else a * min(low * low, high * high)


@inlined
def upper_bound(table: Queries, q: int, low: Floats, high: Floats) -> float:
    """Return a key that no row with term values in the box [low, high] exceeds."""
    kind = table.kind[q]
    n = table.terms[q]
    if kind == EXPR:
        for i in range(n):
            table.values[i] = high[i] if table.rising[q, i] > 0 else low[i]
        total = _run_program(table, q)
    elif kind == PRODUCT:
        total = _product_bound(table, q, low, high)
    else:
        total = 0.0
        unbounded = False
        for i in range(n):
            part = term_bound(table, q, i, low[i], high[i])
            unbounded = unbounded or part == np.inf
            total = part if i == 0 else total + part
        if kind == DISTANCE:
            total = -np.sqrt(total)
        elif unbounded:
            total = np.inf
    # Infinity minus infinity: nothing is known, so nothing is excluded.
    return np.inf if np.isnan(total) else total


@inlined
def _product_bound(table: Queries, q: int, low: Floats, high: Floats) -> float:
    """Return the largest product of the terms in a box; NaN where infinity times zero is among them."""
    least = table.value[q, 0] + low[0]
    most = table.value[q, 0] + high[0]
    for i in range(1, table.terms[q]):
        a = table.value[q, i] + low[i]
        b = table.value[q, i] + high[i]
        w, x, y, z = least * a, least * b, most * a, most * b
        least = min(min(w, x), min(y, z))
        most = max(max(w, x), max(y, z))
        if np.isnan(w) or np.isnan(x) or np.isnan(y) or np.isnan(z):
            return np.nan
    return most
