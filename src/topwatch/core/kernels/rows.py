"""The window as kernels see it, what a batch does to it, the log of changes that kernels write, and reports of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from topwatch.core.arrays import NO_FLOATS, Floats, Ints
from topwatch.core.jit import inlined, inner, kernel

LEAVE, ENTER = 0, 1


class Rows(NamedTuple):
    """Rows by slot, columns apart.

    In a first-in-first-out window a row's tick is its ordinal, its slot is that modulo the capacity (a power of two),
    and the live rows are a range of ordinals. Else ticks count deletions too, and a row is live at a moment when
    ``seq <= moment < gone``.
    """

    columns: Floats  # (columns, slots)
    seq: Ints  # tick at which the row in each slot arrived
    gone: Ints  # tick from which on it is gone (latest windows only)
    entity: Ints  # number of the row's id (latest windows only)
    fifo: bool
    mask: int  # capacity - 1


class Step(NamedTuple):
    """What one piece of a batch does: arrivals in order, and for each evaluation what has come and gone by then."""

    arrived: Ints  # slots
    expired: Ints  # slots, latest windows only
    at: Ints  # per evaluation: ordinal of the last row
    moment: Ints  # per evaluation: tick of the last arrival, replacement or deletion
    arrivals: Ints  # per evaluation: arrivals before it
    # The first live ordinal at the evaluation before this step, then per evaluation (first-in-first-out windows).
    heads: Ints
    expiries: Ints  # per evaluation: expiries before it (latest windows)


class Log(NamedTuple):
    """The changes of a step; grows by :func:`with_room`."""

    what: Ints  # (changes, 4): at, query, op, slot
    key: Floats
    size: Ints  # one number


class Report(NamedTuple):
    """Changes as slots and keys: one line each of at, index in the query table, op and slot."""

    what: Ints
    key: Floats


NOTHING = Report(np.empty((0, 4), np.int64), NO_FLOATS)


def new_log(room: int = 64) -> Log:
    """Return an empty log with room for so many changes."""
    return Log(np.empty((room, 4), np.int64), np.empty(room), np.zeros(1, np.int64))


def larger(log: Log, more: int) -> Log:
    """Return a log with the same changes, and twice the room of these and so many more."""
    n = int(log.size[0])
    new = new_log(2 * (n + more))
    new.what[:n], new.key[:n], new.size[0] = log.what[:n], log.key[:n], n
    return new


def joined(reports: Sequence[Report]) -> Report:
    """Return reports as one, in their order."""
    if len(reports) <= 1:
        return reports[0] if reports else NOTHING
    return Report(np.concatenate([part.what for part in reports]), np.concatenate([part.key for part in reports]))


def report_of(log: Log) -> Report:
    """Return the changes that kernels have logged."""
    return Report(log.what[: log.size[0]], log.key[: log.size[0]])


def report_lines(at: int | Ints, index: int | Ints, op: int, slots: Ints, keys: Floats) -> Report:
    """Return changes of one kind, given by their columns."""
    what = np.empty((slots.size, 4), np.int64)
    what[:, 0], what[:, 1], what[:, 2], what[:, 3] = at, index, op, slots
    return Report(what, keys)


@inner
def with_room(log: Log, more: int) -> Log:
    """Return the log, moved to a larger one when it has no room for ``more``."""
    n = log.size[0]
    if n + more <= len(log.key):
        return log
    what = np.empty((2 * (n + more), 4), np.int64)
    keys = np.empty(2 * (n + more), np.float64)
    for i in range(n):
        keys[i] = log.key[i]
        for j in range(4):
            what[i, j] = log.what[i, j]
    return Log(what, keys, log.size)


@inlined
def write(log: Log, at: int, query: int, op: int, slot: int, key: float) -> None:
    """Write a change, for which there is room."""
    n = log.size[0]
    log.what[n, 0] = at
    log.what[n, 1] = query
    log.what[n, 2] = op
    log.what[n, 3] = slot
    log.key[n] = key
    log.size[0] = n + 1


@kernel
def apart(log: Log, group: Ints, ends: Ints, signs: Floats) -> tuple[Ints, Ints, Ints, Ints, Ints, Floats]:
    """Return a log's columns: the group, of which each has the lines up to its end, at, query, op, slot and score."""
    n = log.size[0]
    of_group = np.empty(n, np.int64)
    at = np.empty(n, np.int64)
    query = np.empty(n, np.int64)
    op = np.empty(n, np.int64)
    slot = np.empty(n, np.int64)
    score = np.empty(n, np.float64)
    line = 0
    for i in range(len(group)):
        while line < ends[i]:
            of_group[line] = group[i]
            at[line] = log.what[line, 0]
            query[line] = log.what[line, 1]
            op[line] = log.what[line, 2]
            slot[line] = log.what[line, 3]
            score[line] = log.key[line] * signs[query[line]]
            line += 1
    return of_group, at, query, op, slot, score


@inlined
def alive(rows: Rows, slot: int, moment: int) -> bool:
    """Return whether the row of a slot is live at a moment (for windows that are not first-in-first-out)."""
    return rows.seq[slot] <= moment < rows.gone[slot]
