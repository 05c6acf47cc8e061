"""A batch that cannot be used is refused whole, and the monitor goes on as if it had never come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import topwatch as tw
from tests.support.exact_algorithms import ALGORITHMS
from tests.support.refusal import refused
from topwatch.testing import streams
from topwatch.testing.lockstep import Lockstep, serves
from topwatch.testing.oracle import Query, Seconds, Window
from topwatch.testing.oracle_scores import Score

NAMES = {"a": "bytes", "b": "packets", "c": "seconds"}
SCORE = Score("linear", (("bytes", 1.0), ("packets", -0.5)))
QUERIES = [
    Query("top", "topk", SCORE, k=3),
    Query("over", "threshold", SCORE, above=0.25, where=(("seconds", 0.1, 0.9),)),
]
WINDOWS = [Window("count", 20), Window("time", 5), Window("latest")]
Rows = dict[str, Any]


def by_kind(window: Window) -> str:
    return window.kind


def stream_of(rng: np.random.Generator) -> Rows:
    stream = streams.make("uniform", rng, 100, pool=25)
    return {NAMES.get(name, name): values for name, values in stream.items()}


@pytest.mark.parametrize(
    ("settings", "far"),
    [
        ({"window": tw.last("10 seconds")}, 1e19),
        ({"window": tw.last("1 ns")}, 1.7e9),
        ({"window": tw.last(5), "every": "5 seconds"}, 1e25),
        ({"window": tw.last("10 seconds"), "lateness": "1 minute"}, -1e300),
        ({"window": tw.last("10 seconds"), "by": "g"}, 1e19),
    ],
    ids=str,
)
def test_seconds_without_neighbours_within_the_span(settings: dict[str, Any], far: float) -> None:
    """So far from zero a float has no neighbour within the span: a row would expire the moment it comes."""
    monitor = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="top"), time="t", **settings)
    monitor.push({"id": [1], "t": [0.0], "x": [1.0], "g": [1]})
    before = monitor.snapshot()
    with refused(tw.DataError, "batch: time column 't'", "too far from zero", "or timestamps"):
        monitor.push({"id": [2], "t": [far], "x": [1.0], "g": [1]})
    with refused(tw.DataError, "advance", "too far from zero"):
        monitor.advance(abs(far))
    assert monitor.snapshot() == before


def test_whole_numbers_of_any_size_are_times_of_rows() -> None:
    monitor = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="top"), tw.last(2), time="t")
    assert len(monitor.push({"id": [1, 2], "t": [0.0, 1e300], "x": [1.0, 2.0]})) == 3


def without(column: str) -> Callable[[Rows], Any]:
    return lambda rows: {name: values for name, values in rows.items() if name != column}


def renamed(column: str, other: str) -> Callable[[Rows], Any]:
    return lambda rows: {other if name == column else name: values for name, values in rows.items()}


def replaced(column: str, make: Callable[[np.ndarray], Any]) -> Callable[[Rows], Any]:
    return lambda rows: {**rows, column: make(rows[column])}


def last_one(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The column with another value at its end, so that all rows before it are good."""

    def put(values: np.ndarray) -> np.ndarray:
        return np.append(values[:-1], value)

    return put


BATCHES: dict[str, tuple[Callable[[Rows], Any], tuple[str, ...]]] = {
    "a column is missing": (without("packets"), ("packets", "bytes")),
    "a column is misspelt": (renamed("bytes", "byts"), ("'bytes'", "'byts'")),
    "a column of where is missing": (without("seconds"), ("seconds",)),
    "a column in capitals": (renamed("seconds", "Seconds"), ("'seconds'", "'Seconds'")),
    "no id": (without("id"), (r"\bid\b",)),
    "words": (replaced("bytes", lambda values: np.array([f"{v}" for v in values])), ("bytes", "numeric|number")),
    "one word": (replaced("bytes", lambda v: np.array([*v[:-1], "x"], dtype=object)), ("bytes", "numeric|number")),
    "objects": (replaced("bytes", lambda v: np.array([{}] * len(v))), ("bytes", "numeric|number")),
    "dates": (replaced("bytes", lambda v: v.astype("datetime64[s]")), ("bytes", "date|time", "numeric|number")),
    "complex numbers": (replaced("bytes", lambda v: v + 1j), ("bytes", "complex", "numeric|number")),
    "an Arrow column of words": (
        lambda rows: pa.table({**rows, "bytes": pa.array(["x"] * len(rows["id"]))}),
        ("bytes", "string", "numeric|number"),
    ),
    "a pandas column of words": (
        lambda rows: pd.DataFrame(rows).assign(packets="x"),
        ("packets", "object|str", "numeric|number"),
    ),
    "a short column": (replaced("packets", lambda values: values[:-1]), ("packets", "19", "20")),
    "a long column": (replaced("packets", last_one([1.0, 2.0])), ("packets", "21", "20")),
    "too few ids": (replaced("id", lambda values: values[:-1]), (r"\bid\b", "19", "20")),
    "one number": (replaced("packets", lambda values: 1.0), ("packets",)),
    "a matrix": (replaced("packets", lambda v: np.stack([v, v], axis=1)), ("packets", "dimension|shape|1-d")),
    "a list of rows": (lambda rows: [(1, 2.0), (2, 3.0)], ("list", "dict", "Arrow", "pandas", "polars")),
    "nothing": (lambda rows: None, ("None", "dict", "Arrow", "pandas", "polars")),
    "a number": (lambda rows: 5, ("int|5", "dict", "Arrow", "pandas", "polars")),
    "an array": (lambda rows: np.ones((20, 4)), ("array", "dict", "Arrow", "pandas", "polars")),
}  # fmt: skip

