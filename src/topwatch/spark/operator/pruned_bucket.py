"""A bucket of a pruned stream: it sees only rows that can be an answer, and keeps only those that still can.

Rows are known by their ordinals in the whole stream, so that a window of the last N rows is one of the last N ordinals.
An answer changes after a row that was kept, or when one that it holds expires, N rows later; what came in between is
not needed. The state is a k-skyband for each query, small enough to be written again in every micro-batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from topwatch.algorithms.topk.grouped_engine import GroupedEngine
from topwatch.algorithms.topk.grouped_ids import GroupedIds
from topwatch.algorithms.topk.kernels.prune import keep_candidates
from topwatch.core.kernels.scoring import Ints
from topwatch.monitor.changes import Changes
from topwatch.query.windows import LastRows
from topwatch.spark.operator.emitter import Emitter
from topwatch.spark.operator.ordering import constants_of, order_keys
from topwatch.spark.operator.pruning import ROW, columns_of, table_of
from topwatch.spark.state.packing import load_arrays, pack_all, save_arrays, unpack_all
from topwatch.spark.state.status import Answer, Status
from topwatch.spark.stream_spec import Spec

ROOM = 4096  # rows more than needed that may be kept before they are thinned


class PrunedBucket:
    """Takes what is left of the pieces of micro-batches, in order, and says what changed.

    Parameters
    ----------
    spec : Spec
        What is watched.
    """

    next_time = None  # without event time no row waits

    def __init__(self, spec: Spec) -> None:
        assert isinstance(spec.window, LastRows)
        assert isinstance(spec.every, int)
        self._spec = spec
        self._emitter = Emitter(spec)
        self._reach, self._every = spec.window.rows, spec.every
        self._engine = self._new_fleet()
        self._ids = GroupedIds()
        self._needed = 0  # rows left when they were last thinned
        self.rows = 0

    def take(self, pieces: list[tuple[int, pa.Table]]) -> pa.Table:
        """Take in a micro-batch; return what is emitted."""
        keys = order_keys(self._spec)
        pieces = sorted(pieces, key=lambda piece: [constants_of(piece[1])[key] for key in keys])
        starts = self.rows + np.cumsum([0, *(rows for rows, _ in pieces)])
        before, self.rows = self.rows, int(starts[-1])
        if self.rows == before:
            return pa.table({})
        wanted = [*self._spec.columns, ROW] + ([] if self._spec.id in self._spec.columns else [self._spec.id])
        new = pa.concat_tables([kept.select(wanted).replace_schema_metadata(None) for _, kept in pieces])
        indices = [start + 1 + kept.column(ROW).to_numpy() for start, (_, kept) in zip(starts, pieces, strict=False)]
        arrived = np.concatenate(indices)
        evaluated = self._evaluations(before - before % self._every, arrived)
        quiet = np.setdiff1d(evaluated, arrived, assume_unique=True)  # evaluations after rows that were dropped
        columns = np.concatenate(
            [columns_of(new, self._spec), np.full((len(self._spec.columns), quiet.size), np.nan)], axis=1
        )
        ids = new.column(self._spec.id).combine_chunks()
        ids = pa.concat_arrays([ids, pa.nulls(quiet.size, ids.type)])
        ordinal = np.concatenate([arrived, quiet])
        if not ordinal.size:
            return pa.table({})
        order = np.argsort(ordinal, kind="stable")
        ordinal = ordinal[order]
        self._ids.write(self._engine.tick + 1, ids.take(pa.array(order)))
        at = np.where(np.isin(ordinal, evaluated), ordinal, -1)
        _, result = self._engine.push(np.zeros(order.size, np.int64), columns[:, order], ordinal, at)
        emitted = self._emitted(result) if result.at.size else pa.table({})
        if self._engine.live() > 2 * self._needed + ROOM:
            self._thin()
        return emitted

    def _emitted(self, result: Any) -> pa.Table:
        names = [str(query.name) for query in self._spec.queries]
        changes = Changes(
            names, result.at, result.query, result.op, self._ids.read(result.tick), result.score, result.tick
        )
        return self._emitter.emit((), changes)

    def _evaluations(self, last: int, arrived: Ints) -> Ints:
        """Return the ordinals, up to the end, at which an answer may be another than at evaluation ``last``."""
        columns, _, held = self._engine.gathered()
        ordinals = np.concatenate([held[~np.isnan(columns).all(axis=0)], arrived])
        events = np.concatenate([ordinals, ordinals + self._reach])
        evaluated = np.unique(-(-events // self._every) * self._every)
        result: Ints = evaluated[(evaluated > last) & (evaluated <= self.rows)]
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
        self._engine = self._new_fleet()
        self._engine.load(saved)
        self._ids.keep(saved["ticks"])
        self._needed = int(keep.sum())

    def _new_fleet(self) -> GroupedEngine:
        indices = {column: index for index, column in enumerate(self._spec.columns)}
        return GroupedEngine(self._spec.queries, indices, 0, self._reach, 1)

    def status(self) -> Status:
        """Return how the bucket stands."""
        return Status(
            rows=self.rows,
            live=self._engine.live(),
            bytes=self._engine.bytes(),
            answers=tuple(
                Answer((), str(query.name), tuple(line[:2] for line in lines))
                for query, lines in zip(self._spec.queries, self._lines(), strict=False)
            ),
        )

    def save(self) -> bytes:
        """Return the state as bytes: counters, rows, ids, what was last reported."""
        ticks = self._engine.live_ticks()
        held = {"tick": ticks, "id": self._ids.read(ticks)} if ticks.size else {"tick": ticks}
        counts = pa.table({"rows": [self.rows], "needed": [self._needed]})
        return pack_all([counts, save_arrays(self._engine.save()), pa.table(held)])

    @classmethod
    def load(cls, spec: Spec, blob: Any) -> PrunedBucket:
        """Undo :meth:`save`."""
        bucket = cls(spec)
        counts, arrays, held = unpack_all(blob)
        (line,) = counts.to_pylist()
        bucket.rows, bucket._needed = line.values()
        bucket._engine.load(load_arrays(arrays))
        if held.num_rows:
            bucket._ids.restore(held.column("tick").to_numpy().copy(), held.column("id").combine_chunks())
        if spec.emit == "answers":
            bucket._emitter.resume(
                {((), str(spec.queries[index].name)): lines for index, lines in enumerate(bucket._lines())}
            )
        return bucket

    def _lines(self) -> list[list[tuple[Any, float, int]]]:
        """Return each query's answer: id, score, tick."""
        result = []
        for index in range(len(self._spec.queries) if self._engine.groups else 0):
            ticks, scores = self._engine.answer(0, index)
            ids = self._ids.read(ticks).to_pylist() if ticks.size else []
            result.append(list(zip(ids, scores.tolist(), ticks.tolist(), strict=True)))
        return result
