"""The best objects in order, down to a threshold, and what changes in the first k of them.

Every object whose (score, newest row) is not below the threshold is among them. A change of a score moves one entry.
When there are too many entries, the last are cut and the threshold rises; when fewer than k are left, the owner
rebuilds them and it falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.incomplete.kernels.object_scores import Objects, best_of, free_dead, score_of, sources_of
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, inner, leaf
from topwatch.core.kernels.memory import move
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, with_room, write


class BestScalars:
    """Numbers beside the arrays; a record."""

    k: int
    keep: int  # entries that a cut leaves
    entries: int
    touched: int  # 1 when the first k may have changed since the last evaluation
    threshold: float  # the score that an entry must reach
    threshold_row: int  # and, with this score, its newest row
    stamp: int  # number of the last evaluation
    answered: int  # objects in the last answer
    refills: int
    scores: int  # that were computed


class Bests(NamedTuple):
    """The best objects, best first, and the last answer."""

    score: Floats
    newest: Ints
    object: Ints
    entry_row: Ints  # by object: the newest row that its entry was made with, 0 where it has none
    answer: Ints  # (3, k): objects, their newest rows and sources, as of the last evaluation
    answered: Floats  # (2, k): their scores, and the best they could still get
    member: Ints  # by object: 1 in the last answer
    mark: Ints  # by object: the last evaluation that saw it among the first k
    now: BestScalars


@inlined
def _rank(b: Bests, score: float, newest: int) -> int:
    low = ZERO
    high = b.now.entries
    while low < high:
        middle = (low + high) // 2
        if b.score[middle] > score or (b.score[middle] == score and b.newest[middle] > newest):
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def insert(b: Bests, number: int, score: float, newest: int) -> None:
    """Insert an object, if it reaches the threshold."""
    if not (score > b.now.threshold or (score == b.now.threshold and newest >= b.now.threshold_row)):
        return
    rank = _rank(b, score, newest)
    n = b.now.entries
    move(b.score, rank + 1, rank, n - rank)
    move(b.newest, rank + 1, rank, n - rank)
    move(b.object, rank + 1, rank, n - rank)
    b.score[rank] = score
    b.newest[rank] = newest
    b.object[rank] = number
    b.entry_row[number] = newest
    b.now.entries = n + 1
    if rank < b.now.k:
        b.now.touched = 1
    if n + 1 == len(b.score):
        cut(b)


@leaf
def cut(b: Bests) -> None:
    """Keep as many as are wanted, and raise the threshold to the last of them."""
    keep = b.now.keep
    for i in range(keep, b.now.entries):
        b.entry_row[b.object[i]] = 0
    b.now.entries = keep
    b.now.threshold = b.score[keep - 1]
    b.now.threshold_row = b.newest[keep - 1]


@leaf
def update(o: Objects, b: Bests, number: int) -> None:
    """Compute the score of an object whose rows have changed, and move its entry."""
    set_score(o, b, number, score_of(o, number) if o.rows[number] != 0 else np.nan)


@leaf
def set_score(o: Objects, b: Bests, number: int, score: float) -> None:
    """Give an object a score, and move its entry; NaN for an object that is not ranked."""
    if b.entry_row[number] != 0:
        _remove(b, number, o.score[number], b.entry_row[number])
    b.now.scores += 1
    o.score[number] = score
    insert(b, number, score, o.newest[number])


@leaf
def refill(o: Objects, b: Bests) -> None:
    """Rebuild the entries from all objects."""
    clear(b)
    for number in range(o.now.used):
        if o.rows[number] != 0:
            insert(b, number, o.score[number], o.newest[number])


@leaf
def _remove(b: Bests, number: int, score: float, newest: int) -> None:
    rank = _rank(b, score, newest)
    behind = b.now.entries - rank - 1
    move(b.score, rank, rank + 1, behind)
    move(b.newest, rank, rank + 1, behind)
    move(b.object, rank, rank + 1, behind)
    b.entry_row[number] = 0
    b.now.entries -= 1
    if rank < b.now.k:
        b.now.touched = 1


@leaf
def clear(b: Bests) -> None:
    """Take all entries out and lower the threshold to minus infinity."""
    for i in range(b.now.entries):
        b.entry_row[b.object[i]] = 0
    b.now.entries = 0
    b.now.threshold_row = 0
    b.now.threshold = -np.inf
    b.now.touched = 1
    b.now.refills += 1


@inlined
def starved(b: Bests) -> bool:
    """Return whether there may be objects below the threshold that belong to the first k."""
    return b.now.entries < b.now.k and b.now.threshold != -np.inf


@inner
def evaluate(o: Objects, b: Bests, at: int, index: int, log: Log) -> Log:
    """Log what has changed since the last evaluation; the entries are complete."""
    if b.now.touched != 0:
        log = with_room(log, b.now.answered + b.now.entries)
        _report(o, b, at, index, log)
    free_dead(o)
    return log


@leaf
def _report(o: Objects, b: Bests, at: int, index: int, log: Log) -> None:
    """Log what has left and entered the first k since the last evaluation; the log has room for that."""
    n = min(b.now.k, b.now.entries)
    mask = len(o.object) - 1
    b.now.stamp += 1
    for i in range(n):
        b.mark[b.object[i]] = b.now.stamp
    for i in range(b.now.answered):
        number = b.answer[0, i]
        if b.mark[number] != b.now.stamp:
            b.member[number] = 0
            write(log, at, index, LEAVE, b.answer[1, i] & mask, b.answered[0, i])
    for i in range(n):
        number = b.object[i]
        if b.member[number] == 0:
            b.member[number] = 1
            write(log, at, index, ENTER, b.newest[i] & mask, b.score[i])
        b.answer[0, i] = number
        b.answer[1, i] = b.newest[i]
        b.answer[2, i] = sources_of(o, number)
        b.answered[0, i] = b.score[i]
        b.answered[1, i] = best_of(o, number)
    b.now.answered = n
    b.now.touched = 0
