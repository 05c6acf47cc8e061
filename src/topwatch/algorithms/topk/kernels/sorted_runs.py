"""Sorted runs: for each query the best rows it keeps, best first, and the answer that was last reported of them.

A run holds every live row whose key reaches its *threshold* (views), or those of them that fewer than k newer rows beat
(skybands). Ranks come from a vectorised count and gaps from moved memory: at these sizes both beat trees. A report is
the difference between the run and the last answer. Cost: O(k) per report that is due.
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, leaf
from topwatch.core.kernels.memory import move, prefetch
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, Rows, write
from topwatch.core.kernels.scoring import Queries

FAR = 2**62  # later than any row
LINE = 8  # numbers in a cache line


class Runs(NamedTuple):
    """All queries' runs: the rows of a query lie from index ``first`` on."""

    first: Ints
    room: Ints  # rows it may hold, ``extra`` included
    limit: Ints  # a run that has outgrown its room and holds more live rows than this is cut
    target: Ints  # rows that a computation from scratch keeps
    size: Ints
    threshold: Floats
    whole: Ints  # 1 while the run holds every ranked live row, so that it cannot starve
    top: Ints  # of an unsorted run: so many rows, the answer at least, are sorted
    oldest: Ints  # no row in the run (of an unsorted one: in its sorted part) is older; a lower bound
    key: Floats
    seq: Ints
    slot: Ints  # empty where the slot follows from the tick (first-in-first-out windows)
    beaten: Ints  # skybands: newer and better rows met so far
    extra: Ints  # of an unsorted run: rows beyond the target that the last computation from scratch kept at least
    most: Ints  # the largest that ``extra`` may become
    banded: bool
    unsorted: bool  # only the best are sorted; behind them lies the overflow, which may hold expired rows


class Answers(NamedTuple):
    """What was last reported for each query."""

    first: Ints
    size: Ints
    key: Floats
    seq: Ints
    slot: Ints  # empty where the slot follows from the tick (first-in-first-out windows)
    stale: Ints  # 1 when the run may have changed since
    since: Ints  # from which rank on (first-in-first-out windows): the rows before it are the same


class QueryState(NamedTuple):
    """Queries and their state: what they rank by, the rows they keep, and what was last reported of these."""

    table: Queries
    runs: Runs
    answers: Answers


@inlined
def capacity_of(runs: Runs, q: int) -> int:
    """Return how many rows a query has memory for."""
    return runs.room[q] - runs.extra[q] + runs.most[q] + 1


@inlined
def enlarge(runs: Runs, q: int) -> None:
    """Let a starving run keep more rows: twice as many as at the last time, as long as there is memory."""
    extra = min(runs.most[q], 2 * runs.extra[q] + runs.target[q])
    runs.room[q] += extra - runs.extra[q]
    runs.extra[q] = extra


@inlined
def prefetch_run(runs: Runs, q: int, count: int) -> None:
    """Prefetch a run's first rows and the memory behind its last one."""
    first = runs.first[q]
    for index in range(first, first + count, LINE):
        prefetch(runs.key, index)
        prefetch(runs.seq, index)
    prefetch(runs.key, first + runs.size[q])
    prefetch(runs.seq, first + runs.size[q])


@inlined
def rank_of(keys: Floats, key: float) -> int:
    """Count the keys above ``key``."""
    above = ZERO
    for i in range(len(keys)):
        above += int(keys[i] > key)
    return above


@inlined
def before(key: float, seq: int, other_key: float, other_seq: int) -> bool:
    """Tell whether a row stands before another in the total order: better, or as good and newer."""
    return key > other_key or (key == other_key and seq > other_seq)


@inlined
def copy_row(runs: Runs, to: int, start: int) -> None:
    """Copy the row at one index to another."""
    runs.key[to] = runs.key[start]
    runs.seq[to] = runs.seq[start]
    if len(runs.slot) > 0:
        runs.slot[to] = runs.slot[start]
    if runs.banded:
        runs.beaten[to] = runs.beaten[start]


