"""The kinds of batch that a monitor takes, made from the same rows; NaN can travel as a null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from topwatch.testing.oracle import Rows


def to_table(rows: Rows) -> pa.Table:
    return pa.table({name: pa.array(values) for name, values in rows.items()})


def to_batch(rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in rows.items()})


def to_chunked_table(rows: Rows) -> pa.Table:
    """Columns in chunks of uneven length, one of them empty."""
    table = to_table(rows)
    return pa.concat_tables([table.slice(0, 3), table.slice(3, 0), table.slice(3, 7), table.slice(10)])


def to_table_with_nulls(rows: Rows) -> pa.Table:
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in rows.items()})


def to_sliced_table_with_nulls(rows: Rows) -> pa.Table:
    """A slice of a longer table: values and validity bits start at an offset."""
    table = to_table_with_nulls(rows)
    return pa.concat_tables([table.slice(0, 5), table]).combine_chunks().slice(min(5, len(table)))


def to_pandas(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(dict(rows))


def to_pandas_with_odd_index(rows: Rows) -> pd.DataFrame:
    frame = pd.DataFrame(dict(rows))
    return frame.set_index(np.arange(len(frame))[::-1] * 10)


def to_nullable_pandas(rows: Rows) -> pd.DataFrame:
    """Float64 with pd.NA where the stream has NaN."""
    frame = pd.DataFrame(dict(rows))
    floats = [name for name in frame if name not in ("id", "time") and frame[name].dtype.kind == "f"]
    return frame.astype(dict.fromkeys(floats, "Float64"))


def to_polars(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(dict(rows))


def to_polars_with_nulls(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(dict(rows)).fill_nan(None)


def to_masked(rows: Rows) -> dict[str, Any]:
    """Objects with None for NaN."""
    columns: dict[str, Any] = dict(rows)
    for name, values in rows.items():
        if name not in ("id", "time"):
            columns[name] = np.array([None if np.isnan(value) else value for value in values], dtype=object)
    return columns


def to_strided(rows: Rows) -> dict[str, Any]:
    """Views with gaps between the values, and one that runs backwards."""
    columns = {name: np.repeat(values, 3)[1::3] for name, values in rows.items()}
    columns["a"] = np.ascontiguousarray(columns["a"][::-1])[::-1]
    return columns


def to_read_only(rows: Rows) -> dict[str, Any]:
    columns = {name: np.array(values) for name, values in rows.items()}
    for values in columns.values():
        values.flags.writeable = False
    return columns


BATCH_KINDS: dict[str, Callable[[Rows], Any]] = {
    "dict": dict,
    "strided": to_strided,
    "read-only": to_read_only,
    "table": to_table,
    "record-batch": to_batch,
    "chunked-table": to_chunked_table,
    "pandas": to_pandas,
    "pandas-odd-index": to_pandas_with_odd_index,
    "polars": to_polars,
}
NULL_BATCH_KINDS: dict[str, Callable[[Rows], Any]] = {
    "table": to_table_with_nulls,
    "sliced-table": to_sliced_table_with_nulls,
    "pandas-nullable": to_nullable_pandas,
    "polars": to_polars_with_nulls,
}
