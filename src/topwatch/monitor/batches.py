"""Batches are read: their columns as float64, ids, times and groups. Columns that are float64 are not copied."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from topwatch.core.arrays import NO_INTS
from topwatch.monitor.batch_columns import FOREIGN, RowDicts, by_columns, column_of, converted, names_of
from topwatch.query.errors import DataError, missing_column

NANOSECONDS = "timestamps"
SECONDS = "numbers (seconds)"
LARGE = 1 << 14  # rows for which a push of their own costs less than to copy them


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


@converted
def _times(name: str, values: Any) -> tuple[np.ndarray, str]:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        times = values.astype(np.float64, copy=False)
    else:
        array = _arrow(name, values)
        import pyarrow as pa

        if array.null_count:
            raise DataError(f"batch: time column {name!r} has {array.null_count} nulls; every row needs a time")
        if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
            try:
                stamps = array.cast(pa.timestamp("ns", getattr(array.type, "tz", None)))
            except pa.ArrowInvalid:
                raise DataError(f"batch: time column {name!r} has a time outside the years 1678 to 2261") from None
            return stamps.cast(pa.int64()).to_numpy(zero_copy_only=False), NANOSECONDS
        if not (pa.types.is_floating(array.type) or pa.types.is_integer(array.type)) and len(array):
            raise DataError(f"batch: time column {name!r} is {array.type}; expected timestamps or numbers (seconds)")
        times = np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
    if not np.isfinite(times).all():
        raise DataError(f"batch: time column {name!r} has a value that is no finite number; every row needs a time")
    return times, SECONDS


def moment(path: str, time: Any) -> tuple[float, str]:
    """Return a single time as a number, and its kind."""
    if isinstance(time, bool | datetime.timedelta | np.timedelta64) or time is None:
        raise DataError(f"{path}: expected a timestamp or a number (seconds), got {time!r}")
    if isinstance(time, int | float | np.integer | np.floating):
        try:
            number = float(time)
        except OverflowError:  # of a whole number that is larger than any float
            number = math.inf
        if not math.isfinite(number):
            raise DataError(f"{path}: expected a finite number, got {time!r}")
        return number, SECONDS
    try:
        if isinstance(time, datetime.datetime) and time.tzinfo is not None:
            time = time.astimezone(datetime.UTC).replace(tzinfo=None)
        stamp = np.datetime64(time, "ns")
    except (ValueError, TypeError):
        raise DataError(f"{path}: expected a timestamp or a number (seconds), got {time!r}") from None
    if np.isnat(stamp):
        raise DataError(f"{path}: expected a timestamp or a number (seconds), got {time!r}")
    return int(stamp.astype(np.int64)), NANOSECONDS
