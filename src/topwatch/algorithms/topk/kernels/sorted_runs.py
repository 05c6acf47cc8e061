"""Sorted runs: for each query the best rows it keeps, best first, in one pool of arrays.

A run holds every live row whose key reaches its *threshold* (views), or those of them that fewer than k newer rows beat
(skybands). Ranks are found by a vectorised count and gaps are made by moving memory: at these sizes both beat trees.
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.core.jit import ZERO, inlined, move, prefetch
from topwatch.core.kernels.scoring import Floats, Ints

FAR = 2**62  # later than any row
LINE = 8  # numbers that memory gives at once


class Runs(NamedTuple):
    """All queries' runs. ``indices_of`` a query are those from ``first`` on."""

    first: Ints
    room: Ints  # ``extra`` included
    limit: Ints  # a run that has grown past its room and holds more live rows than this is cut
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
    most: Ints  # and how many these may become
    banded: bool
    unsorted: bool  # only the best are sorted; behind them lies the overflow, which may hold expired rows


@inlined
def indices_of(runs: Runs, q: int) -> int:
    """Return how many rows a query has memory for."""
    return runs.room[q] - runs.extra[q] + runs.most[q] + 1


@inlined
def ask_for_more(runs: Runs, q: int) -> None:
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
def put(runs: Runs, to: int, start: int) -> None:
    """Copy the row at one index to another."""
    runs.key[to] = runs.key[start]
    runs.seq[to] = runs.seq[start]
    if len(runs.slot) > 0:
        runs.slot[to] = runs.slot[start]
    if runs.banded:
        runs.beaten[to] = runs.beaten[start]


@inlined
def write(runs: Runs, index: int, key: float, seq: int, slot: int) -> None:
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
    return _index(runs, q, n, key, seq, slot)


@inlined
def spare(k: int) -> int:
    """Return how many rows beyond the answer are sorted in an unsorted run at most."""
    return min(64, 8 + k // 4)


@inlined
def insert_loose(runs: Runs, q: int, k: int, key: float, seq: int, slot: int) -> int:
    """Insert a row by rank among the sorted ones, or append it to the overflow when it is no better than they are.

    Return its rank, or at least k. The run must have room for it. Some more rows than the answer are sorted, so that
    they replace expired ones at once; where they have become many, the last of them join the overflow.
    """
    first = runs.first[q]
    n = runs.size[q]
    top = runs.top[q]
    runs.size[q] = n + 1
    if (top < n or n >= k + spare(k)) and before(runs.key[first + top - 1], runs.seq[first + top - 1], key, seq):
        write(runs, first + n, key, seq, slot)
        return top
    if top < n:
        put(runs, first + n, first + top)
    rank = _index(runs, q, top, key, seq, slot)
    runs.top[q] = top + 1 if top < k + spare(k) else k + spare(k) // 2
    return rank


@inlined
def _index(runs: Runs, q: int, top: int, key: float, seq: int, slot: int) -> int:
    """Insert a row by rank among the first ``top`` ones; the worse ones move on by one. Return its rank."""
    first = runs.first[q]
    rank = rank_of(runs.key[first : first + top], key)
    while rank < top and runs.key[first + rank] == key and runs.seq[first + rank] > seq:
        rank += 1
    shift(runs, first + rank + 1, first + rank, top - rank)
    write(runs, first + rank, key, seq, slot)
    runs.oldest[q] = min(runs.oldest[q], seq)
    return rank


@inlined
def cut(runs: Runs, q: int, count: int) -> None:
    """Keep the best ``count`` rows of a run that is sorted so far, and raise the threshold to the last of them."""
    runs.size[q] = count
    runs.top[q] = min(runs.top[q], count)
    runs.threshold[q] = runs.key[runs.first[q] + count - 1]
    runs.whole[q] = 0
