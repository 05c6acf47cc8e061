"""The loop of ``tally`` and ``sla``: exact scores of all objects, and the best of them in order.

With ``lists``, what sources report is kept in sorted lists, and a search in them finds the best objects again; where
they are None, a scan of all objects does.
"""

from __future__ import annotations

from topwatch.algorithms.incomplete.kernels.best_objects import Bests, evaluate, refill, starved, update
from topwatch.algorithms.incomplete.kernels.object_scores import NO_OBJECT, Objects, Observations, arrive, expire
from topwatch.algorithms.incomplete.kernels.source_lists import SourceLists, search, update_entry
from topwatch.core.jit import kernel, leaf, stepwise
from topwatch.core.kernels.rows import Log, Step


@leaf
def _release(o: Objects, b: Bests, lists: SourceLists | None, head: int) -> None:
    while o.now.head < head:
        source = o.source[o.now.head & (len(o.object) - 1)]
        number = expire(o, o.now.head)
        if number != NO_OBJECT:
            if lists is not None:
                update_entry(o, lists, number, source)
            update(o, b, number)


@leaf
def _take(o: Objects, b: Bests, lists: SourceLists | None, rows: Observations, start: int, stop: int) -> None:
    for i in range(start, stop):
        _release(o, b, lists, rows.head[i])
        number = arrive(o, rows.ordinal[i], rows.id[i], rows.source[i], rows.value[i])
        if number != NO_OBJECT:
            if lists is not None:
                update_entry(o, lists, number, rows.source[i])
            update(o, b, number)


@stepwise
@kernel
def drive_objects(
    o: Objects, b: Bests, lists: SourceLists | None, rows: Observations, step: Step, index: int, log: Log
) -> Log:
    """Take a step of the window; log the changes at its evaluations."""
    done = 0
    for j in range(len(step.at)):
        _take(o, b, lists, rows, done, step.arrivals[j])
        done = step.arrivals[j]
        _release(o, b, lists, step.heads[j + 1])
        if lists is None:
            if starved(b):
                refill(o, b)
        elif starved(b) or lists.now.always != 0:
            search(o, b, lists)
        log = evaluate(o, b, step.at[j], index, log)
    _take(o, b, lists, rows, done, len(rows.ordinal))
    return log
