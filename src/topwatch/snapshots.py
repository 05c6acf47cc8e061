"""Snapshots: a flat dict of arrays and a small header, as bytes. Nothing in them is ever executed.

Layout: the magic word, the format's version, the length of the header, the header (JSON: what the monitor is, and name,
type and shape of each array), the arrays, and a checksum over all of it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from topwatch.errors import DataError
from topwatch.queries import Dominating, FrequentSkyline, IncompleteTopK, Nearest, Query, Skyline, Threshold, TopK
from topwatch.scoring import Score, distance, expr, linear, product, quadratic
from topwatch.windows import LastRows, LastTime, Latest, Window

MAGIC = b"topwatch"
VERSION = 1
_SCORES = {"linear": linear, "product": product, "quadratic": quadratic, "distance": distance}


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Write a header and arrays into bytes."""
    described = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    head = json.dumps({"monitor": header, "arrays": described}).encode()
    parts = [MAGIC, struct.pack("<II", VERSION, len(head)), head]
    parts += [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    body = b"".join(parts)
    return body + struct.pack("<I", zlib.crc32(body))


def unpack(blob: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read bytes back; a damaged or foreign blob is refused."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise DataError(f"snapshot: expected bytes, got {type(blob).__name__}")
    blob = bytes(blob)
    start = len(MAGIC) + 8
    if len(blob) < start + 4 or not blob.startswith(MAGIC):
        raise DataError("snapshot: these bytes are no topwatch snapshot")
    version, length = struct.unpack_from("<II", blob, len(MAGIC))
    if version != VERSION:
        raise DataError(f"snapshot: format {version} cannot be read; this version of topwatch reads format {VERSION}")
    if zlib.crc32(blob[:-4]) != struct.unpack("<I", blob[-4:])[0]:
        raise DataError("snapshot: the checksum does not match; the snapshot is damaged or cut short")
    head = json.loads(blob[start : start + length])
    arrays = {}
    place = start + length
    for name, dtype, shape in head["arrays"]:
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        arrays[name] = np.frombuffer(blob, kind, count=size // kind.itemsize, offset=place).reshape(shape).copy()
        place += size
    return head["monitor"], arrays


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


def ids_from_array(array: np.ndarray, arrow: bool) -> Any:
    """Undo :func:`ids_to_array`."""
    if not arrow:
        return array
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(array.tobytes())).read_all().column("id").combine_chunks()


def describe_query(query: Query) -> dict[str, Any]:
    """Return a query as plain data."""
    common: dict[str, Any] = {"name": query.name, "where": dict(query.where)}
    if isinstance(query, Dominating):
        return {"kind": "dominating", "k": int(query.k), "prefer": dict(query.prefer), **common}
    if isinstance(query, IncompleteTopK):
        return {"kind": "incomplete", **_describe_incomplete(query), **common}
    if isinstance(query, Skyline):
        return {"kind": "skyline", "prefer": dict(query.prefer), **common}
    if isinstance(query, FrequentSkyline):
        often = {"share": query.share, "snapshots": int(query.snapshots)}
        return {"kind": "frequent", "prefer": dict(query.prefer), **often, **common}
    common["score"] = _describe_score(query.score)
    if isinstance(query, Threshold):
        return {"kind": "threshold", "above": query.above, **common}
    return {"kind": "nearest" if isinstance(query, Nearest) else "topk", "k": int(query.k), **common}


def read_query(data: Mapping[str, Any]) -> Query:
    """Undo :func:`describe_query`."""
    common: dict[str, Any] = {"name": data["name"], "where": {c: tuple(r) for c, r in data["where"].items()}}
    if data["kind"] == "dominating":
        return Dominating(k=data["k"], prefer=data["prefer"], **common)
    if data["kind"] == "incomplete":
        return _read_incomplete(data, common)
    if data["kind"] == "skyline":
        return Skyline(prefer=data["prefer"], **common)
    if data["kind"] == "frequent":
        return FrequentSkyline(prefer=data["prefer"], share=data["share"], snapshots=data["snapshots"], **common)
    score = _read_score(data["score"])
    if data["kind"] == "threshold":
        return Threshold(score=score, above=data["above"], **common)
    if data["kind"] == "nearest":
        return Nearest(k=data["k"], point=dict(zip(score.columns, score.coefficients, strict=True)), **common)
    return TopK(k=data["k"], score=score, **common)


def _describe_incomplete(query: IncompleteTopK) -> dict[str, Any]:
    ranges = query.ranges()
    combine = query.combine
    return {
        "k": int(query.k),
        "sources": list(query.sources),
        "weights": None if query.weights is None else query.factors(),
        "bounds": query.bounds if ranges is None else [list(pair) for pair in ranges],
        "combine": combine if isinstance(combine, str) else _describe_score(combine),
        **{part: getattr(query, part) for part in ("occurrences", "source", "value", "most")},
    }


def _read_incomplete(data: Mapping[str, Any], common: Mapping[str, Any]) -> IncompleteTopK:
    sources, weights, bounds, combine = (data[part] for part in ("sources", "weights", "bounds", "combine"))
    if isinstance(bounds, list):
        bounds = {source: tuple(pair) for source, pair in zip(sources, bounds, strict=True)}
    return IncompleteTopK(
        **{part: data[part] for part in ("k", "sources", "occurrences", "source", "value", "most")},
        combine=combine if isinstance(combine, str) else _read_score(combine),
        weights=None if weights is None else dict(zip(sources, weights, strict=True)),
        bounds=bounds,
        **common,
    )


def _describe_score(score: Score) -> dict[str, Any]:
    if score.expression is not None:
        return {
            "expr": score.expression.text,
            "increasing": sorted(score.increasing),
            "decreasing": sorted(score.decreasing),
        }
    return {score.kind: dict(zip(score.columns, score.coefficients, strict=True))}


def _read_score(data: Mapping[str, Any]) -> Score:
    if "expr" in data:
        return expr(data["expr"], data["increasing"], data["decreasing"])
    ((kind, coefficients),) = data.items()
    return _SCORES[kind](coefficients)


def describe_window(window: Window) -> dict[str, int]:
    """Return a window as plain data."""
    if isinstance(window, LastRows):
        return {"rows": window.rows}
    return {"nanoseconds": window.nanoseconds} if isinstance(window, LastTime) else {}


def read_window(data: Mapping[str, int]) -> Window:
    """Undo :func:`describe_window`."""
    if "rows" in data:
        return LastRows(data["rows"])
    return LastTime(data["nanoseconds"]) if "nanoseconds" in data else Latest()
