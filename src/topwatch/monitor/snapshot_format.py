"""Snapshots: a flat dict of arrays and a small header, as bytes. Nothing in them is ever executed or unpickled.

Layout: the magic word, the format's version, the length of the header, the header (JSON: what was saved, and name,
type and shape of each array), the arrays, and a checksum over all of it. All lengths are compared with what there is
before anything is read; arrays have one of five types. What is in them is checked where it is used
(:mod:`topwatch.core.saved_state`).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from topwatch.core.arrays import EARLIEST
from topwatch.core.saved_state import Fields, Saved, refuse
from topwatch.monitor.batches import NANOSECONDS
from topwatch.query.errors import DataError

MAGIC = b"topwatch"
VERSION = 4
_TYPES = ("<f8", "<i8", "<u8", "|b1", "|u1")
_START = len(MAGIC) + 8
_RECORD_BATCH, _COMPRESSION = 2, 3  # numbers of fields in Arrow's Message.fbs


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Write a header and arrays into bytes."""
    described = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    head = json.dumps({"state": header, "arrays": described}).encode()
    parts = [MAGIC, struct.pack("<II", VERSION, len(head)), head]
    parts += [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    body = b"".join(parts)
    return body + struct.pack("<I", zlib.crc32(body))


def unpack(blob: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read bytes back; damaged or foreign ones are refused. What the header and the arrays hold is not looked at."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise DataError(f"snapshot: expected bytes, got {type(blob).__name__}")
    blob = bytes(blob)
    if len(blob) < _START + 4 or not blob.startswith(MAGIC):
        raise DataError("snapshot: these bytes are no topwatch snapshot")
    version, length = struct.unpack_from("<II", blob, len(MAGIC))
    if version != VERSION:
        raise DataError(
            f"snapshot: it has format {version}, and this version of topwatch reads format {VERSION} only;"
            " restore it with the version that wrote it, or push the rows of the window again"
        )
    if zlib.crc32(blob[:-4]) != struct.unpack("<I", blob[-4:])[0]:
        raise DataError("snapshot: the checksum does not match; the snapshot is damaged or cut short")
    if length > len(blob) - _START - 4:
        refuse("length of the header", f"at most {len(blob) - _START - 4} bytes", length)
    try:
        head = Fields(json.loads(blob[_START : _START + length], parse_int=_whole), "header")
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("snapshot: header: expected JSON; the snapshot is damaged or forged") from None
    arrays = _arrays(head.raw("arrays"), blob, _START + length)
    header = head.raw("state")
    head.done()
    if not isinstance(header, dict):
        refuse("header: state", "named fields", header)
    return header, arrays


def _whole(text: str) -> int:
    """Read a whole number; none is written that does not fit into 64 bits."""
    if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
        refuse("header", "numbers of 64 bits", text)
    return int(text)


def _arrays(described: Any, blob: bytes, offset: int) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    end = len(blob) - 4
    if not isinstance(described, list):
        refuse("arrays", "a list", described)
    for line in described:
        if not isinstance(line, list) or len(line) != 3 or not isinstance(line[0], str) or line[0] in arrays:
            refuse("arrays", "a name of its own, a type and a shape for each", line)
        name, dtype, shape = line
        if not isinstance(dtype, str) or dtype not in _TYPES:
            refuse(f"array {name!r}", f"a type of {', '.join(_TYPES)}", dtype)
        lengths = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        if not lengths or len(shape) not in (1, 2):
            refuse(f"array {name!r}", "a shape of one or two lengths", shape)
        kind, count = np.dtype(dtype), 1
        for n in shape:
            count *= n  # Python's numbers do not overflow
        if count * kind.itemsize > end - offset:
            refuse(f"array {name!r}", f"at most the {end - offset} bytes that are left", f"shape {shape}")
        if 0 in shape and max(shape) > end:
            refuse(f"array {name!r}", "a shape that fits its bytes", shape)
        arrays[name] = np.frombuffer(blob, kind, count=count, offset=offset).reshape(shape).copy()
        offset += count * kind.itemsize
    if offset != end:
        refuse("arrays", "as many bytes as they say", f"{end - offset} more")
    return arrays


def read_time(fields: Fields, name: str, kind: str | None) -> float | None:
    """Take a time of a kind out of a snapshot, or None where there is none."""
    if fields.missing(name):
        return None
    fields.expect(kind is not None, name, "none, since there have been no times")
    return fields.whole(name, EARLIEST, 2**63 - 1) if kind == NANOSECONDS else fields.number(name)


def read_times(saved: Saved, name: str, rows: int | None, kind: str | None, finite: bool = True) -> np.ndarray:
    """Take times of a kind out of a snapshot; infinite and missing ones only where ``finite`` is false."""
    if kind == NANOSECONDS:
        return saved.ints(name, rows, low=EARLIEST + finite, high=2**63 - 1)
    return saved.floats(name, rows, finite=finite)


def ids_to_array(ids: Any) -> np.ndarray:
    """Return ids as an array: numbers as they are, Arrow arrays as the bytes of an Arrow stream."""
    if isinstance(ids, np.ndarray):
        return ids
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    batch = pa.record_batch([ids], names=["id"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(sink.getvalue(), np.uint8)


def ids_from_array(name: str, array: np.ndarray, kind: str) -> Any:
    """Undo :func:`ids_to_array` for ids of a kind, as it is called in messages and snapshots."""
    if array.ndim != 1:
        refuse(f"array {name!r}", "one dimension", array.shape)
    if kind in ("int64", "uint64", "float64"):
        if array.dtype.name != kind:
            refuse(f"array {name!r}", f"ids of type {kind}", array.dtype.name)
        return array
    ids = arrow_from_array(name, array)
    if str(ids.type) != kind or ids.null_count:
        refuse(f"array {name!r}", f"ids of type {kind}", f"{ids.null_count} nulls in {ids.type}")
    return ids


def arrow_from_array(name: str, array: np.ndarray) -> Any:
    """Undo :func:`ids_to_array` for an Arrow array."""
    if array.dtype != np.uint8 or array.ndim != 1:
        refuse(f"array {name!r}", "an Arrow stream", array.dtype.name)
    return _from_arrow(name, array.tobytes())


def _from_arrow(name: str, stream: bytes) -> Any:
    import pyarrow as pa

    path = f"array {name!r}"
    try:
        source = pa.BufferReader(stream)
        schema = pa.ipc.read_schema(pa.ipc.read_message(source))
        if schema.names != ["id"]:
            refuse(path, "an Arrow stream with ids", schema.names)
        message = pa.ipc.read_message(source)
        if message.type != "record batch" or _is_compressed(message.metadata.to_pybytes()):
            refuse(path, "an Arrow record batch that is not compressed", message.type)  # small bytes, large memory
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        ids = batch.column(0)
        if pa.types.is_temporal(ids.type) and not pa.types.is_interval(ids.type) and len(ids):
            import pyarrow.compute as pc

            pc.min_max(ids).as_py()  # a time that Python has no value for would be found when it is reported
        return ids
    except (pa.ArrowException, EOFError, OSError, ValueError, OverflowError, struct.error) as error:
        if isinstance(error, DataError):
            raise
        refuse(path, "an Arrow stream with ids", str(error).partition("\n")[0])


def _is_compressed(message: bytes) -> bool:
    """Return whether a record batch names a compression: its tables and fields are read as flatbuffers has them."""

    def field(table: int, number: int) -> int:
        fields = table - struct.unpack_from("<i", message, table)[0]
        size = struct.unpack_from("<H", message, fields)[0]
        inside = 4 + 2 * number
        return int(struct.unpack_from("<H", message, fields + inside)[0]) if inside < size else 0

    root = struct.unpack_from("<I", message)[0]
    at = root + field(root, _RECORD_BATCH)
    batch = at + struct.unpack_from("<I", message, at)[0]
    return field(batch, _COMPRESSION) != 0
