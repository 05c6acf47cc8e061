"""The fields and arrays of a snapshot, each checked when it is taken out, before it is used.

A checksum detects damage, not forgery. So the caller states what a field or an array may hold: its type, its shape and
its range here, relations between them by :meth:`Saved.expect`. All else is a
:class:`~topwatch.query.errors.DataError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from topwatch.core.arrays import Floats, Ints
from topwatch.query.errors import DataError

MOST = 2**53  # of anything that is counted
MOST_TICKS = MOST // 2  # of ordinals and ticks, which go on from there


def refuse(path: str, expected: str, got: object) -> NoReturn:
    """Refuse a snapshot for the value at a path."""
    shown = repr(got)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise DataError(f"snapshot: {path}: expected {expected}, got {shown}; the snapshot is damaged or forged")


class Saved:
    """Arrays by name. Each is taken out once, and all must have been in the end (:meth:`done`).

    Parameters
    ----------
    arrays : mapping of str to array
        The arrays, of any type and shape.
    path : str
        What they belong to, for messages.

    Examples
    --------
    >>> saved = Saved({"sizes": np.array([1, 2])})
    >>> saved.ints("sizes", 2, low=0, high=9)
    array([1, 2])
    >>> Saved({"sizes": np.array([1, -2])}, "query 0 ").ints("sizes", 2, low=0)
    Traceback (most recent call last):
    ...
    topwatch.DataError: snapshot: array 'query 0 sizes': expected numbers from 0 to ..., got -2; ...
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], path: str = "") -> None:
        self._arrays = dict(arrays)
        self._path = path

    def part(self, prefix: str) -> Saved:
        """Take out the arrays whose names begin so, under the rest of their names."""
        mine = {name: self._arrays.pop(name) for name in list(self._arrays) if name.startswith(prefix)}
        return Saved({name.removeprefix(prefix): a for name, a in mine.items()}, self._path + prefix)

    def has(self, name: str) -> bool:
        """Return whether there is such an array."""
        return name in self._arrays

    def done(self) -> None:
        """Refuse arrays that have not been taken out."""
        for name in self._arrays:
            refuse(self._called(name), "no such array", "one")

    def expect(self, holds: Any, name: str, expected: str, got: object = "something else") -> None:
        """Refuse the snapshot for an array unless something holds."""
        if not holds:
            refuse(self._called(name), expected, got)

    def floats(self, name: str, *shape: int | None, nan: bool = False, finite: bool = False) -> Floats:
        """Take out numbers of a shape, None where any length will do; with or without NaN and infinity."""
        array = self._take(name, np.float64, shape)
        self.expect(nan or not np.isnan(array).any(), name, "numbers", "NaN")
        self.expect(not finite or np.isfinite(array).all(), name, "finite numbers", "an infinite one")
        return array

    def ints(self, name: str, *shape: int | None, low: int = -MOST, high: int = MOST) -> Ints:
        """Take out whole numbers of a shape, None where any length will do, from ``low`` to ``high``."""
        array = self._take(name, np.int64, shape)
        if array.size:
            outside = [int(x) for x in (array.min(), array.max()) if not low <= x <= high]
            self.expect(not outside, name, f"numbers from {low} to {high}", outside[0] if outside else 0)
        return array

    def flags(self, name: str, *shape: int | None) -> np.ndarray:
        """Take out truth values of a shape."""
        array = self._take(name, np.bool_, shape)
        self.expect(not array.size or array.view(np.uint8).max() <= 1, name, "bytes that are 0 or 1")
        return array

    def counts(self, name: str, size: int) -> list[int]:
        """Take out counters, which go on from there: larger ones are taken as MOST, so that they can be saved again."""
        result: list[int] = np.minimum(self.ints(name, size, low=0, high=2**63 - 1), MOST).tolist()
        return result

    def rising(self, name: str, *shape: int | None, low: int = -MOST, high: int = MOST) -> Ints:
        """Take out whole numbers each of which is larger than the one before."""
        array = self.ints(name, *shape, low=low, high=high)
        self.expect(np.all(array[1:] > array[:-1]), name, "numbers that rise")
        return array

    def bytes(self, name: str) -> bytes:
        """Take out bytes."""
        return self._take(name, np.uint8, (None,)).tobytes()

    @property
    def size(self) -> int:
        """How many bytes the arrays have that have not been taken out."""
        return sum(array.nbytes for array in self._arrays.values())

    def raw(self, name: str) -> np.ndarray:
        """Take out an array of any type and shape."""
        if name not in self._arrays:
            refuse(self._called(name), "an array", None)
        return self._arrays.pop(name)

    def _take(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> np.ndarray:
        array = self.raw(name)
        if array.dtype != dtype:
            refuse(self._called(name), f"numbers of type {np.dtype(dtype).name}", array.dtype.name)
        fits = len(shape) == array.ndim and all(s in (None, n) for s, n in zip(shape, array.shape, strict=True))
        if not fits:
            wanted = "any" if None in shape else ""
            refuse(self._called(name), f"the shape {tuple(s if s is not None else wanted for s in shape)}", array.shape)
        return array

    def _called(self, name: str) -> str:
        return f"array '{self._path}{name}'"


class Fields:
    """Named values that were written as JSON. Each is taken out once, and all must have been in the end.

    Parameters
    ----------
    values : object
        What should be a mapping.
    path : str
        What they are, for messages.
    """

    def __init__(self, values: object, path: str = "header") -> None:
        if not isinstance(values, dict):
            refuse(path, "named fields", values)
        self._values = dict(values)
        self._path = path

    def done(self) -> None:
        """Refuse fields that have not been taken out."""
        for name in self._values:
            refuse(f"{self._path}: {name}", "no such field", self._values[name])

    def expect(self, holds: bool, name: str, expected: str, got: object = "something else") -> None:
        """Refuse the snapshot for a field unless something holds."""
        if not holds:
            refuse(f"{self._path}: {name}", expected, got)

    def raw(self, name: str) -> Any:
        """Take out a value, which is checked elsewhere."""
        if name not in self._values:
            refuse(f"{self._path}: {name}", "a value", None)
        return self._values.pop(name)

    def has(self, name: str) -> bool:
        """Return whether there is such a field."""
        return name in self._values

    def missing(self, name: str) -> bool:
        """Return whether nothing was written for a field, and take it out if so."""
        if name in self._values and self._values[name] is None:
            del self._values[name]
            return True
        return False

    def fields(self, name: str) -> Fields:
        """Take out named fields."""
        return Fields(self.raw(name), f"{self._path}: {name}")

    def maybe(self, name: str) -> Fields | None:
        """Take out named fields, or nothing where that was written."""
        return None if self.missing(name) else self.fields(name)

    def each(self, name: str) -> list[Fields]:
        """Take out a list of named fields."""
        value = self.raw(name)
        self.expect(isinstance(value, list), name, "a list", value)
        return [Fields(part, f"{self._path}: {name}[{i}]") for i, part in enumerate(value)]

    def whole(self, name: str, low: int = 0, high: int = MOST) -> int:
        """Take out a whole number from ``low`` to ``high``."""
        value = self.raw(name)
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        self.expect(fits, name, f"a whole number from {low} to {high}", value)
        return int(value)

    def count(self, name: str) -> int:
        """Take out a counter, as :meth:`Saved.counts` does."""
        return min(self.whole(name, 0, 2**63 - 1), MOST)

    def number(self, name: str, low: float = -math.inf) -> float:
        """Take out a finite number of at least ``low``."""
        value = self.raw(name)
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= low
        self.expect(fits, name, f"a finite number of at least {low:g}", value)
        return float(value)

    def flag(self, name: str) -> bool:
        """Take out a truth value."""
        value = self.raw(name)
        self.expect(isinstance(value, bool), name, "true or false", value)
        return bool(value)

    def text(self, name: str) -> str:
        """Take out a text."""
        value = self.raw(name)
        self.expect(isinstance(value, str), name, "a text", value)
        return str(value)

    def texts(self, name: str) -> list[str]:
        """Take out a list of texts, all of them different."""
        value = self.raw(name)
        listed = isinstance(value, list) and all(isinstance(part, str) for part in value)
        self.expect(listed and len(set(value)) == len(value), name, "a list of different texts", value)
        return list(value)
