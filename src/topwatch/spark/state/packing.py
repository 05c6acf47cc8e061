"""Tables and arrays as bytes: how the state of a bucket is laid out."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from topwatch.spark.state.segments import pack, unpack


def pack_all(tables: list[pa.Table]) -> bytes:
    """Write tables one after the other, each behind its length.

    >>> [table.num_rows for table in unpack_all(pack_all([pa.table({"a": [1, 2]}), pa.table({"b": ["x"]})]))]
    [2, 1]
    """
    parts = [pack(table) for table in tables]
    return b"".join(piece for part in parts for piece in (struct.pack("<Q", part.size), part))


def unpack_all(blob: Any) -> list[pa.Table]:
    """Undo :func:`pack_all`."""
    view = memoryview(blob)
    tables = []
    while len(view):
        (size,) = struct.unpack_from("<Q", view)
        tables.append(unpack(view[8 : 8 + size]))
        view = view[8 + size :]
    return tables


def save_arrays(arrays: Mapping[str, np.ndarray]) -> pa.Table:
    """Return arrays of any shape as a table with a row for each."""
    return pa.table(
        {
            "name": list(arrays),
            "dtype": [array.dtype.str for array in arrays.values()],
            "shape": [list(array.shape) for array in arrays.values()],
            "bytes": pa.array([np.ascontiguousarray(a).tobytes() for a in arrays.values()], pa.large_binary()),
        }
    )


def load_arrays(table: pa.Table) -> dict[str, np.ndarray]:
    """Undo :func:`save_arrays`."""
    arrays = {}
    for line in zip(*(table.column(name) for name in ("name", "dtype", "shape", "bytes")), strict=True):
        name, dtype, shape = (part.as_py() for part in line[:3])
        arrays[name] = np.frombuffer(line[3].as_buffer(), np.dtype(dtype)).reshape(shape).copy()
    return arrays
