"""What happens to a run when a row arrives, expires or is deleted."""

from __future__ import annotations

from topwatch.algorithms.topk.kernels.form_skyband import beat
from topwatch.algorithms.topk.kernels.overflow import follow, shed
from topwatch.algorithms.topk.kernels.sorted_runs import FAR, Runs, cut, insert, insert_loose, put, rank_of, shift
from topwatch.core.jit import ZERO, inlined


@inlined
def admit(runs: Runs, q: int, k: int, key: float, seq: int, slot: int, head: int) -> int:
    """Take in an arrival whose key reaches the threshold; return its rank. Rows older than ``head`` have expired
    before.
    """
    rank = insert_loose(runs, q, k, key, seq, slot) if runs.unsorted else insert(runs, q, key, seq, slot)
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
    # One vectorised pass tells all that is needed in the usual case, in which a single row falls.
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
        follow(runs, q, k, left, top, head)
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
            follow(runs, q, k, top - 1, top, ZERO)
        else:
            runs.size[q] = n - 1
        return rank
    for i in range(top, n):
        if runs.seq[first + i] == seq:
            put(runs, first + i, first + n - 1)
            runs.size[q] = n - 1
            break
    return k
