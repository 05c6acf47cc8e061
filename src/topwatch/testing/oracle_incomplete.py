"""Objects whose parts come in rows of their own: every score recomputed from all valid rows, at every evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


@dataclass(frozen=True)
class Incomplete:
    """A query over incomplete objects."""

    sources: tuple[Any, ...]
    combine: str = "sum"
    weights: tuple[float, ...] = ()
    bounds: tuple[tuple[float, float], ...] = ()
    occurrences: str = "single"
    source: str = "source"
    value: str = "value"
    learn: bool = False  # bounds: 0 and all values so far
    formula: str = ""  # instead of combine, over the names of sources
    most: int | None = None

    @property
    def named(self) -> str:
        """The source column as this query reads it: queries that name the same sources share it."""
        return f"{self.source} of {self.sources}"


class Part(NamedTuple):
    """What one source reports of an object."""

    id: Any
    source: int
    value: float


def is_missing(value: Any) -> bool:
    """Return whether a value is none."""
    return value is None or (isinstance(value, float) and math.isnan(value))


class Parts:
    """One query's view of the rows, by ordinal: a part, or None for a row that does not count."""

    def __init__(self, query: Incomplete, first: int) -> None:
        self.query, self.first = query, first
        self.rows: list[Part | None] = []
        self.reported: dict[
            Any, tuple[Any, ...]
        ] = {}  # by id: the sources that have a live row, at the last evaluation
        self.learnt = [[(0.0, 0.0)] * len(query.sources)]  # bounds before the first row, and after each
        self.unknown = self.outside = self.duplicates = 0

    def take(self, id: Any, source: Any, value: float, ranked: bool, head: int) -> None:
        """The next row; `head` is the first ordinal that is live once it has come."""
        self.learnt.append(list(self.learnt[-1]))
        self.rows.append(self._read(id, source, value, ranked, head))

    def _read(self, id: Any, source: Any, value: float, ranked: bool, head: int) -> Part | None:
        if is_missing(source) or math.isnan(value) or not ranked:
            return None
        if source not in self.query.sources:
            self.unknown += 1
            return None
        number = self.query.sources.index(source)
        if math.isinf(value) or (self.query.learn and abs(value) > 1e300):
            self.outside += 1
            return None
        if self.query.learn:
            low, high = self.learnt[-1][number]
            self.learnt[-1][number] = (min(low, value), max(high, value))
        if self.query.bounds:
            low, high = self.query.bounds[number]
            if not low <= value <= high:
                self.outside += 1
                return None
            value = (value - low) / (high - low)
        if self.query.occurrences == "single":
            for part in self.rows[max(0, head - self.first) :]:
                if part is not None and part.id == id and part.source == number:
                    self.duplicates += 1
                    return None
        return Part(id, number, value)

    def ranking(self, live: Sequence[int], at: int) -> list[tuple[int, Any, float]]:
        """The newest row, the id and the score of every object after row `at`, best first."""
        bounds = self.learnt[max(0, at - self.first + 1)]
        values: dict[Any, list[list[float]]] = {}
        newest: dict[Any, int] = {}
        for ordinal in live:
            part = self.rows[ordinal - self.first] if ordinal >= self.first else None
            if part is not None:
                value = part.value
                if self.query.learn:
                    low, high = bounds[part.source]
                    value = (value - low) / (high - low) if high > low else 0.0
                values.setdefault(part.id, [[] for _ in self.query.sources])[part.source].append(value)
                newest[part.id] = ordinal
        self.reported = {
            id: tuple(source for source, each in zip(self.query.sources, parts, strict=True) if each)
            for id, parts in values.items()
        }
        with np.errstate(all="ignore"):
            scored = [(newest[id], id, self._score(parts)) for id, parts in values.items()]
        return sorted((line for line in scored if not math.isnan(line[2])), key=lambda line: (-line[2], -line[0]))

    def _score(self, parts: list[list[float]]) -> float:
        if self.query.formula:
            by_source = dict(zip(self.query.sources, map(self._joined, parts), strict=True))
            return float(eval(self.query.formula, {"__builtins__": {}}, by_source))
        weights = self.query.weights or (1.0,) * len(parts)
        terms = [weight * self._joined(values) for weight, values in zip(weights, parts, strict=True)]
        if self.query.combine == "max":
            return max(terms)
        total = weight_sum = 0.0
        for term, weight in zip(terms, weights, strict=True):
            total += term
            weight_sum += weight
        return total / weight_sum if self.query.combine == "mean" else total

    def _joined(self, values: list[float]) -> float:
        if not values:
            return 0.0
        if self.query.occurrences == "max":
            return max(values)
        total = values[0]
        for value in values[1:]:
            total += value
        return total
