"""The groups of rows in a bucket: a monitor for each, or, where many small windows are alike, a grouped engine for
all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.algorithms.topk.grouped_engine import GroupedEngine
from topwatch.algorithms.topk.grouped_ids import GroupedIds
from topwatch.algorithms.topk.unmaterialised import Push
from topwatch.core.group_numbers import KeyNumbers
from topwatch.core.kernels.scoring import Floats, Ints
from topwatch.monitor.changes import Changes, join
from topwatch.monitor.monitor import Monitor
from topwatch.query.queries import Nearest, TopK
from topwatch.query.windows import LastRows, LastTime
from topwatch.spark.operator.emitter import Emitter, Key
from topwatch.spark.state.packing import load_arrays, save_arrays
from topwatch.spark.state.status import Answer
from topwatch.spark.stream_spec import Spec

FEW = 3  # groups whose answers people look at
SHOWN = 100  # rows of an answer
LARGE = 1 << 14  # rows for which a push of their own costs less than to copy them
_NEVER = np.iinfo(np.int64).min

Report = tuple[pa.Table, pa.Table | None]
Before = Callable[[], Iterator[pa.Table]]  # what was taken in before, since the groups were new or loaded


class Groups(Protocol):
    """Takes rows in order and says what changed; rows whose time lies before that of rows taken already are late."""

    def take(self, table: pa.Table, before: Before) -> Report:
        """Return what is emitted, and the late rows."""

    def prepare(self) -> None:
        """Do what can be done for the next rows before they are there."""

    def live(self) -> int:
        """How many rows the windows hold."""

    def bytes(self) -> int:
        """How many bytes the windows and what belongs to them take."""

    def answers(self) -> list[Answer]:
        """Return the answers of a few groups, those first that changed last, for people to look at."""

    def save(self, before: Before) -> list[pa.Table]:
        """Return the state."""

    def load(self, saved: list[pa.Table]) -> None:
        """Undo :meth:`save`."""


def groups_for(spec: Spec) -> Groups:
    """Choose: a grouped engine serves top-k queries over many groups; all else has monitors."""
    timed = isinstance(spec.window, LastTime)
    alike = (
        bool(spec.by)
        and spec.emit != "first"
        and spec.algorithm in ("auto", "reserve")
        and not spec.options
        and isinstance(spec.every, int)
        and isinstance(spec.window, LastRows | LastTime)
        and all(isinstance(query, TopK | Nearest) for query in spec.queries)
        and (not timed or spec.stamped)
    )
    return EngineGroups(spec) if alike else MonitorGroups(spec)


class MonitorGroups:
    """A monitor for each group."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._emitter = Emitter(spec)
        self._monitors: dict[Key, Monitor] = {}
        self._changed: list[Key] = []

    def take(self, table: pa.Table, before: Before) -> Report:
        """Return what is emitted, and the late rows."""
        result, late = [], []
        names = [str(query.name) for query in self._spec.queries]
        for key, part in _parts(table, self._spec.by):
            monitor = self._monitors.get(key)
            if monitor is None:
                monitor = self._monitors[key] = self._spec.monitor()
            behind = self._behind(monitor, part)
            if behind:
                late.append(part.slice(0, behind))
                part = part.slice(behind)
            changes = join(names, [monitor.push(piece) for piece in _pieces(part)])
            result.append(self._emitter.emit(key, changes))
            if len(changes):
                self._changed = [key, *(other for other in self._changed if other != key)][:FEW]
        return self._emitter.together(result), pa.concat_tables(late) if late else None

    def _behind(self, monitor: Monitor, table: pa.Table) -> int:
        """Count the rows, which are in the order of time, that lie before the latest time."""
        if self._spec.time is None or monitor.now is None:
            return 0
        times = table.column(self._spec.time)
        kind = pa.timestamp("ns", times.type.tz) if pa.types.is_timestamp(times.type) else pa.float64()
        return int(pc.sum(pc.less(times, pa.scalar(monitor.now, kind))).as_py())

    def prepare(self) -> None:
        """Nothing: windows of monitors have their memory."""

    def live(self) -> int:
        """How many rows the windows hold."""
        return sum(monitor.stats()["live"] for monitor in self._monitors.values())

    def bytes(self) -> int:
        """How many bytes the windows and what belongs to them take."""
        return sum(monitor.stats()["bytes"] for monitor in self._monitors.values())

    def answers(self) -> list[Answer]:
        """Return the answers of a few groups, those first that changed last, for people to look at."""
        return [
            Answer(key, str(query.name), tuple(self._monitors[key].answer(query.name)[:SHOWN]))
            for key in self._changed
            for query in self._spec.queries
        ]

    def save(self, before: Before) -> list[pa.Table]:
        """Return the state: groups and snapshots."""
        snapshots = pa.array([monitor.snapshot() for monitor in self._monitors.values()], pa.large_binary())
        return [_keys(list(self._monitors), self._spec), pa.table({"monitor": snapshots})]

    def load(self, saved: list[pa.Table]) -> None:
        """Undo :meth:`save`."""
        keys, snapshots = saved
        for key, snapshot in zip(_names(keys), snapshots.column("monitor"), strict=True):
            self._monitors[key] = Monitor.restore(snapshot.as_buffer().to_pybytes())
        self._emitter.resume(
            {
                (key, query.name): monitor.lines(query.name)
                for key, monitor in self._monitors.items()
                for query in self._spec.queries
                if query.name is not None
            }
        )


