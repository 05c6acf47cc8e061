"""A bucket: the windows that one task keeps from micro-batch to micro-batch.

Rows are pushed in order into a monitor, or into a :class:`PrunedWindow` where the stream is pruned, and what changed is
emitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.core.saved_state import Fields
from topwatch.monitor.batches import pieces
from topwatch.monitor.changes import Changes
from topwatch.monitor.grouped import GroupedMonitor
from topwatch.monitor.monitor import Monitor
from topwatch.monitor.snapshot_format import pack, unpack
from topwatch.spark.operator.ordering import Piece, merged
from topwatch.spark.operator.pruning import PrunedWindow
from topwatch.spark.operator.quarantine import refuse
from topwatch.spark.planner import Spec
from topwatch.spark.state.status import Answer, Status

FEW = 3  # groups whose answers are shown
SHOWN = 100  # rows of an answer
MILLISECOND = 1_000_000  # nanoseconds

Line = tuple[float, int, Any, float]  # what it is sorted by (key and age), id, score


class Bucket:
    """The windows, counters and last answers that a task keeps.

    Parameters
    ----------
    spec : Spec
        What is watched.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._windows: Monitor | PrunedWindow = PrunedWindow(spec) if spec.plan.pruned else spec.monitor()
        self._emitter = Emitter(spec)
        self._offset = self._rows = self._late = 0
        self._changed: list[Any] = []  # groups, those first that changed last

    def begin(self, rows: int) -> None:
        """Count on from so many rows that are not taken in again."""
        self._offset = self._rows = rows

    def take(self, came: list[Piece], watermark: int | None, skip: int = 0) -> tuple[pa.Table, pa.Table]:
        """Take in a micro-batch; return what is emitted, and the rows that came too late as (reason, raw).

        Parameters
        ----------
        came : list of Piece
            The rows.
        watermark : int or None
            Milliseconds. Rows before it are complete; None when rows are not buffered.
        skip : int
            How many of the first rows to leave out.
        """
        windows = self._windows
        if isinstance(windows, PrunedWindow):
            self._rows += sum(piece.rows for piece in came)
            return self._emitted([windows.push(came)] if came else []), pa.table({})
        parts, late = [], pa.table({})
        if came:
            table = merged([piece.table for piece in came], self._spec).slice(skip)
            behind = windows.behind(table)
            if behind.any():
                late = refuse(table.filter(pa.array(behind)), "too late", self._spec)
                table = table.filter(pa.array(~behind))
            parts += [windows.push(piece) for piece in pieces(table) if piece.num_rows]
            self._rows += table.num_rows
            self._late += late.num_rows
        if watermark is not None:
            parts.append(windows.release(watermark * MILLISECOND - 1))
        return self._emitted(parts), late

    def _emitted(self, parts: list[Changes]) -> pa.Table:
        tables = [self._emitter.emit(changes, self._offset) for changes in parts if len(changes)]
        for changes in parts:
            if changes.groups is not None:
                last = changes.groups._replace(number=changes.groups.number[-SHOWN:][::-1]).values()
                self._changed = list(dict.fromkeys([*last, *self._changed]))[:FEW]
        return pa.concat_tables(tables).combine_chunks() if tables else pa.table({})

    def status(self) -> Status:
        """Return counters, and the answers of a few groups."""
        stats = self._windows.stats()
        live, late = stats["live"] + stats["waiting"], self._late
        return Status(rows=self._rows, late=late, live=live, bytes=stats["bytes"], answers=tuple(self._answers()))

    def _answers(self) -> Iterator[Answer]:
        """Yield the answers of a few groups, those first that changed last."""
        windows, names = self._windows, [str(query.name) for query in self._spec.queries]
        if not isinstance(windows, GroupedMonitor):
            yield from (Answer((), name, tuple(windows.answer(name)[:SHOWN])) for name in names)
            return
        for group in self._changed:
            key = group if isinstance(group, tuple) else (group,)
            yield from (Answer(key, name, tuple(windows.answer(name, by=group)[:SHOWN])) for name in names)

    @property
    def next_time(self) -> int | None:
        """The first watermark, in milliseconds, that releases a buffered row."""
        if isinstance(self._windows, PrunedWindow):
            return None  # without event time no row is buffered
        earliest = self._windows.earliest_buffered
        return None if earliest is None else int(earliest) // MILLISECOND + 1

    def save(self) -> bytes:
        """Return the state as bytes."""
        header, arrays = self._windows.state()
        counts = {"offset": self._offset, "rows": self._rows, "late": self._late}
        return pack({"bucket": counts, "windows": header}, arrays)

    def load(self, blob: bytes) -> None:
        """Undo :meth:`save`, in a new bucket."""
        header, arrays = unpack(blob)
        counts = Fields(header["bucket"], "bucket")
        self._offset, self._rows, self._late = (counts.count(name) for name in ("offset", "rows", "late"))
        if self._spec.plan.pruned:
            self._windows = PrunedWindow.from_state(self._spec, header["windows"], arrays)
        else:
            self._windows = Monitor.from_state(header["windows"], arrays)
        if self._spec.emit == "answers":
            self._emitter.resume(self._windows)


