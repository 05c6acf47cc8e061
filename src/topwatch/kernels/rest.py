"""The rest of a loose run: rows that reach the bar but not the answer, in no order, the expired among them.

Most rows that reach a bar come and go without ever being an answer. So they are only appended, which touches one or two
lines of memory; they are looked at when a place in the answer is free, and cleared when they fill the room.
"""

from __future__ import annotations

from topwatch.kernels.compile import inlined, leaf
from topwatch.kernels.runs import Runs, before, cut, put, spare, write


@inlined
def follow(runs: Runs, q: int, k: int, top: int, rest: int, head: int) -> None:
    """Close the gap between the sorted rows, which are ``top`` now, and the rest, which begins at rank ``rest``."""
    if top < k:
        _promote(runs, q, k, top, rest, head)
        return
    first = runs.first[q]
    n = runs.size[q]
    for i in range(min(rest - top, n - rest)):
        put(runs, first + top + i, first + n - 1 - i)
    runs.size[q] = n - (rest - top)
    runs.top[q] = top


@leaf
def _promote(runs: Runs, q: int, k: int, top: int, rest: int, head: int) -> None:
    """Clear the rest and sort it: its best live rows follow the ``top`` ones that are sorted.

    ``runs.oldest`` is that of the rows before ``top``, or older.
    """
    first = runs.first[q]
    oldest = runs.oldest[q]
    n = _clear(runs, q, top, rest, head)
    _sort(runs, first + top, n - top)
    runs.top[q] = min(n, k + spare(k) // 2)
    for place in range(first + top, first + runs.top[q]):
        oldest = min(oldest, runs.seq[place])
    runs.oldest[q] = oldest


@leaf
def shed(runs: Runs, q: int, head: int, limit: int) -> None:
    """Clear expired rows out of the rest; when more than ``limit`` rows are left, keep the target and raise the bar."""
    top = runs.top[q]
    n = _clear(runs, q, top, top, head)
    if n > limit:
        _sort(runs, runs.first[q] + top, n - top)
        cut(runs, q, runs.target[q])


@inlined
def _clear(runs: Runs, q: int, to: int, start: int, head: int) -> int:
    """Move the live rows from rank ``start`` on to ``to`` and the ranks behind it; return how many the run has then."""
    first = runs.first[q]
    for i in range(first + start, first + runs.size[q]):
        if runs.seq[i] >= head:
            put(runs, first + to, i)
            to += 1
    runs.size[q] = to
    return to


@inlined
def _swap(runs: Runs, place: int, other: int) -> None:
    if place == other:
        return
    key = runs.key[place]
    seq = runs.seq[place]
    slot = runs.slot[place] if len(runs.slot) > 0 else 0
    put(runs, place, other)
    write(runs, other, key, seq, slot)


@leaf
def _sort(runs: Runs, start: int, count: int) -> None:
    """Sort places, best first: a heap with the worst on top, taken from the top to the end."""
    for root in range(count // 2 - 1, -1, -1):
        _sink(runs, start, root, count)
    for end in range(count - 1, 0, -1):
        _swap(runs, start, start + end)
        _sink(runs, start, 0, end)


@inlined
def _sink(runs: Runs, start: int, place: int, count: int) -> None:
    while True:
        child = 2 * place + 1
        if child >= count:
            return
        a = start + child
        if child + 1 < count and before(runs.key[a], runs.seq[a], runs.key[a + 1], runs.seq[a + 1]):
            child += 1
            a += 1
        if not before(runs.key[start + place], runs.seq[start + place], runs.key[a], runs.seq[a]):
            return
        _swap(runs, start + place, a)
        place = child
