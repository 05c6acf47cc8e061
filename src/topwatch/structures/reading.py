"""Rows as a query over incomplete objects sees them: who, from which source, with which normalised value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topwatch.kernels.objects import NOBODY
from topwatch.kernels.scoring import Floats, Ints
from topwatch.kernels.tally import Arrivals
from topwatch.queries import IncompleteTopK
from topwatch.structures.feed import FifoFeed

_SPARE = 4096


class Numbering:
    """Ids as whole numbers: those that are numbers by their bits, others by a dictionary of the ids held."""

    def __init__(self, feed: FifoFeed) -> None:
        self._feed = feed
        self._numbers: dict[Any, int] = {}
        self._next = 0

    def of(self, slots: Ints) -> Ints:
        """Return the numbers of the ids of rows."""
        if slots.size == 0:
            return slots
        values = self._read(slots)
        if isinstance(values, np.ndarray):
            values = values + 0.0 if values.dtype == np.float64 else values  # the two zeros are one id
            numbers: Ints = values.view(np.int64)
            return numbers
        held = self._feed.end - self._feed.window.head + 1
        if len(self._numbers) > 2 * held + _SPARE:
            names = self._read(self._feed.window.live_slots()).unique().to_pylist()
            self._numbers = {name: self._numbers[name] for name in names if name in self._numbers}
        encoded = values.dictionary_encode()
        found = [self._number(name) for name in encoded.dictionary.to_pylist()]
        picked: Ints = np.array(found, np.int64)[encoded.indices.to_numpy()]
        return picked

    def _number(self, name: Any) -> int:
        number = self._numbers.setdefault(name, self._next)
        self._next += int(number == self._next)
        return number

    def _read(self, slots: Ints) -> Any:
        assert self._feed.ids is not None
        return self._feed.ids.read(slots, self._feed.window.seq[slots])


class Reading:
    """Reads rows for one query and counts those it refuses.

    Attributes
    ----------
    unknown : int
        Rows from a source that the query does not name.
    outside : int
        Rows with a value outside the bounds, or infinite.
    """

    def __init__(self, feed: FifoFeed, query: IncompleteTopK, column_of: Mapping[str, int]) -> None:
        self._feed = feed
        self._source, self._value = (column_of[column] for column in query.reads)
        self._ranges = [(column_of[column], *bounds) for column, bounds in query.where.items()]
        bounds = query.ranges()
        self._bounds: Floats | None = None if bounds is None else np.array(bounds).T.copy()
        self.unknown = 0
        self.outside = 0

    def read(self, slots: Ints, ids: Ints, count: bool = True) -> Arrivals:
        """Read rows, which follow each other, as arrivals."""
        columns = self._feed.window.columns
        coded, value = columns[self._source, slots], columns[self._value, slots]
        counts = ~(np.isnan(coded) | np.isnan(value))
        for column, low, high in self._ranges:
            counts &= (columns[column, slots] >= low) & (columns[column, slots] <= high)
        unknown = counts & (coded < 0)
        source = np.where(counts, coded, NOBODY).astype(np.int64)
        inside = np.isfinite(value)
        if self._bounds is not None:
            low, high = self._bounds[:, np.maximum(source, 0)]
            inside &= (value >= low) & (value <= high)
            value = (value - low) / (high - low)
        outside = (source >= 0) & ~inside
        source[outside] = NOBODY
        if count:
            self.unknown += int(np.count_nonzero(unknown))
            self.outside += int(np.count_nonzero(outside))
        ordinals = self._feed.window.seq[slots]
        return Arrivals(ordinals, ids, source, value, self._heads(ordinals))

    def _heads(self, ordinals: Ints) -> Ints:
        """Return the first live ordinal once each row has come: what expires does not wait for a judgement."""
        if self._feed.rows is not None or ordinals.size == 0:
            return np.maximum(ordinals - (self._feed.rows or 0) + 1, 1)
        times = self._feed.times
        first = self._feed.window.head
        return times.after(times.values()[ordinals - first] - self._feed.span)
