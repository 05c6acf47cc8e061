"""Sorted runs: for each query the best rows it keeps, best first, in one pool of arrays.

A run holds every live row whose key reaches its *bar* (views), or those of them that fewer than k newer rows beat
(skybands). Ranks are found by a vectorised count and places are made by moving memory: at these sizes both beat trees.
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.kernels.compile import ZERO, inlined, leaf, move
from topwatch.kernels.rows import ENTER, LEAVE, Log, Rows
from topwatch.kernels.scoring import Floats, Ints

FAR = 2**62  # later than any row


class Runs(NamedTuple):
    """All queries' runs. ``room`` + 1 places belong to each query from ``first`` on."""

    first: Ints
    room: Ints
    target: Ints  # rows that a computation from scratch keeps
    size: Ints
    bar: Floats
    whole: Ints  # 1 while the run holds every ranked live row, so that it cannot starve
    oldest: Ints  # no row in the run is older; a lower bound
    key: Floats
    seq: Ints
    slot: Ints
    beaten: Ints  # skybands: newer and better rows met so far
    banded: bool


class Answers(NamedTuple):
    """What was last reported for each query."""

    first: Ints
    size: Ints
    key: Floats
    seq: Ints
    slot: Ints
    stale: Ints  # 1 when the run may have changed since


@inlined
def rank_of(keys: Floats, key: float) -> int:
    """Count the keys above ``key``."""
    above = ZERO
    for i in range(len(keys)):
        above += int(keys[i] > key)
    return above


@inlined
def insert(runs: Runs, q: int, key: float, seq: int, slot: int) -> int:
    """Put a row at its place in the total order; return its rank. The run must have a free place."""
    first = runs.first[q]
    n = runs.size[q]
    rank = rank_of(runs.key[first : first + n], key)
    while rank < n and runs.key[first + rank] == key and runs.seq[first + rank] > seq:
        rank += 1
    place = first + rank
    behind = n - rank
    move(runs.key, place + 1, place, behind)
    move(runs.seq, place + 1, place, behind)
    move(runs.slot, place + 1, place, behind)
    runs.key[place] = key
    runs.seq[place] = seq
    runs.slot[place] = slot
    if runs.banded:
        move(runs.beaten, place + 1, place, behind)
        runs.beaten[place] = 0
    runs.size[q] = n + 1
    runs.oldest[q] = min(runs.oldest[q], seq)
    return rank


@inlined
def cut(runs: Runs, q: int, count: int) -> None:
    """Keep the best ``count`` rows and raise the bar to the last of them."""
    runs.size[q] = count
    runs.bar[q] = runs.key[runs.first[q] + count - 1]
    runs.whole[q] = 0


@inlined
def admit(runs: Runs, q: int, k: int, key: float, seq: int, slot: int) -> int:
    """Take in an arrival whose key reaches the bar; return its rank."""
    rank = insert(runs, q, key, seq, slot)
    if runs.banded:
        _beat(runs, q, k, rank + 1)
    if runs.size[q] > runs.room[q]:
        cut(runs, q, runs.target[q])
    return rank


@inlined
def _beat(runs: Runs, q: int, k: int, rank: int) -> None:
    """Count one more newer and better row for all from ``rank`` on; drop those that k such rows beat."""
    first = runs.first[q]
    n = runs.size[q]
    beaten = runs.beaten[first : first + n]
    full = 0
    for i in range(rank, n):
        beaten[i] += 1
        full += int(beaten[i] >= k)
    if full == 0:
        return
    kept = rank
    for i in range(rank, n):
        if beaten[i] < k:
            _put(runs, first + kept, first + i)
            kept += 1
    runs.size[q] = kept


@inlined
def _put(runs: Runs, to: int, start: int) -> None:
    runs.key[to] = runs.key[start]
    runs.seq[to] = runs.seq[start]
    runs.slot[to] = runs.slot[start]
    if runs.banded:
        runs.beaten[to] = runs.beaten[start]


@leaf
def form_band(runs: Runs, q: int, k: int) -> None:
    """Count for each row the newer and better ones, after a computation from scratch; drop those that k beat."""
    first = runs.first[q]
    # From the last on: those before it are still all there.
    for i in range(runs.size[q] - 1, -1, -1):
        newer = ZERO
        seq = runs.seq[first : first + i]
        mine = runs.seq[first + i]
        for j in range(i):
            newer += int(seq[j] > mine)
        runs.beaten[first + i] = newer
        if newer >= k:
            _close(runs, first + i, runs.size[q] - i - 1)
            runs.size[q] -= 1


