"""The grid over a group of queries: learnt bounds, influence lists and, for algorithms that walk, the rows by cell.

The papers assume values in [0, 1]. Here the axes are learnt from the rows (the middle 99.8 % of them, so that a stray
value does not stretch the cells), the outermost cells reach as far as any value seen, and both follow the stream.
"""

from __future__ import annotations

import numpy as np

from topwatch.algorithms.topk.kernels.cells import Cells, Reach, cell_high, cell_low, count_outside, locate
from topwatch.algorithms.topk.kernels.find_rows import run_length
from topwatch.algorithms.topk.kernels.influence import Influence, Lists, move_level
from topwatch.algorithms.topk.kernels.walk_cells import CHUNK, FIRST, LAST, Points, link
from topwatch.core.arrays import Floats, Ints, size_of
from topwatch.core.engine import Window
from topwatch.core.jit import ZERO, kernel, leaf
from topwatch.core.kernels import scoring
from topwatch.core.kernels.rows import Rows
from topwatch.core.kernels.scoring import Queries

PAPER_CELLS = 12**4
ROWS_PER_CELL = 48  # the paper's best: a million rows in 12^4 cells
SAMPLE = 20_000
LOOK = 65_536  # rows after which it is looked at least whether the grid still suits them, or half a window
DRIFT_SAMPLE = 2000
LEAST_SPAN = 1e-290  # of an axis: the inverse of a cell's width is a number


