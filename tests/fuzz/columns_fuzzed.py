"""Columns of all types that a user can have, good and bad, by name."""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

START = np.datetime64("2026-01-01T00:00:00", "ns")


def _nested(n: int) -> Any:
    result = np.empty(n, dtype=object)
    result[:] = [[i] for i in range(n)]
    return result


def _objects(*values: Any) -> Callable[[int], Any]:
    return lambda n: np.array([*values, *range(n)][:n], dtype=object)


COLUMNS: dict[str, Callable[[int], Any]] = {
    "float64": lambda n: np.arange(n) / 2,
    "float32": lambda n: np.arange(n, dtype=np.float32),
    "float16": lambda n: np.arange(n, dtype=np.float16),
    "longdouble": lambda n: np.arange(n, dtype=np.longdouble),
    "big-endian": lambda n: np.arange(n, dtype=">f8"),
    "big-endian-int": lambda n: np.arange(n, dtype=">i4"),
    "int64": lambda n: np.arange(n),
    "int8": lambda n: np.arange(n).astype(np.int8),
    "uint64": lambda n: np.arange(n, dtype=np.uint64) + np.uint64(2**63),
    "bool": lambda n: np.arange(n) % 2 == 0,
    "complex": lambda n: np.arange(n) * 1j,
    "text": lambda n: np.array([f"t{i}" for i in range(n)]),
    "digits": lambda n: [str(i) for i in range(n)],
    "bytes": lambda n: np.array([b"x"] * n),
    "bytes-list": lambda n: [b"x%d" % i for i in range(n)],
    "stamps": lambda n: START + np.arange(n) * np.timedelta64(1, "s"),
    "days": lambda n: np.arange(n).astype("datetime64[D]"),
    "years": lambda n: np.array(["9999"] * n, dtype="datetime64[Y]"),
    "no-times": lambda n: np.array(["NaT"] * n, dtype="datetime64[ns]"),
    "spans": lambda n: np.arange(n).astype("timedelta64[s]"),
    "dates": lambda n: [datetime.date(2026, 1, 1)] * n,
    "datetimes": lambda n: [datetime.datetime(2026, 1, 1, 0, 0, i % 60) for i in range(n)],
    "zoned": lambda n: [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)] * n,
    "far-dates": lambda n: [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)] * n,
    "clock": lambda n: [datetime.time(1, 2)] * n,
    "decimals": lambda n: [decimal.Decimal(i) / 3 for i in range(n)],
    "decimal-nan": lambda n: [decimal.Decimal("NaN")] * n,
    "fractions": lambda n: [fractions.Fraction(i, 3) for i in range(n)],
    "huge-ints": lambda n: [10**30 + i for i in range(n)],
    "int-edge": lambda n: [2**63 + i for i in range(n)],
    "mixed": _objects("a", 1, 2.5),
    "mixed-none": _objects(None, 1.5, None),
    "mixed-na": _objects(pd.NA, 1.5),
    "all-none": lambda n: [None] * n,
    "none-objects": lambda n: np.array([None] * n, dtype=object),
    "nan-objects": lambda n: np.array([float("nan")] * n, dtype=object),
    "odd-objects": _objects(object(), 1),
    "nested": _nested,
    "lists": lambda n: [[i] for i in range(n)],
    "mappings": lambda n: [{"a": i} for i in range(n)],
    "sets": lambda n: [{i} for i in range(n)],
    "two-dimensions": lambda n: np.zeros((n, 2)),
    "two-dimensions-objects": lambda n: np.zeros((n, 2), dtype=object),
    "two-dimensions-ints": lambda n: np.zeros((n, 1), dtype=int),
    "no-dimension": lambda n: np.array(5.0),
    "records": lambda n: np.zeros(n, dtype=[("u", float), ("v", int)]),
    "masked": lambda n: np.ma.masked_array(np.arange(n) / 2, mask=np.arange(n) % 2 == 0),
    "masked-ints": lambda n: np.ma.masked_array(np.arange(n), mask=np.arange(n) % 2 == 0),
    "masked-text": lambda n: np.ma.masked_array(np.array(["a"] * n), mask=np.arange(n) % 2 == 0),
    "masked-stamps": lambda n: np.ma.masked_array(START + np.arange(n) * np.timedelta64(1, "s"), mask=[True] * n),
    "strided": lambda n: np.arange(3 * n, dtype=float)[::3],
    "backwards": lambda n: np.arange(n, dtype=float)[::-1],
    "broadcast": lambda n: np.broadcast_to(np.float64(1.5), (n,)),
    "range": lambda n: range(n),
    "tuple": lambda n: tuple(range(n)),
    "set": lambda n: set(range(n)),
    "generator": lambda n: (i for i in range(n)),
    "array": lambda n: array.array("d", [0.5] * n),
    "memory": lambda n: memoryview(np.arange(n, dtype=float)),
    "raw": lambda n: b"x" * n,
    "word": lambda n: "x" * n,
    "number": lambda n: 5,
    "none": lambda n: None,
    "too-long": lambda n: np.zeros(n + 1),
    "infinite": lambda n: np.full(n, np.inf),
    "nan": lambda n: np.full(n, np.nan),
    "backwards-int": lambda n: -np.arange(n),
    "pandas": lambda n: pd.Series(np.arange(n) / 2, index=np.arange(n)[::-1]),
    "pandas-nullable": lambda n: pd.array([1, None, *range(n)][:n], dtype="Int64"),
    "pandas-nullable-series": lambda n: pd.Series(pd.array([1.5, None, *range(n)][:n], dtype="Float64")),
    "pandas-boolean": lambda n: pd.Series(pd.array([True, None] * n, dtype="boolean")[:n]),
    "pandas-text": lambda n: pd.Series(["a"] * n, dtype="string"),
    "pandas-categories": lambda n: pd.Series(pd.Categorical([f"c{i % 3}" for i in range(n)])),
    "pandas-number-categories": lambda n: pd.Series(pd.Categorical([i % 3 for i in range(n)])),
    "pandas-zoned": lambda n: pd.Series(pd.date_range("2026-01-01", periods=n, freq="s", tz="Europe/Zurich")),
    "pandas-periods": lambda n: pd.Series(pd.period_range("2026-01", periods=n, freq="M")),
    "pandas-intervals": lambda n: pd.Series(pd.interval_range(0, n, n)) if n else pd.Series([], dtype=float),
    "pandas-sparse": lambda n: pd.Series(pd.arrays.SparseArray([0.0, 1.0] * n))[:n],
    "pandas-arrow": lambda n: pd.Series(range(n), dtype=pd.ArrowDtype(pa.int64())),
    "pandas-frame": lambda n: pd.DataFrame({"x": range(n)}),
    "pandas-index": lambda n: pd.Index(range(n)),
    "pandas-multi-index": lambda n: pd.MultiIndex.from_arrays([range(n), range(n)]),
    "polars": lambda n: pl.Series(range(n)),
    "polars-nulls": lambda n: pl.Series([None] * n),
    "polars-objects": lambda n: pl.Series([object()] * n, dtype=pl.Object),
    "polars-categories": lambda n: pl.Series(["a"] * n, dtype=pl.Categorical),
    "polars-lists": lambda n: pl.Series([[1]] * n),
    "polars-decimals": lambda n: pl.Series([decimal.Decimal("1.5")] * n),
    "polars-times": lambda n: pl.Series([datetime.time(1)] * n),
    "polars-spans": lambda n: pl.Series([datetime.timedelta(1)] * n),
    "arrow": lambda n: pa.array(range(n)),
    "arrow-chunks": lambda n: pa.chunked_array([pa.array(range(n)), pa.array([], pa.int64())]),
    "arrow-nulls": lambda n: pa.nulls(n),
    "arrow-float-nulls": lambda n: pa.nulls(n, pa.float64()),
    "arrow-half": lambda n: pa.array(np.arange(n, dtype=np.float16)),
    "arrow-decimal": lambda n: pa.array([decimal.Decimal("1.50")] * n, pa.decimal128(30, 2)),
    "arrow-big-decimal": lambda n: pa.array([decimal.Decimal("1.50")] * n, pa.decimal256(60, 2)),
    "arrow-lists": lambda n: pa.array([[1]] * n),
    "arrow-struct": lambda n: pa.array([{"a": 1}] * n),
    "arrow-map": lambda n: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    "arrow-dictionary": lambda n: pa.array(["a", "b"] * n).dictionary_encode()[:n],
    "arrow-number-dictionary": lambda n: pa.array([1.5, None] * n).dictionary_encode()[:n],
    "arrow-chunked-dictionary": lambda n: pa.chunked_array([pa.array(["a"] * n).dictionary_encode()]),
    "arrow-runs": lambda n: pa.RunEndEncodedArray.from_arrays([n], [1.5]) if n else pa.array([], pa.float64()),
    "arrow-union": lambda n: pa.UnionArray.from_sparse(pa.array([0] * n, pa.int8()), [pa.array(range(n))]),
    "arrow-date": lambda n: pa.array([datetime.date(2026, 1, 1)] * n),
    "arrow-date64": lambda n: pa.array([datetime.date(2026, 1, 1)] * n, pa.date64()),
    "arrow-stamps": lambda n: pa.array(range(n), pa.timestamp("s", "UTC")),
    "arrow-far-stamps": lambda n: pa.array([2**62] * n, pa.timestamp("s")),
    "arrow-span": lambda n: pa.array(range(n), pa.duration("s")),
    "arrow-large-text": lambda n: pa.array([f"t{i}" for i in range(n)], pa.large_string()),
    "arrow-text-view": lambda n: pa.array([f"t{i}" for i in range(n)], pa.string_view()),
    "arrow-bytes": lambda n: pa.array([b"x"] * n),
    "arrow-fixed-bytes": lambda n: pa.array([b"xy"] * n, pa.binary(2)),
    "arrow-bytes-view": lambda n: pa.array([b"x"] * n, pa.binary_view()),
    "arrow-interval": lambda n: pa.array([(1, 2, 3)] * n, pa.month_day_nano_interval()),
    "arrow-extension": lambda n: pa.array([b"0123456789abcdef"] * n, pa.uuid()),
    "arrow-scalar": lambda n: pa.scalar(5),
    "arrow-table": lambda n: pa.table({"x": range(n)}),
}
GOOD = ("float64", "float32", "int64", "strided", "pandas", "polars", "arrow", "bool", "masked", "mixed-none")
