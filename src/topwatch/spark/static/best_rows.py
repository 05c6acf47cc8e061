"""Static frames: the best rows of a table, exact on any partitioning.

``top``, ``skyline`` and ``skyband`` choose in each partition first, and shuffle only what is left. Of a ``skyline``,
what is dominated by a few strong rows that all tasks get is not shuffled either. ``dominating`` counts over all
partitions: a few passes when it is called, over numbers that Spark keeps until the last one
(:mod:`topwatch.tables.top_dominating`).

A row with a missing value (null or NaN) in a column that is read is not ranked; infinite values are numbers. Equal
scores are put in order by the rows' values, larger first, from the first column on, so that the answer is the same on
any partitioning; put a rising number or a time first, and that is the newer row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.query.errors import DataError, QueryError, missing_column
from topwatch.query.queries import Direction, Dominating, TopK, checked_prefer
from topwatch.query.ranking import check_k
from topwatch.query.scores import ScoreLike
from topwatch.spark.session import is_nested, quoted
from topwatch.spark.static.selection import Band, Choice, ChoiceInPartition, Dominant, Named, Scored, signs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from topwatch.core.arrays import Floats

By = str | Sequence[str] | None
SCORED = ("score", "rank")  # columns that an answer has on top of the frame's
COLUMNS = 32  # that can be preferred
SAMPLE = 8192  # rows
SAMPLED = 0.02  # of the rows
STRONG = 1024  # rows at most that all tasks get


def top(df: DataFrame, k: int, score: ScoreLike, by: By = None) -> DataFrame:
    """Return the k rows with the best score, with columns ``score`` and ``rank``.

    Parameters
    ----------
    df : DataFrame
        Static.
    k : int
        How many rows.
    score : Score, str or mapping of column to weight
        ``tw.linear(...)``, ``tw.distance(...)`` (smaller is better) or another; see :mod:`topwatch.query.scores`. The
        name of a column and a mapping are short for a ``linear`` score.
    by : str or list of str, optional
        Columns; each of their values has its own answer.

    Returns
    -------
    DataFrame
        The rows of ``df``; rank 1 is the best. Nothing runs before an action. Of equal scores the row with the
        larger values is first, column by column from left to right.
    """
    query = TopK(k, score)
    names = check_frame("top", df, query.score.columns, by, SCORED)
    return _chosen(df, Scored(query), names, SCORED)


def skyline(df: DataFrame, prefer: Mapping[str, Direction], by: By = None) -> DataFrame:
    """Return the rows that no other row dominates.

    A row dominates another when it is at least as good in every column of ``prefer`` and better in one; rows with equal
    values do not dominate each other.

    Parameters
    ----------
    df : DataFrame
        Static.
    prefer : mapping of column to "min" or "max"
        The columns that count, each with what is better there.
    by : str or list of str, optional
        Columns; each of their values has its own answer.

    Returns
    -------
    DataFrame
        The rows of ``df``, in no order. Without ``by``, a small sample is read at the call: its skyline goes with every
        task, and what it dominates of a partition's skyline is not shuffled. All else runs with the
        action; :func:`topwatch.spark.shuffled` counts what is shuffled then.
    """
    return _band("skyline", df, 1, prefer, by)


def skyband(df: DataFrame, k: int, prefer: Mapping[str, Direction], by: By = None) -> DataFrame:
    """Return the rows that fewer than k others dominate; for k = 1 that is the skyline.

    Parameters
    ----------
    df, prefer, by
        As of :func:`skyline`.
    k : int
        How many dominators are too many.
    """
    check_k("skyband", k)
    return _band("skyband", df, k, prefer, by)


def dominating(df: DataFrame, k: int, prefer: Mapping[str, Direction], by: By = None) -> DataFrame:
    """Return the k rows that dominate the most others, with columns ``score`` (how many) and ``rank``.

    Without ``by`` the frame is read at the call, and once more by the action. At the call, a few passes
    go over its numbers, which Spark keeps until the last of them; some thousand candidates come to the driver, never
    the table. With ``by`` each group is counted in one task, in its memory, by the action.

    Parameters
    ----------
    df, prefer, by
        As of :func:`skyline`.
    k : int
        How many rows.

    Returns
    -------
    DataFrame
        The rows of ``df``; rank 1 is the best. Of equal scores the row with the larger values is first, column by
        column from left to right.
    """
    query = Dominating(k, prefer)
    columns = check_columns("dominating", query.prefer)
    names = check_frame("dominating", df, query.reads, by, SCORED)
    if names:
        return _chosen(df, Dominant(columns, k), names, SCORED, first=False)
    from topwatch.spark.static.packed import PackedParts
    from topwatch.tables.top_dominating import best_dominating

    with PackedParts(df, columns) as parts:
        best = best_dominating(parts, k)
    return _chosen(df, Named(columns, k, best), names, SCORED)


def _band(name: str, df: DataFrame, k: int, prefer: Mapping[str, Direction], by: By) -> DataFrame:
    columns = check_columns(name, checked_prefer(name, prefer))
    names = check_frame(name, df, tuple(columns), by)
    strong = _strong(df, columns) if k == 1 and not names else None
    return _chosen(df, Band(columns, k, strong), names, ())


def _strong(df: DataFrame, prefer: dict[str, Direction]) -> Floats:
    """Return the skyline of a sample; the sample is of the first partitions, as many as it takes."""
    from pyspark.sql import functions as sf

    from topwatch.tables.skyline import front

    read = df.select(*(sf.col(quoted(name)).cast("double").alias(str(j)) for j, name in enumerate(prefer)))
    sample = read.sample(fraction=SAMPLED, seed=0).take(SAMPLE)  # not toArrow, for which Spark would shuffle them
    values = np.array(sample, np.float64).reshape(len(sample), len(prefer)).T * signs(prefer)
    values = values[:, ~np.isnan(values).any(axis=0)]
    best = front(values)
    return values[:, best[:: 1 + best.size // STRONG]]


def _chosen(df: DataFrame, choice: Choice, by: tuple[str, ...], more: Sequence[str], first: bool = True) -> DataFrame:
    """Choose in each partition, unless groups must be whole, bring what is left together and choose again."""
    from pyspark.sql import functions as sf

    names = tuple(df.columns)
    numbered = df.toDF(*map(str, range(len(names))))
    schema = numbered.schema
    left = numbered.mapInArrow(ChoiceInPartition(choice, names, by, last=False), schema) if first else numbered
    if by:
        keys = [sf.col(quoted(str(names.index(name)))) for name in by]
        together = left.repartition(*keys).sortWithinPartitions(*keys)
    else:
        together = left.repartition(1)
    answer = together.mapInArrow(ChoiceInPartition(choice, names, by, last=True), result_schema(schema, more))
    return answer.toDF(*names, *more)


def result_schema(schema: StructType, more: Sequence[str]) -> StructType:
    """Return the schema of an answer."""
    from pyspark.sql.types import DoubleType, LongType, StructField, StructType

    kinds: dict[str, Any] = {"score": DoubleType(), "rank": LongType()}
    return StructType([*schema.fields, *(StructField(name, kinds[name], False) for name in more)])


def check_columns(function: str, prefer: Mapping[str, Direction]) -> dict[str, Direction]:
    """Return what is preferred, unless there are too many columns for a word."""
    if len(prefer) > COLUMNS:
        raise QueryError(f"{function}: prefer: expected at most {COLUMNS} columns, got {len(prefer)}")
    return dict(prefer)


def check_frame(
    function: str, df: DataFrame, columns: Sequence[str], by: By, more: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the names of the groups' columns, or refuse what cannot be served."""
    if not hasattr(df, "mapInArrow"):
        raise DataError(f"{function}: df: expected a Spark DataFrame, got {type(df).__name__}")
    if df.isStreaming:
        raise QueryError(f"{function}: df: is streaming; expected a static DataFrame: for a stream use tw.spark.watch")
    return check_schema(function, df.schema, columns, by, more)


def check_schema(
    function: str, schema: StructType, columns: Sequence[str], by: By, more: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the names of the groups' columns, or refuse what cannot be served."""
    from pyspark.sql.types import NumericType

    names = (by,) if isinstance(by, str) else tuple(by or ())
    for name in names:
        if not isinstance(name, str) or not name:
            raise QueryError(f"{function}: by: expected names of columns, got {name!r}")
    have = schema.fieldNames()
    for name in have:
        if have.count(name) > 1:
            raise DataError(f"{function}: df: {have.count(name)} columns are named {name!r}; rename them apart")
        if name.lower() in more:
            raise DataError(f"{function}: df: has a column {name!r}, which the answer gets; rename it")
    for field, requested in (("columns", columns), ("by", names)):
        for name in requested:
            if name not in have:
                raise missing_column(f"{function}: {field}", name, have)
            kind = schema[name].dataType
            if field == "columns" and not isinstance(kind, NumericType):
                raise DataError(f"{function}: column {name!r} is {kind.simpleString()}; expected numbers")
            if field == "by" and is_nested(kind):
                raise DataError(f"{function}: by: {name!r} is {kind.simpleString()}; expected single values")
    return names
