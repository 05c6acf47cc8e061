"""Sorted runs: for each query the best rows it keeps, best first, in one pool of arrays.

A run holds every live row whose key reaches its *bar* (views), or those of them that fewer than k newer rows beat
(skybands). Ranks are found by a vectorised count and places are made by moving memory: at these sizes both beat trees.
"""

from __future__ import annotations

from typing import NamedTuple

from topwatch.kernels.compile import ZERO, inlined, move
from topwatch.kernels.scoring import Floats, Ints

FAR = 2**62  # later than any row


class Runs(NamedTuple):
    """All queries' runs. ``room`` + 1 places belong to each query from ``first`` on."""

    first: Ints
    room: Ints
    limit: Ints  # a run that has grown past its room and holds more live rows than this is cut
    target: Ints  # rows that a computation from scratch keeps
    size: Ints
    bar: Floats
    whole: Ints  # 1 while the run holds every ranked live row, so that it cannot starve
    oldest: Ints  # no row in the run (of a loose one: in its sorted part) is older; a lower bound
    key: Floats
    seq: Ints
    slot: Ints  # empty where the slot follows from the tick (first-in-first-out windows)
    beaten: Ints  # skybands: newer and better rows met so far
    banded: bool
    loose: bool  # only the best k are sorted; behind them lies the rest, which may hold expired rows


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
    """Copy the row at one place to another."""
    runs.key[to] = runs.key[start]
    runs.seq[to] = runs.seq[start]
    if len(runs.slot) > 0:
        runs.slot[to] = runs.slot[start]
    if runs.banded:
        runs.beaten[to] = runs.beaten[start]


@inlined
def write(runs: Runs, place: int, key: float, seq: int, slot: int) -> None:
    """Write a row to a place."""
    runs.key[place] = key
    runs.seq[place] = seq
    if len(runs.slot) > 0:
        runs.slot[place] = slot
    if runs.banded:
        runs.beaten[place] = 0


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
def insert(runs: Runs, q: int, top: int, key: float, seq: int, slot: int) -> int:
    """Put a row at its place among the first ``top`` places, which are sorted; return its rank.

    What it pushes out of them, or the row itself when it is no better than they are, goes to the end. The run must
    have a free place.
    """
    first = runs.first[q]
    n = runs.size[q]
    runs.size[q] = n + 1
    if n < top:
        top = n
    elif before(runs.key[first + top - 1], runs.seq[first + top - 1], key, seq):
        write(runs, first + n, key, seq, slot)
        return top
    else:
        top -= 1
        put(runs, first + n, first + top)
    rank = rank_of(runs.key[first : first + top], key)
    while rank < top and runs.key[first + rank] == key and runs.seq[first + rank] > seq:
        rank += 1
    shift(runs, first + rank + 1, first + rank, top - rank)
    write(runs, first + rank, key, seq, slot)
    runs.oldest[q] = min(runs.oldest[q], seq)
    return rank


@inlined
def cut(runs: Runs, q: int, count: int) -> None:
    """Keep the best ``count`` rows of a run that is sorted so far, and raise the bar to the last of them."""
    runs.size[q] = count
    runs.bar[q] = runs.key[runs.first[q] + count - 1]
    runs.whole[q] = 0
