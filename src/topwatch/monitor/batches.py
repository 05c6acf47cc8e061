"""Batches are read: their columns as float64, ids, times and groups. Columns that are float64 are not copied."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from topwatch.core.arrays import NO_INTS
from topwatch.monitor.batch_times import NANOSECONDS as NANOSECONDS
from topwatch.monitor.batch_times import SECONDS as SECONDS
from topwatch.monitor.batch_times import times_of
from topwatch.monitor.row_dicts import RowDicts
from topwatch.query.errors import DataError, missing_column

LARGE = 1 << 14  # rows for which a push of their own costs less than to copy them


P = ParamSpec("P")
T = TypeVar("T")

# What other libraries raise for a column that they cannot convert; Arrow's errors are among them.
FOREIGN = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


class Batch(NamedTuple):
    """A batch that has been read: float64 columns, ids, times and groups of one length."""

    rows: int
    columns: list[np.ndarray]
    ids: Any  # NumPy numbers, an Arrow array, or None when rows are called by their ordinals
    times: np.ndarray | None
    time_kind: str | None
    keys: tuple[Any, ...] = ()  # Arrow arrays of the `by` columns
    groups: np.ndarray | None = None  # the number of each row's group, once it is known
    order: tuple[Any, ...] = ()  # Arrow arrays: which row comes first where times are equal

    def take(self, rows: np.ndarray | slice) -> Batch:
        """Return some of the rows."""
        ids = self.ids
        if ids is not None:
            ids = ids[rows] if isinstance(ids, np.ndarray) else _taken(ids, rows)
        return self._replace(
            rows=rows.stop - rows.start if isinstance(rows, slice) else rows.size,
            columns=[column[rows] for column in self.columns],
            ids=ids,
            times=None if self.times is None else self.times[rows],
            keys=(),
            order=tuple(_taken(column, rows) for column in self.order),
            groups=None if self.groups is None else self.groups[rows],
        )

    def arranged(self, names: Iterable[str | int], wanted: Iterable[str | int]) -> Batch:
        """Return the rows with the columns that are wanted, where the own ones have these names; others are missing."""
        own, wanted = list(names), list(wanted)
        if own == wanted:
            return self
        of, missing = dict(zip(own, self.columns, strict=True)), np.full(self.rows, np.nan)
        return self._replace(columns=[of.get(name, missing) for name in wanted])


def _taken(column: Any, rows: np.ndarray | slice) -> Any:
    """Return some of the values of an Arrow array."""
    import pyarrow as pa

    if isinstance(rows, slice):
        return column.slice(rows.start, rows.stop - rows.start)
    return column.take(pa.array(rows))


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


Words = Mapping[str, tuple[str, tuple[str | int, ...]]]


def pieces(batch: Any) -> list[Any]:
    """Cut an Arrow table of many rows where its memory is cut: they need not be put together before they are read."""
    if not hasattr(batch, "to_batches") or not batch.num_rows:
        return [batch]
    cut = batch.to_batches()
    return cut if batch.num_rows >= LARGE * len(cut) else [batch]


def read(
    batch: Any,
    needed: Mapping[str, str],
    id: str | None,
    time: str | None,
    words: Words | None = None,
    by: Sequence[str] = (),
    order: Sequence[str] = (),
) -> Batch:
    """Read the needed columns of a batch.

    Parameters
    ----------
    batch : mapping, list of mappings, Arrow table or record batch, pandas or polars data frame
        The rows.
    needed : mapping of column to query name
        Numeric columns, each with a query that needs it.
    id, time : str or None
        Names of the id and time columns. Without an id column, rows are called by their ordinals.
    words : mapping of needed column to (column of the batch, words), optional
        Needed columns that are made from a column of words: the index of each word, -1 for a word that is not named. A
        batch that has such a column already is taken as it is.
    by : sequence of str
        Names of the columns whose values have windows of their own.
    order : sequence of str
        Names of the columns that say which row comes first where times are equal.
    """
    sources = [column for column, _ in (words or {}).values()]
    extra = (*by, *order, *(name for name in (id, time) if name is not None))
    batch = by_columns(batch, {*needed, *sources, *extra})
    names = names_of(batch)
    coded = {column: of for column, of in (words or {}).items() if column not in names}
    wanted = {coded[c][0] if c in coded else c: f"needed by query {query!r}" for c, query in needed.items()}
    if id is not None:
        wanted.setdefault(id, "the id column" if words else "the id column; id=None calls rows by their ordinals")
    if time is not None:
        wanted.setdefault(time, "the time column")
    for name in by:
        wanted.setdefault(name, "a by column")
    for name in order:
        wanted.setdefault(name, "an order column")
    empty = isinstance(batch, RowDicts) and not batch.rows  # no row says which columns there are
    for column, why in wanted.items():
        if column not in names and not empty:
            raise missing_column("batch", column, names, why)
    raw = {column: column_of(batch, column) for column in wanted}
    rows = _rows(batch, raw)
    columns = []
    for column in needed:
        name, known = coded.get(column, (column, None))
        columns.append(_numeric(name, raw[name]) if known is None else _indices(name, raw[name], known))
    ids = None if id is None else as_ids(id, raw[id])
    times, kind = (None, None) if time is None else _times(time, raw[time])
    return Batch(
        rows,
        columns,
        ids,
        times,
        kind,
        tuple(_as_key(name, raw[name]) for name in by),
        order=tuple(_arrow(name, raw[name]) for name in order),
    )


def _rows(batch: Any, raw: Mapping[str, Any]) -> int:
    lengths = {column: len(values) for column, values in raw.items()}
    if isinstance(batch, RowDicts):
        return len(batch.rows)
    if not lengths:
        return len(batch) if not isinstance(batch, Mapping) else len(next(iter(batch.values()), ()))
    first = next(iter(lengths))
    for column, length in lengths.items():
        if length != lengths[first]:
            raise DataError(
                f"batch: column {column!r} has {length} rows but {first!r} has {lengths[first]};"
                " all columns need the same length"
            )
    return lengths[first]


@converted
def _numeric(name: str, values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values.astype(np.float64, copy=False)
    if isinstance(values, np.ndarray) and values.dtype.kind == "c":
        raise DataError(f"batch: column {name!r} is {values.dtype}; expected numbers")
    array = _arrow(name, values, "numbers")
    import pyarrow as pa

    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan)
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind) or pa.types.is_boolean(kind):
        array = array.cast(pa.float64())
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise DataError(f"batch: column {name!r} is {kind}; expected numbers")
    numbers: np.ndarray = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return numbers


@converted
def _indices(name: str, values: Any, words: tuple[str | int, ...]) -> np.ndarray:
    """Return the index of each value among the words: -1 where it is none of them, NaN where it is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _arrow(name, values)
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    named = isinstance(words[0], str)
    fits = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view) if named else (pa.types.is_integer,)
    if not any(is_kind(array.type) for is_kind in fits):
        kind = "strings" if named else "whole numbers"
        raise DataError(f"batch: source column {name!r} is {array.type}; the query names its sources by {kind}")
    indices: np.ndarray = np.full(len(array), -1.0)
    if named:
        result = pc.index_in(array, value_set=pa.array(words, array.type)).fill_null(-1)
        indices[:] = result.to_numpy(zero_copy_only=False)
    else:
        numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
        for index, word in enumerate(words):
            indices[numbers == word] = index
    if array.null_count:
        indices[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return indices


def _arrow(name: str, values: Any, expected: str = "values of one type") -> Any:
    """Return values as an Arrow array."""
    import pyarrow as pa

    if isinstance(values, pa.Array):
        if pa.types.is_run_end_encoded(values.type):
            import pyarrow.compute as pc

            return pc.run_end_decode(values)
        return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    try:
        return pa.array(values, from_pandas=isinstance(values, np.ndarray) and values.dtype == object)
    except FOREIGN as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"batch: column {name!r}: expected {expected} ({reason})") from None


