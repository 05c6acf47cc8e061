"""Choosing rows of a static frame inside ``mapInArrow``: first in each partition, then among what partitions have left.

A *choice* marks the best rows of every group. It can be made of a part of the rows, and again of what is left of
several parts: both steps are one class. Rows that a choice does not rank are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.core.arrays import Floats, Ints
from topwatch.spark.static.groups import group_numbers, last_start
from topwatch.spark.static.value_order import k_best

MOST = 1 << 18  # rows that are looked at together
BYTES = 128 << 20


class Choice(Protocol):
    """What is chosen."""

    columns: tuple[str, ...]

    def choose(self, table: pa.Table, values: Floats, starts: Ints, rows: Ints) -> tuple[Ints, Floats | None]:
        """Return indices into ``rows`` of those that are chosen, group by group, and their scores if they have any.

        ``values`` (columns, rows) are what is read of ``rows``, indices into the table, those of a group together.
        """
        ...


class ChoiceInPartition:
    """The function for ``mapInArrow``.

    Parameters
    ----------
    choice : Choice
        What is chosen.
    names : tuple of str
        Of the columns, which Spark knows by their indices: it does not take all names here.
    by : tuple of str
        Columns whose values have their own answers.
    last : bool
        Every group is there as a whole, its rows one after the other. Else rows are those of a partition as they come,
        and what is left may be more than an answer.
    """

    def __init__(self, choice: Choice, names: tuple[str, ...], by: tuple[str, ...], last: bool) -> None:
        self._choice = choice
        self._names = names
        self._by = by
        self._last = last

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Choose among a partition's rows."""
        held: list[pa.Table] = []
        rows = size = 0
        most = MOST
        for batch in batches:
            held.append(pa.Table.from_batches([batch]).rename_columns(list(self._names)))
            rows += batch.num_rows
            size += batch.nbytes
            if rows < most and (self._last or size < BYTES):
                continue
            table = pa.concat_tables(held)
            if not self._last:
                kept = self.chosen(table)
                if 2 * kept.num_rows > table.num_rows:  # looking at them again would not pay
                    yield from self._handed_on(kept)
                    kept = kept.slice(0, 0)
            elif self._by:
                end = last_start(table, self._by)
                yield from self._handed_on(self.chosen(table.slice(0, end)))
                kept = table.slice(end)
                most = max(MOST, 2 * kept.num_rows)
            else:
                kept, most = table, 2 * table.num_rows
            held, rows, size = [kept], kept.num_rows, kept.nbytes
        if rows:
            yield from self._handed_on(self.chosen(pa.concat_tables(held)))

    def _handed_on(self, table: pa.Table) -> list[pa.RecordBatch]:
        indices = [str(index) for index in range(len(self._names))]
        batches: list[pa.RecordBatch] = table.rename_columns(indices + table.column_names[len(indices) :]).to_batches()
        return batches

    def chosen(self, table: pa.Table) -> pa.Table:
        """Return the chosen rows of each group; at last with score and rank, if there are scores."""
        values = numbers(table, self._choice.columns)
        number = group_numbers(table, self._by)
        ranked = np.flatnonzero(~np.isnan(values).any(axis=0))
        rows = ranked[np.argsort(number[ranked], kind="stable")] if self._by else ranked
        starts = np.flatnonzero(np.diff(number[rows], prepend=-1, append=-1)) if rows.size else np.zeros(1, np.int64)
        some = values if rows.size == values.shape[1] and not self._by else np.ascontiguousarray(values[:, rows])
        indices, scores = self._choice.choose(table, some, starts, rows)
        result = table.take(pa.array(rows[indices]))
        if scores is None or not self._last:
            return result
        groups = number[rows[indices]]
        first = np.flatnonzero(np.diff(groups, prepend=-1))
        rank = np.arange(groups.size) - np.repeat(first, np.diff(first, append=groups.size)) + 1
        return result.append_column("score", pa.array(scores)).append_column("rank", pa.array(rank))


