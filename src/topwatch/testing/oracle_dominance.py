"""Which rows dominate which, in plain NumPy: every pair is compared; and how often an id was in the skyline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from topwatch.testing.oracle_scores import Score

_last: dict[tuple[bytes, ...], np.ndarray] = {}  # of one call: queries that differ in k need the same


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


def dominators(columns: Mapping[str, np.ndarray], prefer: Sequence[tuple[str, str]]) -> np.ndarray:
    """For each row, how many others are no worse in any column and better in one."""
    rows = len(next(iter(columns.values())))
    worse_somewhere = np.zeros((rows, rows), dtype=bool)  # [a, b]: a is worse than b in a column
    better_somewhere = np.zeros((rows, rows), dtype=bool)
    for name, direction in prefer:
        a, b = columns[name][:, None], columns[name][None, :]
        worse_somewhere |= a > b if direction == "min" else a < b
        better_somewhere |= a < b if direction == "min" else a > b
    return np.asarray((better_somewhere & ~worse_somewhere).sum(axis=0))


def often(id: Any, past: Sequence[tuple[set[Any], set[Any]]]) -> float:
    """The share of the snapshots, given the ids and the skyline of each; an id that was absent starts again."""
    count = 0
    for ids, skyline in reversed(past):
        if id not in ids:
            break
        count += id in skyline
    return count / len(past)
