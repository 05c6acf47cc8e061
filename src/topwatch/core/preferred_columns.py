"""What a query that prefers some columns sees of rows: numbers of which smaller ones are better, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topwatch.core.engine import Window
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.query.queries import Preferring


class Preferred:
    """The preferred columns of a window.

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
        self._columns = [(column_of[name], 1.0 if query.prefer[name] == "min" else -1.0) for name in query.prefer]
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
