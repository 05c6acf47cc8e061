"""How many rows dominate each row, in plain NumPy: every pair is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np


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
