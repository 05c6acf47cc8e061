"""What happens to a run when a row arrives, expires or is deleted, and when its memory is full.

Of an *unsorted* run only the best rows are sorted. Behind them lies the overflow: rows that reach the threshold but not
the answer, expired ones included. Most rows that reach a threshold come and go without ever being an answer, so they
are only appended, which touches one or two cache lines. They are read when the answer lacks rows, and cleared when
they fill the room. The best of them are those above a *mark* that so many keys reach; halving the range of keys finds
it by vectorised counts, sooner than a sort could move the rows. Where many keys are equal there may be no such mark;
rows are sorted then.

Skybands (SIGMOD'06, section 5) drop a row when k newer and better ones beat it.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.sorted_runs import (
    FAR,
    Runs,
    before,
    copy_row,
    cut,
    insert,
    insert_or_append,
    rank_of,
    shift,
    spare_rows,
    write_row,
)
from topwatch.core.arrays import Floats
from topwatch.core.jit import ZERO, inlined, leaf

FEW = 24  # rows up to which insertion sort is used


@inlined
def admit(runs: Runs, q: int, k: int, key: float, seq: int, slot: int, head: int) -> int:
    """Take in an arrival whose key reaches the threshold; return its rank. Rows before ``head`` have expired."""
    rank = insert_or_append(runs, q, k, key, seq, slot) if runs.unsorted else insert(runs, q, key, seq, slot)
    if runs.banded:
        beat(runs, q, k, rank + 1)
    if runs.size[q] > runs.room[q]:
        if runs.unsorted:
            shed(runs, q, head, runs.limit[q])
        else:
            cut(runs, q, runs.target[q])
    return rank


@inlined
def expire(runs: Runs, q: int, k: int, head: int) -> int:
    """Drop all rows older than ``head``; return the best rank that fell, or at least k when the answer is untouched."""
    first = runs.first[q]
    n = runs.size[q]
    top = runs.top[q] if runs.unsorted else n
    seq = runs.seq[first : first + top]
    fallen = ZERO
    last = ZERO - 1
    oldest = ZERO + FAR
    # One vectorised pass is enough in the usual case, in which a single row falls.
    for i in range(len(seq)):
        gone = seq[i] < head
        fallen += int(gone)
        last = max(last, i if gone else -1)
        oldest = min(oldest, FAR if gone else seq[i])
    runs.oldest[q] = oldest
    if fallen == 0:
        return max(n, k)
    best = last
    left = top
    while fallen > 0:
        if seq[last] < head:
            best = last
            shift(runs, first + last, first + last + 1, left - last - 1)
            left -= 1
            fallen -= 1
        last -= 1
    if runs.unsorted:
        _close_gap(runs, q, k, left, top, head)
    else:
        runs.size[q] = left
    return best


@inlined
def remove(runs: Runs, q: int, k: int, key: float, seq: int) -> int:
    """Drop one row, found by its own key and tick; return its rank, or at least k when it was not in the answer."""
    first = runs.first[q]
    n = runs.size[q]
    top = runs.top[q] if runs.unsorted else n
    rank = rank_of(runs.key[first : first + top], key)
    while rank < top and runs.key[first + rank] == key and runs.seq[first + rank] != seq:
        rank += 1
    if rank < top and runs.key[first + rank] == key:
        shift(runs, first + rank, first + rank + 1, top - rank - 1)
        if runs.unsorted:
            _close_gap(runs, q, k, top - 1, top, ZERO)
        else:
            runs.size[q] = n - 1
        return rank
    for i in range(top, n):
        if runs.seq[first + i] == seq:
            copy_row(runs, first + i, first + n - 1)
            runs.size[q] = n - 1
            break
    return k


@inlined
def beat(runs: Runs, q: int, k: int, rank: int) -> None:
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
            copy_row(runs, first + kept, first + i)
            kept += 1
    runs.size[q] = kept


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
            shift(runs, first + i, first + i + 1, runs.size[q] - i - 1)
            runs.size[q] -= 1


@inlined
def _close_gap(runs: Runs, q: int, k: int, top: int, overflow: int, head: int) -> None:
    """Close the gap between the sorted rows, which are ``top`` now, and the overflow, from rank ``overflow`` on."""
    if top < k:
        _promote(runs, q, k, top, overflow, head)
        return
    first = runs.first[q]
    n = runs.size[q]
    for i in range(min(overflow - top, n - overflow)):
        copy_row(runs, first + top + i, first + n - 1 - i)
    runs.size[q] = n - (overflow - top)
    runs.top[q] = top


@leaf
def _promote(runs: Runs, q: int, k: int, top: int, overflow: int, head: int) -> None:
    """Clear the overflow: its best live rows follow the ``top`` ones that are sorted."""
    _clear(runs, q, top, overflow, head)
    lift(runs, q, k, top)


@leaf
def shed(runs: Runs, q: int, head: int, limit: int) -> None:
    """Clear expired rows out of the overflow; of more than ``limit`` rows keep the target and raise the threshold.

    Half of the run's extra rows are given up.
    """
    top = runs.top[q]
    n = _clear(runs, q, top, top, head)
    extra = runs.extra[q] // 2
    runs.room[q] += extra - runs.extra[q]
    runs.extra[q] = extra
    target = runs.target[q] + extra
    if n > limit + extra:
        if target > top:
            thin(runs, q, top, target - top, target - top + (limit - runs.target[q]) // 4)
        else:
            cut(runs, q, target)


@inlined
def _clear(runs: Runs, q: int, to: int, start: int, head: int) -> int:
    """Move the live rows from rank ``start`` on to ``to`` and the ranks behind it; return how many the run has then."""
    first = runs.first[q]
    for i in range(first + start, first + runs.size[q]):
        if runs.seq[i] >= head:
            copy_row(runs, first + to, i)
            to += 1
    runs.size[q] = to
    return to


@leaf
def thin(runs: Runs, q: int, start: int, least: int, most: int) -> None:
    """Of more than ``most`` rows from rank ``start`` on keep the best ``least`` to ``most``; raise the threshold."""
    first = runs.first[q]
    n = runs.size[q]
    mark = mark_of(runs.key[first + start : first + n], least, most)
    if np.isnan(mark):
        sort(runs, first + start, n - start)
        cut(runs, q, start + least)
        return
    to = start
    for i in range(start, n):
        reaches = runs.key[first + i] >= mark
        copy_row(runs, first + to, first + i)
        to += int(reaches)
    runs.size[q] = to
    runs.threshold[q] = mark
    runs.whole[q] = 0


@leaf
def lift(runs: Runs, q: int, k: int, top: int) -> None:
    """Sort the best of the overflow, all live, behind the first ``top`` rows, which are fewer than the answer has.

    ``runs.oldest`` is that of the rows before ``top``, or older.
    """
    first = runs.first[q]
    n = runs.size[q]
    to = n
    if n > k + spare_rows(k):
        to = k + spare_rows(k) // 2
        margin = spare_rows(k) // 4
        mark = mark_of(runs.key[first + top : first + n], to - top - margin, to - top + margin)
        if np.isnan(mark):
            sort(runs, first + top, n - top)
        else:
            to = top
            for i in range(first + top, first + n):
                if runs.key[i] >= mark:
                    _swap(runs, first + to, i)
                    to += 1
    sort(runs, first + top, to - top)
    runs.top[q] = to
    oldest = runs.oldest[q]
    for index in range(first + top, first + to):
        oldest = min(oldest, runs.seq[index])
    runs.oldest[q] = oldest


@leaf
def mark_of(keys: Floats, least: int, most: int) -> float:
    """Return a value that ``least`` to ``most`` of the keys, which are more, reach; NaN where there is none."""
    low = keys[0]
    high = keys[0]
    for i in range(len(keys)):
        low = min(low, keys[i])
        high = max(high, keys[i])
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return np.nan
        reached = ZERO
        for i in range(len(keys)):
            reached += int(keys[i] >= middle)
        if reached > most:
            low = middle
        elif reached < least:
            high = middle
        else:
            return middle


@leaf
def sort(runs: Runs, start: int, count: int) -> None:
    """Sort rows in the pool, best first; many by a heap with the worst on top, taken from the top to the end."""
    if count <= FEW:
        for i in range(start + 1, start + count):
            _sift(runs, start, i)
        return
    for root in range(count // 2 - 1, -1, -1):
        _sink(runs, start, root, count)
    for end in range(count - 1, 0, -1):
        _swap(runs, start, start + end)
        _sink(runs, start, 0, end)


@inlined
def _sift(runs: Runs, start: int, index: int) -> None:
    """Insert a row by rank among the sorted ones before it."""
    key = runs.key[index]
    seq = runs.seq[index]
    slot = runs.slot[index] if len(runs.slot) > 0 else 0
    while index > start and before(key, seq, runs.key[index - 1], runs.seq[index - 1]):
        copy_row(runs, index, index - 1)
        index -= 1
    write_row(runs, index, key, seq, slot)


@inlined
def _swap(runs: Runs, index: int, other: int) -> None:
    if index == other:
        return
    key = runs.key[index]
    seq = runs.seq[index]
    slot = runs.slot[index] if len(runs.slot) > 0 else 0
    copy_row(runs, index, other)
    write_row(runs, other, key, seq, slot)


@inlined
def _sink(runs: Runs, start: int, index: int, count: int) -> None:
    while True:
        child = 2 * index + 1
        if child >= count:
            return
        a = start + child
        if child + 1 < count and before(runs.key[a], runs.seq[a], runs.key[a + 1], runs.seq[a + 1]):
            child += 1
            a += 1
        if not before(runs.key[start + index], runs.seq[start + index], runs.key[a], runs.seq[a]):
            return
        _swap(runs, start + index, a)
        index = child