class Emitter:
    """Turns changes into rows of the result.

    Parameters
    ----------
    spec : Spec
        What is watched, and what is emitted.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._signs = {str(query.name): -1.0 if query.smaller_is_better else 1.0 for query in spec.queries}
        self._answers: dict[tuple[int, str], list[Line]] = {}  # by group and query

    def emit(self, changes: Changes, offset: int = 0) -> pa.Table:
        """Return the rows of the result; so many rows came before those that ``at`` counts."""
        table = self._whole(changes) if self._spec.emit == "answers" else changes.to_arrow()
        table = table.rename_columns(self._spec.schema.names)
        if offset:
            index = table.schema.get_field_index("at")
            table = table.set_column(index, "at", pc.add(table.column(index), offset))
        return table.cast(self._spec.schema)

    def resume(self, windows: Monitor | PrunedWindow) -> None:
        """Take up the answers that were last reported."""
        for name, sign in self._signs.items():
            if isinstance(windows, GroupedMonitor):
                answers = [windows.lines(name, by=group) for group in windows.groups]
            else:
                answers = [windows.lines(name)]
            for number, lines in enumerate(answers):
                self._answers[number, name] = [(-sign * score, -tick, id, score) for id, score, tick in lines]

    def _whole(self, changes: Changes) -> pa.Table:
        """Return each answer that has changed, with the columns of the group before it."""
        out: dict[str, list[Any]] = {name: [] for name in ("group", "at", "query", "rank", "id", "score")}
        groups = changes.groups
        number = np.zeros(len(changes), np.int64) if groups is None else groups.number
        lines = list(zip(number.tolist(), changes, changes.ticks.tolist(), strict=True))
        i = 0
        while i < len(lines):
            here = (lines[i][0], *lines[i][1][:2])
            group, at, query = here
            answer = self._answers.setdefault((group, query), [])
            while i < len(lines) and (lines[i][0], *lines[i][1][:2]) == here:
                _, change, tick = lines[i]
                line = (-self._signs[query] * change.score, -tick, change.id, change.score)
                if change.op == "enter":
                    answer.append(line)
                else:
                    del answer[_index(answer, line)]
                i += 1
            answer.sort(key=lambda line: line[:2])
            for rank, (_, _, id, score) in enumerate(answer, 1):
                for name, value in zip(out, (group, at, query, rank, id, score), strict=True):
                    out[name].append(value)
        kinds = {"at": pa.int64(), "query": pa.string(), "rank": pa.int64(), "score": pa.float64()}
        kinds["id"] = self._spec.schema.field("id").type
        named = {name: pa.array(out[name], kinds[name]) for name in ("at", "query", "rank", "id", "score")}
        if groups is None:
            return pa.table(named)
        indices = pa.array(out["group"], pa.int64())
        return pa.table([*(column.take(indices) for column in groups.keys), *named.values()], [*groups.names, *named])


def _index(answer: list[Line], line: Line) -> int:
    """Find a row that leaves; in a ``latest()`` window its tick is another when a row of the same score replaced it."""
    alike = [index for index, other in enumerate(answer) if _same(other[2], line[2])]
    return next((index for index in alike if answer[index][:2] == line[:2]), alike[0])


def _same(one: Any, other: Any) -> bool:
    """Compare ids: NaN is a value, as Spark has it."""
    return bool(one == other or (one != one and other != other))
