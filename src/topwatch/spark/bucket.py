"""A bucket: the groups of rows that one task keeps, and the rows that wait for the watermark."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.spark.bulk import order_keys, refuse
from topwatch.spark.groups import groups_for
from topwatch.spark.segments import pack, unpack
from topwatch.spark.spec import POSITION, Spec

TURN = "_turn"  # number of the micro-batch that a waiting row came in
PART = "_part"  # number of its slice in that micro-batch


class Bucket:
    """Takes the rows of micro-batches, in order, and says what changed.

    Parameters
    ----------
    spec : Spec
        What is watched.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._groups = groups_for(spec)
        self._waiting: pa.Table | None = None
        self._passed: int | None = None  # the watermark up to which rows have been released, in milliseconds
        self._turn = 0
        self.late = 0
        self.rows = 0

    def take(self, slices: list[pa.Table], watermark: int | None) -> tuple[pa.Table, pa.Table]:
        """Take in the slices of a micro-batch; return what is emitted, and the rows that came too late.

        Parameters
        ----------
        slices : list of Arrow tables
            Each in order.
        watermark : int or None
            Milliseconds. Rows before it are complete; None when rows do not wait.
        """
        self._turn += 1
        table = self._merged(slices)
        late = []
        if self._spec.watermark:
            table, too_late = self._release(table, watermark or 0)
            late.append(too_late)
        found = pa.table({})
        if table is not None and table.num_rows:
            self.rows += table.num_rows
            found, too_late = self._groups.take(table)
            late.append(too_late)
        refused = [refuse(part, "too late", self._spec) for part in late if part is not None and part.num_rows]
        self.late += sum(part.num_rows for part in refused)
        return found, pa.concat_tables(refused) if refused else pa.table({})

    def live(self) -> int:
        """How many rows the windows hold, and how many wait."""
        return self._groups.live() + (self._waiting.num_rows if self._waiting is not None else 0)

    @property
    def next_time(self) -> int | None:
        """Return the first time, in milliseconds, at which a waiting row can go on."""
        if self._waiting is None or not self._waiting.num_rows:
            return None
        return int(pc.min(_milliseconds(self._waiting.column(self._spec.time))).as_py()) + 1

    def _merged(self, slices: list[pa.Table]) -> pa.Table | None:
        """Put slices together in the order of their rows."""
        if not slices:
            return None
        keys = order_keys(self._spec)
        if self._spec.watermark:
            slices = [
                part.append_column(PART, pa.array(np.full(part.num_rows, i, np.int32))) for i, part in enumerate(slices)
            ]
        if not keys or len(slices) == 1:
            return pa.concat_tables(slices)
        ends = [tuple(_row(part, keys, place) for place in (0, part.num_rows - 1)) for part in slices]
        places = sorted(range(len(slices)), key=lambda i: (ends[i], i))
        if all(ends[a][1] < ends[b][0] for a, b in pairwise(places)):
            return pa.concat_tables([slices[i] for i in places])
        numbered = [
            part.append_column("_slice", pa.array(np.full(part.num_rows, i, np.int32))) for i, part in enumerate(slices)
        ]
        table = pa.concat_tables(numbered)
        order = [(key, "ascending") for key in (*keys, "_slice", POSITION)]
        return table.take(pc.sort_indices(table, sort_keys=order)).drop_columns(["_slice"])

    def _release(self, table: pa.Table | None, watermark: int) -> tuple[pa.Table | None, pa.Table | None]:
        """Let rows go whose time the watermark has passed; return them in order, and those that came after it had."""
        late = None
        time = self._spec.time
        assert time is not None
        if table is not None:
            table = table.append_column(TURN, pa.array(np.full(table.num_rows, self._turn)))
            if self._passed is not None:
                gone = pc.less(_milliseconds(table.column(time)), self._passed)
                late, table = table.filter(gone), table.filter(pc.invert(gone))
        self._passed = watermark if self._passed is None else max(watermark, self._passed)
        parts = [part for part in (self._waiting, table) if part is not None]
        if not parts:
            return None, late
        everything = pa.concat_tables(parts)
        ready = pc.less(_milliseconds(everything.column(time)), self._passed)
        self._waiting = everything.filter(pc.invert(ready)).combine_chunks()
        order = [(key, "ascending") for key in (*order_keys(self._spec), TURN, PART, POSITION)]
        table = everything.filter(ready)
        return table.take(pc.sort_indices(table, sort_keys=order)).drop_columns([TURN, PART]), late

    def save(self) -> bytes:
        """Return the state as bytes: the rows that wait, counters, groups."""
        waiting = self._waiting if self._waiting is not None else pa.table({})
        counts = pa.table({"passed": [self._passed], "turn": [self._turn], "late": [self.late], "rows": [self.rows]})
        parts = [pack(table) for table in (waiting, counts, *self._groups.save())]
        return b"".join(piece for part in parts for piece in (struct.pack("<Q", part.size), part))

    @classmethod
    def load(cls, spec: Spec, blob: Any) -> Bucket:
        """Undo :meth:`save`."""
        bucket = cls(spec)
        view = memoryview(blob)
        parts = []
        while len(view):
            (size,) = struct.unpack_from("<Q", view)
            parts.append(unpack(view[8 : 8 + size]))
            view = view[8 + size :]
        waiting, counts, *groups = parts
        bucket._waiting = waiting if waiting.num_columns else None
        (line,) = counts.to_pylist()
        bucket._passed, bucket._turn, bucket.late, bucket.rows = line.values()
        bucket._groups.load(groups)
        return bucket


def _row(table: pa.Table, keys: list[str], place: int) -> tuple[Any, ...]:
    return tuple(table.column(key)[place].as_py() for key in keys)


def _milliseconds(times: Any) -> Any:
    return pc.cast(pc.cast(times, pa.timestamp("ms", times.type.tz), safe=False), pa.int64())
