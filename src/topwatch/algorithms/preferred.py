"""The columns that a query prefers, read from a window: what counting dominated rows and skylines begin with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.engine import Window
from topwatch.query.queries import Preferring


class Preferred:
    """The columns that a query prefers, as numbers of which smaller ones are better.

    Parameters
    ----------
    window : RingWindow or LatestWindow
        Owns the rows.
    query : Dominating, Skyline or FrequentSkyline
        What is preferred where, and within which ranges.
    column_of : mapping
        From names to the window's columns.
    """

    def __init__(self, window: Window, query: Preferring, column_of: Mapping[str, int]) -> None:
        self._window = window
        self._columns = [(column_of[name], sign) for name, sign in zip(query.prefer, query.signs, strict=True)]
        self._ranges = [(column_of[name], *bounds) for name, bounds in query.where.items()]

    def __len__(self) -> int:
        return len(self._columns)

    def values(self, slots: Ints) -> Floats:
        """Return the values (columns, rows), smaller is better; NaN in all columns of a row that is not ranked."""
        rows = self._window.columns
        values = np.empty((len(self._columns), slots.size))
        for index, (column, sign) in enumerate(self._columns):
            np.multiply(rows[column, slots], sign, out=values[index])
        out = np.isnan(values).any(axis=0)
        for column, low, high in self._ranges:
            out |= ~((rows[column, slots] >= low) & (rows[column, slots] <= high))
        values[:, out] = np.nan
        return values
