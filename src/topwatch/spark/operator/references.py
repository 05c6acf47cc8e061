"""References: what the bulk stage hands on through Spark's shuffle, a line for each piece of rows."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from topwatch.spark.state.segments import Part

ROWS, BAD, KEPT, COUNT = 0, 1, 2, 3  # kinds: rows, refused ones, what pruning has left, nothing

_TYPES = {
    "bucket": "int",
    "kind": "int",
    "part": "int",
    "piece": "int",
    "rows": "bigint",
    "segment": "string",
    "data": "binary",
    "start": "bigint",
    "size": "bigint",
    "check": "bigint",
}
_IN_ARROW = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary()}

DDL = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())
SCHEMA = pa.schema([(name, _IN_ARROW[kind]) for name, kind in _TYPES.items()])


class Reference(NamedTuple):
    """A piece of a partition's rows for one bucket: where they are, or they themselves.

    Attributes
    ----------
    bucket : int
        The state group.
    kind : int
        What it points to.
    part, piece : int
        The partition, and which line of it this is.
    rows : int
        How many rows; of pruned ones, how many there were.
    segment, start, size, check
        Where they are in the folder; see :class:`~topwatch.spark.state.segments.Part`.
    data : bytes or None
        The rows, where they travel in the line.
    """

    bucket: int
    kind: int
    part: int
    piece: int
    rows: int = 0
    segment: str | None = None
    data: bytes | None = None
    start: int = 0
    size: int = 0
    check: int = 0

    def in_folder(self) -> Part | None:
        """Return where the rows are, unless they travel in the line."""
        if self.segment is None:
            return None
        return Part(self.segment, int(self.start), int(self.size), int(self.rows), int(self.check))
