"""The order of a static frame's answer: better first, and of equals the row with the larger values.

A table has no newer row, and where its rows lie changes with its partitions. So equal scores are put in order by the
rows' values, column by column from left to right, the larger first: with a rising number or a time in the first column
that is the newer row, as everywhere else. Rows that are equal in all columns are the same to everyone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.core.arrays import Floats, Ints


def k_best(table: pa.Table, keys: Floats, starts: Ints, rows: Ints, k: int) -> Ints:
    """Return the indices of the k best of each group, group by group and best first; NaN is no key.

    Parameters
    ----------
    table : Table
        All rows, of which ``rows`` are ranked, those of a group together, from one start to the next.
    keys : array
        Of the ranked rows; larger is better.
    """
    if starts.size < 2:
        return np.zeros(0, np.int64)
    group = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    threshold = _kth_keys(keys, starts, group, k)
    among = np.flatnonzero(keys >= threshold[group])  # with all that are equal to the last of an answer
    order = among[np.lexsort((-keys[among], group[among]))]
    before, after = order[:-1], order[1:]
    same = (keys[before] == keys[after]) & (group[before] == group[after])
    if same.any():
        tied = np.zeros(order.size, np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        # Only rows that have an equal are sorted by their values.
        rank = np.zeros(order.size, np.int64)
        rank[tied] = value_ranks(table.take(pa.array(rows[order[tied]])))
        order = order[np.lexsort((rank, -keys[order], group[order]))]
    groups = group[order]
    first = np.searchsorted(groups, np.arange(starts.size - 1))
    return order[np.arange(order.size) - first[groups] < k]


def _kth_keys(keys: Floats, starts: Ints, group: Ints, k: int) -> Floats:
    """Return the k-th best key of each group, or minus infinity where it has fewer."""
    thresholds = np.full(starts.size - 1, -np.inf)
    if starts.size == 2:
        known = keys[~np.isnan(keys)]
        if known.size > k:
            thresholds[0] = np.partition(known, known.size - k)[known.size - k]
        return thresholds
    order = np.lexsort((-keys, group))  # NaN last
    nth = starts[:-1] + k - 1
    there = np.diff(starts) >= k
    kth = keys[order[nth[there]]]
    thresholds[there] = np.where(np.isnan(kth), -np.inf, kth)
    return thresholds


def value_ranks(table: pa.Table) -> Ints:
    """Return the rank of each row when the larger values come first, column by column from left to right.

    >>> value_ranks(pa.table({"a": [1, 2, 1, 1], "b": ["x", "x", "z", None]})).tolist()
    [2, 0, 1, 3]
    """
    columns = [leaf for column in table.columns for leaf in _sortable(column)]
    parts = pa.table(columns, names=[str(index) for index in range(len(columns))])
    order = pc.sort_indices(parts, sort_keys=[(name, "descending") for name in parts.column_names])
    ranks = np.empty(table.num_rows, np.int64)
    ranks[order.to_numpy()] = np.arange(table.num_rows)
    return ranks


def _sortable(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """Return columns that Arrow can sort: parts of structures, and other nested values as their text."""
    kind = column.type
    if pa.types.is_struct(kind):
        return [pc.is_valid(column), *(leaf for part in column.flatten() for leaf in _sortable(part))]
    plain = pa.types.is_primitive(kind) and not pa.types.is_interval(kind)
    if plain or pa.types.is_decimal(kind) or _is_text(kind):
        return [column]
    return [pa.chunked_array([pa.array([str(value) for value in column.to_pylist()], pa.string())])]


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)
