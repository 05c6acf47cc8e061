"""Objects whose parts come in rows of their own: what each source has reported of each, and the score that makes.

Rows are called by their ordinals; 0 is no row. A score is computed again from the parts, from left to right, whenever
one of them changes, so that it depends on nothing but the live rows. Cost of a row or of its expiry: O(sources), and
O(m) for an expiry where m rows of one source are live.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.core.jit import ZERO, inlined, inner, leaf
from topwatch.core.kernels.latest_rows import FREE, Entities, forget, index_of
from topwatch.core.kernels.scoring import Floats, Ints, run_program

NOBODY = -1
SUM, MAX, MEAN, EXPRESSION = range(4)  # how sources are combined
SINGLE, ADD, LARGEST = range(3)  # what of several rows of one source counts
COMBINE, OCCURRENCES, BOUNDED, MOST = range(4)  # MOST: rows of a source that an object has at most, 0 if unknown
HEAD, END, FREES, DEADS, LIVE, DUPLICATES, USED = range(7)


class Objects(NamedTuple):
    """Rows by slot, and objects by number."""

    object: Ints  # of a row, NOBODY where it does not count
    source: Ints
    value: Floats  # normalised
    later: Ints  # the next row of the same object and source
    id: Ints  # of an object, as a number
    rows: Ints  # how many are live
    newest: Ints  # its last row
    score: Floats
    part: Floats  # (objects, sources): what each source says, 0 where it says nothing
    first: Ints  # (objects, sources): the oldest live row
    last: Ints  # (objects, sources): the newest live row
    table: Entities  # ids to objects
    free: Ints  # numbers to give, as a stack
    dead: Ints  # objects that have lost their last row since the last evaluation
    listed: Ints  # 1 for objects among those
    factor: Floats  # of each source
    rule: Ints
    program: Ints  # of an expression: operations
    argument: Floats  # and what they are done to
    stack: Floats  # room for its results on the way
    hope: Floats  # room for the best that each source may still say
    now: Ints


@leaf
def arrive(o: Objects, ordinal: int, id: int, source: int, value: float) -> int:
    """Take in a row; return its object, or NOBODY where the row does not count."""
    slot = ordinal & (len(o.object) - 1)
    o.object[slot] = NOBODY
    o.now[END] = ordinal
    if source < 0:
        return NOBODY
    index = index_of(o.table, id)
    number = o.table.entity[index]
    if number == FREE:
        o.now[FREES] -= 1
        number = o.free[o.now[FREES]]
        o.now[USED] = max(o.now[USED], number + 1)
        o.table.id[index] = id
        o.table.entity[index] = number
        o.id[number] = id
    before = o.last[number, source]
    if before != 0 and o.rule[OCCURRENCES] == SINGLE:
        o.now[DUPLICATES] += 1
        return NOBODY
    o.object[slot] = number
    o.source[slot] = source
    o.value[slot] = value
    o.later[slot] = 0
    o.last[number, source] = ordinal
    if before == 0:
        o.first[number, source] = ordinal
        o.part[number, source] = value
    else:
        o.later[before & (len(o.object) - 1)] = ordinal
        o.part[number, source] = _joined(o, o.part[number, source], value)
    o.rows[number] += 1
    o.now[LIVE] += int(o.rows[number] == 1)
    o.newest[number] = ordinal
    return number


@leaf
def expire(o: Objects, ordinal: int) -> int:
    """Let the oldest row go; return its object, or NOBODY where the row did not count."""
    slot = ordinal & (len(o.object) - 1)
    o.now[HEAD] = ordinal + 1
    number = o.object[slot]
    if number == NOBODY:
        return NOBODY
    source = o.source[slot]
    left = o.later[slot]
    o.first[number, source] = left
    o.part[number, source] = 0.0
    if left == 0:
        o.last[number, source] = 0
    else:
        total = o.value[left & (len(o.object) - 1)]
        left = o.later[left & (len(o.object) - 1)]
        while left != 0:
            total = _joined(o, total, o.value[left & (len(o.object) - 1)])
            left = o.later[left & (len(o.object) - 1)]
        o.part[number, source] = total
    o.rows[number] -= 1
    if o.rows[number] == 0:
        o.now[LIVE] -= 1
        if o.listed[number] == 0:
            o.listed[number] = 1
            o.dead[o.now[DEADS]] = number
            o.now[DEADS] += 1
    return number


@inlined
def _joined(o: Objects, total: float, value: float) -> float:
    if o.rule[OCCURRENCES] == LARGEST:
        return max(total, value)
    return total + value


@leaf
def combined(o: Objects, values: Floats) -> float:
    """Return the score that what the sources say makes."""
    how = o.rule[COMBINE]
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
def told_by(o: Objects, number: int) -> int:
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
        o.hope[s] = _most(o, number, s)
    return combined(o, o.hope)


@leaf
def _most(o: Objects, number: int, s: int) -> float:
    """Return the most that a source may come to say of an object."""
    how = o.rule[OCCURRENCES]
    if how == SINGLE and o.last[number, s] != 0:
        return o.part[number, s]
    if o.rule[BOUNDED] == 0:
        return np.inf
    if how != ADD:
        return 1.0
    if o.rule[MOST] == 0:
        return np.inf
    rows = 0
    row = o.first[number, s]
    while row != 0:
        rows += 1
        row = o.later[row & (len(o.object) - 1)]
    return o.part[number, s] + max(0, o.rule[MOST] - rows)


@inner
def bury(o: Objects) -> None:
    """Give back the numbers of objects that have no row any more, once an evaluation has seen them go."""
    for i in range(o.now[DEADS]):
        number = o.dead[i]
        o.listed[number] = 0
        if o.rows[number] == 0:
            forget(o.table, o.id[number])
            o.free[o.now[FREES]] = number
            o.now[FREES] += 1
    o.now[DEADS] = 0
