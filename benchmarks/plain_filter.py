"""Algorithms 2 to 5 of SIGMOD 2009, transcribed and compiled: what the filter server is compared with.

Every record is compared with every other, each skyline record that needs a filter is held apart from all records, every
boundary is searched in every interval between probe sources with the whole cost of both filters, and one record is
probed after the other. Where it differs from what is printed it does so as :mod:`topwatch.edge.protocol.filter` does: a
boundary between two records without filter is where both cost least together, and filters end at infinity. The
dominator of a record, which the paper leaves open, is the first that is found.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.skyline.kernels.dominance import dominates
from topwatch.algorithms.skyline.kernels.filters import NEVER, Filters
from topwatch.core.arrays import NO_INTS, Floats, Ints
from topwatch.core.jit import ZERO, kernel, leaf
from topwatch.edge.protocol.device_records import Settings
from topwatch.edge.protocol.filter import PROBE_SOURCES, FilterMethod


class PlainFilter(FilterMethod):
    """The server of the filter method, transcribed. ``truth`` is what a probe finds, set before each timestamp."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.truth: Floats = np.zeros((0, settings.columns))
        self._result: Ints = NO_INTS

    def questions(self) -> Ints:
        """Return who is probed: Algorithm 2 asks one after the other, here all that it has asked."""
        if self._rows is not None:
            return NO_INTS
        n = len(self.truth)
        probed, sky = np.zeros((2, n), np.bool_)
        sources = np.empty((n, self.settings.columns))
        count = compute_skyline(
            self.low.copy(), self.high.copy(), self.truth, self.known[:n].copy(), self.alive[:n], probed, sky, sources
        )
        self._log = [*self._log, *sources[:count]][-PROBE_SOURCES:]
        self._rows, self._result = NO_INTS, np.flatnonzero(sky)
        return np.flatnonzero(probed)

    def _settled(self) -> Ints:
        return self._result

    def _make_filters(self, skyline: Ints) -> None:
        fresh = self.known & self.alive
        self.in_skyline[:] = False
        self.in_skyline[skyline] = True
        self.low[fresh], self.high[fresh] = -np.inf, np.inf
        construct_filters(self._filters(fresh), self.alive, self.in_skyline, skyline, self.dominator)


@kernel
def compute_skyline(
    low: Floats,
    high: Floats,
    truth: Floats,
    known: np.ndarray,
    alive: np.ndarray,
    probed: np.ndarray,
    sky: np.ndarray,
    sources: Floats,
) -> int:
    """Algorithm 2. Return how many probe sources there are."""
    n = len(truth)
    suspects = np.empty(n, np.int64)
    count = ZERO
    for i in range(n):
        if not alive[i]:
            continue
        size = ZERO
        out = False
        for j in range(n):
            if j == i or not alive[j]:
                continue
            if dominates(high, j, low, i):
                out = True
                break
            if dominates(low, j, high, i):
                suspects[size] = j
                size += 1
        if out:
            continue
        if size:
            if not known[i]:
                probed[i] = known[i] = True
                low[i] = truth[i]
                high[i] = truth[i]
            for s in range(size):
                if dominates(high, suspects[s], low, i):
                    out = True
                    break
            if not out:
                source = False
                for s in range(size):
                    j = suspects[s]
                    if not known[j] and dominates(low, j, high, i):
                        source = True
                        probed[j] = known[j] = True
                        low[j] = truth[j]
                        high[j] = truth[j]
                        if dominates(high, j, low, i):
                            out = True
                            break
                if source:
                    sources[count] = truth[i]
                    count += 1
        sky[i] = not out
    return count


@leaf
def _whole_cost(f: Filters, i: int, k: int, low: float, high: float, dominator: int) -> float:
    """Return C(F_i) with other bounds in column k: failures, both kinds of probes."""
    d = f.low.shape[1]
    cost = 0.0
    for c in range(d):
        speed = f.root[i, c] * f.root[i, c]
        left = f.point[i, c] - (low if c == k else f.low[i, c])
        right = (high if c == k else f.high[i, c]) - f.point[i, c]
        cost += f.cost[0] * speed / right if right > 0.0 else NEVER
        cost += f.cost[0] * speed / left if left > 0.0 else NEVER
        if dominator >= 0:
            gap = (low if c == k else f.low[i, c]) - f.point[dominator, c]
            if gap < np.inf and gap > -np.inf:
                cost += f.cost[1] * f.root[dominator, c] * f.root[dominator, c] / gap if gap > 0.0 else NEVER
    inside = ZERO
    for m in range(len(f.log)):
        possible = True
        certain = True
        for c in range(d):
            possible &= (low if c == k else f.low[i, c]) <= f.log[m, c]
            certain &= (high if c == k else f.high[i, c]) <= f.log[m, c]
        inside += possible and not certain
    return float(cost + f.cost[2] * inside / max(1, len(f.log)))


