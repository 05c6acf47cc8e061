"""The quarantine: rows that could not be used, with the reason and the row as it came.

A micro-batch that is tried again writes the same rows to the same name, so that no row is there twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topwatch.spark.planner import Spec
from topwatch.spark.state.folder import write_whole


def write_refused(spec: Spec, number: int, bucket: int, parts: list[pa.Table], batch: int | None = None) -> None:
    """Write what a bucket refused in a micro-batch.

    Parameters
    ----------
    spec : Spec
        What is watched, with the folder.
    number, bucket : int
        Number of micro-batches of the bucket, and the bucket: with the rows they make the file's name.
    parts : list of Arrow tables
        Columns ``reason`` and ``raw``.
    batch : int, optional
        The micro-batch's number, for display.
    """
    parts = [part for part in parts if part.num_rows]
    if not parts or spec.quarantine is None:
        return
    table = pa.concat_tables(parts).combine_chunks()
    content = [spec.fingerprint(), *table.column("reason").to_pylist(), *table.column("raw").to_pylist()]
    digest = hashlib.sha256("\0".join(content).encode())
    table = table.append_column("batch", pa.array([batch] * table.num_rows, pa.int64()))
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    name = f"part-{number:010d}-{bucket}-{digest.hexdigest()[:16]}.parquet"
    write_whole(spec.quarantine, name, [buffer.getvalue().to_pybytes()])


def split(table: pa.Table, spec: Spec) -> tuple[pa.Table, pa.Table]:
    """Return the rows that can be used, and the others as (reason, raw)."""
    checks: list[tuple[str, str, Callable[[pa.ChunkedArray], Any]]] = [(spec.id, "id is null", _valid)]
    if spec.time is not None:
        checks.append((spec.time, "time is null", _valid))
        kind = table.schema.field(spec.time).type
        if pa.types.is_floating(kind):
            checks.append((spec.time, "time is not finite", _finite))
        elif pa.types.is_timestamp(kind):
            checks.append((spec.time, "time is outside the years 1678 to 2261", _in_nanoseconds))
    bad: list[pa.Table] = []
    for column, reason, usable in checks:
        good = usable(table.column(column))
        if good is not None:
            bad.append(refuse(table.filter(pc.invert(good)), reason, spec))
            table = table.filter(good)
    return table, pa.concat_tables(bad) if bad else table.slice(0, 0)


def _valid(values: pa.ChunkedArray) -> Any:
    """Return which values are not null; None where all are."""
    return pc.is_valid(values) if values.null_count else None


def _finite(numbers: pa.ChunkedArray) -> Any:
    """Return which numbers are finite; None where all are."""
    good = pc.is_finite(numbers)
    return None if pc.all(good, min_count=0).as_py() else good


def _in_nanoseconds(times: pa.ChunkedArray) -> Any:
    """Return which timestamps fit into 64 bits as nanoseconds, as monitors count them; None where all do."""
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[times.type.unit]
    limit, numbers = (2**63 - 1) // unit, times.cast(pa.int64())
    least, most = pc.min_max(numbers).as_py().values()
    if least is None or -limit <= least <= most <= limit:
        return None
    return pc.and_(pc.greater_equal(numbers, -limit), pc.less_equal(numbers, limit))


def refuse(table: pa.Table, reason: str, spec: Spec) -> pa.Table:
    """Return rows as they go to the quarantine."""
    shown = [name for name in spec.carried if name in table.column_names and name not in spec.order]
    values = [_values(table.column(name)) for name in shown]
    raw = [json.dumps(dict(zip(shown, row, strict=True)), default=str) for row in zip(*values, strict=True)]
    return pa.table({"reason": pa.array([reason] * len(raw), pa.string()), "raw": pa.array(raw, pa.string())})


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return values as Python has them, or as text where it has none: it knows the years 1 to 9999."""
    try:
        result: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        result = column.cast(pa.string()).to_pylist()
    return result
