"""The query over objects whose parts come in rows of their own, from several sources."""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from topwatch.query.errors import QueryError, nearest_name
from topwatch.query.expressions import COLUMN
from topwatch.query.ranking import Range, Ranking, check_common, check_k
from topwatch.query.scores import Score, finite_number
from topwatch.query.windows import MOST

COMBINES = ("sum", "max", "mean")
OCCURRENCES = ("single", "sum", "max")
LEARN = "learn"
MOST_SOURCES = 62  # one bit each


@dataclass(frozen=True)
class IncompleteTopK(Ranking):
    """The k objects with the best score, where each row brings one part of an object, as one of several sources saw it.

    An object is described by the rows with its id. Its score combines its values in all sources; a source that has no
    live row of it counts as the lowest value.

    Parameters
    ----------
    k : int
        How many objects.
    sources : list of str or of int
        The sources, as the source column names them.
    combine : {"sum", "max", "mean"} or expr
        How the values of the sources make a score. A mean is over all sources, seen or not. An ``expr`` reads sources
        by their names and must be promised to rise along each, such as ``expr("a * (1 + b)", increasing=["a", "b"])``.
    weights : mapping of source to number, optional
        Factors above 0 by which the values of sources are multiplied; 1 for those that are not named.
    bounds : (low, high), mapping of source to (low, high), or "learn", optional
        Values are normalised from these bounds to 0 and 1, and a row outside them is refused. Learnt bounds of a source
        hold 0 and all its values so far; when they widen, all scores are computed again. Without bounds values are
        taken as they are, and the lowest value is 0.
    occurrences : {"single", "sum", "max"}
        Whether a source has at most one live row of an object and refuses others, or what of several rows counts.
    most : int, optional
        With several rows: how many live ones a source is expected to have of an object at most. It bounds the best
        possible score; more rows count all the same.
    source, value : str
        Names of the columns.
    name : str, optional
        What changes and answers call it; given by the monitor when left out.
    where : mapping of column to (low, high), optional
        Only rows inside these closed ranges count.

    Examples
    --------
    >>> import topwatch as tw
    >>> query = tw.IncompleteTopK(k=1, sources=["EWR", "JFK", "LGA"], combine="sum", name="late")
    >>> m = tw.Monitor(query, window=tw.last(3))
    >>> rows = {"id": ["a", "b", "a"], "source": ["EWR", "EWR", "LGA"], "value": [0.2, 0.5, 0.4]}
    >>> [(c.at, c.op, c.id) for c in m.push(rows)]
    [(1, 'enter', 'a'), (2, 'leave', 'a'), (2, 'enter', 'b'), (3, 'leave', 'b'), (3, 'enter', 'a')]
    """

    family = "incomplete"
    k: int
    sources: Sequence[str | int] = field(hash=False)
    combine: str | Score = "sum"
    weights: Mapping[str | int, float] | None = field(default=None, hash=False)
    bounds: Range | Mapping[str | int, Range] | str | None = field(default=None, hash=False)
    occurrences: str = "single"
    source: str = "source"
    value: str = "value"
    name: str | None = None
    where: Mapping[str, Range] = field(default_factory=dict, hash=False)
    most: int | None = None

    def __post_init__(self) -> None:
        kind = type(self).__name__
        check_k(kind, self.k)
        object.__setattr__(self, "sources", _checked_sources(kind, self.sources))
        self._check_combine(f"{kind}: combine")
        _check_word(f"{kind}: occurrences", self.occurrences, OCCURRENCES)
        self._check_most(f"{kind}: most")
        for column in ("source", "value"):
            name = getattr(self, column)
            if not isinstance(name, str) or not name:
                raise QueryError(f"{kind}: {column}: expected the name of a column, got {name!r}")
        if self.source == self.value:
            raise QueryError(f"{kind}: value: {self.value!r} is the source column; values need a column of their own")
        object.__setattr__(self, "weights", self._checked_weights())
        object.__setattr__(self, "bounds", self._checked_bounds())
        check_common(self)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns it ranks by, in order: the source as a number, and the value."""
        return self.coded, self.value

    @property
    def coded(self) -> str:
        """What a monitor calls the source column once its words are numbers: indices among these sources, in order."""
        return f"{self.source} of {', '.join(map(repr, self.sources))}"

    def factors(self) -> list[float]:
        """Return the weight of each source, in order."""
        return [(self.weights or {}).get(source, 1.0) for source in self.sources]

    def ranges(self) -> list[Range] | None:
        """Return the bounds of each source, in order; None where there are none or they are learnt."""
        if self.bounds is None or isinstance(self.bounds, str):
            return None
        if isinstance(self.bounds, Mapping):
            return [self.bounds[source] for source in self.sources]
        return [self.bounds] * len(self.sources)

    def program(self) -> list[tuple[int, float]]:
        """Return the postfix program of an ``expr``, in which indices stand for sources; else nothing."""
        if not isinstance(self.combine, Score) or self.combine.expression is None:
            return []
        indices = [float(self.sources.index(name)) for name in self.combine.columns]
        steps = self.combine.expression.program
        return [(op, indices[int(argument)] if op == COLUMN else argument) for op, argument in steps]

    def evaluate(self, parts: Mapping[str | int, Sequence[float]]) -> tuple[float, float]:
        """Return the score that normalised values of an object make, and the best that it can get.

        >>> IncompleteTopK(k=1, sources=["a", "b"], bounds=(0, 9), weights={"b": 2}).evaluate({"a": [0.5]})
        (0.5, 2.5)
        """
        unknown = 1.0 if self.bounds is not None else math.inf
        low, high = [], []
        for source in self.sources:
            values = parts.get(source, ())
            low.append((max(values) if self.occurrences == "max" else _sum(values)) if values else 0.0)
            more = (self.most or math.inf) - len(values) if self.occurrences == "sum" else 1.0
            settled = bool(values) and self.occurrences == "single"
            hope = low[-1] + max(more, 0) * unknown if self.occurrences == "sum" else unknown
            high.append(low[-1] if settled else hope)
        return self._combined(low), self._combined(high)

    def _combined(self, values: Sequence[float]) -> float:
        if isinstance(self.combine, Score):
            import numpy as np

            columns = {name: np.array([values[self.sources.index(name)]]) for name in self.combine.columns}
            return float(self.combine.evaluate(columns)[0])
        terms = [weight * value for weight, value in zip(self.factors(), values, strict=True)]
        if self.combine == "max":
            return max(terms)
        return _sum(terms) / _sum(self.factors()) if self.combine == "mean" else _sum(terms)

    def _check_combine(self, path: str) -> None:
        if not isinstance(self.combine, Score):
            if not isinstance(self.combine, str) or self.combine not in COMBINES:
                accepted = ", ".join(map(repr, COMBINES))
                raise QueryError(f"{path}: expected {accepted} or expr(...), got {self.combine!r}")
            return
        if self.combine.expression is None:
            raise QueryError(f"{path}: expected expr(...), got {self.combine}; for a weighted sum say weights=")
        for name in self.combine.columns:
            if name not in self.sources:
                known = ", ".join(map(repr, self.sources))
                hint = nearest_name(name, [str(source) for source in self.sources])
                raise QueryError(f"{path}: {name!r} is no source; sources are {known}{hint}")
        falling = [name for name in self.combine.columns if name not in self.combine.increasing]
        if falling:
            raise QueryError(f"{path}: a score must rise along every source: say increasing={falling!r} of the expr")
        if self.weights is not None:
            raise QueryError("IncompleteTopK: weights: an expr has its own; leave them out")

    def _check_most(self, path: str) -> None:
        if self.most is None:
            return
        if isinstance(self.most, bool) or not isinstance(self.most, numbers.Integral) or self.most < 1:
            raise QueryError(f"{path}: expected a whole number of at least 1, got {self.most!r}")
        if self.occurrences == "single":
            raise QueryError(f"{path}: goes with occurrences='sum' or 'max'; with 'single' it is 1")
        if self.most > MOST:
            raise QueryError(f"{path}: expected at most {MOST:,}, got {self.most!r}")

    def _checked_weights(self) -> dict[str | int, float] | None:
        if self.weights is None:
            return None
        path = "IncompleteTopK: weights"
        if not isinstance(self.weights, Mapping):
            raise QueryError(f"{path}: expected a mapping of source to number, got {self.weights!r}")
        self._check_named(path, self.weights)
        result = {source: finite_number(f"{path}[{source!r}]", weight) for source, weight in self.weights.items()}
        for source, weight in result.items():
            if weight <= 0:
                raise QueryError(f"{path}[{source!r}]: expected a number above 0, got {weight:g}")
        return result

    def _checked_bounds(self) -> Range | dict[str | int, Range] | str | None:
        path = "IncompleteTopK: bounds"
        if self.bounds is None or (isinstance(self.bounds, str) and self.bounds == LEARN):
            return self.bounds
        if not isinstance(self.bounds, Mapping):
            return _span(path, self.bounds)
        self._check_named(path, self.bounds)
        missing = [source for source in self.sources if source not in self.bounds]
        if missing:
            raise QueryError(f"{path}: none for {', '.join(map(repr, missing))}; every source needs (low, high)")
        return {source: _span(f"{path}[{source!r}]", pair) for source, pair in self.bounds.items()}

    def _check_named(self, path: str, names: Iterable[object]) -> None:
        for name in names:
            if name not in self.sources:
                known = ", ".join(map(repr, self.sources))
                raise QueryError(f"{path}: {name!r} is no source; sources are {known}")


def _sum(values: Sequence[float]) -> float:
    """Add from left to right, as kernels do; Python's own sum is compensated from 3.12 on."""
    return functools.reduce(operator.add, values)


