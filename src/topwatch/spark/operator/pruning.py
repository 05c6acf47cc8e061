"""Pruning before the shuffle: rows that cannot be an answer, whatever the other partitions hold, stay where they are.

Within a piece of the stream, rows that follow each other without a gap and fit into the window together, a row is
dropped when k older and k newer ones of the piece are better for every query
(:mod:`topwatch.algorithms.topk.kernels.prune`). That is exact. It needs to be known that no other partition's rows lie
in between: so pruned streams are those in the order of their files, or of their partitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.query.queries import Nearest, TopK
from topwatch.query.windows import LastRows
from topwatch.spark.operator.ordering import with_constants

if TYPE_CHECKING:
    from topwatch.spark.stream_spec import Spec

ROW = "_row"  # a kept row's place in its piece
SHARE = 0.25  # of rows may be left; where more are, keeping them all costs less


def worthwhile(spec: Spec) -> bool:
    """Tell whether a stream is pruned: top-k queries over one large window of rows, in an order that is known.

    A named algorithm and its options are the user's wish to keep the window.
    """
    if not isinstance(spec.window, LastRows) or not isinstance(spec.every, int) or spec.options:
        return False
    if spec.by or spec.time is not None or spec.algorithm != "auto" or spec.emit == "first":
        return False
    rows, left = spec.window.rows, 0.0
    for query in spec.queries:
        if not isinstance(query, TopK | Nearest):
            return False
        left += 2 * query.k * (1 + math.log(max(1.0, rows / query.k)))
    return left <= SHARE * rows


class Pruner:
    """Takes a partition's rows as they come and keeps those that can be an answer.

    Parameters
    ----------
    spec : Spec
        What is watched.
    """

    def __init__(self, spec: Spec) -> None:
        assert isinstance(spec.window, LastRows)
        self._spec = spec
        self._most = spec.window.rows
        self._table = table_of(spec)
        self._done: list[tuple[int, pa.Table]] = []
        self._index: tuple[Any, ...] | None = None  # of the rows in the open piece
        self._rows = 0
        self._kept: list[pa.Table] = []
        self._best = self._none()  # keys in the open piece

    def take(self, table: pa.Table) -> None:
        """Take rows, in order."""
        for index, run in _runs(table, self._spec.order):
            start = 0
            while start < run.num_rows:
                if index != self._index or self._rows == self._most:
                    self._close()
                    self._index = index
                part = run.slice(start, self._most - self._rows)
                start += part.num_rows
                indices = pa.array(np.arange(self._rows, self._rows + part.num_rows))
                self._kept.append(self._pruned(part.append_column(ROW, indices), self._best))
                self._rows += part.num_rows

    def pieces(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield each piece: how many rows it had, and those that are left."""
        self._close()
        yield from self._done

    def _close(self) -> None:
        if self._rows and self._index is not None:
            kept = self._pruned(pa.concat_tables(self._kept), self._none())
            index = dict(zip(self._spec.order, self._index, strict=True))
            self._done.append((self._rows, with_constants(kept, index)))
        self._rows, self._kept, self._best = 0, [], self._none()

    def _none(self) -> np.ndarray:
        k = self._table.arrays.k
        return np.full((k.size, k.max()), -np.inf)

    def _pruned(self, table: pa.Table, older: np.ndarray) -> pa.Table:
        from topwatch.algorithms.topk.kernels.prune import keep_candidates

        keep = np.zeros(table.num_rows, np.bool_)
        keep_candidates(self._table.arrays, columns_of(table, self._spec), older, keep)
        return table.filter(pa.array(keep))


def table_of(spec: Spec) -> QueryTable:
    """Return the queries as kernels read them."""
    assert isinstance(spec.window, LastRows)
    table = QueryTable()
    for query in spec.queries:
        table.add(query, {column: index for index, column in enumerate(spec.columns)})
    np.minimum(table.arrays.k, spec.window.rows, out=table.arrays.k)
    return table


def columns_of(table: pa.Table, spec: Spec) -> np.ndarray:
    """Return what the queries read as an array (columns, rows)."""
    columns = np.empty((len(spec.columns), table.num_rows))
    for index, name in enumerate(spec.columns):
        start = 0
        for chunk in table.column(name).chunks:  # at once, it would be copied twice
            columns[index, start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
            start += len(chunk)
    return columns


def _runs(table: pa.Table, order: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Cut rows where their position in the source changes."""
    bounds = {0, table.num_rows}
    for name in order:
        values = table.column(name).to_numpy()
        bounds.update((np.flatnonzero(values[1:] != values[:-1]) + 1).tolist())
    for a, b in pairwise(sorted(bounds)):
        yield tuple(table.column(name)[a].as_py() for name in order), table.slice(a, b - a)
