"""Bounds along each column of a table, learnt from some of its rows: they make levels, and levels make cells.

Bounds are quantiles, so that scale and shape do not matter. A value that would be picked twice is a level of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.tables.kernels.levels import number_cells


@dataclass(frozen=True)
class Axes:
    """Bounds of each column.

    Attributes
    ----------
    bound : array (columns, bounds)
        Rising; entries behind the last are infinite. See :func:`topwatch.tables.kernels.levels.level_of`.
    bounds : array
        How many there are. A column has one level more.
    stride : array
        What one level of a column adds to the number of a cell.
    """

    bound: Floats
    bounds: Ints
    stride: Ints

    @classmethod
    def among(cls, values: Floats, cells: int) -> Axes:
        """Learn bounds from rows so that there are at most so many cells.

        >>> Axes.among(np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0]]), 9).shape
        (3, 3)
        """
        d = len(values)
        most = 1
        while (most + 2) ** d <= cells:
            most += 1
        # With very many columns there is no cell for two levels of each: the last ones have one.
        axes = [bounds_of(column, most if 2 ** (j + 1) <= cells else 0) for j, column in enumerate(values)]
        bound, bounds = stacked(axes)
        stride = np.concatenate([np.cumprod((bounds + 1)[::-1])[-2::-1], [1]]) if d > 1 else np.ones(1, np.int64)
        return cls(bound, bounds, stride)

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of each column."""
        return tuple((self.bounds + 1).tolist())

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(np.prod(self.bounds + 1))

    def cells_of(self, values: Floats) -> Ints:
        """Return the number of each row's cell."""
        cells = np.empty(values.shape[1], np.int64)
        number_cells(np.ascontiguousarray(values), self.bound, self.bounds, self.stride, cells)
        return cells

    def single(self, axis: int) -> np.ndarray:
        """Tell of each level of a column whether only one value has it.

        >>> Axes.among(np.array([[5.0, 5.0, 5.0, 5.0]]), 9).single(0)
        array([False,  True, False])
        """
        bound = self.bound[axis, : self.bounds[axis]]
        result = np.zeros(bound.size + 1, np.bool_)
        result[1:-1] = np.nextafter(bound[:-1], np.inf) == bound[1:]
        if bound.size:
            result[-1] = bound[-1] == np.inf
        return result


def stacked(axes: list[Floats]) -> tuple[Floats, Ints]:
    """Return the bounds of several columns as kernels take them, and how many each has.

    >>> stacked([np.array([1.0, 2.0]), np.array([5.0])])
    (array([[ 1.,  2., inf],
           [ 5., inf, inf]]), array([2, 1]))
    """
    bounds = np.array([axis.size for axis in axes])
    bound = np.full((len(axes), (1 << int(bounds.max()).bit_length()) - 1), np.inf)
    for j, axis in enumerate(axes):
        bound[j, : axis.size] = axis
    return bound, bounds


def bounds_of(values: Floats, most: int) -> Floats:
    """Return at most ``most`` rising bounds, between which about as many of the values lie."""
    if values.size == 0 or most == 0:
        return np.empty(0)
    ordered = np.sort(values)
    picks, times = np.unique(ordered[np.arange(1, most + 1) * ordered.size // (most + 1)], return_counts=True)
    apart = np.nextafter(picks[times > 1], np.inf)
    bounds: Floats = np.unique(np.concatenate([picks, apart]))
    return bounds[:most] if bounds.size > most else bounds
