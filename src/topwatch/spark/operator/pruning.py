"""Pruning: rows that cannot be an answer, whatever the other partitions hold, are dropped before the shuffle.

:class:`Pruner` works before the shuffle. Within a piece of the stream, rows that follow each other without a gap and
fit into the window together, a row is dropped when k older and k newer ones of the piece are better for every query
(:mod:`topwatch.algorithms.topk.kernels.prune`). That is exact. It needs to be known that no other partition's rows lie
in between: so pruned streams are those in the order of their files, or of their partitions.

:class:`PrunedWindow` takes what is left. Rows are known by their ordinals in the whole stream, so that a window of the
last N rows is one of the last N ordinals. An answer changes after a row that was kept, or when one that it holds
expires, N rows later; what came in between is not needed. The state is a k-skyband for each query, small enough to be
written again in every micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from topwatch.algorithms.topk.grouped_engine import GroupedEngine, Reported
from topwatch.algorithms.topk.grouped_ids import GroupedIds
from topwatch.algorithms.topk.kernels.prune import keep_candidates
from topwatch.algorithms.topk.query_table import QueryTable
from topwatch.core.arrays import Floats, Ints
from topwatch.core.saved_state import Fields, Saved
from topwatch.monitor.changes import Answer, Changes, Entry, join
from topwatch.monitor.snapshot_format import arrow_from_array, ids_to_array
from topwatch.query.windows import LastRows
from topwatch.spark.operator.ordering import Piece, constants_of, order_keys, with_constants
from topwatch.spark.planner import Spec

ROW = "_row"  # column: which row of its piece a kept row was
SLACK = 4096  # rows more than needed that may be kept before they are thinned


class Pruner:
    """Takes a partition's rows as they come and keeps those that can be an answer.

    Parameters
    ----------
    spec : Spec
        What is watched.
    """

    def __init__(self, spec: Spec) -> None:
        assert isinstance(spec.settings.window, LastRows)
        self._spec = spec
        self._most = spec.settings.window.rows
        self._table = table_of(spec)
        self._done: list[Piece] = []
        self._origin: tuple[Any, ...] | None = None  # values of the order columns, of the rows in the open piece
        self._rows = 0
        self._kept: list[pa.Table] = []
        self._best = self._none()  # keys in the open piece

    def take(self, table: pa.Table) -> None:
        """Take rows, in order."""
        for origin, run in _runs(table, self._spec.order):
            start = 0
            while start < run.num_rows:
                if origin != self._origin or self._rows == self._most:
                    self._close()
                    self._origin = origin
                part = run.slice(start, self._most - self._rows)
                start += part.num_rows
                numbers = pa.array(np.arange(self._rows, self._rows + part.num_rows))
                self._kept.append(self._pruned(part.append_column(ROW, numbers), self._best))
                self._rows += part.num_rows

    def pieces(self) -> Iterator[Piece]:
        """Yield each piece with the rows that are left."""
        self._close()
        yield from self._done

    def _close(self) -> None:
        if self._rows and self._origin is not None:
            kept = self._pruned(pa.concat_tables(self._kept), self._none())
            origin = dict(zip(self._spec.order, self._origin, strict=True))
            self._done.append(Piece(self._rows, with_constants(kept, origin)))
        self._rows, self._kept, self._best = 0, [], self._none()

    def _none(self) -> Floats:
        k = self._table.arrays.k
        return np.full((k.size, k.max()), -np.inf)

    def _pruned(self, table: pa.Table, older: Floats) -> pa.Table:
        keep = np.zeros(table.num_rows, np.bool_)
        keep_candidates(self._table.arrays, columns_of(table, self._spec), older, keep)
        return table.filter(pa.array(keep))


class PrunedWindow:
    """The window of a pruned stream, which has what :class:`Monitor` has as far as a bucket needs it.

    It is a grouped engine with one group whose rows expire by their ordinals, as others do by their times.

    Parameters
    ----------
    spec : Spec
        What is watched.
    """

    def __init__(self, spec: Spec) -> None:
        window, every = spec.settings.window, spec.settings.every
        assert isinstance(window, LastRows)
        assert isinstance(every, int)
        self._spec = spec
        self._names = [str(query.name) for query in spec.queries]
        self._reach, self._every = window.rows, every
        self._engine = self._new_engine()
        self._ids = GroupedIds()
        self._needed = 0  # rows left when they were last thinned
        self._rows = 0  # of the whole stream

    def push(self, came: list[Piece]) -> Changes:
        """Take in what is left of a micro-batch's pieces; return the changes."""
        self._ids.tidy(self._engine)
        keys = order_keys(self._spec)
        came = sorted(came, key=lambda piece: [constants_of(piece.table)[key] for key in keys])
        starts = self._rows + np.cumsum([0, *(rows for rows, _ in came)])
        before, self._rows = self._rows, int(starts[-1])
        wanted = [*self._spec.columns, ROW] + ([] if self._spec.id in self._spec.columns else [self._spec.id])
        new = pa.concat_tables([kept.select(wanted).replace_schema_metadata(None) for _, kept in came])
        arrived = np.concatenate(
            [start + 1 + kept.column(ROW).to_numpy() for start, (_, kept) in zip(starts, came, strict=False)]
        )
        evaluated = self._evaluations(before - before % self._every, arrived)
        quiet = np.setdiff1d(evaluated, arrived, assume_unique=True)  # evaluations after rows that were dropped
        columns = np.concatenate(
            [columns_of(new, self._spec), np.full((len(self._spec.columns), quiet.size), np.nan)], axis=1
        )
        ids = new.column(self._spec.id).combine_chunks()
        ids = pa.concat_arrays([ids, pa.nulls(quiet.size, ids.type)])
        ordinal = np.concatenate([arrived, quiet])
        if not ordinal.size:
            return join(self._names, [])
        order = np.argsort(ordinal, kind="stable")
        ordinal = ordinal[order]
        self._ids.write(self._engine.tick + 1, ids.take(pa.array(order)))
        at = np.where(np.isin(ordinal, evaluated), ordinal, -1)
        _, result = self._engine.push(np.zeros(order.size, np.int64), columns[:, order], ordinal, at)
        changes = self._changes(result) if result.at.size else join(self._names, [])
        if self._engine.live() > 2 * self._needed + SLACK:
            self._thin()
        return changes

    def _changes(self, result: Reported) -> Changes:
        ids = self._ids.read(result.tick)
        return Changes(self._names, result.at, result.query, result.op, ids, result.score, result.tick)

    def _evaluations(self, last: int, arrived: Ints) -> Ints:
        """Return the ordinals, up to the end, at which an answer may be another than at evaluation ``last``."""
        columns, _, held = self._engine.gathered()
        ordinals = np.concatenate([held[~np.isnan(columns).all(axis=0)], arrived])
        events = np.concatenate([ordinals, ordinals + self._reach])
        evaluated = np.unique(-(-events // self._every) * self._every)
        result: Ints = evaluated[(evaluated > last) & (evaluated <= self._rows)]
        return result

    def _thin(self) -> None:
        """Keep the rows that can still be an answer, and those that are one."""
        saved = self._engine.save()
        keep = np.zeros(saved["ticks"].size, np.bool_)
        keep_candidates(table_of(self._spec).arrays, saved["columns"], np.empty((0, 0)), keep)
        keep |= np.isin(saved["ticks"], self._engine.answered())
        for name in ("ticks", "times"):
            saved[name] = saved[name][keep]
        saved["columns"] = saved["columns"][:, keep]
        saved["count"] = np.array([keep.sum()])
        self._engine = self._new_engine()
        self._engine.load(Saved(saved))
        self._ids.keep(saved["ticks"])
        self._needed = int(keep.sum())

    def _new_engine(self) -> GroupedEngine:
        indices = {column: index for index, column in enumerate(self._spec.columns)}
        return GroupedEngine(self._spec.queries, indices, 0, self._reach, 0)

    def answer(self, name: str) -> Answer:
        """Return a query's answer as of its last evaluation."""
        return Answer(Entry(id, score) for id, score, _ in self.lines(name))

    def lines(self, name: str) -> list[tuple[Any, float, int]]:
        """Return a query's answer as (id, score, tick)."""
        if not self._engine.groups:
            return []
        ticks, scores = self._engine.answer(0, self._names.index(name))
        ids = self._ids.read(ticks).to_pylist() if ticks.size else []
        return list(zip(ids, scores.tolist(), ticks.tolist(), strict=True))

    def stats(self) -> dict[str, int]:
        """Return counters: rows of the whole stream, rows kept, and the size of the state."""
        size = self._engine.bytes() + self._ids.bytes()
        return {"rows": self._rows, "live": self._engine.live(), "waiting": 0, "bytes": size}

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the whole state: plain data, and a flat dict of arrays."""
        ticks = self._engine.live_ticks()
        arrays = {f"engine {name}": array for name, array in self._engine.save().items()}
        if ticks.size:
            arrays["ids"] = ids_to_array(self._ids.read(ticks))
        return {"rows": self._rows, "needed": self._needed}, arrays

    @classmethod
    def from_state(cls, spec: Spec, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> PrunedWindow:
        """Undo :meth:`state`."""
        window, fields, saved = cls(spec), Fields(header), Saved(arrays)
        window._rows, window._needed = fields.count("rows"), fields.count("needed")
        window._engine.load(saved.part("engine "))
        if saved.has("ids"):
            window._ids.restore(window._engine.live_ticks(), arrow_from_array("ids", saved.raw("ids")))
        saved.done()
        return window


def table_of(spec: Spec) -> QueryTable:
    """Return the queries as kernels read them."""
    assert isinstance(spec.settings.window, LastRows)
    table = QueryTable()
    for query in spec.queries:
        table.add(query, {column: index for index, column in enumerate(spec.columns)})
    np.minimum(table.arrays.k, spec.settings.window.rows, out=table.arrays.k)
    return table


def columns_of(table: pa.Table, spec: Spec) -> Floats:
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
