"""Groups by their keys: each value of the ``by`` columns, null and NaN among them, has a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topwatch.core.arrays import Ints
from topwatch.core.grouping import KeyNumbers
from topwatch.core.saved_state import Saved
from topwatch.monitor.batches import is_key_type
from topwatch.monitor.snapshot_format import arrow_from_array, ids_to_array
from topwatch.query.errors import DataError

Key = tuple[Any, ...]


class GroupKeys:
    """Numbers groups in the order in which they first come.

    Parameters
    ----------
    names : sequence of str
        The ``by`` columns.

    Examples
    --------
    >>> groups = GroupKeys(["region"])
    >>> groups.number([pa.array(["north", "south", None, "north"])])
    array([0, 1, 2, 0])
    >>> groups.keys
    [('north',), ('south',), (None,)]
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.keys: list[Key] = []
        self.columns: list[pa.Array] | None = None  # of the keys, once their types are known
        self._numbers: dict[Key, int] = {}
        self._whole: KeyNumbers | None = None  # where keys are whole numbers

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, key: Any) -> int | None:
        """Return the number of a group, given by its value, or by the tuple of several; None where there is none."""
        values = key if isinstance(key, tuple) and len(self.names) > 1 else (key,)
        try:
            return self._numbers.get(tuple(math.nan if value != value else value for value in values))
        except TypeError:  # a value that cannot be hashed is no key
            return None

    def number(self, columns: Sequence[pa.Array]) -> Ints:
        """Return the number of each row's group; new groups get the next ones."""
        self._check_types(columns)
        if len(columns) == 1:
            known = self._known(columns[0])
            if known is not None:
                return known
        codes, keys = _coded(columns)
        numbers = np.empty(len(keys), np.int64)
        new = []
        for code, key in enumerate(keys):
            if key not in self._numbers:
                self._numbers[key] = len(self._numbers)
                new.append(key)
            numbers[code] = self._numbers[key]
        if new:
            self._append(new, [column.type for column in columns])
        result: Ints = numbers[codes]
        return result

    def forget(self, count: int) -> None:
        """Keep the first groups only: the batch that brought the others was refused."""
        if count < len(self.keys):
            assert self.columns is not None
            kept = pa.array(np.arange(count))
            self._restart([column.take(kept) for column in self.columns] if count else None)

    def save(self) -> dict[str, np.ndarray]:
        """Return the keys as arrays."""
        return {f"keys {i}": ids_to_array(column) for i, column in enumerate(self.columns or ())}

    def load(self, saved: Saved) -> None:
        """Undo :meth:`save`."""
        if not saved.has("keys 0"):
            return
        columns: list[pa.Array] = []
        for i in range(len(self.names)):
            column = arrow_from_array(f"keys {i}", saved.raw(f"keys {i}"))
            saved.expect(is_key_type(column.type), f"keys {i}", "values to group by", str(column.type))
            saved.expect(not columns or len(column) == len(columns[0]), f"keys {i}", "as many as of the others")
            columns.append(column)
        self._restart(columns)
        saved.expect(len(self._numbers) == len(self.keys), "keys 0", "keys that differ")

    def _restart(self, columns: list[pa.Array] | None) -> None:
        self.columns, self._whole = columns, None
        self.keys = list(zip(*(_values(column) for column in columns), strict=True)) if columns is not None else []
        self._numbers = {key: number for number, key in enumerate(self.keys)}
        self._index()

    def _check_types(self, columns: Sequence[pa.Array]) -> None:
        for name, old, new in zip(self.names, self.columns or (), columns, strict=False):
            if not new.type.equals(old.type):
                raise DataError(
                    f"batch: by column {name!r}: values were {old.type} so far, now {new.type}; they need one type"
                )

    def _known(self, column: pa.Array) -> Ints | None:
        """Look up groups of a single column without a Python object for each; None where one is new."""
        if self._whole is not None and not column.null_count:
            numbers = self._whole.look_up([column.to_numpy()])
            if numbers is not None:
                return numbers
        if self.columns is None:
            return None
        encoded = encoded_values(column)
        known = pc.index_in(encoded.dictionary, self.columns[0])
        if known.null_count:
            return None
        result: Ints = known.to_numpy()[encoded.indices.to_numpy()].astype(np.int64)
        return result

    def _append(self, new: list[Key], types: list[Any]) -> None:
        self.keys += new
        more = [pa.array([key[i] for key in new], kind) for i, kind in enumerate(types)]
        if self.columns is None:
            self.columns = more
        else:
            self.columns = [pa.concat_arrays(pair) for pair in zip(self.columns, more, strict=True)]
        self._index()

    def _index(self) -> None:
        """Index the keys where they are whole numbers."""
        if self.columns is not None and len(self.columns) == 1 and pa.types.is_int64(self.columns[0].type):
            keys = self.columns[0]
            self._whole = KeyNumbers(keys.drop_null().to_numpy(), np.flatnonzero(keys.is_valid().to_numpy(False)))


def _coded(columns: Sequence[pa.Array]) -> tuple[Ints, list[Key]]:
    """Return the code of each row's group, and the groups in the order of their codes."""
    codes: Ints | None = None
    keys: list[Key] = []
    for column in columns:
        encoded = encoded_values(column)
        values, mine = _values(encoded.dictionary), encoded.indices.to_numpy().astype(np.int64)
        if codes is None:
            codes, keys = mine, [(value,) for value in values]
        else:
            pairs = encoded_values(pa.array(codes * len(values) + mine))
            codes = pairs.indices.to_numpy().astype(np.int64)
            keys = [(*keys[pair // len(values)], values[pair % len(values)]) for pair in pairs.dictionary.to_pylist()]
    assert codes is not None, "no column to group by"
    return codes, keys


def encoded_values(values: Any) -> pa.DictionaryArray:
    """Number the distinct values in the order they come, null and NaN as one of them each."""
    if pa.types.is_floating(values.type):
        zero, nan = pa.scalar(0.0, values.type), pa.scalar(math.nan, values.type)
        values = pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))  # no -0.0, and one of all NaN
    return values.dictionary_encode(null_encoding="encode")


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column. NaN is always the same object, so that a key with it is equal to itself."""
    return [math.nan if value != value else value for value in column.to_pylist()]
