"""A grouped engine: the same queries over many small windows, one for each group of rows.

Every group has its own window, runs and answers, in pools that all groups share. Runs are those of ``reserve`` with
little slack, since a window of some hundred rows is scanned in no time. Memory: O(rows + groups * queries * k).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from topwatch.algorithms.topk.kernels.grouped_loop import DONE, LOG_FULL, drive_groups, new_work, refill
from topwatch.algorithms.topk.kernels.pages import FIRST, FREE, PAGE, USED, Batch, Pages, Span, gather
from topwatch.algorithms.topk.kernels.sorted_runs import FAR, Answers, QueryState, Runs
from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.core.arrays import EARLIEST, Floats, Ints
from topwatch.core.grouping import by_group, rows_at, scattered
from topwatch.core.kernels.rows import Log, Rows, apart, larger, new_log
from topwatch.core.saved_state import MOST_TICKS, Saved
from topwatch.core.schedule import Pace
from topwatch.query.queries import Query

_NONE = np.empty(0, np.int64)
Columns = Floats | Sequence[Sequence[Floats]]
LOG = 1 << 22  # lines of the log that are kept from push to push
_NO_TIMES = np.empty((0, PAGE), np.int64)


class Reported(NamedTuple):
    """Changes of many groups: groups in the order they were given, within a group as a monitor has them."""

    group: Ints
    at: Ints
    query: Ints
    op: Ints
    tick: Ints
    score: Floats


class GroupedEngine:
    """Standing top-k queries over the rows of many groups.

    Parameters
    ----------
    queries : sequence of queries
        Top-k queries.
    column_of : mapping
        Indices of the columns they read.
    rows : int
        How many rows a window has; 0 for windows of a time span.
    span : int
        That span, in nanoseconds.
    every : int
        A group is evaluated after every so many of its rows; 0: there is one group, and :meth:`push` says when.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        column_of: Mapping[str, int],
        rows: int,
        span: int,
        every: int,
    ) -> None:
        self._pace = Pace()
        self.table = QueryTable()
        for query in queries:
            self.table.add(query, column_of)
        self._signs = np.array([-1.0 if query.smaller_is_better else 1.0 for query in queries])
        self._columns = len(column_of)
        self._span = Span(rows, span, every)
        k = self.table.arrays.k
        if rows:
            np.minimum(k, rows, out=k)
        self._target = np.where(k > 0, k + 4 + k // 4, 0)
        self._limit = self._room = np.where(k > 0, k + 10 + k // 2, 0)
        self.groups = 0
        self.tick = 0
        self._evaluated = 0  # with ``every`` 0: the last tick that an evaluation has seen
        self.pages = self._no_pages()
        self.runs, self.answers = self._new_runs(0)
        # Rows are identified by their ticks: slots of an imaginary window that has one for each.
        self._rows = Rows(np.empty((0, 0)), _NONE, _NONE, _NONE, True, -1)
        self._log = new_log(1024)

    def push(self, group: Ints, columns: Columns, time: Ints, at: Ints = _NONE) -> tuple[Ints, Reported]:
        """Take in rows, each of a group; return which of the next ticks each has got, from 0 on, and what changed.

        Parameters
        ----------
        group : array of int
            Of each row.
        columns : array (columns, rows), or for each column a list of arrays
            Their values, in one piece or in several.
        time : array of int
            In windows of a time span.
        at : array of int
            With ``every`` 0: after which rows the group is evaluated, and what the evaluations are called; -1: not
            after this one.
        """
        left = group.size
        rows = self._pace.next(left, left)
        if rows == left:
            return self._push_piece(group, columns, time, at)
        values = columns if isinstance(columns, np.ndarray) else np.array([np.concatenate(parts) for parts in columns])
        index, results, start = np.empty(group.size, np.int64), [], 0
        while left:
            part = slice(start, start + rows)
            index[part], result = self._push_piece(group[part], values[:, part], time[part], at[part])
            index[part] += start
            results.append(result)
            start, left = start + rows, left - rows
            rows = self._pace.next(left, left) if left else 0
        order = np.argsort(np.concatenate([result.group for result in results]), kind="stable")
        parts: Any = zip(*results, strict=True)
        return index, Reported(*(np.concatenate(arrays)[order] for arrays in parts))

    def _push_piece(self, group: Ints, columns: Columns, time: Ints, at: Ints) -> tuple[Ints, Reported]:
        """Take in rows together."""
        self._admit(int(group.max()) + 1 if group.size else 0)
        index, result, start = by_group(group, self.groups)
        counts = np.diff(start)
        rows = rows_at(columns, index)
        time = scattered([time], index) if time.size else time
        self._make_room(result, counts)
        batch = Batch(result, start, rows, self.tick + 1, time, at)
        log, work = Log(self._log.what, self._log.key, np.zeros(1, np.int64)), new_work(batch, self._span)
        while (why := drive_groups(self.pages, batch, self._span, self._state(), self._rows, log, work)) != DONE:
            if why == LOG_FULL:
                log = larger(log, 2 * int(self.table.arrays.k.max()))
            else:  # lines that are put in order need room beside the log
                work = work._replace(spare=new_log(2 * int(log.size[0])))
        seen = np.flatnonzero(at >= 0)
        if seen.size:
            self._evaluated = self.tick + 1 + int(seen[-1])
        self.tick += index.size
        reported = Reported(*apart(log, result, work.ends, self._signs))
        if len(log.key) <= LOG:
            self._log = log  # memory that is used again need not be cleared
        return index, reported

    def _state(self) -> QueryState:
        return QueryState(self.table.arrays, self.runs, self.answers)

    def live(self) -> int:
        """How many rows the windows hold."""
        return int(self.pages.held[: self.groups].sum())

    def live_ticks(self) -> Ints:
        """Return the ticks of all rows held, sorted."""
        return np.sort(self.gathered()[1])

    def answer(self, group: int, index: int) -> tuple[Ints, Floats]:
        """Return what was last reported for a group and a query: ticks and scores, best first."""
        number = group * self.table.indices + index
        first = self.answers.first[number]
        part = slice(first, first + self.answers.size[number])
        return self.answers.seq[part], self.answers.key[part] * self._signs[index]

    def answered(self) -> Ints:
        """Return the ticks of all rows in answers."""
        a = self.answers
        parts = [a.seq[first : first + size] for first, size in zip(a.first, a.size, strict=True)]
        return np.concatenate(parts) if parts else _NONE

    def bytes(self) -> int:
        """Size of the arrays."""
        arrays = (*self.pages, *self.runs[:-2], *self.answers)
        return int(sum(array.nbytes for array in arrays))

    def gathered(self) -> tuple[Floats, Ints, Ints]:
        """Return all rows held, group by group: columns, ticks, times."""
        n = self.live()
        columns, ticks = np.empty((self._columns, n)), np.empty(n, np.int64)
        times = np.empty(0 if self._span.rows else n, np.int64)
        gather(self.pages, self.groups, columns, ticks, times)
        return columns, ticks, times

    def _check(self) -> None:
        """Assert the invariants: chains hold what they count, and every page is in a chain or free, once."""
        p = self.pages
        seen: list[int] = []
        for g in range(self.groups):
            page, chain = int(p.first[g]), []
            while page >= 0:
                chain.append(page)
                page = int(p.after[page])
            assert not chain or chain[-1] == p.last[g]
            held = PAGE * (len(chain) - 1) + p.fill[g] - p.gone[g] if chain else 0
            assert held == p.held[g] <= p.end[g]
            assert not self._span.rows or self._span.every > 1 or held <= self._span.rows
            seen += chain
        page = int(p.free[FIRST])
        while page >= 0:
            seen.append(page)
            page = int(p.after[page])
        assert sorted(seen) == list(range(p.free[USED])), "a page is lost, or in two chains"
        assert np.all(np.diff(self.live_ticks()) > 0)

    # ---- room

    def _admit(self, groups: int) -> None:
        """Make room for more groups."""
        had = self.pages.first.size
        if groups > had:
            size = max(groups, 2 * had, 64)
            for array, fill in zip(self.pages[:6], (-1, -1, 0, 0, 0, 0), strict=True):
                array.resize(size, refcheck=False)
                array[had:] = fill
            runs, answers = self._new_runs(size)
            _copy(self.runs[:-2], runs[:-2])
            _copy(self.answers, answers)
            self.runs, self.answers = runs, answers
        self.groups = max(self.groups, groups)

    def _make_room(self, group: Ints, count: Ints) -> None:
        """Let there be free pages for more rows of some groups."""
        p = self.pages
        inside = np.where(p.last[group] >= 0, PAGE - p.fill[group], 0)
        needed = int((-(np.minimum(0, inside - count) // PAGE)).sum())
        has, used = p.after.size, int(p.free[USED])
        pages = used - int(p.free[FREE]) + needed
        if pages > has:
            size = max(pages, has + has // 2 + 64)
            grown = {}
            for name in ("after", "values", "tick", *(() if self._span.rows else ("time",))):
                old = getattr(p, name)
                grown[name] = np.empty((size, *old.shape[1:]), old.dtype)
                grown[name][:used] = old[:used]
            self.pages = p._replace(**grown)

    def _no_pages(self) -> Pages:
        first, last, gone, fill, held, end, after = (np.empty(0, np.int64) for _ in range(7))
        values, tick = np.empty((0, self._columns, PAGE)), np.empty((0, PAGE), np.int64)
        return Pages(first, last, gone, fill, held, end, after, values, tick, _NO_TIMES, np.array([-1, 0, 0]))

    def _new_runs(self, groups: int) -> tuple[Runs, Answers]:
        indices = np.where(self._room > 0, self._room + 1, 0)
        k = self.table.arrays.k
        active = np.tile(k > 0, groups)

        def each(values: Ints) -> Ints:
            return np.tile(values, groups)

        def first_indices(sizes: Ints) -> Ints:
            inside = np.cumsum(sizes) - sizes
            first: Ints = (np.arange(groups)[:, None] * sizes.sum() + inside).ravel()
            return first

        pool, kept = groups * int(indices.sum()), groups * int(k.sum())
        runs = Runs(
            first=first_indices(indices),
            room=each(self._room),
            limit=each(self._limit),
            target=each(self._target),
            size=np.zeros(active.size, np.int64),
            threshold=np.where(active, -np.inf, np.inf),
            whole=np.ones(active.size, np.int64),
            top=np.zeros(active.size, np.int64),
            oldest=np.full(active.size, FAR),
            key=np.zeros(pool),
            seq=np.zeros(pool, np.int64),
            slot=_NONE,
            beaten=_NONE,
            extra=np.zeros(active.size, np.int64),
            most=np.zeros(active.size, np.int64),
            banded=False,
            unsorted=True,
        )
        stale = active.astype(np.int64)
        sizes = np.zeros(active.size, np.int64)
        return runs, Answers(
            first_indices(k), sizes, np.zeros(kept), np.zeros(kept, np.int64), _NONE, stale, np.zeros_like(stale)
        )

    # ---- saved

    def save(self) -> dict[str, np.ndarray]:
        """Return the state as arrays: rows group by group. What was last reported follows from them."""
        columns, ticks, times = self.gathered()
        return {
            "tick": np.array([self.tick]),
            "count": self.pages.held[: self.groups],
            "end": self.pages.end[: self.groups],
            "columns": columns,
            "ticks": ticks,
            "times": times,
            **({} if self._span.every else {"evaluated": np.array([self._evaluated])}),
        }

    def load(self, state: Saved, most_groups: int = 1) -> None:
        """Undo :meth:`save`, in a grouped engine that is new; runs and answers are filled from the rows."""
        saved = _checked(state, self._columns, self._span, most_groups)
        count, end, ticks = saved["count"], saved["end"], saved["ticks"]
        self._admit(count.size)
        self.tick = int(saved["tick"][0])
        busy = np.flatnonzero(count)
        start = np.concatenate([[0], np.cumsum(count[busy])])
        self._make_room(busy, count[busy])
        if self._span.every:
            later = (end % self._span.every)[busy]  # rows that no evaluation has seen
            evaluated = np.where(later < count[busy], ticks[start[1:] - 1 - later], 0)
        else:
            self._evaluated = int(saved["evaluated"][0])
            evaluated = np.full(busy.size, self._evaluated)
        batch = Batch(busy, start, np.ascontiguousarray(saved["columns"].T), 0, saved["times"], _NONE)
        refill(self.pages, batch, ticks, evaluated, self._state())
        self.pages.end[: end.size] = end


def _copy(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> None:
    """Copy arrays to the beginnings of larger ones."""
    for a, b in zip(old, new, strict=True):
        b[: a.size] = a


def _checked(saved: Saved, columns: int, span: Span, most_groups: int) -> dict[str, np.ndarray]:
    """Return the arrays of a grouped engine with so many columns, or refuse them."""
    tick = saved.ints("tick", 1, low=0, high=MOST_TICKS)
    ticks = saved.ints("ticks", None, low=1, high=int(tick[0]))
    rows, timed = ticks.size, not span.rows
    count = saved.ints("count", None, low=0, high=rows)
    groups = count.size
    saved.expect(groups <= most_groups, "count", f"{most_groups} groups at most", groups)
    saved.expect(int(count.sum()) == rows, "count", f"{rows} rows in all", int(count.sum()))
    end = saved.ints("end", groups, low=0, high=MOST_TICKS)
    saved.expect(np.all(end >= count), "end", "at least as many rows as are held")
    if span.every:
        later = end % span.every
        seen = end - later
        held = np.minimum(seen, span.rows or 1)  # of a span of time, the row at the last evaluation at least
        fits = count >= later + held if timed else count == later + held
        saved.expect(np.all(fits), "count", "the rows that the last evaluation saw, and those since")
    saved.expect(np.unique(ticks).size == rows, "ticks", "numbers that differ")
    times = saved.ints("times", rows if timed else 0, low=EARLIEST + 1, high=2**63 - 1)
    same = np.ones(max(0, rows - 1), np.bool_)  # whether a row and the next are of one group
    borders = np.cumsum(count)
    same[borders[(borders > 0) & (borders < rows)] - 1] = False
    saved.expect(np.all((ticks[1:] > ticks[:-1]) | ~same), "ticks", "numbers that rise within a group")
    saved.expect(not timed or np.all((times[1:] >= times[:-1]) | ~same), "times", "times that rise within a group")
    return {
        "tick": tick,
        "count": count,
        "end": end,
        "columns": saved.floats("columns", columns, rows, nan=True),
        "ticks": ticks,
        "times": times,
        **({} if span.every else {"evaluated": saved.ints("evaluated", 1, low=0, high=int(tick[0]))}),
    }
