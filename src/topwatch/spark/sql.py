"""SQL table functions: what :mod:`topwatch.spark.static.best_rows` does, in a query.

Spark hands the rows of a table argument to Python one by one, those of a group to one task, and knows neither
which columns come out nor how rows are brought together: each function's ``analyze`` returns that.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, PartitioningColumn

from topwatch.query import scores
from topwatch.query.errors import QueryError
from topwatch.query.queries import Dominating, TopK, checked_prefer
from topwatch.query.ranking import check_k
from topwatch.query.scores import Score
from topwatch.spark.session import quoted
from topwatch.spark.static.best_rows import SCORED, check_columns, check_schema, result_schema
from topwatch.spark.static.selection import Band, Choice, ChoiceInPartition, Dominant, Scored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

MOST = 1 << 16  # rows that wait before they are looked at
_INDEX = "_index"
_CALL = re.compile(r"\s*(linear|product|quadratic|distance)\s*\(")


def register(spark: SparkSession) -> None:
    """Make ``tw_top``, ``tw_skyline``, ``tw_skyband`` and ``tw_dominating`` known to a session's SQL.

    Examples::

        SELECT * FROM tw_top(TABLE(flows), 10, 'linear(bytes=0.7, packets=0.3)')
        SELECT * FROM tw_top(TABLE(flows), 10, 'bytes / (1 + seconds)', by => 'region')
        SELECT * FROM tw_skyline(TABLE(hotels), 'price min, stars max')
        SELECT * FROM tw_skyband(TABLE(hotels), 3, 'price min, stars max', by => 'city')
        SELECT * FROM tw_dominating(TABLE(SELECT * FROM hotels WHERE open), 10, 'price min, stars max')

    ``by`` names columns; it takes the place of ``PARTITION BY``. All rows of a table, or of a group, go to one
    task, one by one: for more than some ten thousand rows use the functions of :mod:`topwatch.spark`.
    """
    from pyspark.sql.functions import udtf

    for name, function in (("top", Top), ("skyline", Skyline), ("skyband", Skyband), ("dominating", MostDominating)):
        spark.udtf.register(f"tw_{name}", udtf(function, useArrow=False))  # type: ignore[arg-type]


@dataclass
class Plan(AnalyzeResult):
    """What a call requests."""

    choice: Choice | None = None
    again: bool = True  # what is chosen of some rows can be chosen from again
    rows: Any = None  # their schema


class _Function:
    """What the functions share."""

    def __init__(self, plan: Plan) -> None:
        assert plan.choice is not None
        self._choice = plan.choice
        self._plan = plan
        self._rows: list[Any] = []
        self._looked = 0  # rows that are left of those that were looked at

    def eval(self, rows: Any, *_: Any, **__: Any) -> None:
        """Take a row."""
        self._rows.append(rows)
        if self._plan.again and len(self._rows) > 2 * self._looked + MOST:
            self._rows = [row for row, *_ in self._best(last=False)]
            self._looked = len(self._rows)

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Return the answer."""
        for row, *more in self._best(last=True):
            yield (*row, *more)

    def _best(self, last: bool) -> Iterator[tuple[Any, ...]]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._plan.rows)
        columns = [
            pa.array([_plain(row[index]) for row in self._rows], kind) for index, kind in enumerate(schema.types)
        ]
        columns.append(pa.array(range(len(self._rows)), pa.int64()))
        table = pa.table(columns, names=[*schema.names, _INDEX])
        best = ChoiceInPartition(self._choice, tuple(table.column_names), (), last).chosen(table)
        extra = [best.column(name).to_pylist() for name in best.column_names[len(schema.names) + 1 :]]
        for index, *more in zip(best.column(_INDEX).to_pylist(), *extra, strict=True):
            yield self._rows[index], *more


class Top(_Function):
    """``tw_top(TABLE(t), k, score, by)``."""

    @staticmethod
    def analyze(rows: Any, k: Any, score: Any, by: Any = None) -> Plan:
        """Return the schema of the result and how rows are grouped."""
        query = TopK(_value("tw_top", "k", k), parse_score(_value("tw_top", "score", score)))
        return _plan("tw_top", rows, by, Scored(query), SCORED)


class Skyline(_Function):
    """``tw_skyline(TABLE(t), prefer, by)``."""

    @staticmethod
    def analyze(rows: Any, prefer: Any, by: Any = None) -> Plan:
        """Return the schema of the result and how rows are grouped."""
        return _plan("tw_skyline", rows, by, Band(_prefer("tw_skyline", prefer), 1), ())


