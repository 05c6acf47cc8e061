"""What "best" means: the scores a query can rank by.

A score is data, not code: a kind, a coefficient per column and, for :func:`expr`, a parsed expression. The kernels
evaluate it; :meth:`Score.evaluate` is the same arithmetic in NumPy, term by term from left to right, bit for bit.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from topwatch.query import expressions
from topwatch.query.errors import QueryError, nearest_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["linear", "product", "quadratic", "distance", "expr"]
ScoreLike: TypeAlias = "Score | str | Mapping[str, float]"  # what as_score takes


@dataclass(frozen=True)
class Score:
    """A score; made by :func:`linear`, :func:`product`, :func:`quadratic`, :func:`distance` or :func:`expr`.

    Attributes
    ----------
    kind : str
        Which formula.
    columns : tuple of str
        The columns it reads, in the order of evaluation.
    coefficients : tuple of float
        One per column (empty for ``expr``).
    expression : Expression or None
        The parsed formula of an ``expr``.
    increasing, decreasing : frozenset of str
        Columns along which an ``expr`` is promised to rise or fall.
    """

    kind: Kind
    columns: tuple[str, ...]
    coefficients: tuple[float, ...] = ()
    expression: expressions.Expression | None = None
    increasing: frozenset[str] = field(default_factory=frozenset)
    decreasing: frozenset[str] = field(default_factory=frozenset)

    @property
    def smaller_is_better(self) -> bool:
        """True for a distance."""
        return self.kind == "distance"

    def undirected(self) -> tuple[str, ...]:
        """Columns along which the score is not known to rise, to fall or to have a single best value."""
        if self.kind != "expr":
            return ()
        return tuple(c for c in self.columns if c not in self.increasing and c not in self.decreasing)

    def evaluate(self, columns: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Score whole columns at once; NaN where a value is missing.

        >>> import numpy as np
        >>> linear(bytes=0.5, packets=2.0).evaluate({"bytes": np.array([4.0]), "packets": np.array([1.0])})
        array([4.])
        """
        import numpy as np

        arrays = [np.asarray(columns[name], dtype=np.float64) for name in self.columns]
        with np.errstate(all="ignore"):
            if self.expression is not None:
                return _run(self.expression, arrays)
            parts = [self._part(a, x) for a, x in zip(self.coefficients, arrays, strict=True)]
            total = parts[0]
            for part in parts[1:]:
                total = total * part if self.kind == "product" else total + part
            return np.sqrt(total) if self.kind == "distance" else total

    def _part(self, a: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.kind == "linear":
            return a * x
        if self.kind == "product":
            return a + x
        if self.kind == "quadratic":
            return a * (x * x)
        return (x - a) * (x - a)

    def __str__(self) -> str:
        if self.expression is not None:
            return self.expression.text
        inside = ", ".join(f"{c}={a:g}" for c, a in zip(self.columns, self.coefficients, strict=True))
        return f"{self.kind}({inside})"


def _run(expression: expressions.Expression, arrays: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    import numpy as np

    stack: list[NDArray[np.float64]] = []
    for op, argument in expression.program:
        if op == expressions.CONST:
            stack.append(np.full(arrays[0].shape, argument))
        elif op == expressions.COLUMN:
            stack.append(arrays[int(argument)])
        elif op == expressions.NEG:
            stack.append(-stack.pop())
        else:
            right, left = stack.pop(), stack.pop()
            if op == expressions.ADD:
                stack.append(left + right)
            elif op == expressions.SUB:
                stack.append(left - right)
            elif op == expressions.MUL:
                stack.append(left * right)
            elif op == expressions.DIV:
                stack.append(left / right)
            else:
                stack.append(np.array(list(map(_power, left.tolist(), right.tolist())), np.float64))
    result = stack.pop()
    missing = np.isnan(arrays[0])
    for array in arrays[1:]:
        missing = missing | np.isnan(array)
    # x ** 0 is 1 even for NaN: a missing value must not come back to life.
    return np.where(missing, np.nan, result)


def _power(base: float, exponent: float) -> float:
    """Return what C's pow does, as kernels do: NumPy's own differs in the last bit on some processors."""
    try:
        return math.pow(base, exponent)
    except (ValueError, OverflowError):  # not a number, or infinite: nothing is rounded there
        import numpy as np

        return float(np.power(base, exponent))


def linear(weights: Mapping[str, float] | None = None, /, **more: float) -> Score:
    """Sum of weight times column; a negative weight prefers small values.

    >>> linear(bytes=0.7, packets=0.3).columns
    ('bytes', 'packets')
    >>> str(linear({"net.bytes": 0.7}))
    'linear(net.bytes=0.7)'
    """
    return _weighted("linear", weights, more)


def product(offsets: Mapping[str, float] | None = None, /, **more: float) -> Score:
    """Product of (a + column)."""
    return _weighted("product", offsets, more)


def quadratic(weights: Mapping[str, float] | None = None, /, **more: float) -> Score:
    """Sum of a times the square of the column."""
    return _weighted("quadratic", weights, more)


def distance(point: Mapping[str, float] | None = None, /, **more: float) -> Score:
    """Euclidean distance from a point; smaller is better."""
    return _weighted("distance", point, more)


def expr(text: str, increasing: Sequence[str] = (), decreasing: Sequence[str] = ()) -> Score:
    """Arithmetic over columns, parsed and never evaluated as Python.

    ``increasing`` and ``decreasing`` promise along which columns the score rises or falls, whatever the values of
    the others. Algorithms that prune by cells need the promise for every column; the others do without.

    >>> expr("bytes / (1 + seconds)", increasing=["bytes"], decreasing=["seconds"]).columns
    ('bytes', 'seconds')
    """
    expression = expressions.parse(text)
    for argument, names in (("increasing", increasing), ("decreasing", decreasing)):
        if isinstance(names, str):
            raise QueryError(f"expr: {argument} expects a list of columns, got the string {names!r}")
        for name in names:
            if name not in expression.columns:
                hint = nearest_name(str(name), expression.columns)
                raise QueryError(
                    f"expr: {argument} names {name!r}, which is not in the expression"
                    f" (columns: {', '.join(expression.columns)}){hint}"
                )
    both = set(increasing) & set(decreasing)
    if both:
        raise QueryError(f"expr: {sorted(both)[0]!r} is both increasing and decreasing; it can be one of them")
    return Score(
        "expr", expression.columns, (), expression, increasing=frozenset(increasing), decreasing=frozenset(decreasing)
    )


def as_score(path: str, score: object) -> Score:
    """Return what a query ranks by: a score, or a column or mapping of column to weight as a :func:`linear` one.

    >>> str(as_score("TopK: score", "px")), str(as_score("TopK: score", {"px": 3.0, "ms": -1.0}))
    ('linear(px=1)', 'linear(px=3, ms=-1)')
    """
    if isinstance(score, Score):
        return score
    if not isinstance(score, str | Mapping):
        raise QueryError(
            f"{path}: expected linear(...), distance(...) or another score, the name of a column, or a mapping of"
            f" column to weight, got {score!r}"
        )
    try:
        return linear({score: 1.0} if isinstance(score, str) else score)
    except QueryError as error:
        raise QueryError(f"{path}: {error}") from None


def _weighted(kind: Kind, given: Mapping[str, float] | None, more: Mapping[str, float]) -> Score:
    if given is not None and not isinstance(given, Mapping):
        raise QueryError(f"{kind}: expected column=number pairs or a mapping, got {given!r}")
    pairs = {**(given or {}), **more}
    if not pairs:
        raise QueryError(f"{kind}: names no column; write {kind}(column=number, ...)")
    for column, value in pairs.items():
        if not isinstance(column, str) or not column:
            raise QueryError(f"{kind}: a column is named by a non-empty string, got {column!r}")
        finite_number(f"{kind}: {column}", value)
    return Score(kind, tuple(pairs), tuple(float(v) for v in pairs.values()))


def finite_number(field_name: str, value: object) -> float:
    """Return ``value`` as a float, or raise a :class:`QueryError` that names the field."""
    try:
        if not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value):
            return float(value)
    except OverflowError:  # of a whole number beyond all floats
        pass
    raise QueryError(f"{field_name}: expected a finite number, got {value!r}")