def cells_per_axis(axes: int, rows: int) -> int:
    """Choose how many cells an axis has: as the paper's best grid has for a window of a million rows.

    >>> cells_per_axis(4, 1_000_000), cells_per_axis(2, 1_000_000), cells_per_axis(4, 1_000)
    (12, 144, 2)
    """
    total = min(max(rows // ROWS_PER_CELL, 16), PAPER_CELLS)
    each: float = total ** (1 / axes)
    return max(2 if axes <= 12 else 1, round(each))


class Grid:
    """Cells over some columns of a window, with the influence lists of a group of queries.

    Parameters
    ----------
    columns : list of int
        The axes: indices of columns in the window, in the order of the queries' terms.
    per_axis : int
        Cells along each axis.
    walked : bool
        Whether rows are kept by cell.
    """

    def __init__(self, columns: list[int], per_axis: int, walked: bool) -> None:
        self.columns = columns
        self.per_axis = per_axis
        self.walked = walked
        self.tight = True
        self.points: Points | None = None
        self._checked = 0  # tick when it was last looked at whether rows lie where they did

    def build(self, window: Window, arrived: Ints, table: Queries, thresholds: Floats) -> None:
        """Learn the bounds from all rows held, and put each query into its lists, and rows into their cells.

        Not those that have just arrived: these follow one by one.
        """
        rows, live = window.rows(), window.live_slots()
        sample = live[:: max(1, live.size // SAMPLE)]
        low, high = np.array([self._core(rows.columns[c, sample]) for c in self.columns]).T.copy()
        width = (high - low) / self.per_axis
        axes = len(self.columns)
        cells = Cells(
            column=np.array(self.columns, np.int64),
            low=low,
            width=width,
            scale=1.0 / width,
            pad=width * 1e-6 + 4 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high)),
            least=np.full(axes, np.inf),  # until rows say how far they reach
            most=np.full(axes, -np.inf),
            per_axis=np.full(axes, self.per_axis, np.int64),
            stride=self.per_axis ** np.arange(axes - 1, -1, -1, dtype=np.int64),
        )
        total = self.per_axis**axes
        self.lists = Lists(cells, _reach(0, 0, 0), _influence(0, total), -1)
        self._reach_out(rows, live, table)
        self.relink(rows, live[: live.size - arrived.size])
        self.level(table, thresholds)
        self._checked = window.tick

    def level(self, table: Queries, thresholds: Floats) -> None:
        """Make the influence lists again from the queries' thresholds."""
        queries = thresholds.size
        reach = _reach(queries, len(self.columns), self.per_axis)
        for q in range(queries):
            _aim(self.lists.cells, table, reach, q)
        total = self.per_axis ** len(self.columns)
        kinds = np.unique(table.kind[table.k != 0])
        kind = int(kinds[0]) if kinds.size == 1 else -1
        lists = Lists(self.lists.cells, reach, _influence(queries, total), kind)
        self.lists = _level_all(lists, table, thresholds)

    def admit(self, table: Queries, q: int, threshold: float) -> bool:
        """Put one more query into the lists, or take one out (a threshold of NaN); False when the grid must be new."""
        if not self.tight and table.kind[q] == scoring.EXPR and not np.isnan(threshold):
            return False
        lists = self.lists
        have = lists.reach.ordered.size
        if table.kind.size > have:
            reach = _reach(table.kind.size, len(self.columns), self.per_axis)
            for old, new in zip(lists.reach[:7], reach[:7], strict=True):
                new[:have] = old
            level = np.full(table.kind.size, np.nan)
            level[:have] = lists.influence.level
            lists = lists._replace(reach=reach, influence=lists.influence._replace(level=level))
        if not np.isnan(threshold):
            _aim(lists.cells, table, lists.reach, q)
            if table.kind[q] != lists.kind:
                lists = lists._replace(kind=-1)
        self.lists = move_level(lists, table, q, threshold)
        return True

    def relink(self, rows: Rows, linked: Ints) -> None:
        """Put rows into their cells again: after their slots have changed, or when the pool is used up."""
        if not self.walked:
            return
        cells = self.lists.cells
        total = self.per_axis ** len(self.columns)
        chunks = rows.seq.size // CHUNK + 2 * total + 1
        self.points = _points(total, rows.seq.size, 0 if rows.fifo else rows.seq.size, chunks, len(self.columns))
        _link_all(self.points, cells, rows.columns, linked)

    def follow(self, window: Window, arrived: Ints, table: Queries, thresholds: Floats, per_axis: int) -> bool:
        """Let the outermost cells reach to new rows; return whether the grid suits the rows now.

        It does not, which is looked at now and then, where they lie elsewhere than when the bounds were learnt, or a
        new grid would have other than about as many cells, ``per_axis`` along each axis.
        """
        rows = window.rows()
        if arrived.size and not _covers(self.lists.cells, rows.columns, arrived):
            self._reach_out(rows, arrived, table)
            self.level(table, thresholds)
        if window.tick - self._checked <= max((window.capacity - window.free()) // 2, LOOK):
            return True
        self._checked = window.tick
        axes = len(self.columns)
        fits = self.per_axis**axes / 8 <= per_axis**axes <= self.per_axis**axes * 8
        return fits and not self._drifted(rows, window.sample(DRIFT_SAMPLE))

    def _reach_out(self, rows: Rows, slots: Ints, table: Queries) -> None:
        """Let the outermost cells cover the values of some rows."""
        cells = self.lists.cells
        # A little beyond, so that slowly growing values do not stretch the grid at every row. But an expression keeps
        # its promise to rise or fall only where there are values: 1 / (1 + x) falls, until x is below -1.
        self.tight = bool(np.any((table.kind == scoring.EXPR) & (table.k != 0)))
        beyond = 0.0 if self.tight else 0.02
        for i, column in enumerate(self.columns):
            values = rows.columns[column, slots]
            values = values[~np.isnan(values)]
            if values.size:
                cells.least[i] = min(cells.least[i], values.min() - beyond * cells.width[i])
                cells.most[i] = max(cells.most[i], values.max() + beyond * cells.width[i])

    def _drifted(self, rows: Rows, sample: Ints) -> bool:
        """Tell whether the rows now lie elsewhere than when the bounds were learnt."""
        for i, column in enumerate(self.columns):
            low, high = self._core(rows.columns[column, sample])
            span = self.lists.cells.width[i] * self.per_axis
            start = self.lists.cells.low[i]
            if abs(low - start) + abs(high - start - span) > 0.5 * min(span, high - low):
                return True
        return False

    @staticmethod
    def _core(sample: Floats) -> tuple[float, float]:
        """Return where the middle of a column's values lies, as an interval that is not empty."""
        finite = sample[np.isfinite(sample)]
        if finite.size == 0:
            return 0.0, 1.0
        low, high = (float(x) for x in np.quantile(finite, (0.001, 0.999), method="nearest"))
        if high / 2 - low / 2 > 1e307:
            return -1e307, 1e307
        if not high - low > LEAST_SPAN:
            low, high = low - 0.5, low + 0.5
        if not high > low:  # a half is nothing beside so large a number
            low, high = float(np.nextafter(low, -np.inf)), float(np.nextafter(low, np.inf))
        return low, high

    def bytes(self) -> int:
        """Size of the arrays."""
        return size_of(self.lists[:3], self.points or ())

    def entries(self) -> int:
        """How many entries the lists have."""
        return int(self.lists.influence.size.sum())

    def _check(self, rows: Rows, live: Ints, table: Queries, thresholds: Floats) -> None:
        cells, influence, points = self.lists.cells, self.lists.influence, self.points
        for i, column in enumerate(self.columns):
            values = rows.columns[column, live]
            inside = (values >= cells.least[i]) & (values <= cells.most[i])
            assert np.all(inside | np.isnan(values)), "a row lies outside the grid"
        if points is not None:
            number = _cells_of(cells, rows.columns, live)
            assert np.array_equal(points.cell[live], number), "a row is in another cell than its values say"
            indices = _indices(points)
            slots = points.values[indices, -1].astype(np.int64)
            assert np.array_equal(np.sort(slots), np.sort(live)), "a row is in no cell, or in two"
            assert points.index_of.size == 0 or np.array_equal(points.index_of[slots], indices)
            for i, column in enumerate(self.columns):
                assert np.array_equal(points.values[indices, i], rows.columns[column, slots], equal_nan=True)
        assert not np.any(influence.level > thresholds), (
            "a query does not listen to all cells that can change its answer"
        )
        listed = [set(influence.pool[f : f + n]) for f, n in zip(influence.first, influence.size, strict=True)]
        for slot in live[:50]:
            cell = _cells_of(cells, rows.columns, np.array([slot]))[0]
            for q in range(thresholds.size):
                if table.k[q] != 0 and _reaches(table, q, rows.columns, slot, thresholds[q]):
                    assert q in listed[cell], "a row can change an answer unnoticed"


@kernel
def _covers(cells: Cells, columns: Floats, slots: Ints) -> bool:
    start = ZERO
    while start < len(slots):
        n = run_length(slots, start, len(slots))
        if count_outside(cells, columns, slots[start], slots[start] + n) > 0:
            return False
        start += n
    return True


@kernel
def _reaches(table: Queries, q: int, columns: Floats, slot: int, threshold: float) -> bool:
    return scoring.score_row(table, q, columns, slot) >= threshold and scoring.inside(table, q, columns, slot)


@kernel
def _cells_of(cells: Cells, columns: Floats, slots: Ints) -> Ints:
    number = np.empty(len(slots), np.int64)
    for i in range(len(slots)):
        number[i] = locate(cells, columns, slots[i])
    return number


@kernel
def _link_all(points: Points, cells: Cells, columns: Floats, slots: Ints) -> None:
    for i in range(len(slots)):
        link(points, cells, columns, slots[i], locate(cells, columns, slots[i]))


@kernel
def _level_all(lists: Lists, table: Queries, thresholds: Floats) -> Lists:
    for q in range(len(thresholds)):
        if table.k[q] != 0:
            lists = move_level(lists, table, q, thresholds[q])
    return lists


@kernel
def _aim(cells: Cells, table: Queries, reach: Reach, q: int) -> None:
    """Work out for each axis in which order a query's cells are best, and which of them its ranges touch."""
    reach.ordered[q] = 1
    kind = table.kind[q]
    for i in range(min(len(cells.low), table.terms[q])):
        a = table.value[q, i]
        direction = 1
        point = 0.0
        if kind == scoring.LINEAR:
            direction = 1 if a >= 0 else -1
        elif kind == scoring.EXPR:
            direction = table.rising[q, i]
            if direction == 0:
                reach.ordered[q] = 0
        elif kind == scoring.DISTANCE:
            direction = 0
            point = a
        elif kind == scoring.PRODUCT:
            if a + cells.least[i] < 0:
                reach.ordered[q] = 0
        elif cells.least[i] >= 0:
            direction = 1 if a >= 0 else -1
        elif cells.most[i] <= 0:
            direction = -1 if a >= 0 else 1
        elif a <= 0:
            direction = 0
        else:
            reach.ordered[q] = 0
        reach.direction[q, i] = direction
        _clip(cells, table, reach, q, i)
        at = (point - cells.low[i]) * cells.scale[i]
        reach.centre[q, i] = min(max(int(min(max(at, 0.0), 1e9)), reach.first[q, i]), reach.last[q, i])


@leaf
def _clip(cells: Cells, table: Queries, reach: Reach, q: int, i: int) -> None:
    low = -np.inf
    high = np.inf
    for r in range(table.ranges[q]):
        if table.where_column[q, r] == cells.column[i]:
            low = table.where_low[q, r]
            high = table.where_high[q, r]
    first = 0
    last = cells.per_axis[i] - 1
    while first < last and cell_high(cells, i, first) < low:
        first += 1
    while last > first and cell_low(cells, i, last) > high:
        last -= 1
    reach.low[q, i] = low
    reach.high[q, i] = high
    reach.first[q, i] = first
    reach.last[q, i] = last


def _reach(queries: int, axes: int, per_axis: int) -> Reach:
    direction, centre, first, last = np.zeros((4, queries, axes), np.int64)
    low, high = np.zeros((2, queries, axes))
    ordered, ranks, parts = np.zeros(queries, np.int64), np.zeros(axes, np.int64), np.zeros((axes, per_axis))
    box_low, box_high = np.zeros((2, axes))
    return Reach(direction, centre, first, last, low, high, ordered, ranks, box_low, box_high, parts)


def _influence(queries: int, cells: int) -> Influence:
    return Influence(
        first=np.zeros(cells, np.int64),
        size=np.zeros(cells, np.int32),
        room=np.zeros(cells, np.int64),
        pool=np.empty(0, np.uint32),
        used=np.zeros(1, np.int64),
        level=np.full(queries, np.nan),
        result=np.empty(cells, np.int64),
        bounds=np.empty(cells, np.float64),
    )


def _indices(points: Points) -> Ints:
    """Return the indices of all rows in the pool, cell by cell."""
    indices: list[int] = []
    for first, at, last, behind in points.ends.tolist():
        chunk = first
        while chunk >= 0:
            start = chunk * CHUNK + (at if chunk == first else 0)
            indices += range(start, chunk * CHUNK + (behind if chunk == last else CHUNK))
            chunk = int(points.following[chunk])
    return np.array(indices, np.int64)


def _points(cells: int, slots: int, indices: int, chunks: int, axes: int) -> Points:
    ends = np.zeros((cells, 4), np.int64)
    ends[:, [FIRST, LAST]] = -1
    return Points(
        ends=ends,
        following=np.empty(chunks, np.int64),
        spare=np.arange(chunks - 1, -1, -1, dtype=np.int64),
        spares=np.array([chunks], np.int64),
        values=np.empty((chunks * CHUNK, axes + 1)),
        index_of=np.empty(indices, np.int64),
        cell=np.empty(slots, np.int32),
        heap_bound=np.empty(cells, np.float64),
        heap_code=np.empty(cells, np.int64),
    )
