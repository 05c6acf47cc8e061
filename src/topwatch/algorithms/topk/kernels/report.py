"""What is reported: the difference between a query's run and its last answer."""

from __future__ import annotations

from typing import NamedTuple

from topwatch.algorithms.topk.kernels.sorted_runs import FAR, LINE, Runs, before
from topwatch.core.jit import inlined, prefetch
from topwatch.core.kernels.rows import ENTER, LEAVE, Log, Rows
from topwatch.core.kernels.scoring import Floats, Ints


class Answers(NamedTuple):
    """What was last reported for each query."""

    first: Ints
    size: Ints
    key: Floats
    seq: Ints
    slot: Ints  # empty where the slot follows from the tick (first-in-first-out windows)
    stale: Ints  # 1 when the run may have changed since
    since: Ints  # and from which rank on (first-in-first-out windows): the rows before it are the same


@inlined
def touch(answers: Answers, q: int, rank: int) -> None:
    """Note that a query's answer may have changed from a rank on."""
    answers.stale[q] = 1
    answers.since[q] = min(answers.since[q], rank)


@inlined
def prefetch_answer(answers: Answers, q: int) -> None:
    """Ask for the memory of what was last reported, as far as it may have changed."""
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
    if rows.fifo and old == k and new == k and i < k and _one_for_one(answers, runs, rows, q, a, b, k, i, at, log):
        return
    j = i
    same = i
    waiting = log.size[0] + k  # enters wait behind the room for all leaves
    entered = waiting
    while i < old or j < new:
        if i < old and j < new and answers.seq[a + i] == runs.seq[b + j]:
            i += 1
            j += 1
        elif j == new or (i < old and before(answers.key[a + i], answers.seq[a + i], runs.key[b + j], runs.seq[b + j])):
            if rows.fifo or not _stays(answers, a, i, runs, b, new, rows):
                slot = answers.seq[a + i] & rows.mask if rows.fifo else answers.slot[a + i]
                _write(log, log.size[0], at, q, LEAVE, slot, answers.key[a + i])
                log.size[0] += 1
            i += 1
        else:
            if rows.fifo or not _was_there(answers, a, old, runs, b + j, rows):
                slot = runs.seq[b + j] & rows.mask if rows.fifo else runs.slot[b + j]
                _write(log, entered, at, q, ENTER, slot, runs.key[b + j])
                entered += 1
            j += 1
    for i in range(waiting, entered):
        n = log.size[0]
        _write(log, n, at, q, ENTER, log.what[i, 3], log.key[i])
        log.size[0] = n + 1
    for i in range(same, new):
        answers.key[a + i] = runs.key[b + i]
        answers.seq[a + i] = runs.seq[b + i]
        if not rows.fifo:
            answers.slot[a + i] = runs.slot[b + i]
    answers.size[q] = new
    answers.stale[q] = 0
    answers.since[q] = FAR


@inlined
def _one_for_one(
    answers: Answers, runs: Runs, rows: Rows, q: int, a: int, b: int, k: int, i: int, at: int, log: Log
) -> bool:
    """Log the usual change, in which one row left and one entered at either end of what moved from rank ``i`` on.

    One pass without branches detects both cases: the other rows have moved on by one rank, or up by one.
    """
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
    n = log.size[0]
    _write(log, n, at, q, LEAVE, answers.seq[left] & rows.mask, answers.key[left])
    _write(log, n + 1, at, q, ENTER, runs.seq[entered] & rows.mask, runs.key[entered])
    log.size[0] = n + 2
    for r in range(len(was)):
        was[r] = now[r]
    for r in range(i, k):
        answers.key[a + r] = runs.key[b + r]
    answers.stale[q] = 0
    answers.since[q] = FAR
    return True


@inlined
def _write(log: Log, index: int, at: int, query: int, op: int, slot: int, key: float) -> None:
    log.what[index, 0] = at
    log.what[index, 1] = query
    log.what[index, 2] = op
    log.what[index, 3] = slot
    log.key[index] = key


@inlined
def _stays(answers: Answers, a: int, i: int, runs: Runs, b: int, new: int, rows: Rows) -> bool:
    """Latest windows: the same id with the same key is there again, as a newer row."""
    entity = rows.entity[answers.slot[a + i]]
    for j in range(new):
        if runs.key[b + j] == answers.key[a + i] and rows.entity[runs.slot[b + j]] == entity:
            return True
    return False


@inlined
def _was_there(answers: Answers, a: int, old: int, runs: Runs, index: int, rows: Rows) -> bool:
    entity = rows.entity[runs.slot[index]]
    for i in range(old):
        if answers.key[a + i] == runs.key[index] and rows.entity[answers.slot[a + i]] == entity:
            return True
    return False
