"""Objects whose parts come in rows of their own: what each source has reported of each, and the score that makes.

Rows are called by their ordinals; 0 is no row. A score is computed again from the parts, from left to right, whenever
one of them changes, so that it depends on nothing but the live rows. Cost of a row or of its expiry: O(sources), and
O(m) for an expiry where m rows of one source are live.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.hashing import FREE, Entities, forget, index_of
from topwatch.core.jit import ZERO, inlined, inner, leaf
from topwatch.core.kernels.scoring import run_program

NO_OBJECT = -1
SUM, MAX, MEAN, EXPRESSION = range(4)  # how sources are combined
SINGLE, ADD, LARGEST = range(3)  # what of several rows of one source counts


class Observations(NamedTuple):
    """Rows as a query sees them."""

    ordinal: Ints
    id: Ints  # as a number
    source: Ints  # NO_OBJECT where a row does not count
    value: Floats  # normalised
    head: Ints  # the first live ordinal once a row has come


class Rule:
    """How a query makes a score of what sources report; a record."""

    combine: int  # SUM, MAX, MEAN or EXPRESSION
    occurrences: int  # SINGLE, ADD or LARGEST
    bounded: int  # 1 where values are normalised to [0, 1]
    most: int  # rows of a source that an object has at most, 0 if unknown


class ObjectScalars:
    """Numbers beside the arrays; a record."""

    head: int  # the first live ordinal
    end: int  # the last one
    freed: int  # numbers to give
    died: int  # objects in ``dead``
    live: int  # objects with a row
    duplicates: int  # rows refused because their source had reported the object
    used: int  # all objects have smaller numbers


class Objects(NamedTuple):
    """Rows by slot, and objects by number."""

    object: Ints  # of a row, NO_OBJECT where it does not count
    source: Ints
    value: Floats  # normalised
    next_row: Ints  # the next row of the same object and source
    id: Ints  # of an object, as a number
    rows: Ints  # how many are live
    newest: Ints  # its last row
    score: Floats
    part: Floats  # (objects, sources): what each source reports, 0 where it reports nothing
    first: Ints  # (objects, sources): the oldest live row
    last: Ints  # (objects, sources): the newest live row
    table: Entities  # ids to objects
    free: Ints  # numbers to give, as a stack
    dead: Ints  # objects that have lost their last row since the last evaluation
    listed: Ints  # 1 for objects among those
    factor: Floats  # of each source
    rule: Rule
    program: Ints  # of an expression: operations
    argument: Floats  # and what they are done to
    stack: Floats  # room for its results on the way
    highest: Floats  # room for the most that each source may still report
    now: ObjectScalars


@leaf
def arrive(o: Objects, ordinal: int, id: int, source: int, value: float) -> int:
    """Take in a row; return its object, or NO_OBJECT where the row does not count."""
    slot = ordinal & (len(o.object) - 1)
    o.object[slot] = NO_OBJECT
    o.now.end = ordinal
    if source < 0:
        return NO_OBJECT
    index = index_of(o.table, id)
    number = o.table.entity[index]
    if number == FREE:
        o.now.freed -= 1
        number = o.free[o.now.freed]
        o.now.used = max(o.now.used, number + 1)
        o.table.id[index] = id
        o.table.entity[index] = number
        o.id[number] = id
    before = o.last[number, source]
    if before != 0 and o.rule.occurrences == SINGLE:
        o.now.duplicates += 1
        return NO_OBJECT
    o.object[slot] = number
    o.source[slot] = source
    o.value[slot] = value
    o.next_row[slot] = 0
    o.last[number, source] = ordinal
    if before == 0:
        o.first[number, source] = ordinal
        o.part[number, source] = value
    else:
        o.next_row[before & (len(o.object) - 1)] = ordinal
        o.part[number, source] = _merged(o, o.part[number, source], value)
    o.rows[number] += 1
    o.now.live += int(o.rows[number] == 1)
    o.newest[number] = ordinal
    return number


@leaf
def expire(o: Objects, ordinal: int) -> int:
    """Expire the oldest row; return its object, or NO_OBJECT where the row did not count."""
    slot = ordinal & (len(o.object) - 1)
    o.now.head = ordinal + 1
    number = o.object[slot]
    if number == NO_OBJECT:
        return NO_OBJECT
    source = o.source[slot]
    left = o.next_row[slot]
    o.first[number, source] = left
    o.part[number, source] = 0.0
    if left == 0:
        o.last[number, source] = 0
    else:
        total = o.value[left & (len(o.object) - 1)]
        left = o.next_row[left & (len(o.object) - 1)]
        while left != 0:
            total = _merged(o, total, o.value[left & (len(o.object) - 1)])
            left = o.next_row[left & (len(o.object) - 1)]
        o.part[number, source] = total
    o.rows[number] -= 1
    if o.rows[number] == 0:
        o.now.live -= 1
        if o.listed[number] == 0:
            o.listed[number] = 1
            o.dead[o.now.died] = number
            o.now.died += 1
    return number


@inlined
def _merged(o: Objects, total: float, value: float) -> float:
    if o.rule.occurrences == LARGEST:
        return max(total, value)
    return total + value


@leaf
def combined(o: Objects, values: Floats) -> float:
    """Return the score of an object by what each source reports."""
    how = o.rule.combine
    if how == EXPRESSION:
        return run_program(o.program, o.argument, ZERO, len(o.program), values, o.stack)
    if how == MAX:
        best = -np.inf
        for s in range(len(o.factor)):
            best = max(best, o.factor[s] * values[s])
        return best
    total = 0.0
    weight = 0.0
    for s in range(len(o.factor)):
        total += o.factor[s] * values[s]
        weight += o.factor[s]
    return total / weight if how == MEAN else total


@leaf
def score_of(o: Objects, number: int) -> float:
    """Compute an object's score from its parts."""
    return combined(o, o.part[number])


@leaf
def sources_of(o: Objects, number: int) -> int:
    """Return a bit for each source that has a live row of an object."""
    bits = ZERO
    for s in range(len(o.factor)):
        if o.last[number, s] != 0:
            bits |= 1 << s
    return bits


@leaf
def best_of(o: Objects, number: int) -> float:
    """Return the best score that an object can get while all its rows live; infinite where nothing bounds it."""
    for s in range(len(o.factor)):
        o.highest[s] = _most(o, number, s)
    return combined(o, o.highest)


@leaf
def _most(o: Objects, number: int, s: int) -> float:
    """Return the most that a source may come to report of an object."""
    how = o.rule.occurrences
    if how == SINGLE and o.last[number, s] != 0:
        return o.part[number, s]
    if o.rule.bounded == 0:
        return np.inf
    if how != ADD:
        return 1.0
    if o.rule.most == 0:
        return np.inf
    rows = 0
    row = o.first[number, s]
    while row != 0:
        rows += 1
        row = o.next_row[row & (len(o.object) - 1)]
    return o.part[number, s] + max(0, o.rule.most - rows)


@inner
def free_dead(o: Objects) -> None:
    """Free the numbers of objects that have no row any more, once an evaluation has seen them go."""
    for i in range(o.now.died):
        number = o.dead[i]
        o.listed[number] = 0
        if o.rows[number] == 0:
            forget(o.table, o.id[number])
            o.free[o.now.freed] = number
            o.now.freed += 1
    o.now.died = 0
