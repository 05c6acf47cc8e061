"""Static frames: each operator against the oracle, on any partitioning, grouped or not, in Python and in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import topwatch as tw
from tests.support.real_data import real
from tests.support.refusal import refused
from topwatch.tables import top_dominating
from topwatch.testing.oracle_dominance import dominated, dominators
from topwatch.testing.oracle_scores import Score, score_rows

ROWS = 900
Line = tuple[Any, ...]
SCORES = [
    (tw.linear(a=1.0, b=-0.5), Score("linear", (("a", 1.0), ("b", -0.5)))),
    (tw.distance(a=2.0, b=3.0), Score("distance", (("a", 2.0), ("b", 3.0)))),
    (tw.product(a=0.5, c=0.1), Score("product", (("a", 0.5), ("c", 0.1)))),
    (tw.quadratic(b=0.5, c=-2.0), Score("quadratic", (("b", 0.5), ("c", -2.0)))),
    (tw.expr("a / (1 + b)"), Score("expr", text="a / (1 + b)")),
]


def some_rows(rng: np.random.Generator) -> pa.Table:
    """Ids in any order, groups with nulls, and eight columns with ties, duplicates, nulls, NaN and infinities."""
    groups = rng.choice(np.array(["x", "y", "z", None]), ROWS, p=[0.6, 0.3, 0.05, 0.05]).tolist()
    columns: dict[str, Any] = {
        "id": rng.permutation(ROWS),
        "g": pa.array(groups, pa.string()),
        "h": pa.array(rng.choice([0.0, -0.0, np.nan, 1.0], ROWS)),
    }
    for name in "abcdefgh":
        values = rng.random(ROWS)
        if name in "abf":
            values = np.round(values * 6)
        values = np.where(rng.random(ROWS) < 0.01, np.nan, values)
        if name in "adg":
            values = np.where(rng.random(ROWS) < 0.01, rng.choice([np.inf, -np.inf], ROWS), values)
        columns[name if name not in columns else name * 2] = pa.array(values, mask=rng.random(ROWS) < 0.01)
    table = pa.table(columns)
    table = table.set_column(4, "b", table.column("b").cast(pa.int32(), safe=False))  # NaN becomes a number
    return pa.concat_tables([table, table.slice(0, 60)])  # whole rows twice


NUMBERS = ["a", "b", "c", "d", "e", "f", "gg", "hh"]


def numbers(table: pa.Table) -> dict[str, np.ndarray]:
    return {name: table.column(name).cast(pa.float64()).to_numpy() for name in NUMBERS}


def keys(table: pa.Table, by: list[str]) -> list[Line]:
    """The group of each row; NaN is one, and zero has no sign."""
    columns = [table.column(name).to_pylist() for name in by]

    def key(value: Any) -> Any:
        return value if isinstance(value, str | None) else "nan" if value != value else value + 0.0

    return [tuple(map(key, row)) for row in zip(*columns, strict=True)]


def groups(table: pa.Table, by: list[str]) -> Iterator[pa.Table]:
    of_row = keys(table, by) if by else [()] * table.num_rows
    for key in dict.fromkeys(of_row):
        yield table.filter(pa.array([other == key for other in of_row]))


def ranked(table: pa.Table, columns: list[str]) -> pa.Table:
    held = numbers(table)
    return table.filter(pa.array(~np.isnan([held[name] for name in columns]).any(axis=0)))


def best(table: pa.Table, scores: np.ndarray, k: int, smaller: bool = False) -> list[Line]:
    """The first k: better score, then the larger id."""
    lines = [(i, s) for i, s in zip(table.column("id").to_pylist(), scores.tolist(), strict=True) if s == s]
    lines.sort(key=lambda line: (line[1] if smaller else -line[1], -line[0]))
    return [(*line, index + 1) for index, line in enumerate(lines[:k])]


def answer(frame: DataFrame) -> list[Line]:
    return [(row.id, row.score, row["rank"]) for row in frame.collect()]


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.fixture
def table(rng: np.random.Generator) -> pa.Table:
    return some_rows(rng)


@pytest.fixture
def cut(spark: SparkSession, table: pa.Table) -> Callable[[int], DataFrame]:
    return lambda parts: spark.createDataFrame(table).repartition(parts)


@pytest.mark.parametrize(("parts", "chosen"), [(1, 0), (3, 1), (4, 2), (7, 3), (2, 4)])
def test_top(table: pa.Table, cut: Callable[[int], DataFrame], parts: int, chosen: int) -> None:
    score, same = SCORES[chosen]
    frame = cut(parts)
    result = tw.spark.top(frame, 20, score)
    assert result.columns == [*frame.columns, "score", "rank"]
    some = ranked(table, list(same.columns))
    assert answer(result) == best(some, score_rows(same, numbers(some)), 20, same.smaller_is_better)


@pytest.mark.parametrize("by", ["g", ["g", "h"]])
def test_top_of_groups(table: pa.Table, cut: Callable[[int], DataFrame], by: str | list[str]) -> None:
    score, same = SCORES[0]
    expected = []
    for part in groups(table, [by] if isinstance(by, str) else by):
        some = ranked(part, list(same.columns))
        expected += best(some, score_rows(same, numbers(some)), 5)
    assert sorted(answer(tw.spark.top(cut(5), 5, score, by=by))) == sorted(expected)


@pytest.mark.parametrize(("parts", "d", "k"), [(1, 1, 3), (7, 2, 1), (3, 3, 5), (5, 5, 2), (2, 8, 1)])
def test_skyband(table: pa.Table, cut: Callable[[int], DataFrame], parts: int, d: int, k: int) -> None:
    prefer: Any = {name: "min" if j % 2 else "max" for j, name in enumerate(NUMBERS[:d])}
    some = ranked(table, list(prefer))
    keep = dominators(numbers(some), list(prefer.items())) < k
    frame = cut(parts)
    result = tw.spark.skyline(frame, prefer) if k == 1 else tw.spark.skyband(frame, k, prefer)
    assert result.columns == frame.columns
    assert ids(result) == sorted(some.filter(pa.array(keep)).column("id").to_pylist())


def test_strong_rows_leave_less_to_shuffle(spark: SparkSession, rng: np.random.Generator) -> None:
    """Where partitions differ, most rows of the worse ones go before the shuffle; Spark counts the rest."""
    near = np.repeat([0.0, 1.0, 2.0, 3.0], 5000)
    values = {"id": np.arange(20_000), "a": near + rng.random(20_000), "b": near + rng.random(20_000)}
    frame = spark.createDataFrame(pa.table(values)).repartitionByRange(4, "id").cache()
    frame.count()
    prefer: Any = {"a": "min", "b": "min"}
    with tw.spark.shuffled(spark) as moved:
        result = ids(tw.spark.skyline(frame, prefer))
    first = {name: column[:5000] for name, column in values.items() if name != "id"}
    assert result == np.flatnonzero(dominators(first, list(prefer.items())) == 0).tolist()
    with tw.spark.shuffled(spark) as without:
        tw.spark.skyband(frame, 2, prefer).collect()
    assert 0 < moved.rows < without.rows
    assert 0 < moved.bytes < without.bytes
    frame.unpersist()


def test_skyband_of_groups(table: pa.Table, cut: Callable[[int], DataFrame]) -> None:
    prefer: Any = {"a": "max", "c": "min", "b": "min"}
    expected = []
    for part in groups(table, ["g", "h"]):
        some = ranked(part, list(prefer))
        keep = dominators(numbers(some), list(prefer.items())) < 2
        expected += some.filter(pa.array(keep)).column("id").to_pylist()
    assert ids(tw.spark.skyband(cut(4), 2, prefer, by=["g", "h"])) == sorted(expected)


@pytest.mark.parametrize(("parts", "d", "k", "room"), [(1, 1, 5, 0), (3, 2, 8, 0), (10, 4, 8, 8), (2, 8, 1000, 0)])
def test_dominating(
    table: pa.Table,
    cut: Callable[[int], DataFrame],
    monkeypatch: pytest.MonkeyPatch,
    parts: int,
    d: int,
    k: int,
    room: int,
) -> None:
    """With little room there are several grids, and the candidates come in pieces; some are never enough."""
    if room:
        monkeypatch.setattr(top_dominating, "CANDIDATES", room)
        monkeypatch.setattr(top_dominating, "CELLS", 16)
    prefer: Any = {name: "min" if j % 2 else "max" for j, name in enumerate(NUMBERS[:d])}
    some = ranked(table, list(prefer))
    expected = best(some, dominated(numbers(some), list(prefer.items())), k)
    frame = cut(parts)
    result = tw.spark.dominating(frame, k, prefer)
    assert result.columns == [*frame.columns, "score", "rank"]
    assert answer(result) == expected


def test_dominating_of_groups(table: pa.Table, cut: Callable[[int], DataFrame]) -> None:
    prefer: Any = {"a": "max", "c": "min", "b": "min"}
    expected = []
    for part in groups(table, ["g"]):
        some = ranked(part, list(prefer))
        expected += best(some, dominated(numbers(some), list(prefer.items())), 6)
    assert sorted(answer(tw.spark.dominating(cut(6), 6, prefer, by="g"))) == sorted(expected)


def test_equal_scores_are_put_in_order_by_all_values(spark: SparkSession) -> None:
    rows = [(None, "b", [1]), ("k", "a", [1]), ("k", None, [1]), ("k", "a", [2]), ("j", "z", [9])]
    frame = spark.createDataFrame([(*row, 1.0) for row in rows], "s string, t string, l array<int>, x double")
    expected = [rows[3], rows[1], rows[2], rows[4], rows[0]]
    for parts in (1, 3):
        result = tw.spark.top(frame.repartition(parts), 4, tw.linear(x=1.0)).collect()
        assert [tuple(row)[:3] for row in result] == expected[:4]
        assert [row["rank"] for row in result] == [1, 2, 3, 4]


def test_other_numbers_and_quoted_names(spark: SparkSession) -> None:
    kinds = "`a.b` decimal(10, 2), `c d` float, e bigint, when timestamp"
    stamp = datetime(2020, 1, 1, tzinfo=UTC)
    rows = [(Decimal("0.10"), 0.1, 1, stamp), (Decimal("0.30"), 0.3, 1, stamp), (Decimal("0.20"), 0.1, 2, stamp)]
    frame = spark.createDataFrame(rows, kinds).repartition(2)
    prefer: Any = {"a.b": "min", "c d": "min", "e": "min"}
    assert [row.score for row in tw.spark.dominating(frame, 3, prefer).collect()] == [2.0, 0.0, 0.0]
    assert [row[0] for row in tw.spark.skyline(frame, prefer).collect()] == [Decimal("0.10")]
    result = tw.spark.top(frame, 1, tw.linear({"a.b": 10.0}), by=["when", "c d"]).collect()
    assert sorted(row[0] for row in result) == [Decimal("0.20"), Decimal("0.30")]


def test_partitions_without_rows(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 5.0), (2, 4.0), (3, 4.0)], "id int, x double").repartition(9)
    assert answer(tw.spark.dominating(frame, 2, {"x": "min"})) == [(3, 1.0, 1), (2, 1.0, 2)]
    assert ids(tw.spark.skyline(frame, {"x": "min"})) == [2, 3]


def test_no_rows_and_none_that_is_ranked(spark: SparkSession) -> None:
    for rows in ([], [(1, None), (2, float("nan"))]):
        frame = spark.createDataFrame(rows, "id int, x double")
        assert answer(tw.spark.top(frame, 2, tw.linear(x=1.0))) == []
        assert answer(tw.spark.dominating(frame, 2, {"x": "min"})) == []
        assert ids(tw.spark.skyline(frame, {"x": "min"})) == []


def test_dominating_on_covtype(spark: SparkSession) -> None:
    """Some rows against the oracle; of all rows, those that can be an answer by what each column alone allows."""
    columns = ["elevation", "slope", "h_dist_hydrology", "h_dist_roadways"]
    prefer: Any = dict.fromkeys(columns, "min")
    table = pq.read_table(real("covtype"), columns=["id", *columns])
    some = table.take(pa.array(np.arange(0, table.num_rows, 131)))
    held = {name: some.column(name).cast(pa.float64()).to_numpy() for name in columns}
    expected = best(some, dominated(held, list(prefer.items())), 16)
    assert answer(tw.spark.dominating(spark.createDataFrame(some).repartition(3), 16, prefer)) == expected

    frame = spark.read.parquet(str(real("covtype"))).select("id", *columns)
    result = answer(tw.spark.dominating(frame, 16, prefer))
    values = np.array([table.column(name).to_numpy() for name in columns])
    not_better = [column.size - np.searchsorted(np.sort(column), column) for column in values]
    (can_be,) = np.nonzero(np.min(not_better, axis=0) > result[-1][1])  # it counts itself
    assert 16 <= can_be.size < 5000
    covered = np.array([(values >= values[:, [row]]).all(axis=0).sum() for row in can_be])
    same = np.array([(values == values[:, [row]]).all(axis=0).sum() for row in can_be])
    assert result == best(table.take(pa.array(can_be)), (covered - same).astype(float), 16)


def test_sql(spark: SparkSession, table: pa.Table, cut: Callable[[int], DataFrame]) -> None:
    tw.spark.register(spark)
    frame = cut(3).limit(150).cache()
    frame.createOrReplaceTempView("things")
    prefer: Any = {"a": "max", "c": "min"}
    score = tw.linear(a=1.0, b=-0.5)

    def lines(result: DataFrame) -> list[str]:
        return sorted(str(row) for row in result.collect())

    for call, same in {
        "tw_top(TABLE(things), 7, 'linear(a=1.0, b=-0.5)')": tw.spark.top(frame, 7, score),
        "tw_top(TABLE(things), 2, 'a * 1.0 + b * -0.5', by => 'g')": tw.spark.top(frame, 2, score, by="g"),
        "tw_skyline(TABLE(things), 'a max, c min')": tw.spark.skyline(frame, prefer),
        "tw_skyband(TABLE(things), 2, '`a` max, c MIN', 'g, h')": tw.spark.skyband(frame, 2, prefer, by=["g", "h"]),
        "tw_dominating(TABLE(things), 4, 'a max, c min')": tw.spark.dominating(frame, 4, prefer),
    }.items():
        result = spark.sql(f"SELECT * FROM {call}")
        assert result.columns == same.columns
        assert lines(result) == lines(same)
    for call, message in {
        "tw_top(TABLE(things), 0, 'a')": "TopK: k: expected a whole number of at least 1, got 0",
        "tw_top(TABLE(things), 1, 'linear(a)')": r"score: expected linear\(column=number, ...\), got 'linear\(a\)'",
        "tw_skyline(TABLE(things), 'a best')": r"tw_skyline: prefer\['a'\]: expected 'min' or 'max', got 'best'",
        "tw_skyline(TABLE(things), 'id')": "tw_skyline: prefer: expected 'column min' or 'column max'",
        "tw_skyband(TABLE(things), 1, 'aa min')": "tw_skyband: columns: column 'aa' is missing; .* did you mean 'a'",
        "tw_top(1, 1, 'a')": r"tw_top: rows: expected a table, as in tw_top\(TABLE\(name\), ...\)",
    }.items():
        with pytest.raises(AnalysisException, match=message):
            spark.sql(f"SELECT * FROM {call}")
    frame.unpersist()


def test_top_of_a_column_and_of_weights(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 2.0), (2, 3.0), (3, 1.0)], "id int, x double")
    for score in ("x", {"x": 1.0}, tw.linear(x=1.0)):
        assert [row.id for row in tw.spark.top(frame, 2, score).orderBy("rank").collect()] == [2, 1]


def test_what_makes_no_sense_is_refused_before_anything_runs(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "x", 1.0)], "id int, g string, x double")
    score, prefer = tw.linear(x=1.0), {"x": "min"}
    calls: list[tuple[type[Exception], Callable[[], Any], str]] = [
        (tw.QueryError, lambda: tw.spark.top(frame, 0, score), "TopK: k: .* at least 1, got 0"),
        (tw.QueryError, lambda: tw.spark.top(frame, 1, 5), r"TopK: score: expected linear\(...\), .* got 5"),
        (tw.QueryError, lambda: tw.spark.skyband(frame, 1.5, prefer), "skyband: k: .* got 1.5"),
        (tw.QueryError, lambda: tw.spark.skyline(frame, {"x": "low"}), r"skyline: prefer\['x'\]: .* got 'low'"),
        (tw.QueryError, lambda: tw.spark.dominating(frame, 1, {}), "Dominating: prefer: .* got {}"),
        (
            tw.QueryError,
            lambda: tw.spark.skyline(frame, {f"x{j}": "min" for j in range(33)}),
            "skyline: prefer: expected at most 32 columns, got 33",
        ),
        (tw.QueryError, lambda: tw.spark.top(frame, 1, score, by=[3]), "top: by: expected names of columns, got 3"),
        (
            tw.DataError,
            lambda: tw.spark.top(frame, 1, score, by="gg"),
            "top: by: column 'gg' is missing; .* did you mean 'g'",
        ),
        (
            tw.DataError,
            lambda: tw.spark.skyline(frame, {"g": "min"}),
            "skyline: column 'g' is string; expected numbers",
        ),
        (tw.DataError, lambda: tw.spark.top({"x": [1]}, 1, score), "top: df: expected a Spark DataFrame, got dict"),
        (
            tw.DataError,
            lambda: tw.spark.top(frame.withColumnRenamed("g", "Score"), 1, score),
            "top: df: has a column 'Score', which the answer gets; rename it",
        ),
        (
            tw.QueryError,
            lambda: tw.spark.skyline(spark.readStream.format("rate").load(), {"value": "min"}),
            "skyline: df: is streaming; expected a static DataFrame: for a stream use tw.spark.watch",
        ),
    ]
    for error, call, message in calls:
        with refused(error, message):
            call()