@converted
def _times(name: str, values: Any) -> tuple[np.ndarray, str]:
    plain = isinstance(values, np.ndarray) and values.dtype.kind in "fiu"
    return times_of(name, values if plain else _arrow(name, values))


@converted
def as_ids(name: str, values: Any) -> Any:
    """Return ids as NumPy numbers where they are numbers, else as an Arrow array; null ids are refused."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return _whole(values)
    array = _arrow(name, values)
    if array.null_count:
        raise DataError(f"batch: id column {name!r} has {array.null_count} nulls; every row needs an id")
    import pyarrow as pa

    if pa.types.is_integer(array.type):
        return _whole(array.to_numpy(zero_copy_only=False))
    if pa.types.is_floating(array.type):
        return array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    if len(array) == 0 and pa.types.is_null(array.type):
        return NO_INTS
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.binary())
    if pa.types.is_temporal(array.type) and len(array):
        import pyarrow.compute as pc

        pc.min_max(array).as_py()  # Python has no dates beyond the year 9999
    if not (pa.types.is_primitive(array.type) or any(is_kind(array.type) for is_kind in _id_kinds())):
        raise DataError(f"batch: id column {name!r} is {array.type}; expected numbers, text, bytes or times")
    return array


@converted
def _as_key(name: str, values: Any) -> Any:
    """Return the values of a `by` column as an Arrow array of a type that does not depend on where they come from."""
    import pyarrow as pa

    array = _arrow(name, values)
    kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return array.cast(pa.binary())
    if not is_key_type(kind):
        raise DataError(f"batch: by column {name!r} is {kind}; expected numbers, text, bytes or times")
    return array


def is_key_type(kind: Any) -> bool:
    """Return whether rows can be grouped by values of an Arrow type."""
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind)) or any(is_kind(kind) for is_kind in _id_kinds())


def _id_kinds() -> tuple[Callable[[Any], bool], ...]:
    import pyarrow as pa

    kinds = pa.types
    return kinds.is_string, kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary, kinds.is_decimal


def _whole(values: np.ndarray) -> np.ndarray:
    return values.astype(np.uint64 if values.dtype.kind == "u" and values.dtype.itemsize == 8 else np.int64, copy=False)
