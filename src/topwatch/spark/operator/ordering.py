"""The order of rows: by time, then as their source had them, then as they lie in their partition.

The columns with a row's position in its source mostly have one value for all rows of a partition: the file, its time.
Such columns are taken out of a segment and kept in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from topwatch.spark.planner import Spec

_CONSTANTS = b"constants"


class Piece(NamedTuple):
    """Rows of one partition, in order, and how many there were before they were pruned."""

    rows: int
    table: pa.Table


def in_order(table: pa.Table, spec: Spec) -> pa.Table:
    """Sort rows by time, then as their source had them."""
    keys = order_keys(spec)
    if is_sorted(table, keys):
        return table
    return sort(table, keys)


def sort(table: pa.Table, keys: list[str]) -> pa.Table:
    """Sort rows by some columns; equal ones stay as they are."""
    return table.take(pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys]))


def order_keys(spec: Spec) -> list[str]:
    """Return the columns that order rows, before the position in a partition."""
    return [*([spec.time] if spec.time else []), *spec.order]


def is_sorted(table: pa.Table, keys: list[str]) -> bool:
    """Return whether rows are in the order of some columns."""
    if table.num_rows < 2 or not keys:
        return True
    if any(table.column(key).null_count for key in keys):
        return False  # a comparison with null is null
    keys = [key for key in keys if not _is_constant(table.column(key))]
    if not keys:
        return True
    good: Any = None
    for key in reversed(keys):
        column = table.column(key)
        before, after = column.slice(0, table.num_rows - 1), column.slice(1)
        less = pc.less(before, after)
        same = pc.equal(before, after)
        good = pc.or_(less, same) if good is None else pc.or_(less, pc.and_(same, good))
    return bool(pc.all(good).as_py())


def _is_constant(column: pa.ChunkedArray) -> bool:
    """Return whether whole numbers, none of them null, are all the same, as positions in a source mostly are."""
    if not pa.types.is_int64(column.type) or column.null_count:
        return False
    least, most = pc.min_max(column).as_py().values()
    return bool(least == most)


def squeeze(table: pa.Table, columns: Iterable[str]) -> pa.Table:
    """Take columns out that have one value in all rows, and keep them in the table's metadata."""
    result = {}
    for name in columns:
        column = table.column(name)
        if column.null_count or not (pa.types.is_int64(column.type) or pa.types.is_string(column.type)):
            continue
        least, most = pc.min_max(column).as_py().values()
        if least == most:
            result[name] = least
    return with_constants(table, result)


def with_constants(table: pa.Table, values: dict[str, Any]) -> pa.Table:
    """Take columns out whose values are known, and keep them in the table's metadata."""
    return table.drop_columns(list(values)).replace_schema_metadata({_CONSTANTS: json.dumps(values)})


def merged(slices: list[pa.Table], spec: Spec) -> pa.Table:
    """Put slices, each in order, together in the order of their rows."""
    keys = order_keys(spec)
    if len(slices) > 1 and keys:
        ends = [(_row(part, keys, 0), _row(part, keys, part.num_rows - 1)) for part in slices]
        indices = sorted(range(len(slices)), key=lambda i: (ends[i][0], i))
        if not all(ends[a][1] <= ends[b][0] and (ends[a][1] < ends[b][0] or a < b) for a, b in pairwise(indices)):
            return _plain(sort(pa.concat_tables([_whole(part) for part in slices]), keys), spec)
        slices = [slices[i] for i in indices]
    return pa.concat_tables([_plain(part, spec) for part in slices])


def _plain(table: pa.Table, spec: Spec) -> pa.Table:
    """Return rows without what only their order needed, unless they may have to wait for others."""
    if spec.watermark:
        return _whole(table)
    needed = {*spec.by, spec.id, spec.time, *spec.columns}
    names = [name for name in table.column_names if name in needed]
    return table.select(names).replace_schema_metadata(None)


def _whole(table: pa.Table) -> pa.Table:
    """Undo :func:`squeeze`."""
    for name, value in constants_of(table).items():
        kind = pa.string() if isinstance(value, str) else pa.int64()
        table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
    # Made again, so that all tables agree in what may be null.
    return pa.table({name: table.column(name) for name in sorted(table.column_names)})


def constants_of(table: pa.Table) -> dict[str, Any]:
    """Return what :func:`squeeze` has taken out."""
    result: dict[str, Any] = json.loads((table.schema.metadata or {}).get(_CONSTANTS, b"{}"))
    return result


def _row(table: pa.Table, keys: list[str], index: int) -> tuple[Any, ...]:
    constants = constants_of(table)
    values = [constants[key] if key in constants else table.column(key)[index].as_py() for key in keys]
    return tuple((value is None, value) for value in values)  # nulls last, as Arrow sorts them