def _checked_sources(kind: str, sources: object) -> tuple[str | int, ...]:
    path = f"{kind}: sources"
    if isinstance(sources, str) or not isinstance(sources, Sequence) or not sources:
        raise QueryError(f"{path}: expected a list of names such as ['EWR', 'JFK'], got {sources!r}")
    whole = all(isinstance(source, int) and not isinstance(source, bool) for source in sources)
    if not whole and not all(isinstance(source, str) and source for source in sources):
        raise QueryError(f"{path}: expected non-empty strings, or whole numbers, got {list(sources)!r}")
    if whole and any(not -(2**63) <= int(source) < 2**63 for source in sources):
        raise QueryError(f"{path}: expected whole numbers of 64 bits, got {list(sources)!r}")
    if len(set(sources)) < len(sources):
        raise QueryError(f"{path}: expected each source once, got {list(sources)!r}")
    if len(sources) > MOST_SOURCES:
        raise QueryError(f"{path}: expected at most {MOST_SOURCES}, got {len(sources)}")
    return tuple(sources)


def _check_word(path: str, word: object, accepted: tuple[str, ...]) -> None:
    if not isinstance(word, str) or word not in accepted:
        raise QueryError(f"{path}: expected {', '.join(map(repr, accepted))}, got {word!r}")


def _span(path: str, bounds: object) -> Range:
    or_learn = "" if "[" in path else " or 'learn'"
    if isinstance(bounds, str) or not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise QueryError(f"{path}: expected a pair (low, high){or_learn}, got {bounds!r}")
    low, high = (finite_number(path, bound) for bound in bounds)
    if low >= high or math.isinf(high - low):
        raise QueryError(f"{path}: expected (low, high) with low < high, got ({low:g}, {high:g})")
    return low, high
