"""The loop of ``tally``: every row and every expiry changes one score and moves at most one entry."""

from __future__ import annotations

from typing import NamedTuple

from topwatch.algorithms.incomplete.kernels.best_objects import (
    ANSWERED,
    SIZE,
    TOUCHED,
    Bests,
    refill,
    report,
    reseat,
    starved,
)
from topwatch.algorithms.incomplete.kernels.object_scores import HEAD, NOBODY, Objects, arrive, bury, expire
from topwatch.core.jit import kernel, leaf
from topwatch.core.kernels.rows import Log, Step, with_room
from topwatch.core.kernels.scoring import Floats, Ints


class Arrivals(NamedTuple):
    """Rows as a query sees them."""

    ordinal: Ints
    id: Ints  # as a number
    source: Ints  # NOBODY where a row does not count
    value: Floats  # normalised
    head: Ints  # the first live ordinal once a row has come


@leaf
def _release(o: Objects, b: Bests, head: int) -> None:
    while o.now[HEAD] < head:
        number = expire(o, o.now[HEAD])
        if number != NOBODY:
            reseat(o, b, number)


@leaf
def _take(o: Objects, b: Bests, rows: Arrivals, start: int, stop: int) -> None:
    for i in range(start, stop):
        _release(o, b, rows.head[i])
        number = arrive(o, rows.ordinal[i], rows.id[i], rows.source[i], rows.value[i])
        if number != NOBODY:
            reseat(o, b, number)


@kernel
def drive_tally(o: Objects, b: Bests, rows: Arrivals, step: Step, index: int, log: Log) -> Log:
    """Take a step of the window; log the changes at its evaluations."""
    done = 0
    for j in range(len(step.at)):
        _take(o, b, rows, done, step.arrivals[j])
        done = step.arrivals[j]
        _release(o, b, step.heads[j + 1])
        if starved(b):
            refill(o, b)
        if b.now[TOUCHED] != 0:
            log = with_room(log, b.now[ANSWERED] + b.now[SIZE])
            report(o, b, step.at[j], index, log)
        bury(o)
    _take(o, b, rows, done, len(rows.ordinal))
    return log
