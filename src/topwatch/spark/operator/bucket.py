"""A bucket: the groups of rows that one task keeps, and the rows buffered until the watermark passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topwatch.spark.operator.groups import groups_for
from topwatch.spark.operator.ordering import merged, order_keys, sort
from topwatch.spark.operator.partition_writer import refuse
from topwatch.spark.state.packing import pack_all, unpack_all
from topwatch.spark.state.status import Status
from topwatch.spark.stream_spec import Spec

Slices = Callable[[], Iterator[list[pa.Table]]]


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
        self._buffered: pa.Table | None = None
        self._passed: int | None = None  # the watermark up to which rows have been released, in milliseconds
        self._offset = 0
        self.late = 0
        self.rows = 0

    def begin(self, rows: int) -> None:
        """Count on from so many rows that are not taken in again."""
        self._offset = self.rows = rows

    def take(
        self, slices: list[pa.Table], watermark: int | None, before: Slices = lambda: iter(()), leave: int = 0
    ) -> tuple[pa.Table, pa.Table]:
        """Take in the slices of a micro-batch; return what is emitted, and the rows that came too late.

        Parameters
        ----------
        slices : list of Arrow tables
            Each in order.
        watermark : int or None
            Milliseconds. Rows before it are complete; None when rows do not wait.
        before : function
            Returns the slices of the micro-batches before, since the bucket was new or loaded.
        leave : int
            How many of the first rows to leave out.
        """
        table = merged(slices, self._spec).slice(leave) if slices else None
        late = []
        if self._spec.watermark:
            table, too_late = self._release(table, watermark or 0)
            late.append(too_late)
        result = pa.table({})
        if table is not None and table.num_rows:
            self.rows += table.num_rows
            result, too_late = self._groups.take(table, partial(self._taken, before))
            late.append(too_late)
            if self._offset and result.num_rows:
                index = result.schema.get_field_index("at")
                result = result.set_column(index, "at", pc.add(result.column(index), self._offset))
        refused = [refuse(part, "too late", self._spec) for part in late if part is not None and part.num_rows]
        self.late += sum(part.num_rows for part in refused)
        return result, pa.concat_tables(refused) if refused else pa.table({})

    def _taken(self, before: Slices) -> Iterator[pa.Table]:
        """Yield what was taken in before; rows buffered for a watermark are no group's past."""
        for slices in before():
            table = merged(slices, self._spec) if slices else None
            if table is not None and table.num_rows:
                yield table

    def prepare(self) -> None:
        """Do what can be done for the next micro-batch before it comes."""
        self._groups.prepare()

    def live(self) -> int:
        """How many rows the windows hold, and how many wait."""
        return self._groups.live() + (self._buffered.num_rows if self._buffered is not None else 0)

    def status(self) -> Status:
        """Return how the bucket stands."""
        return Status(
            rows=self.rows,
            late=self.late,
            live=self.live(),
            bytes=self._groups.bytes() + (self._buffered.nbytes if self._buffered is not None else 0),
            answers=tuple(self._groups.answers()),
        )

    @property
    def next_time(self) -> int | None:
        """Return the first time, in milliseconds, at which a buffered row can go on."""
        if self._buffered is None or not self._buffered.num_rows:
            return None
        return int(pc.min(_milliseconds(self._buffered.column(self._spec.time))).as_py()) + 1

    def _release(self, table: pa.Table | None, watermark: int) -> tuple[pa.Table | None, pa.Table | None]:
        """Let rows go whose time the watermark has passed; return them in order, and those that came after it had."""
        late = None
        time = self._spec.time
        assert time is not None
        if table is not None and self._passed is not None:
            gone = pc.less(_milliseconds(table.column(time)), self._passed)
            late, table = table.filter(gone), table.filter(pc.invert(gone))
        self._passed = watermark if self._passed is None else max(watermark, self._passed)
        parts = [part for part in (self._buffered, table) if part is not None]
        if not parts:
            return None, late
        everything = pa.concat_tables(parts)
        ready = pc.less(_milliseconds(everything.column(time)), self._passed)
        self._buffered = everything.filter(pc.invert(ready)).combine_chunks()
        return sort(everything.filter(ready), order_keys(self._spec)), late

    def save(self, before: Slices = lambda: iter(())) -> bytes:
        """Return the state as bytes: the buffered rows, counters, groups."""
        buffered = self._buffered if self._buffered is not None else pa.table({})
        counts = pa.table(
            {"passed": [self._passed], "offset": [self._offset], "late": [self.late], "rows": [self.rows]}
        )
        return pack_all([buffered, counts, *self._groups.save(partial(self._taken, before))])

    @classmethod
    def load(cls, spec: Spec, blob: Any) -> Bucket:
        """Undo :meth:`save`."""
        bucket = cls(spec)
        buffered, counts, *groups = unpack_all(blob)
        bucket._buffered = buffered if buffered.num_columns else None
        (line,) = counts.to_pylist()
        bucket._passed, bucket._offset, bucket.late, bucket.rows = line.values()
        bucket._groups.load(groups)
        return bucket


def _milliseconds(times: Any) -> Any:
    return pc.cast(pc.cast(times, pa.timestamp("ms", times.type.tz), safe=False), pa.int64())