@inlined
def write_row(runs: Runs, index: int, key: float, seq: int, slot: int) -> None:
    """Write a row at an index."""
    runs.key[index] = key
    runs.seq[index] = seq
    if len(runs.slot) > 0:
        runs.slot[index] = slot
    if runs.banded:
        runs.beaten[index] = 0


@inlined
def shift(runs: Runs, to: int, start: int, count: int) -> None:
    """Move rows to make or to close a gap."""
    move(runs.key, to, start, count)
    move(runs.seq, to, start, count)
    if len(runs.slot) > 0:
        move(runs.slot, to, start, count)
    if runs.banded:
        move(runs.beaten, to, start, count)


@inlined
def insert(runs: Runs, q: int, key: float, seq: int, slot: int) -> int:
    """Insert a row by rank into a run that is sorted; return its rank. The run must have room for it."""
    n = runs.size[q]
    runs.size[q] = n + 1
    return _insert_among(runs, q, n, key, seq, slot)


@inlined
def spare_rows(k: int) -> int:
    """Return how many rows beyond the answer are sorted in an unsorted run at most."""
    return min(64, 8 + k // 4)


@inlined
def insert_or_append(runs: Runs, q: int, k: int, key: float, seq: int, slot: int) -> int:
    """Insert a row by rank among the sorted ones, or append it to the overflow when it is no better than they are.

    Return its rank, or at least k. The run must have room for it. Some more rows than the answer are sorted, so that
    they replace expired ones at once; where they have become many, the last of them join the overflow.
    """
    first = runs.first[q]
    n = runs.size[q]
    top = runs.top[q]
    runs.size[q] = n + 1
    if (top < n or n >= k + spare_rows(k)) and before(runs.key[first + top - 1], runs.seq[first + top - 1], key, seq):
        write_row(runs, first + n, key, seq, slot)
        return top
    if top < n:
        copy_row(runs, first + n, first + top)
    rank = _insert_among(runs, q, top, key, seq, slot)
    runs.top[q] = top + 1 if top < k + spare_rows(k) else k + spare_rows(k) // 2
    return rank


@inlined
def _insert_among(runs: Runs, q: int, top: int, key: float, seq: int, slot: int) -> int:
    """Insert a row by rank among the first ``top`` ones; the worse ones move on by one. Return its rank."""
    first = runs.first[q]
    rank = rank_of(runs.key[first : first + top], key)
    while rank < top and runs.key[first + rank] == key and runs.seq[first + rank] > seq:
        rank += 1
    shift(runs, first + rank + 1, first + rank, top - rank)
    write_row(runs, first + rank, key, seq, slot)
    runs.oldest[q] = min(runs.oldest[q], seq)
    return rank


@inlined
def cut(runs: Runs, q: int, count: int) -> None:
    """Keep the best ``count`` rows of a run that is sorted so far, and raise the threshold to the last of them."""
    runs.size[q] = count
    runs.top[q] = min(runs.top[q], count)
    runs.threshold[q] = runs.key[runs.first[q] + count - 1]
    runs.whole[q] = 0


@inlined
def touch(answers: Answers, q: int, rank: int) -> None:
    """Mark an answer as one that may have changed from a rank on."""
    answers.stale[q] = 1
    answers.since[q] = min(answers.since[q], rank)


@leaf
def put_in_order(answers: Answers, stale: Ints, count: int) -> None:
    """Sort the stale queries: changes are reported in the order of their indices."""
    if count > 32:
        n = 0
        for q in range(len(answers.stale)):
            stale[n] = q
            n += answers.stale[q]
    else:
        for i in range(1, count):
            q = stale[i]
            index = i
            while index > 0 and stale[index - 1] > q:
                stale[index] = stale[index - 1]
                index -= 1
            stale[index] = q


@inlined
def prefetch_answer(answers: Answers, q: int) -> None:
    """Prefetch what was last reported, as far as it may have changed."""
    for index in range(answers.first[q] + answers.since[q], answers.first[q] + answers.size[q], LINE):
        prefetch(answers.key, index)
        prefetch(answers.seq, index)


@inlined
def report(answers: Answers, runs: Runs, rows: Rows, q: int, k: int, at: int, log: Log) -> None:
    """Log what left and what entered the answer since the last report, and remember the new answer.

    The log must have room for 2k more.
    """
    a = answers.first[q]
    b = runs.first[q]
    old = answers.size[q]
    new = min(k, runs.size[q])
    i = min(answers.since[q], min(old, new)) if rows.fifo else 0
    while i < min(old, new) and answers.seq[a + i] == runs.seq[b + i]:
        i += 1
    answers.stale[q] = 0
    answers.since[q] = FAR
    if rows.fifo and old == k and new == k and i < k and _one_for_one(answers, runs, rows, q, k, i, at, log):
        return
    j = i
    same = i
    pending = log.size[0] + k  # enters go behind the room for all leaves
    entered = pending
    while i < old or j < new:
        if i < old and j < new and answers.seq[a + i] == runs.seq[b + j]:
            i += 1
            j += 1
        elif j == new or (i < old and before(answers.key[a + i], answers.seq[a + i], runs.key[b + j], runs.seq[b + j])):
            if rows.fifo or not _stays(answers, a + i, runs, b, new, rows):
                slot = answers.seq[a + i] & rows.mask if rows.fifo else answers.slot[a + i]
                write(log, at, q, LEAVE, slot, answers.key[a + i])
            i += 1
        else:
            if rows.fifo or not _was_there(answers, a, old, runs, b + j, rows):
                log.what[entered, 3] = runs.seq[b + j] & rows.mask if rows.fifo else runs.slot[b + j]
                log.key[entered] = runs.key[b + j]
                entered += 1
            j += 1
    for i in range(pending, entered):
        write(log, at, q, ENTER, log.what[i, 3], log.key[i])
    for i in range(same, new):
        answers.key[a + i] = runs.key[b + i]
        answers.seq[a + i] = runs.seq[b + i]
        if not rows.fifo:
            answers.slot[a + i] = runs.slot[b + i]
    answers.size[q] = new


@inlined
def _one_for_one(answers: Answers, runs: Runs, rows: Rows, q: int, k: int, i: int, at: int, log: Log) -> bool:
    """Log the usual change, in which one row left and one entered at either end of what moved from rank ``i`` on.

    One pass without branches detects both cases: the other rows have moved on by one rank, or up by one.
    """
    a = answers.first[q]
    b = runs.first[q]
    was = answers.seq[a + i : a + k]
    now = runs.seq[b + i : b + k]
    down = 0
    up = 0
    for r in range(len(was) - 1):
        down += int(was[r] == now[r + 1])
        up += int(was[r + 1] == now[r])
    if down == len(was) - 1:
        left = a + k - 1
        entered = b + i
    elif up == len(was) - 1:
        left = a + i
        entered = b + k - 1
    else:
        return False
    write(log, at, q, LEAVE, answers.seq[left] & rows.mask, answers.key[left])
    write(log, at, q, ENTER, runs.seq[entered] & rows.mask, runs.key[entered])
    for r in range(len(was)):
        was[r] = now[r]
    for r in range(i, k):
        answers.key[a + r] = runs.key[b + r]
    return True


@inlined
def _stays(answers: Answers, index: int, runs: Runs, first: int, size: int, rows: Rows) -> bool:
    """Tell whether a row that was reported is in a run's first rows again, as a newer row of its id with its key."""
    entity = rows.entity[answers.slot[index]]
    for j in range(first, first + size):
        if runs.key[j] == answers.key[index] and rows.entity[runs.slot[j]] == entity:
            return True
    return False


@inlined
def _was_there(answers: Answers, first: int, size: int, runs: Runs, index: int, rows: Rows) -> bool:
    """Tell whether a row of a run was reported before, as an older row of its id with its key."""
    entity = rows.entity[runs.slot[index]]
    for i in range(first, first + size):
        if answers.key[i] == runs.key[index] and rows.entity[answers.slot[i]] == entity:
            return True
    return False