class Skyband(_Function):
    """``tw_skyband(TABLE(t), k, prefer, by)``."""

    @staticmethod
    def analyze(rows: Any, k: Any, prefer: Any, by: Any = None) -> Plan:
        """Return the schema of the result and how rows are grouped."""
        check_k("tw_skyband", most := _value("tw_skyband", "k", k))
        return _plan("tw_skyband", rows, by, Band(_prefer("tw_skyband", prefer), most), ())


class MostDominating(_Function):
    """``tw_dominating(TABLE(t), k, prefer, by)``."""

    @staticmethod
    def analyze(rows: Any, k: Any, prefer: Any, by: Any = None) -> Plan:
        """Return the schema of the result and how rows are grouped."""
        query = Dominating(_value("tw_dominating", "k", k), _prefer("tw_dominating", prefer))
        return _plan("tw_dominating", rows, by, Dominant(dict(query.prefer), query.k), SCORED, again=False)


def _plan(function: str, rows: Any, by: Any, choice: Choice, more: tuple[str, ...], again: bool = True) -> Plan:
    if not isinstance(rows, AnalyzeArgument) or not rows.isTable:
        raise QueryError(f"{function}: rows: expected a table, as in {function}(TABLE(name), ...)")
    schema: Any = rows.dataType
    named = None if by is None else _value(function, "by", by)
    groups = _listed(named) if named else []
    check_schema(function, schema, choice.columns, groups, more)
    return Plan(
        schema=result_schema(schema, more),
        withSinglePartition=not groups,
        partitionBy=[PartitioningColumn(_key(schema, name)) for name in groups],
        choice=choice,
        again=again,
        rows=schema,
    )


def _key(schema: StructType, name: str) -> str:
    """Return the expression whose values are the groups."""
    from pyspark.sql.types import DoubleType, FloatType

    column = quoted(name)
    # Spark compares the keys of neighbours in Python, where NaN is not NaN.
    return f"CAST({column} + 0.0D AS STRING)" if isinstance(schema[name].dataType, DoubleType | FloatType) else column


def _value(function: str, name: str, argument: Any) -> Any:
    if argument.isTable or not argument.isConstantExpression:
        raise QueryError(f"{function}: {name}: expected a constant")
    return argument.value


def _prefer(function: str, argument: Any) -> dict[str, Any]:
    """Read ``'price min, stars max'``."""
    text = _value(function, "prefer", argument)
    prefer: dict[str, Any] = {}
    for part in _listed(text) if isinstance(text, str) else [None]:
        pair = part.rsplit(maxsplit=1) if part else []
        if len(pair) != 2:
            raise QueryError(f"{function}: prefer: expected 'column min' or 'column max', with commas, got {text!r}")
        prefer[pair[0].strip("`")] = pair[1].lower()
    return check_columns(function, checked_prefer(function, prefer))


def _listed(text: str) -> list[str]:
    return [part.strip().strip("`") for part in text.split(",")]


def parse_score(text: Any) -> Score:
    """Read a score: ``linear(bytes=0.7)`` or another of its kinds, or arithmetic over columns.

    >>> print(parse_score("distance(lat=45.1, lon=-7)"), "|", parse_score("bytes / (1 + seconds)"))
    distance(lat=45.1, lon=-7) | bytes / (1 + seconds)
    """
    if not isinstance(text, str):
        raise QueryError(f"score: expected a text such as 'linear(bytes=0.7)' or 'bytes / seconds', got {text!r}")
    kind = _CALL.match(text)
    if kind is None:
        return scores.expr(text)
    terms = _terms(text.strip())
    if terms is None:
        raise QueryError(f"score: expected {kind[1]}(column=number, ...), got {text!r}")
    made: Score = getattr(scores, kind[1])(terms)
    return made


def _terms(text: str) -> dict[str, Any] | None:
    """Return the keywords of a call; None where it is something else."""
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            return None
        return {str(term.arg): ast.literal_eval(term.value) for term in call.keywords}
    except (SyntaxError, ValueError):
        return None


def _plain(value: Any) -> Any:
    """Return a value as Arrow takes it: rows within rows are mappings."""
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    if isinstance(value, dict):
        return [(key, _plain(item)) for key, item in value.items()]
    return [_plain(item) for item in value] if isinstance(value, list) else value
