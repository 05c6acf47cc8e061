"""Rows as a query over incomplete objects sees them: id, source, normalised value; and steps cut between rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from topwatch.algorithms.incomplete.kernels.object_scores import NO_OBJECT, Observations
from topwatch.core.arrays import NO_INTS, Floats, Ints, times_before
from topwatch.core.fifo import FifoFeed
from topwatch.core.kernels.rows import Step
from topwatch.query.incomplete_topk import LEARN, IncompleteTopK

MOST_LEARNT = 1e300  # beyond, the width of bounds could be infinite
_SPARE = 4096


class IdNumbers:
    """Ids as whole numbers: those that are numbers by their bits, others by a dictionary of the ids held."""

    def __init__(self, feed: FifoFeed) -> None:
        self._feed = feed
        self._numbers: dict[Any, int] = {}
        self._next = 0

    def of(self, slots: Ints) -> Ints:
        """Return the numbers of the ids of rows."""
        if slots.size == 0:
            return slots
        values = self._feed.ids_of(slots)
        if isinstance(values, np.ndarray):
            values = values + 0.0 if values.dtype == np.float64 else values  # the two zeros are one id
            numbers: Ints = values.view(np.int64)
            return numbers
        held = self._feed.end - self._feed.window.head + 1
        if len(self._numbers) > 2 * held + _SPARE:
            names = self._feed.ids_of(self._feed.window.live_slots()).unique().to_pylist()
            self._numbers = {name: self._numbers[name] for name in names if name in self._numbers}
        encoded = values.dictionary_encode()
        result = [self._number(name) for name in encoded.dictionary.to_pylist()]
        picked: Ints = np.array(result, np.int64)[encoded.indices.to_numpy()]
        return picked

    def _number(self, name: Any) -> int:
        number = self._numbers.setdefault(name, self._next)
        self._next += int(number == self._next)
        return number


class RowReader:
    """Reads rows for one query and counts those it refuses.

    Attributes
    ----------
    bounds : array of (low, high) for each source, or None
        What values are normalised from. Learnt ones hold 0 and all values so far.
    learns : bool
        Whether they are learnt.
    sources : int
        How many sources the query names.
    single : bool
        Whether an object has one row of each source.
    unknown : int
        Rows from a source that the query does not name.
    outside : int
        Rows with a value outside the bounds, or infinite.
    """

    def __init__(self, feed: FifoFeed, query: IncompleteTopK, column_of: Mapping[str, int]) -> None:
        self._feed = feed
        self._source, self._value = (column_of[column] for column in query.reads)
        self._ranges = [(column_of[column], *bounds) for column, bounds in query.where.items()]
        self.sources = len(query.sources)
        self.single = query.occurrences == "single"
        self.learns = query.bounds == LEARN
        bounds = [(0.0, 0.0)] * len(query.sources) if self.learns else query.ranges()
        self.bounds: Floats | None = None if bounds is None else np.array(bounds).T.copy()
        self.unknown = 0
        self.outside = 0

    def read(self, slots: Ints, ids: Ints, count: bool = True) -> Observations:
        """Read rows, which follow each other, as the query sees them."""
        source, value, unknown = self._observed(slots)
        inside = self._usable(value)
        if self.bounds is not None:
            low, high = self.bounds[:, np.maximum(source, 0)]
            inside &= (value >= low) & (value <= high)
            width = high - low
            value = (np.where(inside, value, low) - low) / np.where(width > 0, width, 1.0)
        outside = (source >= 0) & ~inside
        source[outside] = NO_OBJECT
        if count:
            self.unknown += unknown
            self.outside += int(np.count_nonzero(outside))
        ordinals = self._feed.window.seq[slots]
        return Observations(ordinals, ids, source, value, self._heads(ordinals))

    def _observed(self, slots: Ints) -> tuple[Ints, Floats, int]:
        """Return the sources of rows, NO_OBJECT where one does not count, their values, and how many are unknown."""
        columns = self._feed.window.columns
        coded, value = columns[self._source, slots], columns[self._value, slots]
        counts = ~(np.isnan(coded) | np.isnan(value))
        for column, low, high in self._ranges:
            counts &= (columns[column, slots] >= low) & (columns[column, slots] <= high)
        unknown = counts & ((coded < 0) | (coded >= self.sources))  # more than there are: of a column made elsewhere
        source: Ints = np.where(counts & ~unknown, coded, NO_OBJECT).astype(np.int64)
        return source, value, int(np.count_nonzero(unknown))

    def _usable(self, value: Floats) -> np.ndarray:
        usable: np.ndarray = np.abs(value) <= MOST_LEARNT if self.learns else np.isfinite(value)
        return usable

    def widenings(self, slots: Ints) -> Ints:
        """Return the indices of rows whose values lie outside the bounds learnt by then."""
        if not self.learns or slots.size == 0:
            return NO_INTS
        assert self.bounds is not None
        source, value, _ = self._observed(slots)
        source[~self._usable(value)] = NO_OBJECT
        result = []
        for s, (low, high) in enumerate(self.bounds.T):
            indices = np.flatnonzero(source == s)
            values = value[indices]
            lows = np.minimum.accumulate(np.concatenate([[low], values]))
            highs = np.maximum.accumulate(np.concatenate([[high], values]))
            result.append(indices[(lows[1:] < lows[:-1]) | (highs[1:] > highs[:-1])])
        return np.sort(np.concatenate(result))

    def learn(self, slots: Ints) -> None:
        """Widen the bounds so that they hold the values of rows."""
        if not self.learns or slots.size == 0:
            return
        assert self.bounds is not None
        source, value, _ = self._observed(slots)
        known = (source >= 0) & self._usable(value)
        np.minimum.at(self.bounds[0], source[known], value[known])
        np.maximum.at(self.bounds[1], source[known], value[known])

    def _heads(self, ordinals: Ints) -> Ints:
        """Return the first live ordinal once each row has come: rows expire also between evaluations."""
        if self._feed.rows is not None or ordinals.size == 0:
            return np.maximum(ordinals - (self._feed.rows or 0) + 1, 1)
        times = self._feed.times
        first = self._feed.window.head
        return times.after(times_before(times.values()[ordinals - first], self._feed.span))


class Piece(NamedTuple):
    """Some rows of a step, the evaluations that follow them, and whether it begins at one of the cuts."""

    start: int
    stop: int
    step: Step  # without the slots of its arrivals
    cut: bool


def cut_step(step: Step, rows: int, indices: Ints) -> Iterator[Piece]:
    """Yield the pieces of a step of so many rows that begin at the start and at each of some indices, in order.

    An evaluation goes with the row that it follows; one before all rows with the first piece, which has no rows where
    the first cut is before them.
    """
    edges = [0, *indices.tolist(), rows]
    evaluated = 0
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        until = int(np.searchsorted(step.arrivals, stop, side="right")) if stop < rows else step.at.size
        part = slice(evaluated, until)
        piece = Step(
            step.arrived[:0],
            step.expired[:0],
            step.at[part],
            step.moment[part],
            step.arrivals[part] - start,
            step.heads[evaluated : until + 1],
            step.expiries[part],
        )
        yield Piece(start, stop, piece, cut=number > 0)
        evaluated = until
