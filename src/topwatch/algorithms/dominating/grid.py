"""The grid of a query that counts dominated rows: levels learnt from the rows, and the rows by cell.

Levels are quantiles of each preferred column, so that scale and shape do not matter. Half of them part all rows evenly,
the other half those that are good in all columns at once: scores are counted of rows near the answer, and the finer
cells are there, the fewer rows lie beside them. A value that takes up more than a level has one of its own, where equal
levels are equal values: columns of few values cost no comparison of values.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.algorithms.dominating.kernels.blocks import NO_BOUND, empty_blocks, fill, rename
from topwatch.algorithms.dominating.kernels.codes import NOT_RANKED, Lanes, encode_all
from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints, size_of
from topwatch.core.engine import Window
from topwatch.query.queries import Dominating
from topwatch.tables.levels import guard_bits, stacked

SAMPLE = 65_536
LEVEL_BITS = 13
ROWS_PER_CELL = 16
MOST_CELL_BITS = 17
LONGEST = 2**28  # arrivals in one grid: what is counted by cell has 32 bits


class DominanceGrid:
    """Codes, levels and cells of one query's rows.

    Parameters
    ----------
    window : RingWindow or LatestWindow
        Owns the rows.
    query : Dominating
        What is preferred.
    column_of : mapping of column to int
        Where the columns stand in the window.
    expected : int
        How many rows the window will hold, 0 when that is not known.
    per_axis : int or None
        Cells along each axis, rounded up to a power of two; by the number of rows when None.
    even : bool
        All levels part all rows evenly, as is best where the scores of all rows are counted.
    """

    def __init__(
        self,
        window: Window,
        query: Dominating,
        column_of: Mapping[str, int],
        expected: int = 0,
        per_axis: int | None = None,
        even: bool = False,
    ) -> None:
        self._window = window
        self._expected = expected
        self._per_axis = per_axis
        self._k = query.k
        self._even = even
        self._column: Ints = np.array([column_of[name] for name in query.prefer])
        self._sign: Floats = np.array(query.signs)
        self._where: Ints = np.array([column_of[name] for name in query.where], dtype=np.int64)
        ranges = np.array(list(query.where.values()), dtype=np.float64).reshape(-1, 2)
        self._low, self._high = ranges[:, 0].copy(), ranges[:, 1].copy()
        self.codes: Ints = np.full(window.capacity, NOT_RANKED)
        self._shares: list[Floats] = []  # by column: the share of all rows that is before each level
        self.lanes = self._learn(NO_INTS, 1)
        self.blocks = empty_blocks(1)
        self.room = 1  # rows that it was made for
        self._learnt = 0  # rows that the levels were learnt from
        self._crowded = 1.0  # when it was made
        self._built = self._checked = 0  # ticks

    def build(self, learn_from: Ints, slots: Ints, room: int = 0, bounds: np.ndarray | None = None) -> None:
        """Learn the levels from some rows and put others into their cells, with the bounds (by slot) that are known.

        There will be ``room`` rows; by default, twice as many as now, if the window can hold them.
        """
        window = self._window
        held = max(slots.size, learn_from.size)
        self.room = room or max(1024, min(2 * held, self._expected) if self._expected else 2 * held)
        self.lanes = self._learn(learn_from, self.room)
        self._learnt = learn_from.size
        self.codes = np.full(window.capacity, NOT_RANKED)
        self.encode(slots)
        if bounds is None:
            bounds = np.full(window.capacity, NO_BOUND, np.int32)
        blocks = empty_blocks(1 << int(self.lanes.bits.sum()))
        self.blocks = fill(self.lanes, self.codes, slots, bounds, blocks, max(1.0, self.room / max(1, slots.size)))
        self._crowded = self.crowding()
        self._built = self._checked = window.tick

    def is_outdated(self) -> bool:
        """Return whether the rows have outgrown the grid or drifted away from its levels."""
        window = self._window
        held = window.capacity - window.free()
        if self._learnt < min(held, 1024):
            return True
        if held > self.room and (not self._expected or self.room < self._expected):
            return True
        if window.tick - self._checked < max(held // 4, 8192):
            return False
        self._checked = window.tick
        return window.tick - self._built >= LONGEST or self.crowding() > 1.6 * self._crowded + 0.03

    def encode(self, slots: Ints) -> None:
        """Write the codes of rows."""
        encode_all(self.lanes, self._window.rows(), slots, self.codes)

    def crowding(self) -> float:
        """Return the largest share of all rows that lies in one layer of cells; it grows when the rows drift."""
        total = max(1, int(self.blocks.count.sum()))
        largest = 0.0
        for index, bits in zip(self.lanes.cell_shift.tolist(), self.lanes.bits.tolist(), strict=True):
            if bits:
                layers = self.blocks.count.reshape(-1, 1 << bits, 1 << index).sum(axis=(0, 2))
                largest = max(largest, float(layers.max()) / total)
        return largest

    def promising(self, slots: Ints, count: int) -> Ints:
        """Return about so many of some ranked rows, those that are good in all columns at once."""
        if slots.size <= count:
            return slots
        codes = self.codes[slots]
        guess = np.zeros(slots.size)
        for shift, share in zip(self.lanes.shift.tolist(), self._shares, strict=True):
            guess += np.log1p(-np.minimum(share, 1.0 - 1e-9))[(codes >> shift) & self.lanes.level]
        return slots[np.argpartition(-guess, count)[:count]]

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        window = self._window
        codes = np.full(window.capacity, NOT_RANKED)
        if window.fifo:
            ordinals = np.arange(window.head, window.end + 1)  # type: ignore[union-attr]
            old, new = ordinals & (self.codes.size - 1), ordinals & (window.capacity - 1)
            names = np.zeros(self.codes.size, np.int64)
            names[old] = new
            codes[new] = self.codes[old]
            rename(self.blocks, names)
        else:
            codes[: self.codes.size] = self.codes
        self.codes = codes

    def bytes(self) -> int:
        """Size of the arrays."""
        return size_of([self.codes], self.blocks, self.lanes)

    def _learn(self, slots: Ints, expected: int) -> Lanes:
        d = self._column.size
        width = 64 // d
        most = min(width - 1, LEVEL_BITS)
        sample = slots[:: max(1, slots.size // SAMPLE)]
        values = self._window.columns[np.ix_(self._column, sample)] * self._sign[:, None]
        values = values[:, ~np.isnan(values).any(axis=0)]
        rows = values.shape[1]
        best = good_in_all(values, rows if self._even else max(64, 4 * rows * self._k // max(1, expected)))
        # One level less than the lane could hold: the next level after a row's is never too large for it.
        axes = [level_bounds(column, max(0, (1 << most) - 2), column[best]) for column in values]
        self._shares = [
            np.append(0.0, np.searchsorted(np.sort(column), axis, side="right") / max(1, column.size))
            for column, axis in zip(values, axes, strict=True)
        ]
        bound, bounds = stacked(axes)
        bits, coarse = self._cells(bounds, expected)
        shift = np.arange(d) * width
        coordinates = ((((1 << (width - 1)) - 1) >> coarse << coarse) << shift).sum()
        step = (1 << (shift + coarse)).sum()
        index = np.concatenate([[0], np.cumsum(bits)[:-1]])
        return Lanes(
            self._column, self._sign, self._where, self._low, self._high,
            bound, bounds, single_levels(bound, bounds), shift, coarse, bits, index,
            guard_bits(d, width), coordinates, step, (1 << (width - 1)) - 1,
        )  # fmt: skip

    def _cells(self, bounds: Ints, expected: int) -> tuple[Ints, Ints]:
        """Return the bits of each axis' coordinates, and how far levels are shifted for them."""
        d = bounds.size
        have = np.array([int(count).bit_length() for count in bounds])
        if self._per_axis is not None:
            bits = np.full(d, (self._per_axis - 1).bit_length())
        else:
            total = min(MOST_CELL_BITS, max(0, round(np.log2(max(1, expected) / ROWS_PER_CELL))))
            bits = total // d + (np.arange(d) < total % d).astype(np.int64)
        bits = np.minimum(bits, have)
        return bits, have - bits

    def _check(self, rows: Ints) -> None:
        """Assert that exactly the ranked ones of these rows are in the cells, each in its own, oldest first."""
        b = self.blocks
        assert int(b.count.sum()) == int((self.codes[rows] != NOT_RANKED).sum())
        seen = []
        for cell in np.flatnonzero(b.count):
            first, kind, begin, size = b.cell[cell].tolist()
            assert size == b.count[cell]
            assert begin + size <= (8 << (kind >> 1)) + (kind & 1) * (4 << (kind >> 1))
            slots = b.slot[first + begin : first + begin + size]
            assert np.array_equal(self.codes[slots], b.code[first + begin : first + begin + size])
            assert np.all(np.diff(self._window.seq[slots]) > 0)
            seen.append(slots)
        assert np.count_nonzero(b.code != NOT_RANKED) == sum(slots.size for slots in seen)
        if seen:
            assert np.array_equal(np.sort(np.concatenate(seen)), np.sort(rows[self.codes[rows] != NOT_RANKED]))