@inlined
def expire(runs: Runs, q: int, head: int) -> int:
    """Drop all rows older than ``head``; return the best rank that fell, or the count when none did."""
    first = runs.first[q]
    n = runs.size[q]
    seq = runs.seq[first : first + n]
    fallen = ZERO
    last = ZERO - 1
    oldest = ZERO + FAR
    # One vectorised pass tells all that is needed in the usual case, in which a single row falls.
    for i in range(len(seq)):
        gone = seq[i] < head
        fallen += int(gone)
        last = max(last, i if gone else -1)
        oldest = min(oldest, FAR if gone else seq[i])
    runs.oldest[q] = oldest
    best = n if fallen == 0 else last
    while fallen > 0:
        if seq[last] < head:
            best = last
            _close(runs, first + last, n - last - 1)
            n -= 1
            fallen -= 1
        last -= 1
    runs.size[q] = n
    return best


@inlined
def _close(runs: Runs, place: int, behind: int) -> None:
    """Close the gap at a place."""
    move(runs.key, place, place + 1, behind)
    move(runs.seq, place, place + 1, behind)
    move(runs.slot, place, place + 1, behind)
    if runs.banded:
        move(runs.beaten, place, place + 1, behind)


@inlined
def remove(runs: Runs, q: int, key: float, seq: int) -> int:
    """Drop one row, found by its own key; return its rank, or -1 when it is not there."""
    first = runs.first[q]
    n = runs.size[q]
    rank = rank_of(runs.key[first : first + n], key)
    while rank < n and runs.key[first + rank] == key and runs.seq[first + rank] != seq:
        rank += 1
    if rank == n or runs.key[first + rank] != key:
        return -1
    _close(runs, first + rank, n - rank - 1)
    runs.size[q] = n - 1
    return rank


@inlined
def report(answers: Answers, runs: Runs, rows: Rows, q: int, k: int, at: int, log: Log) -> None:
    """Log what left and what entered the answer since the last report, and remember the new answer.

    The log must have room for 2k more.
    """
    a = answers.first[q]
    b = runs.first[q]
    old = answers.size[q]
    new = min(k, runs.size[q])
    i = 0
    while i < min(old, new) and answers.seq[a + i] == runs.seq[b + i]:
        i += 1
    j = i
    same = i
    waiting = log.size[0] + k  # enters wait behind the room for all leaves
    entered = waiting
    while i < old or j < new:
        if i < old and j < new and answers.seq[a + i] == runs.seq[b + j]:
            i += 1
            j += 1
        elif j == new or (
            i < old and _before(answers.key[a + i], answers.seq[a + i], runs.key[b + j], runs.seq[b + j])
        ):
            if rows.fifo or not _stays(answers, a, i, runs, b, new, rows):
                _write(log, log.size[0], at, q, LEAVE, answers.slot[a + i], answers.key[a + i])
                log.size[0] += 1
            i += 1
        else:
            if rows.fifo or not _was_there(answers, a, old, runs, b + j, rows):
                _write(log, entered, at, q, ENTER, runs.slot[b + j], runs.key[b + j])
                entered += 1
            j += 1
    for i in range(waiting, entered):
        n = log.size[0]
        _write(log, n, at, q, ENTER, log.what[i, 3], log.key[i])
        log.size[0] = n + 1
    for i in range(same, new):
        answers.key[a + i] = runs.key[b + i]
        answers.seq[a + i] = runs.seq[b + i]
        answers.slot[a + i] = runs.slot[b + i]
    answers.size[q] = new
    answers.stale[q] = 0


@inlined
def _write(log: Log, place: int, at: int, query: int, op: int, slot: int, key: float) -> None:
    log.what[place, 0] = at
    log.what[place, 1] = query
    log.what[place, 2] = op
    log.what[place, 3] = slot
    log.key[place] = key


@inlined
def _before(key: float, seq: int, other_key: float, other_seq: int) -> bool:
    return key > other_key or (key == other_key and seq > other_seq)


@inlined
def _stays(answers: Answers, a: int, i: int, runs: Runs, b: int, new: int, rows: Rows) -> bool:
    """Latest windows: the same id with the same key is there again, as a newer row."""
    entity = rows.entity[answers.slot[a + i]]
    for j in range(new):
        if runs.key[b + j] == answers.key[a + i] and rows.entity[runs.slot[b + j]] == entity:
            return True
    return False


@inlined
def _was_there(answers: Answers, a: int, old: int, runs: Runs, place: int, rows: Rows) -> bool:
    entity = rows.entity[runs.slot[place]]
    for i in range(old):
        if answers.key[a + i] == runs.key[place] and rows.entity[answers.slot[a + i]] == entity:
            return True
    return False