@leaf
def _select_boundary(f: Filters, i: int, j: int, k: int, child: bool, splits: Floats) -> tuple[float, float]:
    """Algorithm 5: return cost and boundary between i, which ends there, and j, which begins; NaN where none is."""
    start = f.point[i, k] if f.fresh[i] else f.high[i, k]
    stop = f.point[j, k] if f.fresh[j] else f.low[j, k]
    if not (start <= stop if child else start < stop):
        return np.inf, np.nan
    size = ZERO
    for m in range(len(f.log)):
        possible = True
        certain = True
        for c in range(f.low.shape[1]):
            possible &= f.low[i, c] <= f.log[m, c]
            certain &= f.high[i, c] <= f.log[m, c]
        if possible and not certain and start < f.log[m, k] < stop:
            index = size
            while index > 0 and splits[index - 1] > f.log[m, k]:
                splits[index] = splits[index - 1]
                index -= 1
            splits[index] = f.log[m, k]
            size += 1
    mine = f.root[i, k] * np.sqrt(f.cost[0])
    other = f.root[j, k] * np.sqrt(f.cost[0])
    if child:
        mine = f.root[i, k] * np.sqrt(f.cost[0] + f.cost[1]) if f.fresh[i] else f.root[i, k] * np.sqrt(f.cost[1])
    share = mine / (mine + other) if f.fresh[j] else 1.0
    if not f.fresh[i] and not child:
        share = 0.0
    middle = start + (stop - start) * share
    best = np.inf
    where = np.nan
    for s in range(size + 1):
        left = splits[s - 1] if s > 0 else start
        right = splits[s] if s < size else stop
        x = min(max(middle, left), right)
        if not child:
            x = min(x, np.nextafter(stop, -np.inf))
        if not (x >= start and x <= stop):
            x = start
        cost = 0.0
        if f.fresh[i]:
            cost += _whole_cost(f, i, k, f.low[i, k], min(f.high[i, k], x), -1)
        if f.fresh[j]:
            cost += _whole_cost(f, j, k, max(f.low[j, k], x), f.high[j, k], i if child else -1)
        if where != where or cost < best:
            best, where = cost, x
    return best, where


@kernel
def construct_filters(f: Filters, alive: np.ndarray, in_skyline: np.ndarray, sky: Ints, dominator: Ints) -> None:
    """Algorithm 3, and Algorithm 4 inside."""
    n, d = len(alive), f.low.shape[1]
    splits = np.empty(len(f.log) + 1)
    for s in range(len(sky)):
        i = sky[s]
        for j in range(n):
            if j == i or not alive[j] or not (f.fresh[i] or (f.fresh[j] and in_skyline[j])):
                continue
            best = np.inf
            column = -1
            where = 0.0
            for k in range(d):
                cost, x = _select_boundary(f, i, j, k, False, splits)
                if x == x and (column < 0 or cost < best):
                    best, column, where = cost, k, x
            if column < 0:
                if dominates(f.low, j, f.high, i):
                    for k in range(d):
                        if f.fresh[i]:
                            f.high[i, k] = f.point[i, k]
                        if f.fresh[j]:
                            f.low[j, k] = f.point[j, k]
                continue
            if f.fresh[i]:
                f.high[i, column] = min(f.high[i, column], where)
            if f.fresh[j]:
                f.low[j, column] = max(f.low[j, column], np.nextafter(where, np.inf))
    for j in range(n):
        if not alive[j] or in_skyline[j]:
            continue
        old = dominator[j]
        if not f.fresh[j] and old >= 0 and in_skyline[old] and not f.fresh[old] and dominates(f.high, old, f.low, j):
            continue
        i = -1
        for s in range(len(sky)):  # one that keeps its filter, where that will do
            if not f.fresh[sky[s]] and dominates(f.high, sky[s], f.point if f.fresh[j] else f.low, j):
                i = sky[s]
                break
        if i < 0:
            for s in range(len(sky)):
                if f.fresh[sky[s]] and dominates(f.point, sky[s], f.point if f.fresh[j] else f.low, j):
                    i = sky[s]
                    break
        dominator[j] = i
        for k in range(d):
            _, x = _select_boundary(f, i, j, k, True, splits)
            if f.fresh[i]:
                f.high[i, k] = min(f.high[i, k], x)
            if f.fresh[j]:
                f.low[j, k] = max(f.low[j, k], x)
        if not dominates(f.high, i, f.low, j):
            _set_apart(f, i, j)


@leaf
def _set_apart(f: Filters, i: int, j: int) -> None:
    """Let j begin behind the end of i in one column."""
    for k in range(f.low.shape[1]):
        if f.fresh[j] and f.low[j, k] < f.point[j, k]:
            f.low[j, k] = np.nextafter(f.low[j, k], np.inf)
            return
    for k in range(f.low.shape[1]):
        if f.fresh[i] and f.point[i, k] < f.low[j, k]:
            f.high[i, k] = min(f.high[i, k], np.nextafter(f.low[j, k], -np.inf))
            return