def good_in_all(values: Floats, count: int) -> Ints:
    """Return about so many rows (columns apart, smaller is better) that few others precede in each column."""
    rows = values.shape[1]
    if rows <= count:
        return np.arange(rows)
    guess = np.zeros(rows)
    for column in values:
        guess += np.log1p(-np.searchsorted(np.sort(column), column) / rows)
    best: Ints = np.argpartition(-guess, count)[:count]
    return best


def level_bounds(values: Floats, most: int, best: Floats) -> Floats:
    """Return at most ``most`` rising bounds between levels; half of them are spent where some of the values lie.

    >>> level_bounds(np.array([1.0, 2.0, 3.0, 4.0]), 3, np.array([1.0]))
    array([1., 2., 3.])
    """
    if values.size == 0 or most == 0:
        return NO_FLOATS
    values = np.sort(values)
    picks = (
        values[_indices(np.searchsorted(values, np.sort(best)), values.size, most)] if most < values.size else values
    )
    bounds, times = np.unique(picks, return_counts=True)
    crowded = bounds[times > 1]
    bounds = np.unique(np.concatenate([bounds, np.nextafter(crowded, -np.inf)]))
    while bounds.size > most:  # values that have levels of their own take two bounds
        bounds = bounds[np.arange(bounds.size) % 2 == 1] if bounds.size > 2 * most else bounds[:most]
    return bounds


def _indices(best: Ints, size: int, count: int) -> Ints:
    """Return ``count`` rising indices below ``size``, half of them spread evenly and half like the indices ``best``."""
    there = np.arange(1, size + 1) / size
    among = np.interp(np.arange(size), best + np.arange(best.size) * 1e-9, (np.arange(best.size) + 0.5) / best.size)
    indices = np.searchsorted(there + among, np.arange(1, count + 1) * (there[-1] + among[-1]) / (count + 1))
    order = np.arange(count)
    indices = np.maximum.accumulate(indices - order) + order  # each one once
    rising: Ints = np.minimum(indices, size - count + order)
    return rising


def single_levels(bound: Floats, bounds: Ints) -> Ints:
    """Return 1 for each level that one value alone can have."""
    single = np.zeros((bound.shape[0], bound.shape[1] + 1), np.int64)
    for j, count in enumerate(bounds.tolist()):
        upper = np.append(bound[j, :count], np.inf)
        lower = np.append(-np.inf, bound[j, :count])
        single[j, : count + 1] = np.nextafter(upper, -np.inf) == lower
        single[j, 0] = upper[0] == -np.inf
    return single
