"""A grouped engine: the same queries over many small windows, one for each group of rows.

Every group has its own window, runs and answers, in pools that all groups share. Runs are those of ``reserve`` with
little slack, since a window of some hundred rows is scanned in no time. Memory: O(rows + groups * queries * k).

A window that is not full has no use for its rows: none expires, so that runs only grow. Where the caller can supply
rows again, those of such windows are *unmaterialised*: counted and not kept
(:mod:`topwatch.algorithms.topk.unmaterialised`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from topwatch.algorithms.topk.grouped_state import checked_engine
from topwatch.algorithms.topk.growing import Growing, piece_of, prefetch_pages, stand_back
from topwatch.algorithms.topk.kernels.grouped_loop import Span, drive_all, refill
from topwatch.algorithms.topk.kernels.pages import PAGE, Arrivals, Pages, append_all, gather
from topwatch.algorithms.topk.kernels.report import Answers
from topwatch.algorithms.topk.kernels.sorted_runs import FAR, Runs
from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.algorithms.topk.unmaterialised import Past, Recalling, no_past
from topwatch.core.group_numbers import rows_at, scattered
from topwatch.core.kernels.partition import by_group
from topwatch.core.kernels.rows import Log, Rows, apart
from topwatch.core.kernels.scoring import Floats, Ints
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
        Places of the columns they read.
    rows : int
        How many rows a window has; 0 for windows of a time span.
    span : int
        That span, in nanoseconds.
    every : int
        A group is evaluated after every so many of its rows.
    away : bool
        Rows of windows of a number of rows are not kept until their window is full: pushes come with their past.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        column_of: Mapping[str, int],
        rows: int,
        span: int,
        every: int,
        unmaterialised: bool = False,
    ) -> None:
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
        self._recalling = Recalling(rows, unmaterialised and rows > 0)
        self._needed = 0  # pages that the last push took
        self._unwritten: Arrivals | None = None  # rows that have been counted and are in no page yet
        self._thread: threading.Thread | None = None  # it alone looks at the pages while it runs
        self.pages = self._no_pages()
        self._pools = {
            "after": Growing((), np.int64),
            "values": Growing((self._columns, PAGE), np.float64),
            "tick": Growing((PAGE,), np.int64),
        }
        if not rows:
            self._pools["time"] = Growing((PAGE,), np.int64)
        self.runs, self.answers = self._new_runs(0)
        # Rows are identified by their ticks: slots of an imaginary window that has one for each.
        self._rows = Rows(np.empty((0, 0)), _NONE, _NONE, _NONE, True, -1)
        self._log = Log(np.empty((1024, 4), np.int64), np.empty(1024), np.zeros(1, np.int64))

    def push(
        self, group: Ints, columns: Columns, time: Ints, at: Ints = _NONE, past: Past = no_past
    ) -> tuple[Ints, Reported]:
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
            For rows of a single group: after which of them the group is evaluated, and what the evaluations are called;
            -1: not after this one.
        past : function
            Returns what was pushed before, for unmaterialised rows.
        """
        self._settle()
        self._admit(int(group.max()) + 1 if group.size else 0)
        index, result, start = by_group(group, self.groups)
        counts = np.diff(start)
        self.recall(self._recalling.due(self.pages, result, counts, self.tick), past)
        rows = rows_at(columns, index)
        time = scattered([time], index) if time.size else time
        self._make_room(result, counts)
        grows = self._span.rows > 0 and bool(np.all(self.pages.held[result] + counts <= self._span.rows))
        arrivals = Arrivals(result, start, rows, self.tick + 1, time, at, grows)
        log = Log(self._log.what, self._log.key, np.zeros(1, np.int64))
        log, ends = drive_all(
            self.pages,
            arrivals,
            self._span,
            self.table.arrays,
            self.runs,
            self.answers,
            self._rows,
            log,
        )
        self.tick += index.size
        self._unwritten = arrivals if grows else None
        reported = Reported(*apart(log, result, ends, self._signs))
        if len(log.key) <= LOG:
            self._log = log  # memory that is used again need not be cleared
        return index, reported

    def _wait(self) -> None:
        """Let :meth:`prepare` come to its end."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _settle(self) -> None:
        """Write all rows to the windows."""
        self._wait()
        self._write()

    def _write(self) -> None:
        if self._unwritten is not None:
            append_all(self.pages, self._unwritten, _NONE)
            self._unwritten = None

    def recall(self, groups: Ints, past: Past) -> None:
        """Materialise the rows of some groups, from all pushes since the grouped engine was new or loaded."""
        self._settle()
        for result, start, rows, ticks in self._recalling.rows(
            self.pages.unmaterialised, self.pages.held, groups, past
        ):
            self._make_room(result, np.diff(start))
            append_all(self.pages, Arrivals(result, start, rows, 0, _NONE, _NONE, False), ticks)

    def recall_all(self, past: Past) -> None:
        """Materialise the rows of all groups."""
        self.recall(np.flatnonzero(self.pages.unmaterialised[: self.groups]), past)

    def live(self) -> int:
        """How many rows the windows hold, materialised or not."""
        self._wait()
        return int(self.pages.held[: self.groups].sum())

    def live_ticks(self) -> Ints:
        """Return the ticks of all rows held, sorted."""
        return np.sort(self.gathered()[1])

    def lines(self) -> Iterator[tuple[int, int, Ints, Floats]]:
        """Yield each group's answer to each query: group, index of the query, ticks and scores, best first."""
        for group in range(self.groups):
            for index in range(self._signs.size):
                yield group, index, *self.answer(group, index)

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
        self._wait()
        arrays = (*self.pages, *self.runs[:-2], *self.answers)
        return int(sum(array.nbytes for array in arrays))

    def gathered(self) -> tuple[Floats, Ints, Ints]:
        """Return all rows held, group by group: columns, ticks, times. None may be unmaterialised."""
        self._settle()
        unmaterialised = self.pages.held[: self.groups] * self.pages.unmaterialised[: self.groups]
        assert not np.any(unmaterialised), "rows are unmaterialised"
        n = self.live()
        columns, ticks = np.empty((self._columns, n)), np.empty(n, np.int64)
        times = np.empty(0 if self._span.rows else n, np.int64)
        gather(self.pages, self.groups, columns, ticks, times)
        return columns, ticks, times

    def _check(self) -> None:
        """Assert the invariants: chains hold what they count, and every page is in a chain or free, once."""
        self._settle()
        p = self.pages
        seen: list[int] = []
        for g in range(self.groups):
            page, chain = int(p.first[g]), []
            while page >= 0:
                chain.append(page)
                page = int(p.after[page])
            assert not chain or chain[-1] == p.last[g]
            held = PAGE * (len(chain) - 1) + p.fill[g] - p.gone[g] if chain else 0
            if p.unmaterialised[g]:
                assert not chain
                held = p.held[g]
                assert held <= self._span.rows
            assert held == p.held[g] <= p.end[g]
            assert not self._span.rows or self._span.every > 1 or held <= self._span.rows
            seen += chain
        page = int(p.free[0])
        while page >= 0:
            seen.append(page)
            page = int(p.after[page])
        assert sorted(seen) == list(range(p.free[2])), "a page is lost, or in two chains"
        if not p.unmaterialised[: self.groups].any():
            assert np.all(np.diff(self.live_ticks()) > 0)

    # ---- room

    def _admit(self, groups: int) -> None:
        """Make room for more groups."""
        had = self.pages.first.size
        if groups > had:
            size = max(groups, 2 * had, 64)
            for array, fill in zip(
                self.pages[:7], (-1, -1, 0, 0, 0, 0, int(self._recalling.unmaterialised)), strict=True
            ):
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
        count = np.where(p.unmaterialised[group] == 1, 0, count)
        inside = np.where(p.last[group] >= 0, PAGE - p.fill[group], 0)
        self._needed = int((-(np.minimum(0, inside - count) // PAGE)).sum())
        pages = int(p.free[2] - p.free[1]) + self._needed
        del p  # memory that is looked at does not grow
        self._have(pages)

    def _have(self, pages: int) -> None:
        """Grow the pools to at least so many pages."""
        has = self.pages.after.size
        if pages > has:
            few = self.pages[:7], self.pages.free
            self.pages = self._no_pages()
            size = max(pages, has + has // 4 + 64)
            grown = {name: pool.grow(size) for name, pool in self._pools.items()}
            self.pages = Pages(*few[0], **{"time": _NO_TIMES, **grown}, free=few[1])

    def prepare(self, others: Callable[[], None] = lambda: None) -> None:
        """Prepare the next push in the background: write rows that were only counted, and prefetch memory.

        ``others`` is called then: what they need is not touched before the next push either.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._go_ahead, args=(others,), name="topwatch windows", daemon=True)
            self._thread.start()

    def _go_ahead(self, others: Callable[[], None]) -> None:
        stand_back()
        self._write()
        used, free = int(self.pages.free[2]), int(self.pages.free[1])
        if self._needed > free:  # fresh pages take long to come
            self._have(used + self._needed - free)
            new = slice(used, used + self._needed - free)
            prefetch_pages([piece_of(getattr(self.pages, name)[new]) for name in self._pools])
        others()

    def _no_pages(self) -> Pages:
        first, last, gone, fill, held, end, unmaterialised, after = (np.empty(0, np.int64) for _ in range(8))
        values, tick = np.empty((0, self._columns, PAGE)), np.empty((0, PAGE), np.int64)
        return Pages(
            first, last, gone, fill, held, end, unmaterialised, after, values, tick, _NO_TIMES, np.array([-1, 0, 0])
        )

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
        """Return the state as arrays: rows group by group, and what was last reported. The past begins here."""
        columns, ticks, times = self.gathered()
        self._recalling.begun = self.tick
        g = self.groups
        kept = g * int(self.table.arrays.k.sum())
        return {
            "tick": np.array([self.tick]),
            "count": self.pages.held[:g],
            "end": self.pages.end[:g],
            "columns": columns,
            "ticks": ticks,
            "times": times,
            "answer sizes": self.answers.size[: g * self.table.indices],
            "answer keys": self.answers.key[:kept],
            "answer seqs": self.answers.seq[:kept],
            "stale": self.answers.stale[: g * self.table.indices],
        }

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Undo :meth:`save`, in a grouped engine that is new; runs are filled from the rows."""
        saved = checked_engine(arrays, self._columns, timed=not self._span.rows, k=self.table.arrays.k)
        count, end = saved["count"], saved["end"]
        self._admit(count.size)
        self.tick = self._recalling.begun = int(saved["tick"][0])
        busy = np.flatnonzero(count)
        self.pages.unmaterialised[busy] = 0
        start = np.concatenate([[0], np.cumsum(count[busy])])
        self._make_room(busy, count[busy])
        rows = np.ascontiguousarray(saved["columns"].T)
        arrivals = Arrivals(busy, start, rows, 0, saved["times"], _NONE, False)
        refill(self.pages, arrivals, saved["ticks"], self.table.arrays, self.runs)
        self.pages.end[: end.size] = end
        a = self.answers
        a.size[: saved["answer sizes"].size] = saved["answer sizes"]
        a.key[: saved["answer keys"].size] = saved["answer keys"]
        a.seq[: saved["answer seqs"].size] = saved["answer seqs"]
        a.stale[: saved["stale"].size] = saved["stale"]


def _copy(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> None:
    """Copy arrays to the beginnings of larger ones."""
    for a, b in zip(old, new, strict=True):
        b[: a.size] = a
