"""Influence lists: for each cell of the grid the queries that a row falling there may concern (SIGMOD'06, section 4.1).

A query is in the lists of exactly the cells whose bound reaches its ``level``. So membership needs no look-up: when
the level moves, the cells between the old and the new one are enumerated and nothing else is touched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.cells import Cells, Reach, cells_above
from topwatch.core.jit import inlined, inner, kernel
from topwatch.core.kernels.scoring import Floats, Ints, Queries


class Influence(NamedTuple):
    """Lists of queries by cell, each with spare room, in one pool."""

    first: Ints
    size: np.ndarray  # int32
    room: Ints
    pool: np.ndarray  # uint32: half the memory, and no index below zero to look out for
    used: Ints  # one number
    level: Floats  # per query; NaN when it is in no list
    result: Ints  # room for an enumeration of all cells
    bounds: Floats


@kernel
def move_level(influence: Influence, cells: Cells, reach: Reach, table: Queries, q: int, level: float) -> Influence:
    """Put a query into the lists of the cells that reach ``level`` and out of all others (NaN: out of all)."""
    before = influence.level[q]
    if level == before:
        return influence
    lowest = level
    if np.isnan(level) or before < level:
        lowest = before
    n = cells_above(cells, reach, table, q, lowest, influence.result, influence.bounds)
    for i in range(n):
        bound = influence.bounds[i]
        if bound >= level and not bound >= before:
            influence = _add(influence, influence.result[i], q)
        elif bound >= before and not bound >= level:  # also when the level is NaN: the query goes
            _drop(influence, influence.result[i], q)
    influence.level[q] = level
    return influence


@inner
def _add(influence: Influence, cell: int, q: int) -> Influence:
    n = influence.size[cell]
    if n == influence.room[cell]:
        room = max(4, 2 * n)
        if influence.used[0] + room > len(influence.pool):
            influence = _repack(influence, room)
        first = influence.used[0]
        influence.used[0] += room
        old = influence.first[cell]
        for i in range(n):
            influence.pool[first + i] = influence.pool[old + i]
        influence.first[cell] = first
        influence.room[cell] = room
    influence.pool[influence.first[cell] + n] = q
    influence.size[cell] = n + 1
    return influence


@inner
def _repack(influence: Influence, more: int) -> Influence:
    """Move all lists, with half their size to spare, into a pool with room for ``more`` and as much again."""
    needed = more
    for cell in range(len(influence.size)):
        needed += influence.size[cell] + influence.size[cell] // 2
    pool = np.empty(2 * needed + 64, np.uint32)
    used = 0
    for cell in range(len(influence.size)):
        n = influence.size[cell]
        old = influence.first[cell]
        for i in range(n):
            pool[used + i] = influence.pool[old + i]
        influence.first[cell] = used
        influence.room[cell] = n + n // 2
        used += n + n // 2
    influence.used[0] = used
    return Influence(
        influence.first,
        influence.size,
        influence.room,
        pool,
        influence.used,
        influence.level,
        influence.result,
        influence.bounds,
    )


@inlined
def _drop(influence: Influence, cell: int, q: int) -> None:
    first = influence.first[cell]
    last = influence.size[cell] - 1
    for i in range(last + 1):
        if influence.pool[first + i] == q:
            influence.pool[first + i] = influence.pool[first + last]
            influence.size[cell] = last
            return
