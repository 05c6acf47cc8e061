"""The small and the odd: one row, too few rows, a window of one, ties everywhere, values that cannot be ranked."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.exact_algorithms import ALGORITHMS
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, servable, serves
from topwatch.testing.oracle import Query, Seconds, Window
from topwatch.testing.oracle_scores import Score

WINDOWS = [Window("count", 10), Window("time", 3), Window("latest")]
LINEAR = Score("linear", (("a", 1.0), ("b", 1.0)))
CLOSE = Score("distance", (("a", 0.5), ("b", 0.5)))


def by_kind(window: Window) -> str:
    return window.kind


def some(k: int, above: float = 0.5) -> list[Query]:
    """One query of each sort over a and b."""
    return [
        mixtures.query("top", LINEAR, k),
        mixtures.query("near", CLOSE, k),
        mixtures.query("above", LINEAR, above=above),
        mixtures.query("within", CLOSE, above=above),
        mixtures.query("inside", LINEAR, k, where=(("c", 0.25, 0.75),)),
    ]


def lockstep(algorithm: str, window: Window, every: int | Seconds = 1, k: int = 3, above: float = 0.5) -> Lockstep:
    queries = servable(algorithm, some(k, above), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve {window.kind} windows")
    return Lockstep(queries, window, every, algorithm)


def rows(*values: float, start: int = 1) -> dict[str, np.ndarray]:
    """Rows with this value in all columns, one a second, ids in order."""
    column = np.array(values, dtype=float)
    order = np.arange(start, start + len(values))
    return {"id": order, "time": order.astype(float), "a": column, "b": column.copy(), "c": column.copy()}


@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
class TestSmall:
    def test_no_rows(self, algorithm: str, window: Window) -> None:
        both = lockstep(algorithm, window)
        assert both.push(rows()) == []
        both.restart()

    def test_one_row(self, algorithm: str, window: Window) -> None:
        assert lockstep(algorithm, window).push(rows(0.5))

    def test_one_row_that_cannot_be_ranked(self, algorithm: str, window: Window) -> None:
        both = lockstep(algorithm, window)
        assert both.push(rows(np.nan)) == []
        both.push(rows(0.3, start=2))
        assert both.oracle.skipped == 1

    def test_fewer_rows_than_k(self, algorithm: str, window: Window) -> None:
        both = lockstep(algorithm, window, k=50)
        for start in range(1, 30, 3):
            both.push(rows(0.1, 0.7, 0.4, start=start))

    def test_only_rows_that_cannot_be_ranked_for_a_whole_window(self, algorithm: str, window: Window) -> None:
        both = lockstep(algorithm, window)
        both.push(rows(0.9, 0.2, 0.5))
        both.push(rows(*[np.nan] * 15, start=4))
        both.push(rows(0.3, 0.3, start=19))

    def test_ties_alone(self, algorithm: str, window: Window) -> None:
        both = lockstep(algorithm, window, k=4)
        both.push(rows(*[0.5] * 25))
        both.push(rows(*[0.75, 0.5] * 10, start=26))

    def test_zeros_of_both_signs_tie(self, algorithm: str, window: Window) -> None:
        lockstep(algorithm, window, k=2, above=0.0).push(rows(0.0, -0.0, -0.0, 0.0, -0.0, 0.0))

    def test_infinite_values_are_ranked(self, algorithm: str, window: Window) -> None:
        inf = float("inf")
        both = lockstep(algorithm, window, k=3)
        both.push(rows(0.5, inf, -inf, inf, 1e308, 1e308, -inf, 0.25, inf, -inf, 0.125, 0.5, -1e308))
        both.push(rows(*[-inf] * 12, start=14))
        both.push(rows(*[inf] * 12, start=26))

    def test_first_row_infinite(self, algorithm: str, window: Window) -> None:
        lockstep(algorithm, window).push(rows(-float("inf"), 0.2, 0.9))

    def test_tiny_and_huge(self, algorithm: str, window: Window) -> None:
        lockstep(algorithm, window, k=2).push(rows(5e-324, 0.0, 1e-310, -5e-324, 1.7e308, 2.0, -1.7e308, 1e-300))


@pytest.mark.parametrize("every", [1, 2, Seconds(2)], ids=["every-1", "every-2", "every-2s"])
@pytest.mark.parametrize("window", [Window("count", 1), Window("time", 1)], ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_window_of_one(algorithm: str, window: Window, every: int | Seconds) -> None:
    both = lockstep(algorithm, window, every, k=2)
    both.push(rows(0.5, 0.7, np.nan, 0.7, 0.1, 0.1))
    both.push(rows(0.6, start=7))


@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nan_only_counts_where_a_query_needs_it(algorithm: str, window: Window) -> None:
    query = mixtures.query("top", Score("linear", (("a", 1.0),)), 2)
    if not serves(algorithm, query, window):
        pytest.skip(f"{algorithm} does not serve this")
    batch = rows(0.1, 0.2, 0.3)
    batch["b"][:] = np.nan
    both = Lockstep([query], window, 1, algorithm)
    both.push(batch)
    assert both.oracle.skipped == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_weight_of_zero_times_infinity_is_not_ranked(algorithm: str) -> None:
    query = mixtures.query("top", Score("linear", (("a", 0.0), ("b", 1.0))), 2)
    batch = rows(0.1, 0.9, 0.3, 0.4)
    batch["a"][1:3] = [np.inf, -np.inf]
    both = Lockstep([query], Window("count", 3), 1, algorithm)
    both.push(batch)
    assert both.oracle.skipped == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ends_of_a_range_belong_to_it_and_an_answer_must_be_better_than_the_threshold(algorithm: str) -> None:
    score = Score("linear", (("a", 1.0),))
    point = mixtures.query("point", score, 5, where=(("a", 0.5, 0.5),))
    half = mixtures.query("half", score, 5, where=(("a", 0.5, float("inf")), ("b", -float("inf"), 0.75)))
    above = mixtures.query("over", score, above=0.5)
    both = Lockstep([point, half, above], Window("count", 8), 1, algorithm)
    both.push(rows(0.25, 0.5, 0.75, np.nextafter(0.5, 1), np.nextafter(0.75, 1), 0.5))
    assert [entry for entry, _ in both.oracle.answer("point")] == [6, 2]
    assert [entry for entry, _ in both.oracle.answer("half")] == [3, 4, 6, 2]
    assert [entry for entry, _ in both.oracle.answer("over")] == [5, 3, 4]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_dimension_and_many(algorithm: str, rng: np.random.Generator) -> None:
    """Queries over one, two and seven columns in one monitor."""
    stream = {"id": np.arange(200), "time": np.arange(200.0), **{f"x{i}": rng.random(200) for i in range(7)}}
    columns = [f"x{i}" for i in range(7)]
    queries = [
        mixtures.query("one", Score("linear", (("x3", -1.0),)), 3),
        mixtures.query("two", Score("distance", (("x0", 0.2), ("x6", 0.8))), 3),
        mixtures.query("all", Score("linear", tuple((column, 1.0) for column in columns)), 3),
        mixtures.query("square", Score("quadratic", tuple((column, 0.5) for column in columns[::-1])), 3),
    ]
    both = Lockstep(queries, Window("count", 50), 5, algorithm)
    for batch in streams.pieces(stream, [10, 90, 100]):
        both.push(batch)