class EngineGroups:
    """One grouped engine for all groups."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._emitter = Emitter(spec)
        self._numbers: dict[Key, int] = {}
        self._table = _keys([], spec)
        self._whole: KeyNumbers | None = None
        self._now = self._began = np.empty(0, np.int64)  # the latest time of each group, and when it was loaded
        window = spec.window
        rows = window.rows if isinstance(window, LastRows) else 0
        span = window.nanoseconds if isinstance(window, LastTime) else 0
        assert isinstance(spec.every, int)
        indices = {column: index for index, column in enumerate(spec.columns)}
        self._changed: list[int] = []
        # What waits for the watermark is not taken in as it came.
        self._engine = GroupedEngine(spec.queries, indices, rows, span, spec.every, unmaterialised=not spec.watermark)
        self._ids = GroupedIds()

    def take(self, table: pa.Table, before: Before) -> Report:
        """Return what is emitted, and the late rows."""
        past = partial(self._past, before)
        self._ids.tidy(self._engine, past)
        group = self._number(table)
        table, group, times, late = self._in_time(table, group, self._now)
        timed = isinstance(self._spec.window, LastTime)
        first = self._engine.tick + 1
        index, result = self._engine.push(
            group, self._values(table), times if timed else np.empty(0, np.int64), past=past
        )
        self._ids.write_in_order(first, table.column(self._spec.id), index)
        names = [str(query.name) for query in self._spec.queries]
        ids = self._ids.read(result.tick) if result.at.size else None
        if ids is None:
            return pa.table({}), late
        self._changed = list(dict.fromkeys(result.group[:SHOWN].tolist()))[:FEW]
        changes = Changes(names, result.at, result.query, result.op, ids, result.score, result.tick)
        return self._emitter.emit_all(self._table, result.group, changes), late

    def _in_time(self, table: pa.Table, group: Ints, now: Ints) -> tuple[pa.Table, Ints, Ints, pa.Table | None]:
        """Return rows, their groups and times, without those that are late; ``now`` is brought up to date."""
        if self._spec.time is None:
            return table, group, np.empty(0, np.int64), None
        late = None
        times = pc.cast(pc.cast(table.column(self._spec.time), pa.timestamp("ns")), pa.int64()).to_numpy()
        behind = times < now[group]
        if behind.any():
            late, table = table.filter(pa.array(behind)), table.filter(pa.array(~behind))
            group, times = group[~behind], times[~behind]
        np.maximum.at(now, group, times)
        return table, group, times, late

    def _values(self, table: pa.Table) -> list[list[Floats]]:
        """Return the columns that queries read, in the pieces in which they lie in memory.

        They are copied once, to where the rows of their group are. Numbers that are an id, a group or a time as well
        come as they are.
        """
        return [
            [chunk.to_numpy(zero_copy_only=False).astype(np.float64, copy=False) for chunk in table.column(name).chunks]
            for name in self._spec.columns
        ]

    def _past(self, before: Before) -> Iterator[Push]:
        """Yield what was pushed before, as it was."""
        now = np.full(self._now.size, _NEVER)
        now[: self._began.size] = self._began
        for table in before():
            kept, group, _, _ = self._in_time(table, self._number(table), now)
            yield group, self._values(kept)

    def _number(self, table: pa.Table) -> np.ndarray:
        """Return the number of each row's group; new groups get the next ones."""
        if len(self._spec.by) == 1:
            column = table.column(self._spec.by[0])
            if self._whole is not None and not column.null_count:
                looked_up = self._whole.look_up([chunk.to_numpy() for chunk in column.chunks])
                if looked_up is not None:
                    return looked_up
            encoded = _encoded(column)
            known = pc.index_in(encoded.dictionary, self._table.column(0))
            if not known.null_count:
                indices: np.ndarray = known.to_numpy()[encoded.indices.to_numpy()].astype(np.int64)
                return indices
        codes, keys = _coded(table, self._spec.by)
        numbers = np.empty(len(keys), np.int64)
        new = []
        for code, key in enumerate(keys):
            if key not in self._numbers:
                self._numbers[key] = len(self._numbers)
                new.append(key)
            numbers[code] = self._numbers[key]
        if new:
            self._table = pa.concat_tables([self._table, _keys(new, self._spec)]).combine_chunks()
            self._now = np.append(self._now, np.full(len(new), _NEVER))
            self._learn()
        result: np.ndarray = numbers[codes]
        return result

    def _learn(self) -> None:
        """Have the numbers of groups at hand where their keys are whole numbers."""
        keys = self._table.column(0)
        if self._table.num_columns == 1 and pa.types.is_int64(keys.type):
            known = keys.is_valid().to_numpy()
            self._whole = KeyNumbers(keys.drop_null().to_numpy(), np.flatnonzero(known))

    def prepare(self) -> None:
        """Ask for the memory that the next rows will take."""
        self._engine.prepare(self._ids.prepare)

    def live(self) -> int:
        """How many rows the windows hold."""
        return self._engine.live()

    def bytes(self) -> int:
        """How many bytes the windows and what belongs to them take."""
        return self._engine.bytes() + self._ids.bytes()

    def answers(self) -> list[Answer]:
        """Return the answers of a few groups, those first that changed last, for people to look at."""
        pairs = [(group, index) for group in self._changed for index in range(len(self._spec.queries))]
        parts = [self._engine.answer(group, index) for group, index in pairs]
        if not parts:
            return []
        ids = iter(self._ids.read(np.concatenate([ticks for ticks, _ in parts])).to_pylist())
        result = []
        for (group, index), (_, scores) in zip(pairs, parts, strict=True):
            key = tuple(column[group].as_py() for column in self._table.columns)
            rows = tuple((next(ids), score) for score in scores.tolist())
            result.append(Answer(key, str(self._spec.queries[index].name), rows))
        return result

    def save(self, before: Before) -> list[pa.Table]:
        """Return the state: groups, their arrays, the ids of live rows."""
        self._engine.recall_all(partial(self._past, before))
        ticks = self._engine.live_ticks()
        held = {"tick": ticks, "id": self._ids.read(ticks)} if ticks.size else {"tick": ticks}
        self._began = self._now.copy()
        arrays = save_arrays(self._engine.save())
        return [self._table.append_column("_now", pa.array(self._now)), arrays, pa.table(held)]

    def load(self, saved: list[pa.Table]) -> None:
        """Undo :meth:`save`."""
        keys, arrays, held = saved
        self._now = keys.column("_now").to_numpy().copy()
        self._began = self._now.copy()
        self._table = keys.drop_columns(["_now"])
        self._numbers = {key: number for number, key in enumerate(_names(self._table))}
        self._learn()
        self._engine.load(load_arrays(arrays))
        if held.num_rows:
            self._ids.restore(held.column("tick").to_numpy().copy(), held.column("id").combine_chunks())
        if self._spec.emit == "answers":
            self._emitter.resume(self._lines())

    def _lines(self) -> dict[tuple[Key, str], list[tuple[Any, float, int]]]:
        result = {}
        keys = _names(self._table)
        for group, index, ticks, scores in self._engine.lines():
            ids = self._ids.read(ticks).to_pylist() if ticks.size else []
            name = str(self._spec.queries[index].name)
            result[keys[group], name] = list(zip(ids, scores.tolist(), ticks.tolist(), strict=True))
        return result


