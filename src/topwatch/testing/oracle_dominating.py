"""How many rows each row dominates, in plain NumPy: every pair is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from topwatch.testing.oracle_scores import Score

_last: dict[tuple[bytes, ...], np.ndarray] = {}  # of one call: queries that differ in k ask the same


def dominated(columns: Mapping[str, np.ndarray], prefer: Sequence[tuple[str, str]]) -> np.ndarray:
    """For each row, how many others are no better in any column and worse in one."""
    key = tuple(part for name, way in prefer for part in (way.encode(), columns[name].tobytes()))
    if key not in _last:
        _last.clear()
        _last[key] = _compared(columns, prefer)
    return _last[key]


def _compared(columns: Mapping[str, np.ndarray], prefer: Sequence[tuple[str, str]]) -> np.ndarray:
    rows = len(next(iter(columns.values())))
    no_worse = np.ones((rows, rows), dtype=bool)
    better = np.zeros((rows, rows), dtype=bool)
    for name, direction in prefer:
        mine, other = columns[name][:, None], columns[name][None, :]
        if direction == "max":
            mine, other = other, mine
        no_worse &= mine <= other
        better |= mine < other
    return np.asarray((no_worse & better).sum(axis=1), float)


def carrier(prefer: Sequence[tuple[str, str]]) -> Score:
    """A score that names the columns; it is never computed."""
    return Score("linear", tuple((name, 1.0) for name, _ in prefer))
