"""The skyline of rows that come, move and go in any order: every dominated row has a witness, a row that dominates it.

The front is the skyline. A row is compared with the front when it comes, and again when its witness goes; where the
witness had one itself, that one takes over, since what dominates it dominates its rows too. Each row is in the list
of its witness, so that nothing is searched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.skyline.kernels.dominance import BLOCK, compare_block
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, inner, kernel, leaf, stepwise
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, Rows, Step, with_room, write

FRONT, NO_ROW = -1, -2  # witness of a row in the front, and of a slot without a ranked row


class WitnessScalars:
    """Numbers beside the arrays; a record."""

    front: int  # rows in the front
    touched: int  # rows in the list of touched ones
    compared: int  # pairs so far


class Witnessed(NamedTuple):
    """Rows by slot, and the front by index."""

    value: Floats  # (columns, slots); smaller is better
    witness: Ints
    child: Ints  # the first row that it is witness of, or -1
    after: Ints  # of the rows with the same witness
    before: Ints
    front_index: Ints  # in the front
    front: Ints  # slots by index
    front_value: Floats  # (columns, rows of the front)
    reported: Ints  # 1 for rows in the last answer
    touched: Ints  # slots that have entered or left the front since the last evaluation
    marked: Ints  # by slot: 1 where it is in that list
    leaving: Ints  # by entity, room for an evaluation
    hit: Ints  # indices, room for a comparison
    now: WitnessScalars
    flags: np.ndarray  # (2, BLOCK) of bool


@stepwise
@kernel
def drive_witnessed(w: Witnessed, rows: Rows, fresh: Floats, step: Step, query: int, log: Log) -> Log:
    """Process a step; ``fresh`` are the values of the rows that arrive."""
    i = ZERO
    e = ZERO
    for j in range(len(step.at) + 1):
        last = j == len(step.at)
        until = len(step.arrived) if last else step.arrivals[j]
        while i < until:
            _arrive(w, fresh[:, i], step.arrived[i])
            i += 1
        if not last:
            while e < step.expiries[j]:
                _leave(w, step.expired[e])
                e += 1
            log = _evaluate(w, rows, step.at[j], query, log)
    return log


@kernel
def begin_witnessed(w: Witnessed, fresh: Floats, slots: Ints) -> None:
    """Begin with rows in any order."""
    for i in range(len(slots)):
        _arrive(w, fresh[:, i], slots[i])


@leaf
def _arrive(w: Witnessed, x: Floats, slot: int) -> None:
    """Add a row, unless it is not ranked."""
    for c in range(len(x)):
        w.value[c, slot] = x[c]
    w.child[slot] = -1
    if x[0] == x[0]:
        _enter(w, slot)


@leaf
def _enter(w: Witnessed, slot: int) -> None:
    """Give a row a witness, or append it to the front."""
    hits = ZERO
    for start in range(0, w.now.front, BLOCK):
        stop = min(start + BLOCK, w.now.front)
        le, ge = w.flags[0, : stop - start], w.flags[1, : stop - start]
        w.now.compared += len(le)
        if compare_block(w.value[:, slot], w.front_value, start, stop, le, ge):
            for i in range(len(le)):
                if le[i] and not ge[i]:
                    _attach(w, slot, w.front[start + i])
                    return
                if ge[i] and not le[i]:
                    w.hit[hits] = start + i
                    hits += 1
    for h in range(hits - 1, -1, -1):  # the last entry fills the gap, so later ones go first
        beaten = w.front[w.hit[h]]
        _remove_from_front(w, beaten)
        _attach(w, beaten, slot)
    at = w.now.front
    w.now.front += 1
    w.front[at] = slot
    w.front_index[slot] = at
    for c in range(len(w.value)):
        w.front_value[c, at] = w.value[c, slot]
    w.witness[slot] = FRONT
    _touch(w, slot)


@leaf
def _leave(w: Witnessed, slot: int) -> None:
    """Remove a row; the rows that it was witness of get another one, or come into the front."""
    heir = w.witness[slot]
    if heir == NO_ROW:
        return
    if heir == FRONT:
        _remove_from_front(w, slot)
    else:
        _detach(w, slot)
    w.witness[slot] = NO_ROW
    orphan = w.child[slot]
    w.child[slot] = -1
    while orphan >= 0:
        following = w.after[orphan]
        if heir == FRONT:
            _enter(w, orphan)
        else:
            _attach(w, orphan, heir)
        orphan = following


@inlined
def _attach(w: Witnessed, slot: int, witness: int) -> None:
    w.witness[slot] = witness
    first = w.child[witness]
    w.after[slot] = first
    w.before[slot] = -1
    if first >= 0:
        w.before[first] = slot
    w.child[witness] = slot


@inlined
def _detach(w: Witnessed, slot: int) -> None:
    if w.before[slot] >= 0:
        w.after[w.before[slot]] = w.after[slot]
    else:
        w.child[w.witness[slot]] = w.after[slot]
    if w.after[slot] >= 0:
        w.before[w.after[slot]] = w.before[slot]


@inlined
def _remove_from_front(w: Witnessed, slot: int) -> None:
    """Remove a row from the front."""
    w.now.front -= 1
    at = w.front_index[slot]
    other = w.front[w.now.front]
    w.front[at] = other
    w.front_index[other] = at
    for c in range(len(w.value)):
        w.front_value[c, at] = w.value[c, other]
    w.front_index[slot] = -1
    _touch(w, slot)


@inlined
def _touch(w: Witnessed, slot: int) -> None:
    if w.marked[slot] == 0:
        w.marked[slot] = 1
        w.touched[w.now.touched] = slot
        w.now.touched += 1


@inner
def _evaluate(w: Witnessed, rows: Rows, at: int, query: int, log: Log) -> Log:
    """Report the changes since the last evaluation; a row that is replaced by one in the front has not changed."""
    n = w.now.touched
    log = with_room(log, n)
    for i in range(n):
        slot = w.touched[i]
        if w.reported[slot] == 1 and w.witness[slot] != FRONT:
            w.leaving[rows.entity[slot]] = 1
    for i in range(n):
        slot = w.touched[i]
        if w.reported[slot] == 0 and w.witness[slot] == FRONT:
            if w.leaving[rows.entity[slot]] == 1:
                w.leaving[rows.entity[slot]] = 0
            else:
                write(log, at, query, ENTER, slot, 0.0)
    for i in range(n):
        slot = w.touched[i]
        if w.reported[slot] == 1 and w.witness[slot] != FRONT:
            if w.leaving[rows.entity[slot]] == 1:
                write(log, at, query, LEAVE, slot, 0.0)
            w.leaving[rows.entity[slot]] = 0
        w.reported[slot] = int(w.witness[slot] == FRONT)
        w.marked[slot] = 0
    w.now.touched = 0
    return log
