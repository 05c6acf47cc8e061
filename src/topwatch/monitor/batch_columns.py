"""The kinds of batches that users have, and their columns as NumPy or Arrow has them: nothing is copied."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from topwatch.query.errors import DataError

P = ParamSpec("P")
T = TypeVar("T")

# What other libraries raise for a column that they cannot convert; Arrow's errors are among them.
FOREIGN = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


class RowDicts(Mapping[Any, list[Any]]):
    """Rows, each a dict, as a mapping of column to values: None where a row lacks the column.

    Its columns are those of all rows, in the order in which they first occur. A column is gathered when it is read.

    >>> rows = RowDicts([{"id": 1, "x": 5.0}, {"id": 2, "y": 7.0}])
    >>> list(rows), rows["x"], len(rows.rows)
    (['id', 'x', 'y'], [5.0, None], 2)
    """

    def __init__(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        self.rows = rows
        self._names = dict.fromkeys(name for row in rows for name in row)

    def __getitem__(self, name: Any) -> list[Any]:
        return [row.get(name) for row in self.rows]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def by_columns(batch: Any, needed: Collection[str]) -> Any:
    """Return a batch that is made of rows as one that has columns; any other is returned as it is.

    A list of dicts is made of rows, and so is a dict in which the needed columns are single values: it is one row.
    """
    if isinstance(batch, list | tuple) and all(isinstance(row, Mapping) for row in batch[:1]):
        for number, row in enumerate(batch):
            if not isinstance(row, Mapping):
                raise DataError(f"batch: row {number}: expected a dict of column to value, got {type(row).__name__}")
        return RowDicts(batch)
    if isinstance(batch, Mapping):
        read = [value for name, value in batch.items() if name in needed] or list(batch.values())
        if read and all(map(_is_single, read)):
            return RowDicts([batch])
    return batch


def _is_single(value: Any) -> bool:
    """Return whether a value is no column: text, a number, a time, None."""
    return isinstance(value, str | bytes) or not (hasattr(value, "__len__") or hasattr(value, "__iter__"))


def converted(convert: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function on a column, whose name comes first, to raise our own error for those of other libraries."""

    @functools.wraps(convert)
    def refusing(*args: P.args, **named: P.kwargs) -> T:
        try:
            return convert(*args, **named)
        except DataError:
            raise
        except FOREIGN as error:
            reason = str(error).splitlines()[:1] or [type(error).__name__]
            raise DataError(f"batch: column {args[0]!r} cannot be read: {reason[0]}") from None

    return refusing


def names_of(batch: Any) -> list[str]:
    """Return the names of a batch's columns."""
    if isinstance(batch, Mapping):
        return list(batch)
    if hasattr(batch, "schema") and hasattr(batch, "column_names"):
        return list(batch.column_names)
    if hasattr(batch, "columns") and hasattr(batch, "__getitem__"):
        return list(batch.columns)
    raise DataError(
        "batch: expected a dict of arrays, a list of dicts (rows), an Arrow table, a pandas or a polars data frame, got"
        f" {type(batch).__name__}"
    )


def column_of(batch: Any, name: str) -> Any:
    """Return a column of a batch."""
    column = native(name, batch[name])
    if isinstance(column, str | bytes) or not (hasattr(column, "__len__") and hasattr(column, "__getitem__")):
        raise DataError(f"batch: column {name!r}: expected an array, got {column!r}")
    return column


@converted
def native(name: str, column: Any) -> Any:
    """Return a column as NumPy or Arrow has it, without copying where that can be."""
    kind = type(column).__module__.partition(".")[0]
    if kind in ("pandas", "polars", "pyarrow") and getattr(column, "ndim", 1) != 1:
        raise DataError(f"batch: column {name!r}: expected one dimension, got a {type(column).__name__}")
    if kind == "pandas":
        if isinstance(column.dtype, np.dtype):
            return column.to_numpy()
        column = getattr(column, "array", column)  # of a series
        if hasattr(column, "__arrow_array__"):
            return column.__arrow_array__()
        import pyarrow as pa

        return pa.array(column, from_pandas=True)  # times with a zone
    if kind == "polars":
        if str(column.dtype) == "Object" and len(column):  # in Arrow they would be addresses in memory
            raise DataError(f"batch: column {name!r} has Python objects; expected numbers, text or times")
        column = column.to_arrow()
        kind = "pyarrow"
    if kind == "pyarrow":
        import pyarrow as pa

        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        return column if isinstance(column, pa.Array) else None
    if isinstance(column, np.ma.MaskedArray):
        import pyarrow as pa

        return pa.array(column)
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise DataError(f"batch: column {name!r}: expected one dimension, got shape {column.shape}")
    return column