TIMES: dict[str, tuple[Callable[[Rows], Any], tuple[str, ...]]] = {
    "no time": (without("time"), (r"\btime\b",)),
    "time goes back within the batch": (replaced("time", lambda t: last_one(t[-2] - 0.125)(t)), ("time",)),
    "time goes back to before the batch": (replaced("time", lambda t: t - t[0]), ("time",)),
    "a time that is not a number": (replaced("time", last_one(np.nan)), ("time", "nan|null|missing|finite")),
    "an endless time": (replaced("time", last_one(np.inf)), ("time", "inf|finite")),
    "a time in words": (replaced("time", lambda v: np.array(["noon"] * len(v))), ("time", "timestamp|number")),
    "a null among times": (
        lambda rows: pa.table({**rows, "time": pa.array([*rows["time"][:-1], None], pa.float64())}),
        ("time", "null|missing|nan"),
    ),
    "timestamps after numbers": (replaced("time", lambda t: t.astype("datetime64[s]") + 10**9), ("time",)),
    "too few times": (replaced("time", lambda values: values[:-1]), ("time", "19", "20")),
}  # fmt: skip


def expect_refusal(both: Lockstep, stream: Rows, spoil: Callable[[Rows], Any], patterns: tuple[str, ...]) -> None:
    """Forty rows, a spoilt batch of the next twenty, then these twenty as they should be, and the rest."""
    both.push(streams.part(stream, 0, 40))
    following = streams.part(stream, 40, 60)
    for _ in range(2):
        with refused(tw.DataError, *patterns):
            both.monitor.push(spoil(following))
        both.compare([], [], "a refused batch")
    both.restart()
    both.push(following)
    both.push(streams.part(stream, 60, 100))


@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
def test_batch(window: Window, case: str, rng: np.random.Generator) -> None:
    expect_refusal(Lockstep(QUERIES, window, 7), stream_of(rng), *BATCHES[case])


@pytest.mark.parametrize("case", TIMES)
@pytest.mark.parametrize("every", [1, 7, Seconds(2)], ids=["every-1", "every-7", "every-2s"])
def test_time(every: int | Seconds, case: str, rng: np.random.Generator) -> None:
    expect_refusal(Lockstep(QUERIES, Window("time", 5), every), stream_of(rng), *TIMES[case])


@pytest.mark.parametrize("case", ["time goes back within the batch", "a time that is not a number"])
@pytest.mark.parametrize("window", [Window("count", 20), Window("latest")], ids=by_kind)
def test_time_of_evaluations(window: Window, case: str, rng: np.random.Generator) -> None:
    expect_refusal(Lockstep(QUERIES, window, Seconds(2)), stream_of(rng), *TIMES[case])


@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_goes_on_as_before(algorithm: str, window: Window, rng: np.random.Generator) -> None:
    if not serves(algorithm, QUERIES[0], window):
        pytest.skip(f"{algorithm} does not serve {window.kind} windows")
    expect_refusal(Lockstep(QUERIES, window, 1, algorithm), stream_of(rng), *BATCHES["words"])


def test_the_first_batch_is_refused(rng: np.random.Generator) -> None:
    stream = stream_of(rng)
    both = Lockstep(QUERIES, Window("count", 20))
    with refused(tw.DataError, "bytes"):
        both.monitor.push(without("bytes")(stream))
    both.compare([], [], "a refused batch")
    both.push(stream)


def test_a_refused_first_batch_settles_nothing(rng: np.random.Generator) -> None:
    """Not even the types of ids and times."""
    stream = stream_of(rng)
    both = Lockstep(QUERIES, Window("time", 5))
    odd = {**stream, "id": stream["id"].astype(str), "time": (stream["time"] * 1e3).astype("datetime64[ms]")[::-1]}
    with refused(tw.DataError, "time"):
        both.monitor.push(odd)
    with refused(tw.DataError, "bytes"):
        both.monitor.push({**odd, "bytes": odd["id"]})
    both.compare([], [], "a refused batch")
    both.push(stream)


@pytest.mark.parametrize("moment", [0.0, float("nan"), float("inf"), "soon", None, np.timedelta64(9, "ns")], ids=repr)
def test_advance_to_nowhere(moment: Any, rng: np.random.Generator) -> None:
    stream = stream_of(rng)
    both = Lockstep(QUERIES, Window("time", 5), 7)
    both.push(streams.part(stream, 0, 50))
    with refused(tw.DataError, "time|advance"):
        both.monitor.advance(moment)
    both.compare([], [], "a refused advance")
    both.advance(stream["time"][49])
    with refused(tw.DataError, "time"):
        both.monitor.push({**streams.part(stream, 0, 50), "time": np.full(50, stream["time"][49] - 1)})
    both.push(streams.part(stream, 50, 100))
