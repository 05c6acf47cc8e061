"""The best objects in order, down to a threshold, and what changes in the first k of them.

Every object whose (score, newest row) is not below the threshold is among them. A change of a score moves one entry.
When there are too many entries, the last are cut and the threshold rises; when fewer than k are left, the owner
rebuilds them and it falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.incomplete.kernels.object_scores import USED, Objects, best_of, score_of, told_by
from topwatch.core.jit import ZERO, inlined, leaf, move
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, write
from topwatch.core.kernels.scoring import Floats, Ints

K, KEEP, SIZE, TOUCHED, THRESHOLD, STAMP, ANSWERED, REFILLS, SCORES = range(9)


class Bests(NamedTuple):
    """The best objects, best first, and the last answer."""

    score: Floats
    newest: Ints
    object: Ints
    seated: Ints  # by object: the newest row that its entry was made with, 0 where it has none
    threshold: Floats  # the score that an entry must reach
    answer: Ints  # (3, k): objects, their newest rows and sources, as of the last evaluation
    answered: Floats  # (2, k): their scores, and the best they could still get
    member: Ints  # by object: 1 in the last answer
    mark: Ints  # by object: the last evaluation that saw it among the first k
    now: Ints


@inlined
def _rank(b: Bests, score: float, newest: int) -> int:
    low = ZERO
    high = b.now[SIZE]
    while low < high:
        middle = (low + high) // 2
        if b.score[middle] > score or (b.score[middle] == score and b.newest[middle] > newest):
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def seat(b: Bests, number: int, score: float, newest: int) -> None:
    """Enter an object, if it reaches the threshold."""
    if not (score > b.threshold[0] or (score == b.threshold[0] and newest >= b.now[THRESHOLD])):
        return
    rank = _rank(b, score, newest)
    n = b.now[SIZE]
    move(b.score, rank + 1, rank, n - rank)
    move(b.newest, rank + 1, rank, n - rank)
    move(b.object, rank + 1, rank, n - rank)
    b.score[rank] = score
    b.newest[rank] = newest
    b.object[rank] = number
    b.seated[number] = newest
    b.now[SIZE] = n + 1
    if rank < b.now[K]:
        b.now[TOUCHED] = 1
    if n + 1 == len(b.score):
        cut(b)


@leaf
def cut(b: Bests) -> None:
    """Keep as many as are wanted, and raise the threshold to the last of them."""
    keep = b.now[KEEP]
    for i in range(keep, b.now[SIZE]):
        b.seated[b.object[i]] = 0
    b.now[SIZE] = keep
    b.threshold[0] = b.score[keep - 1]
    b.now[THRESHOLD] = b.newest[keep - 1]


@leaf
def reseat(o: Objects, b: Bests, number: int) -> None:
    """Compute the score of an object whose rows have changed, and move its entry."""
    rate(o, b, number, score_of(o, number) if o.rows[number] != 0 else np.nan)


@leaf
def rate(o: Objects, b: Bests, number: int, score: float) -> None:
    """Give an object a score, and move its entry; NaN for an object that is not ranked."""
    if b.seated[number] != 0:
        _unseat(b, number, o.score[number], b.seated[number])
    b.now[SCORES] += 1
    o.score[number] = score
    seat(b, number, score, o.newest[number])


@leaf
def refill(o: Objects, b: Bests) -> None:
    """Rebuild the entries from all objects."""
    clear(b)
    for number in range(o.now[USED]):
        if o.rows[number] != 0:
            seat(b, number, o.score[number], o.newest[number])


@leaf
def _unseat(b: Bests, number: int, score: float, newest: int) -> None:
    rank = _rank(b, score, newest)
    behind = b.now[SIZE] - rank - 1
    move(b.score, rank, rank + 1, behind)
    move(b.newest, rank, rank + 1, behind)
    move(b.object, rank, rank + 1, behind)
    b.seated[number] = 0
    b.now[SIZE] -= 1
    if rank < b.now[K]:
        b.now[TOUCHED] = 1


@leaf
def clear(b: Bests) -> None:
    """Take all entries out and lower the threshold to minus infinity."""
    for i in range(b.now[SIZE]):
        b.seated[b.object[i]] = 0
    b.now[SIZE] = 0
    b.now[THRESHOLD] = 0
    b.threshold[0] = -np.inf
    b.now[TOUCHED] = 1
    b.now[REFILLS] += 1


@inlined
def starved(b: Bests) -> bool:
    """Tell whether there may be objects below the threshold that belong to the first k."""
    return b.now[SIZE] < b.now[K] and b.threshold[0] != -np.inf


@leaf
def report(o: Objects, b: Bests, at: int, index: int, log: Log) -> None:
    """Log what has left and entered the first k since the last evaluation; the log has room for that."""
    n = min(b.now[K], b.now[SIZE])
    mask = len(o.object) - 1
    b.now[STAMP] += 1
    for i in range(n):
        b.mark[b.object[i]] = b.now[STAMP]
    for i in range(b.now[ANSWERED]):
        number = b.answer[0, i]
        if b.mark[number] != b.now[STAMP]:
            b.member[number] = 0
            write(log, at, index, LEAVE, b.answer[1, i] & mask, b.answered[0, i])
    for i in range(n):
        number = b.object[i]
        if b.member[number] == 0:
            b.member[number] = 1
            write(log, at, index, ENTER, b.newest[i] & mask, b.score[i])
        b.answer[0, i] = number
        b.answer[1, i] = b.newest[i]
        b.answer[2, i] = told_by(o, number)
        b.answered[0, i] = b.score[i]
        b.answered[1, i] = best_of(o, number)
    b.now[ANSWERED] = n
    b.now[TOUCHED] = 0
