"""Filters: boxes that hold as long as the skyline cannot have changed, with the costs of SIGMOD 2009, section 4.2.

Only pairs of skyline records are held apart (Lemma 4.1). A record that is not in the skyline needs a dominator in it
(Lemma 4.2) and nothing else: its box lies behind its dominator's, so that it cannot dominate a skyline record's box
where its dominator's does not. The paper compares each skyline record with all records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topwatch.algorithms.skyline.kernels.dominance import dominates
from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import ZERO, kernel, leaf

NEVER = 1e300  # the cost of a side without extent: finite, so that differences of costs are numbers


class Costs(NamedTuple):
    """What messages cost: up or down, of all that an event brings about (section 4.2)."""

    failure: float  # of a filter, per side of its box: P_f
    dominator: float  # of a dominator's filter, per column: P_r1
    probe: float  # of a probe: P_r2


class Filters(NamedTuple):
    """All records by slot; smaller is better in every column."""

    low: Floats  # (slots, columns): the better corner of the filter
    high: Floats
    point: Floats  # the values that were known last
    root: Floats  # root of the fastest change per timestamp
    fresh: np.ndarray  # bool: gets a new filter now; the box may still shrink, to the point at least
    log: Floats  # (probe sources, columns): the records that made the server probe others
    cost: Costs


@leaf
def _side(speed: float, room: float) -> float:
    """Return a speed by the room that is left, as in P_f and P_r1."""
    return min(NEVER, speed / room) if room > 0.0 else NEVER


@leaf
def _shrink_cost(f: Filters, i: int, k: int, x: float) -> float:
    """Return what it costs more when a fresh i ends at x in column k."""
    speed = f.cost.failure * f.root[i, k] * f.root[i, k]
    return _side(speed, x - f.point[i, k]) - _side(speed, f.high[i, k] - f.point[i, k])


@leaf
def _upper_probes(f: Filters, i: int, k: int, x: float) -> float:
    """Return P_r2 when the worse corner of i is x in column k: the share of probe sources possibly dominated."""
    inside = ZERO
    for m in range(len(f.log)):
        possible = True
        certain = True
        for c in range(f.low.shape[1]):
            possible &= f.low[i, c] <= f.log[m, c]
            certain &= (x if c == k else f.high[i, c]) <= f.log[m, c]
        inside += possible and not certain
    return inside / max(1, len(f.log))


@leaf
def _lower_probes(f: Filters, i: int, k: int, x: float) -> float:
    """Return P_r2 when the better corner of i is x in column k and the worse corner is nowhere."""
    inside = ZERO
    for m in range(len(f.log)):
        possible = True
        for c in range(f.low.shape[1]):
            possible &= (x if c == k else f.low[i, c]) <= f.log[m, c]
        inside += possible
    return inside / max(1, len(f.log))


@leaf
def _split_cost(f: Filters, i: int, j: int, k: int, x: float, probes: float) -> float:
    """Return what it costs more when i ends at x in column k and j begins there."""
    more = f.cost.probe * (_upper_probes(f, i, k, x) - probes)
    if f.fresh[i] and x < f.high[i, k]:
        more += _shrink_cost(f, i, k, x)
    if f.fresh[j] and x >= f.low[j, k]:
        speed = f.cost.failure * f.root[j, k] * f.root[j, k]
        more += _side(speed, f.point[j, k] - x) - _side(speed, f.point[j, k] - f.low[j, k])
    return more


@leaf
def hold_apart(f: Filters, i: int, j: int) -> bool:
    """Shrink fresh boxes until that of j cannot possibly dominate that of i; False when that cannot be.

    SelectDimension and SelectBoundary (Algorithms 4 and 5). Between two probe sources the cost is convex in the
    boundary, so that the best boundary is where it is least without them, or at a probe source.
    """
    if not dominates(f.low, j, f.high, i):
        return True
    best = np.inf
    column = -1
    where = 0.0
    for k in range(f.low.shape[1]):
        start = f.point[i, k] if f.fresh[i] else f.high[i, k]
        stop = f.point[j, k] if f.fresh[j] else f.low[j, k]
        if start < stop:
            x, more = _best_split(f, i, j, k, start, stop)
            if column < 0 or more < best:
                best, column, where = more, k, x
    if column >= 0:
        if f.fresh[i]:
            f.high[i, column] = min(f.high[i, column], where)
        if f.fresh[j]:
            f.low[j, column] = max(f.low[j, column], np.nextafter(where, np.inf))
        return True
    # Equal in every column: only without extent does neither dominate the other.
    for k in range(f.low.shape[1]):
        if f.fresh[i]:
            f.high[i, k] = f.point[i, k]
        if f.fresh[j]:
            f.low[j, k] = f.point[j, k]
    return not dominates(f.low, j, f.high, i)


@leaf
def _best_split(f: Filters, i: int, j: int, k: int, start: float, stop: float) -> tuple[float, float]:
    """Return where i should end and j begin in column k, from ``start`` to before ``stop``, and what that costs."""
    x = start
    if f.fresh[i]:
        share = f.root[i, k] / (f.root[i, k] + f.root[j, k]) if f.fresh[j] else 1.0
        x = min(max(start + (stop - start) * share, f.low[j, k]), f.high[i, k])
        x = min(x, np.nextafter(stop, -np.inf))
        if not x >= start:
            x = start
    probes = _upper_probes(f, i, k, f.high[i, k]) if f.fresh[i] and len(f.log) else 0.0
    best = _split_cost(f, i, j, k, x, probes)
    if probes > 0.0:
        for m in range(len(f.log)):
            y = f.log[m, k]
            if start < y < stop and y <= f.high[i, k]:
                more = _split_cost(f, i, j, k, y, probes)
                if more < best:
                    best, x = more, y
    return x, best


@leaf
def _boundary(f: Filters, i: int, j: int, k: int) -> float:
    """Return where i should begin in column k when j, not worse there, is its dominator: P_f against P_r1."""
    mine = f.root[i, k] * np.sqrt(f.cost.failure)
    alone = f.root[j, k] * np.sqrt(f.cost.dominator)
    high = f.high[j, k]
    gap = f.point[i, k] - f.point[j, k]
    x = f.point[j, k] + gap * (alone / (mine + alone))
    if not x >= high:
        both = f.root[j, k] * np.sqrt(f.cost.failure + f.cost.dominator)
        x = f.point[j, k] + gap * (both / (mine + both))
        if not (f.fresh[j] and x < high):
            x = high
    if not (x >= f.point[j, k] and x <= f.point[i, k]):
        x = min(high, f.point[i, k])
    return x


@leaf
def _child_cost(f: Filters, i: int, j: int, k: int, x: float) -> float:
    """Return what it costs in column k when i begins at x behind its dominator j."""
    cost = _side(f.cost.failure * f.root[i, k] * f.root[i, k], f.point[i, k] - x)
    cost += _side(f.cost.dominator * f.root[j, k] * f.root[j, k], x - f.point[j, k])
    if x < f.high[j, k]:
        cost += _shrink_cost(f, j, k, x)
    return cost


@leaf
def put_behind(f: Filters, i: int, sky: Ints) -> int:
    """Put the box of a fresh i behind the dominator that costs least; return that, or -1 where there is none."""
    best = np.inf
    chosen = -1
    for s in range(len(sky)):
        j = sky[s]
        if not dominates(f.point if f.fresh[j] else f.high, j, f.point, i):
            continue
        cost = 0.0
        for k in range(f.low.shape[1]):
            cost += _child_cost(f, i, j, k, _boundary(f, i, j, k))
        if chosen < 0 or cost < best:
            best, chosen = cost, j
    if chosen < 0:
        return chosen
    j = chosen
    for k in range(f.low.shape[1]):
        x = _boundary(f, i, j, k)
        least = f.point[j, k] if f.fresh[j] else f.high[j, k]
        if len(f.log):
            cost = _child_cost(f, i, j, k, x) + f.cost.probe * _lower_probes(f, i, k, x)
            for m in range(len(f.log)):
                y = np.nextafter(f.log[m, k], np.inf)
                if least < y < f.point[i, k] and y != x:
                    other = _child_cost(f, i, j, k, y)
                    if other < cost:
                        other += f.cost.probe * _lower_probes(f, i, k, y)
                        if other < cost:
                            cost, x = other, y
        f.low[i, k] = x
        if f.fresh[j]:
            f.high[j, k] = min(f.high[j, k], x)
    _make_strict(f, i, j)
    return chosen


@leaf
def _make_strict(f: Filters, i: int, j: int) -> None:
    """Shrink the box of i, nowhere before that of j, so that it is behind it in one column."""
    column = -1
    for k in range(f.low.shape[1]):
        if f.high[j, k] < f.low[i, k]:
            return
        if f.low[i, k] < f.point[i, k]:
            # Differences of infinities do not compare: the first column with room will do then.
            if column < 0 or f.point[i, k] - f.low[i, k] > f.point[i, column] - f.low[i, column]:
                column = k
    if column >= 0:
        f.low[i, column] = np.nextafter(f.low[i, column], np.inf)
        return
    for k in range(f.low.shape[1]):
        if f.fresh[j] and f.point[j, k] < f.low[i, k]:
            f.high[j, k] = min(f.high[j, k], np.nextafter(f.low[i, k], -np.inf))
            return


@leaf
def _adopt(f: Filters, i: int, sky: Ints) -> int:
    """Return a dominator for i, whose own filter stays; where only a fresh one will do, shrink that."""
    best = np.inf
    chosen = -1
    for s in range(len(sky)):
        j = sky[s]
        if dominates(f.high, j, f.low, i):
            return j
        if f.fresh[j] and dominates(f.point, j, f.low, i):
            cost = 0.0
            for k in range(f.low.shape[1]):
                if f.low[i, k] < f.high[j, k]:
                    cost += _shrink_cost(f, j, k, f.low[i, k])
            if chosen < 0 or cost < best:
                best, chosen = cost, j
    if chosen < 0:
        return chosen
    widest = ZERO
    for k in range(f.low.shape[1]):
        f.high[chosen, k] = min(f.high[chosen, k], f.low[i, k])
        if f.low[i, k] - f.point[chosen, k] > f.low[i, widest] - f.point[chosen, widest]:
            widest = k
    if not dominates(f.high, chosen, f.low, i):
        if not f.point[chosen, widest] < f.low[i, widest]:  # infinite differences do not compare
            for k in range(f.low.shape[1]):
                if f.point[chosen, k] < f.low[i, k]:
                    widest = k
        f.high[chosen, widest] = np.nextafter(f.low[i, widest], -np.inf)
    return chosen


@kernel
def construct(f: Filters, sky: Ints, orphans: Ints, children: Ints, dominator: Ints) -> None:
    """Give fresh records filters, and records that lost their dominator a new one (Algorithm 3).

    ``orphans`` keep their filter; ``children`` are the fresh records that are not in the skyline.
    """
    for a in range(len(sky)):
        for b in range(a):
            if f.fresh[sky[a]] or f.fresh[sky[b]]:
                hold_apart(f, sky[a], sky[b])
                hold_apart(f, sky[b], sky[a])
    for o in range(len(orphans)):
        dominator[orphans[o]] = _adopt(f, orphans[o], sky)
    for c in range(len(children)):
        dominator[children[c]] = put_behind(f, children[c], sky)


@kernel
def try_filters(f: Filters, sky: Ints, rows: Ints) -> None:
    """Give each row the filter that it would have beside records whose filters stay as they are.

    Row by row as if the others were not there.
    """
    for r in range(len(rows)):
        i = rows[r]
        f.fresh[i] = True
        f.low[i] = -np.inf
        f.high[i] = np.inf
        if put_behind(f, i, sky) < 0:
            for s in range(len(sky)):
                j = sky[s]
                if dominates(f.point, i, f.low, j):  # i would replace it in the skyline
                    for k in range(f.low.shape[1]):
                        half = f.point[i, k] + 0.5 * (f.low[j, k] - f.point[i, k])
                        f.high[i, k] = min(f.high[i, k], half if half >= f.point[i, k] else f.point[i, k])
                else:
                    hold_apart(f, i, j)
                    hold_apart(f, j, i)
        f.fresh[i] = False


@kernel
def hold(f: Filters, sky: Ints, rows: Ints, holds: np.ndarray) -> None:
    """Mark the rows that are in their filters, where dominance between them and the skyline is certain."""
    for r in range(len(rows)):
        i = rows[r]
        inside = True
        for k in range(f.low.shape[1]):
            inside &= f.low[i, k] <= f.point[i, k] and f.point[i, k] <= f.high[i, k]
        behind = False
        apart = True
        for s in range(len(sky)):
            if dominates(f.high, sky[s], f.low, i):
                behind = True
                break
            same = not dominates(f.low, sky[s], f.high, i) and not dominates(f.low, i, f.high, sky[s])
            apart &= same or dominates(f.high, i, f.low, sky[s])
        holds[r] = inside and (behind or apart)
