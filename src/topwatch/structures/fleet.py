"""A fleet: the same queries over many small windows, one for each group of rows.

Every group has its own window, runs and answers, in pools that all groups share. Runs are those of ``reserve`` with
little slack, since a window of some hundred rows is scanned in no time. Memory: O(rows + groups * queries * k).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from topwatch.kernels.fleet import Arrivals, Reach, Rings, drive_all, move_rings, refill
from topwatch.kernels.report import Answers
from topwatch.kernels.rows import Log
from topwatch.kernels.runs import FAR, Runs
from topwatch.kernels.scoring import Floats, Ints
from topwatch.queries import Query
from topwatch.structures.grid import unindexed
from topwatch.structures.ids import ArrowIds, Values
from topwatch.structures.table import QueryTable

SMALLEST = 16  # slots of a ring
_NONE = np.empty(0, np.int64)


class Reported(NamedTuple):
    """Changes of many groups: groups in the order they were given, within a group as a monitor has them."""

    group: Ints
    at: Ints
    query: Ints
    op: Ints
    tick: Ints
    score: Floats


class Fleet:
    """Standing top-k queries over the rows of many groups.

    Parameters
    ----------
    queries : sequence of queries
        Top-k queries.
    column_of : mapping
        Places of the columns they read.
    rows : int
        How many rows a window has; 0 for windows of a time span.
    span : int
        That span, in nanoseconds.
    every : int
        A group is judged after every so many of its rows.
    """

    def __init__(
        self, queries: Sequence[Query], column_of: Mapping[str, int], rows: int, span: int, every: int
    ) -> None:
        self.table = QueryTable()
        for query in queries:
            self.table.add(query, column_of)
        self._signs = np.array([-1.0 if query.score.smaller_is_better else 1.0 for query in queries])
        self._columns = len(column_of)
        self._reach = Reach(rows, span, every)
        k = self.table.arrays.k
        if rows:
            np.minimum(k, rows, out=k)
        self._target = np.where(k > 0, 2 * k + 4, 0)
        self._limit = np.where(k > 0, 3 * k + 8, 0)
        self._room = np.where(k > 0, 4 * k + 12, 0)
        self.groups = 0
        self.tick = 0
        self.counters = np.zeros(8, np.int64)
        self.rings = self._new_rings(0, 0)
        self._used = 0  # slots of the pool that rings have, or had
        self.runs, self.answers = self._new_runs(0)

    def push(self, group: Ints, start: Ints, columns: Floats, time: Ints) -> Reported:
        """Take in rows sorted by group; their ticks go on from the last ones."""
        self._admit(int(group.max()) + 1 if group.size else 0)
        self._make_room(group, np.diff(start))
        count = columns.shape[1]
        ticks = np.arange(self.tick + 1, self.tick + count + 1)
        self.tick += count
        log = Log(np.empty((256, 4), np.int64), np.empty(256), np.zeros(1, np.int64))
        log, ends = drive_all(
            self.rings,
            Arrivals(group, start, columns, ticks, time),
            self._reach,
            self.table.arrays,
            self.runs,
            self.answers,
            unindexed(self.table.places),
            log,
            self.counters,
        )
        return self._reported(log, group, ends)

    def _reported(self, log: Log, group: Ints, ends: Ints) -> Reported:
        n = int(log.size[0])
        what = log.what[:n]
        query = what[:, 1]
        groups = np.repeat(group, np.diff(ends, prepend=0))
        return Reported(groups, what[:, 0], query, what[:, 2], what[:, 3], log.key[:n] * self._signs[query])

    def live(self) -> int:
        """How many rows the windows hold."""
        return int((self.rings.end - self.rings.head + 1)[: self.groups].sum())

    def live_ticks(self) -> Ints:
        """Return the ticks of all rows held, sorted."""
        return np.sort(self.rings.tick[self._places()])

    def lines(self) -> Iterator[tuple[int, int, Ints, Floats]]:
        """Yield each group's answer to each query: group, place of the query, ticks and scores, best first."""
        a, r = self.answers, self.rings
        for group in range(self.groups):
            for place in range(self._signs.size):
                number = group * self.table.places + place
                part = slice(a.first[number], a.first[number] + a.size[number])
                ticks = r.tick[r.first[group] + (a.seq[part] & r.mask[group])]
                yield group, place, ticks, a.key[part] * self._signs[place]

    def _places(self) -> Ints:
        """Return the places of all rows held: group by group, oldest first."""
        r, g = self.rings, self.groups
        count = (r.end - r.head + 1)[:g]
        owner = np.repeat(np.arange(g), count)
        ordinal = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + r.head[owner]
        places: Ints = r.first[owner] + (ordinal & r.mask[owner])
        return places

    # ---- room

    def _admit(self, groups: int) -> None:
        """Make room for more groups."""
        if groups > self.rings.first.size:
            size = max(groups, 2 * self.rings.first.size, 64)
            rings = self._new_rings(size, 0)
            _copy(self.rings[:5], rings[:5])
            old = self.rings
            self.rings = rings._replace(values=old.values, seq=old.seq, tick=old.tick, time=old.time)
            runs, answers = self._new_runs(size)
            _copy(self.runs[:-2], runs[:-2])
            _copy(self.answers, answers)
            self.runs, self.answers = runs, answers
        self.groups = max(self.groups, groups)

    def _make_room(self, group: Ints, count: Ints) -> None:
        """Give larger rings to groups whose rows would not fit."""
        r = self.rings
        needed = r.end[group] - r.head[group] + 1 + count
        tight = needed > r.mask[group] + 1
        if not tight.any():
            return
        moving = group[tight]
        size = np.maximum(SMALLEST, 2 ** np.ceil(np.log2(1.5 * needed[tight])).astype(np.int64))
        if self._used + size.sum() > r.seq.size:
            # A new pool, in which every ring has its place anew.
            sizes = np.where(r.mask >= 0, r.mask + 1, 0)[: self.groups]
            sizes[moving] = size
            self._move(np.flatnonzero(sizes), sizes[sizes > 0], int(1.5 * sizes.sum()) + 1024, 0)
        else:
            self._move(moving, size, 0, self._used)

    def _move(self, groups: Ints, sizes: Ints, pool: int, used: int) -> None:
        """Move rings to places from ``used`` on, in a new pool of a size or (0) in the same one."""
        old = self.rings
        first, mask = old.first.copy(), old.mask.copy()
        first[groups] = used + np.cumsum(sizes) - sizes
        mask[groups] = sizes - 1
        new = old._replace(first=first, mask=mask)
        if pool:
            values, seq, tick, time = self._new_pool(pool)
            new = new._replace(values=values, seq=seq, tick=tick, time=time)
        move_rings(old, new, groups, self._columns)
        self.rings, self._used = new, used + int(sizes.sum())

    def _new_rings(self, groups: int, pool: int) -> Rings:
        def ints(fill: int) -> Ints:
            return np.full(groups, fill, np.int64)

        values, seq, tick, time = self._new_pool(pool)
        return Rings(ints(0), ints(-1), ints(1), ints(0), ints(0), values, seq, tick, time)

    def _new_pool(self, size: int) -> tuple[Floats, Ints, Ints, Ints]:
        time = np.empty(0 if self._reach.rows else size, np.int64)
        return np.empty(size * self._columns), np.empty(size, np.int64), np.empty(size, np.int64), time

    def _new_runs(self, groups: int) -> tuple[Runs, Answers]:
        places = np.where(self._room > 0, self._room + 1, 0)
        k = self.table.arrays.k
        active = np.tile(k > 0, groups)

        def each(values: Ints) -> Ints:
            return np.tile(values, groups)

        def firsts(sizes: Ints) -> Ints:
            inside = np.cumsum(sizes) - sizes
            first: Ints = (np.arange(groups)[:, None] * sizes.sum() + inside).ravel()
            return first

        pool, kept = groups * int(places.sum()), groups * int(k.sum())
        runs = Runs(
            first=firsts(places),
            room=each(self._room),
            limit=each(self._limit),
            target=each(self._target),
            size=np.zeros(active.size, np.int64),
            bar=np.where(active, -np.inf, np.inf),
            whole=np.ones(active.size, np.int64),
            oldest=np.full(active.size, FAR),
            key=np.zeros(pool),
            seq=np.zeros(pool, np.int64),
            slot=_NONE,
            beaten=_NONE,
            banded=False,
            loose=True,
        )
        stale = active.astype(np.int64)
        sizes = np.zeros(active.size, np.int64)
        return runs, Answers(firsts(k), sizes, np.zeros(kept), np.zeros(kept, np.int64), _NONE, stale)

    # ---- saved

    def save(self) -> dict[str, np.ndarray]:
        """Return the state as arrays: rows group by group, and what was last reported."""
        r, g = self.rings, self.groups
        places = self._places()
        count = (r.end - r.head + 1)[:g]
        owner = np.repeat(np.arange(g), count)
        size = r.mask[owner] + 1
        start = r.first[owner] * self._columns + (places - r.first[owner])
        queries = g * self.table.places
        return {
            "tick": np.array([self.tick]),
            "head": r.head[:g],
            "end": r.end[:g],
            "judged": r.judged[:g],
            "columns": np.stack([r.values[start + c * size] for c in range(self._columns)]),
            "ticks": r.tick[places],
            "times": r.time[places] if r.time.size else _NONE,
            "answer sizes": self.answers.size[:queries],
            "answer keys": self.answers.key[: g * int(self.table.arrays.k.sum())],
            "answer seqs": self.answers.seq[: g * int(self.table.arrays.k.sum())],
        }

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Undo :meth:`save`, in a fleet that is new; runs are filled from the rows."""
        head, end = saved["head"], saved["end"]
        g = head.size
        self._admit(g)
        self.tick = int(saved["tick"][0])
        r = self.rings
        r.head[:g], r.end[:g], r.judged[:g] = head, head - 1, saved["judged"]
        count = end - head + 1
        busy = np.flatnonzero(count)
        start = np.concatenate([[0], np.cumsum(count[busy])])
        self._make_room(busy, count[busy])
        arrivals = Arrivals(busy, start, np.ascontiguousarray(saved["columns"]), saved["ticks"], saved["times"])
        refill(self.rings, arrivals, self.table.arrays, self.runs)
        a = self.answers
        a.size[: saved["answer sizes"].size] = saved["answer sizes"]
        a.key[: saved["answer keys"].size] = saved["answer keys"]
        a.seq[: saved["answer seqs"].size] = saved["answer seqs"]


def _copy(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> None:
    """Copy arrays to the beginnings of larger ones."""
    for a, b in zip(old, new, strict=True):
        b[: a.size] = a


class FleetIds:
    """Ids of the rows that a fleet holds, found by tick."""

    def __init__(self) -> None:
        self.kept = ArrowIds()
        self._rows = 0

    def write(self, first: int, ids: Values) -> None:
        """Note the ids of rows from tick ``first`` on."""
        self.kept.restore(np.arange(first, first + len(ids)), ids)

    def read(self, ticks: Ints) -> Any:
        """Return the ids of rows."""
        return self.kept.read(ticks, ticks)

    def tidy(self, fleet: Fleet) -> None:
        """Give back the ids of rows that are gone, once they are the most."""
        if self.kept.crowded(fleet.live()):
            self.kept.keep(fleet.live_ticks())
