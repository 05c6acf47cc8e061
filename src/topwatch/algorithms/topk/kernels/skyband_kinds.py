"""Three k-skybands with one interface: strict, relaxed and probabilistic (TODS'15, sections 3 and 4).

A k-skyband holds the rows that fewer than k newer and better ones beat. The *strict* one counts for each row those that
beat it and drops the row at k (SA). The *relaxed* one counts nothing and sorts the beaten out now and then (RA). The
*probabilistic* one keeps a fixed number of the best rows, so that one it has refused is seldom missed (PA). Each is a
sorted run of :class:`~topwatch.algorithms.topk.kernels.sorted_runs.Runs`; what :func:`admit` and :func:`settle` do
differs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.sorted_runs import Runs, copy_row, insert, rank_of, shift
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, inlined, inner, leaf

STRICT, RELAXED, PROBABILISTIC = range(3)
DEEP = 8  # rows between its two thresholds at the start of a block, for a query that is in no lists


class Skybands(NamedTuple):
    """The skybands of all queries.

    Of the runs' sizes, ``limit`` is for a relaxed one the size at which it is pruned and for a probabilistic one the
    most it keeps, ``target`` the least with which a probabilistic one refuses rows. No row below ``threshold`` is let
    in.
    """

    runs: Runs
    kind: int
    relax: float  # γ: by how much of its candidates a relaxed one may outgrow a strict one
    filters: bool  # of the rows in the buffer only; may forget any row
    level: Ints  # filters with an index: from so many rows on the worst are cut off; 0 where none is
    routing: Floats  # rows below it are not routed to the query; at most the threshold, and the key of any row kept
    newest: Ints  # room for pruning
    used: Ints  # one number: how much of the pool is in use


@inlined
def index_of(runs: Runs, q: int, key: float, seq: int) -> int:
    """Return the rank at which a row stands, or would."""
    first = runs.first[q]
    n = runs.size[q]
    rank = rank_of(runs.key[first : first + n], key)
    while rank < n and runs.key[first + rank] == key and runs.seq[first + rank] > seq:
        rank += 1
    return rank


@inlined
def stands_at(runs: Runs, q: int, rank: int, seq: int) -> bool:
    """Tell whether a row is the one at a rank."""
    return rank < runs.size[q] and runs.seq[runs.first[q] + rank] == seq


@inlined
def admit(bands: Skybands, q: int, k: int, key: float, seq: int, late: bool) -> int:
    """Take in a row that reaches the threshold; return its rank. A ``late`` row may be older than others that are kept.

    The run must have room for it.
    """
    runs = bands.runs
    rank = insert(runs, q, key, seq, ZERO)
    if bands.kind == STRICT:
        if late and _is_beaten(runs, q, k, rank):
            return k
        _beat_older(runs, q, k, rank)
    elif bands.kind == RELAXED:
        if runs.size[q] >= runs.limit[q]:
            prune(bands, q, k)
    else:
        if runs.size[q] > runs.limit[q]:
            runs.size[q] -= 1
        if runs.size[q] == runs.limit[q]:
            runs.threshold[q] = runs.key[runs.first[q] + runs.size[q] - 1]
    return rank


@inlined
def _is_beaten(runs: Runs, q: int, k: int, rank: int) -> bool:
    """Count the newer and better rows of one that came late; drop it again when there are k."""
    first = runs.first[q]
    mine = runs.seq[first + rank]
    seq = runs.seq[first : first + rank]
    newer = ZERO
    for i in range(len(seq)):
        newer += int(seq[i] > mine)
    runs.beaten[first + rank] = newer
    if newer < k:
        return False
    shift(runs, first + rank, first + rank + 1, runs.size[q] - rank - 1)
    runs.size[q] -= 1
    return True


@inlined
def _beat_older(runs: Runs, q: int, k: int, rank: int) -> None:
    """Count one more for the worse and older rows behind a new one; drop those that k beat."""
    first = runs.first[q]
    mine = runs.seq[first + rank]
    start = first + rank + 1
    stop = first + runs.size[q]
    beaten = runs.beaten[start:stop]
    seq = runs.seq[start:stop]
    full = ZERO
    last = ZERO - 1
    for i in range(len(beaten)):
        more = beaten[i] + int(seq[i] < mine)
        beaten[i] = more
        full += int(more >= k)
        last = max(last, i if more >= k else -1)
    while full > 0:
        if beaten[last] >= k:
            shift(runs, start + last, start + last + 1, stop - start - last - 1)
            stop -= 1
            full -= 1
        last -= 1
    runs.size[q] = stop - first


@leaf
def prune(bands: Skybands, q: int, k: int) -> None:
    """Drop the rows that k newer and better ones beat (Algorithm 4), and set the size at which that is due again.

    ``newest`` is a heap of the k newest rows met so far, the oldest of them on top.
    """
    runs = bands.runs
    first = runs.first[q]
    newest = bands.newest
    size = min(k, runs.size[q])
    for i in range(size):
        newest[i] = runs.seq[first + i]
    for root in range(size // 2 - 1, -1, -1):
        _sink(newest, root, size)
    kept = size
    for i in range(size, runs.size[q]):
        seq = runs.seq[first + i]
        if seq > newest[0]:
            newest[0] = seq
            _sink(newest, ZERO, size)
            if kept < i:
                copy_row(runs, first + kept, first + i)
            kept += 1
    runs.size[q] = kept
    runs.limit[q] = max(k + int(np.ceil((1.0 + bands.relax) * (kept - k))), 4 * k if kept <= k else kept)


@inlined
def _sink(heap: Ints, index: int, count: int) -> None:
    value = heap[index]
    while True:
        child = 2 * index + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[index] = heap[child]
        index = child
    heap[index] = value


@inlined
def shrunk(bands: Skybands, q: int, k: int, times: int) -> None:
    """Lower the threshold of a probabilistic skyband that has lost rows (Algorithm 2, lines 13 to 17; section 6.1)."""
    runs = bands.runs
    n = runs.size[q]
    if bands.kind != PROBABILISTIC or times == 0 or runs.threshold[q] == -np.inf:
        return
    if n < 2 or n < (k if bands.filters else runs.target[q]):
        runs.threshold[q] = -np.inf
        return
    end = runs.first[q] + n
    gap = runs.key[end - 2] - runs.key[end - 1]
    threshold = runs.threshold[q] - times * (gap if bands.filters else gap / 2)
    runs.threshold[q] = threshold if threshold > -np.inf else -np.inf  # infinity minus infinity too


@inlined
def settle(bands: Skybands, q: int, k: int) -> int:
    """Let the routing threshold follow the threshold; return -1 when it has fallen, 1 when it has risen, else 0.

    A threshold moves with every row. So the routing threshold lies an eighth of the rows further down.
    """
    runs = bands.runs
    n = runs.size[q]
    before = bands.routing[q]
    end = runs.first[q] + n
    if bands.kind == PROBABILISTIC:
        threshold = runs.threshold[q]
        if threshold == -np.inf:
            bands.routing[q] = threshold
            return -1 if before > threshold else 0
        margin = runs.key[end - 1 - min(n - 1, 2 + n // 8)] - runs.key[end - 1]
        far = threshold - before > 4 * margin and margin > 0
        if threshold < before or before == -np.inf or far:
            bands.routing[q] = _below(min(threshold, runs.key[end - 1]), margin)
    elif bands.level[q] > 0:
        if n < k:
            runs.threshold[q] = -np.inf
            bands.routing[q] = -np.inf
        elif n >= bands.level[q]:
            n = (k + bands.level[q]) // 2
            runs.size[q] = n
            runs.threshold[q] = runs.key[runs.first[q] + n - 1]
            bands.routing[q] = runs.threshold[q]
    return int(bands.routing[q] > before) - int(bands.routing[q] < before)


@inlined
def _below(key: float, margin: float) -> float:
    less = key - margin
    return less if less > -np.inf else -np.inf  # infinity minus infinity too


@leaf
def tighten(bands: Skybands) -> None:
    """Raise routing thresholds to little below the thresholds; for queries in no lists, which would have to follow."""
    if bands.kind != PROBABILISTIC:
        return
    runs = bands.runs
    for q in range(len(bands.routing)):
        n = runs.size[q]
        if n > 0 and runs.threshold[q] > -np.inf:
            end = runs.first[q] + n
            margin = runs.key[end - 1 - min(n - 1, DEEP)] - runs.key[end - 1]
            bands.routing[q] = _below(min(runs.threshold[q], runs.key[end - 1]), margin)


@inlined
def full(bands: Skybands, q: int) -> bool:
    """Tell whether a run has no room for another row."""
    return bands.runs.size[q] >= bands.runs.room[q]


@inner
def enlarged(bands: Skybands, q: int) -> Skybands:
    """Return the skybands with twice the room for one query, moved to a larger pool when this one is used up."""
    runs = bands.runs
    room = 2 * runs.room[q] + 8
    if bands.used[0] + room + 1 > len(runs.key):
        runs = _larger(runs, room + 1, bands.used)
    n = runs.size[q]
    to = bands.used[0]
    for i in range(n):
        copy_row(runs, to + i, runs.first[q] + i)
    runs.first[q] = to
    runs.room[q] = room
    bands.used[0] = to + room + 1
    return Skybands(runs, bands.kind, bands.relax, bands.filters, bands.level, bands.routing, bands.newest, bands.used)


@inner
def _larger(runs: Runs, more: int, used: Ints) -> Runs:
    """Copy all runs into a pool with room for ``more`` further rows, and half as much again."""
    total = more
    for q in range(len(runs.first)):
        total += runs.room[q] + 1
    total += total // 2
    key = np.empty(total, np.float64)
    seq = np.empty(total, np.int64)
    beaten = np.empty(total if runs.banded else 0, np.int64)
    to = 0
    for q in range(len(runs.first)):
        first = runs.first[q]
        for i in range(runs.size[q]):
            key[to + i] = runs.key[first + i]
            seq[to + i] = runs.seq[first + i]
            if runs.banded:
                beaten[to + i] = runs.beaten[first + i]
        runs.first[q] = to
        to += runs.room[q] + 1
    used[0] = to
    return Runs(
        runs.first,
        runs.room,
        runs.limit,
        runs.target,
        runs.size,
        runs.threshold,
        runs.whole,
        runs.top,
        runs.oldest,
        key,
        seq,
        runs.slot,
        beaten,
        runs.extra,
        runs.most,
        runs.banded,
        runs.unsorted,
    )
