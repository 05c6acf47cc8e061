"""The unsorted overflow of a run: rows that reach the threshold but not the answer, including expired ones.

Most rows that reach a threshold come and go without ever being an answer. So they are only appended, which touches one
or two lines of memory; they are looked at when the answer lacks rows, and cleared when they fill the room.
"""

from __future__ import annotations

from topwatch.algorithms.topk.kernels.best_of_unsorted import lift, thin
from topwatch.algorithms.topk.kernels.sorted_runs import Runs, cut, put
from topwatch.core.jit import inlined, leaf


@inlined
def follow(runs: Runs, q: int, k: int, top: int, overflow: int, head: int) -> None:
    """Close the gap between the sorted rows, which are ``top`` now, and the overflow, from rank ``overflow`` on."""
    if top < k:
        _promote(runs, q, k, top, overflow, head)
        return
    first = runs.first[q]
    n = runs.size[q]
    for i in range(min(overflow - top, n - overflow)):
        put(runs, first + top + i, first + n - 1 - i)
    runs.size[q] = n - (overflow - top)
    runs.top[q] = top


@leaf
def _promote(runs: Runs, q: int, k: int, top: int, overflow: int, head: int) -> None:
    """Clear the overflow: its best live rows follow the ``top`` ones that are sorted."""
    _clear(runs, q, top, overflow, head)
    lift(runs, q, k, top)


@leaf
def shed(runs: Runs, q: int, head: int, limit: int) -> None:
    """Clear expired rows out of the overflow; when more than ``limit`` rows are left, keep the target and raise the
    threshold.

    Of the extra rows that a run has had for want of more, both allow half.
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
            put(runs, first + to, i)
            to += 1
    runs.size[q] = to
    return to