def _coded(table: pa.Table, by: tuple[str, ...]) -> tuple[np.ndarray, list[Key]]:
    """Return the code of each row's group, and the groups in the order of their codes."""
    codes: np.ndarray | None = None
    keys: list[Key] = []
    for name in by:
        encoded = _encoded(table.column(name))
        values, mine = _named(encoded.dictionary), encoded.indices.to_numpy().astype(np.int64)
        if codes is None:
            codes, keys = mine, [(value,) for value in values]
        else:
            pairs = _encoded(pa.array(codes * len(values) + mine))
            codes = pairs.indices.to_numpy()
            keys = [(*keys[pair // len(values)], values[pair % len(values)]) for pair in pairs.dictionary.to_pylist()]
    assert codes is not None, "no column to group by"
    return codes, keys


def _encoded(values: Any) -> pa.DictionaryArray:
    """Number the distinct values in the order they come, null and NaN as one of them each."""
    if pa.types.is_floating(values.type):
        zero, nan = pa.scalar(0.0, values.type), pa.scalar(math.nan, values.type)
        values = pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))  # no -0.0, and one of all NaN
    result = values.dictionary_encode(null_encoding="encode")
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def _parts(table: pa.Table, by: tuple[str, ...]) -> list[tuple[Key, pa.Table]]:
    """Return the rows of each group, in order."""
    if not by:
        return [((), table)]
    codes, keys = _coded(table, by)
    order = np.argsort(codes, kind="stable")
    table = table.take(pa.array(order))
    bounds = np.searchsorted(codes[order], np.arange(len(keys) + 1)).tolist()
    return [(key, table.slice(a, b - a)) for key, a, b in zip(keys, bounds, bounds[1:], strict=False)]


def _pieces(table: pa.Table) -> list[pa.Table | pa.RecordBatch]:
    """Cut many rows where their memory is cut: they need not be put together before a window takes them."""
    if not table.num_rows:
        return []
    batches = table.to_batches()
    return batches if table.num_rows >= LARGE * len(batches) else [table]


def _keys(keys: list[Key], spec: Spec) -> pa.Table:
    """Return groups as a table with the ``by`` columns."""
    columns = [pa.array([key[i] for key in keys], spec.schema.field(i).type) for i in range(len(spec.by))]
    return pa.table(columns, names=[f"by{i}" for i in range(len(spec.by))])


def _names(keys: pa.Table) -> list[Key]:
    """Undo :func:`_keys`."""
    if not keys.num_columns:
        return [()]
    return list(zip(*(_named(column) for column in keys.columns), strict=True))


def _named(values: Any) -> list[Any]:
    """Return the values of a column. NaN is always the same object, so that a key with it is equal to itself."""
    return [math.nan if value != value else value for value in values.to_pylist()]
