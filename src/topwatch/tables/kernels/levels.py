"""What is computed of each row of a table: its levels among bounds, its cell, its word, and its key for a query.

Values are better when smaller. A value's *level* is how many of its column's bounds it has reached. A cell is one level
of each column. A *word* has a lane for every column, with a guard bit above the level: with the guards set in q, the
guards of q - p show in which lanes q >= p.
"""

from __future__ import annotations

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.core.jit import inlined, kernel
from topwatch.core.kernels.scoring import BLOCK, Queries, score_run


@kernel
def write_keys(table: Queries, columns: Floats, keys: Floats) -> None:
    """Write the key of each row for the table's first query: larger is better, NaN is not ranked."""
    for start in range(0, len(keys), BLOCK):
        score_run(table, 0, columns, start, keys[start : min(len(keys), start + BLOCK)])


@inlined
def compare_rows(values: Floats, a: int, b: int) -> tuple[bool, bool]:
    """Return whether row a is below row b in a column, and whether it is above it in one."""
    less = False
    more = False
    for j in range(len(values)):
        less |= values[j, a] < values[j, b]
        more |= values[j, a] > values[j, b]
    return less, more


@inlined
def level_of(bound: Floats, bounds: int, x: float) -> int:
    """Return how many of the first ``bounds`` bounds are at most x.

    They rise, those behind the last are infinite, and with one more their number would be a power of two: then the
    search has no branch that could be predicted wrongly.
    """
    result = 0
    half = (len(bound) + 1) >> 1
    while half > 0:
        result += half * int(bound[result + half - 1] <= x)
        half >>= 1
    return min(result, bounds)


@kernel
def number_cells(values: Floats, bound: Floats, bounds: Ints, stride: Ints, cells: Ints) -> None:
    """Write the number of each row's cell: its levels, each times the stride of its column."""
    for i in range(len(cells)):
        cell = 0
        for j in range(len(stride)):
            cell += level_of(bound[j], bounds[j], values[j, i]) * stride[j]
        cells[i] = cell


@kernel
def write_levels(values: Floats, bound: Floats, bounds: Ints, levels: np.ndarray, exact: np.ndarray) -> None:
    """Write the levels (columns, rows; int32) of rows, and whether all values of a row are bounds."""
    for i in range(len(exact)):
        whole = True
        for j in range(len(bounds)):
            x = values[j, i]
            level = level_of(bound[j], bounds[j], x)
            whole &= level > 0 and bound[j, max(level - 1, 0)] == x
            levels[j, i] = level
        exact[i] = whole


@kernel
def write_words(levels: np.ndarray, lane: Ints, words: Ints) -> None:
    """Write the words of rows; ``lane`` (columns, levels) has what a level puts into a word."""
    for i in range(len(words)):
        word = 0
        for j in range(len(lane)):
            word |= lane[j, levels[j, i]]
        words[i] = word


@kernel
def count_covering(words: Ints, least: Ints, guard: int, counts: Ints) -> None:
    """Add to ``counts``, for each word of ``least``, how many words are at least as large in every lane."""
    block = 2048
    for start in range(0, len(words), block):
        some = words[start : min(len(words), start + block)]
        for a in range(len(least)):
            p = least[a]
            result = 0
            for i in range(len(some)):
                result += int(((some[i] | guard) - p) & guard == guard)
            counts[a] += result
