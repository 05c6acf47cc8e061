"""What leaves the operator: changes as they are, or whole answers where one has changed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.monitor.changes import Changes
from topwatch.spark.stream_spec import Spec

Key = tuple[Any, ...]
Line = tuple[float, int, Any, float]  # what it is sorted by (key and age), id, score


class Emitter:
    """Turns changes into rows of the result.

    Parameters
    ----------
    spec : Spec
        Says what is emitted.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._signs = {query.name: -1.0 if query.smaller_is_better else 1.0 for query in spec.queries}
        self._answers: dict[tuple[Key, str], list[Line]] = {}

    def emit(self, key: Key, changes: Changes) -> pa.Table | None:
        """Return a group's rows of the result."""
        if not len(changes):
            return None
        table = changes.to_arrow()
        if self._spec.emit == "answers":
            table = self._whole(key, table, changes.ticks)
        schema = self._spec.schema
        group = [pa.array([value] * table.num_rows, schema.field(i).type) for i, value in enumerate(key)]
        return pa.table([*group, *table.columns], names=schema.names).cast(schema)

    def emit_all(self, keys: pa.Table, group: np.ndarray, changes: Changes) -> pa.Table:
        """Return the rows of many groups, each change's group by its number in ``keys``."""
        table = changes.to_arrow()
        if self._spec.emit == "answers":
            names = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
            bounds = [*np.flatnonzero(np.diff(group, prepend=-1)).tolist(), group.size]
            parts = [
                (group[a], self._whole(names[group[a]], table.slice(a, b - a), changes.ticks[a:b]))
                for a, b in pairwise(bounds)
            ]
            table = pa.concat_tables([part for _, part in parts])
            group = np.repeat([number for number, _ in parts], [part.num_rows for _, part in parts])
        indices = pa.array(group)
        columns = [pc.take(column.combine_chunks(), indices, boundscheck=False) for column in keys.columns]
        return pa.table([*columns, *table.columns], names=self._spec.schema.names).cast(self._spec.schema)

    def together(self, result: list[pa.Table | None]) -> pa.Table:
        """Join the rows of all groups."""
        parts = [part for part in result if part is not None]
        return pa.concat_tables(parts).combine_chunks() if parts else pa.table({})

    def resume(self, answers: Mapping[tuple[Key, str], list[tuple[Any, float, int]]]) -> None:
        """Take up answers that were last reported, as (id, score, tick)."""
        for (key, name), lines in answers.items():
            sign = -self._signs[name]
            self._answers[key, name] = [(sign * score, -tick, id, score) for id, score, tick in lines]

    def _whole(self, key: Key, table: pa.Table, ticks: np.ndarray) -> pa.Table:
        out: dict[str, list[Any]] = {name: [] for name in ("at", "query", "rank", "id", "score")}
        columns = [table.column(name).to_pylist() for name in ("at", "query", "op", "id", "score")]
        lines = list(zip(*columns, ticks.tolist(), strict=True))
        i = 0
        while i < len(lines):
            at, query = lines[i][:2]
            answer = self._answers.setdefault((key, query), [])
            while i < len(lines) and lines[i][:2] == (at, query):
                _, _, op, id, score, tick = lines[i]
                line = (-self._signs[query] * score, -tick, id, score)
                if op == "enter":
                    answer.append(line)
                else:
                    del answer[_index(answer, line)]
                i += 1
            answer.sort(key=lambda line: line[:2])
            for rank, (_, _, id, score) in enumerate(answer, 1):
                for name, value in zip(out, (at, query, rank, id, score), strict=True):
                    out[name].append(value)
        kinds = {"at": pa.int64(), "query": pa.string(), "rank": pa.int64(), "score": pa.float64()}
        kinds["id"] = table.column("id").type
        return pa.table({name: pa.array(values, kinds[name]) for name, values in out.items()})


def _index(answer: list[Line], line: Line) -> int:
    """Find a row that leaves; in a ``latest()`` window its tick is another when a row of the same score replaced it."""
    alike = [index for index, other in enumerate(answer) if other[2] == line[2]]
    return next((index for index in alike if answer[index] == line), alike[0])