class Band:
    """Rows that fewer than k others dominate.

    Parameters
    ----------
    prefer : dict of column to "min" or "max"
        What is better.
    k : int
        How many dominators are too many.
    strong : array (columns, rows), optional
        Rows of the table, smaller is better: of what is chosen, they drop what they dominate, before others do. Only
        for k = 1, without groups.
    """

    def __init__(self, prefer: dict[str, Any], k: int, strong: Floats | None = None) -> None:
        self.columns = tuple(prefer)
        self._signs = signs(prefer)
        self._k = k
        self._strong = strong

    def choose(self, table: pa.Table, values: Floats, starts: Ints, rows: Ints) -> tuple[Ints, Floats | None]:
        """Return the rows of each group's skyband."""
        from topwatch.tables.skyband import skybands
        from topwatch.tables.skyline import front, unbeaten

        values = values * self._signs
        if self._strong is None:
            return np.flatnonzero(skybands(values, starts, self._k)), None
        best = front(values)
        return best[unbeaten(values[:, best], self._strong)], None


class _Ranking:
    """The k rows with the best keys; a key is larger for a better row, and NaN for one that is not ranked."""

    _k: int
    _sign = 1.0  # of a score beside its key

    def keys(self, values: Floats, starts: Ints) -> Floats:
        """Return the keys of rows."""
        raise NotImplementedError

    def choose(self, table: pa.Table, values: Floats, starts: Ints, rows: Ints) -> tuple[Ints, Floats | None]:
        """Return the best rows of each group, best first."""
        keys = self.keys(values, starts)
        indices = k_best(table, keys, starts, rows, self._k)
        return indices, self._sign * keys[indices]


class Scored(_Ranking):
    """The k rows with the best score."""

    def __init__(self, query: Any) -> None:
        self.columns = query.score.columns
        self._query = query
        self._k = query.k
        self._sign = -1.0 if query.smaller_is_better else 1.0

    def keys(self, values: Floats, starts: Ints) -> Floats:
        """Return the keys of rows."""
        from topwatch.algorithms.topk.query_table import QueryTable
        from topwatch.tables.kernels.levels import write_keys

        table = QueryTable()
        table.add(self._query, {name: index for index, name in enumerate(self.columns)})
        keys = np.empty(values.shape[1])
        write_keys(table.arrays, np.ascontiguousarray(values), keys)
        return keys


class Named(_Ranking):
    """The k rows that dominate the most others, where it is known which they are."""

    def __init__(self, prefer: dict[str, Any], k: int, best: Any) -> None:
        self.columns = tuple(prefer)
        self._signs = signs(prefer)
        self._k = k
        self._best = best

    def keys(self, values: Floats, starts: Ints) -> Floats:
        """Return the scores of rows; the others may have 0 or be none."""
        return scores_of(self._best, values * self._signs)


class Dominant(_Ranking):
    """The k rows that dominate the most others, of groups that are there as a whole."""

    def __init__(self, prefer: dict[str, Any], k: int) -> None:
        self.columns = tuple(prefer)
        self._signs = signs(prefer)
        self._k = k

    def keys(self, values: Floats, starts: Ints) -> Floats:
        """Return the scores of rows, those that cannot be an answer left out."""
        from topwatch.tables.kernels.ranked_skyband import compare_small
        from topwatch.tables.skyband import SMALL
        from topwatch.tables.top_dominating import best_in_memory

        values = np.ascontiguousarray(values * self._signs)
        dominators, dominated = np.zeros((2, values.shape[1]), np.int64)
        compare_small(values, starts, SMALL, dominators, dominated)
        keys = dominated.astype(np.float64)
        for g in np.flatnonzero(np.diff(starts) > SMALL):
            part = np.ascontiguousarray(values[:, starts[g] : starts[g + 1]])
            keys[starts[g] : starts[g + 1]] = scores_of(best_in_memory(part, self._k), part)
        return keys


def scores_of(best: Any, values: Floats) -> Floats:
    """Return the scores of rows, by what is known of the best; NaN where they cannot be an answer."""
    from topwatch.tables.levels import Tuples

    scores = np.full(values.shape[1], 0.0 if best.others else np.nan)
    if best.scores.size:
        index = Tuples(best.values).find(values)
        scores[index >= 0] = best.scores[index[index >= 0]]
    return scores


def signs(prefer: dict[str, Any]) -> Floats:
    """Return what values are multiplied with so that smaller is better."""
    return np.array([[1.0] if better == "min" else [-1.0] for better in prefer.values()])


def numbers(table: pa.Table, columns: tuple[str, ...]) -> Floats:
    """Return columns as numbers (columns, rows); what is missing is NaN."""
    values = np.empty((len(columns), table.num_rows))
    for index, name in enumerate(columns):
        start = 0
        for chunk in table.column(name).chunks:
            if not pa.types.is_float64(chunk.type):
                chunk = pc.cast(chunk, pa.float64(), safe=False)
            values[index, start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
            start += len(chunk)
    return values
