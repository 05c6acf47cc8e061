"""Rows out of order: the changes are those of the same rows in order, and late ones are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.exact_algorithms import ALGORITHMS
from tests.support.sizes import Scale
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import as_changes, as_query, as_window, expect_equal, servable
from topwatch.testing.oracle import Oracle, Window

LATENESS = 3.0  # seconds


def in_order(times: np.ndarray, lateness: Any) -> tuple[list[int], int]:
    """Return the rows that count, as they are evaluated, and how many are late: row by row, as a person would do it."""
    kept: list[int] = []
    latest = None
    for row, time in enumerate(times.tolist()):
        if latest is None or time >= latest - lateness:
            kept.append(row)
        latest = time if latest is None else max(latest, time)
    return sorted(kept, key=lambda row: (times[row], row)), len(times) - len(kept)


def shuffled(stream: Any, rng: np.random.Generator, spread: float) -> Any:
    """Let rows come up to so many seconds after their time."""
    arrival = stream["time"] + spread * rng.random(len(stream["time"]))
    order = np.argsort(arrival, kind="stable")
    return {name: np.asarray(values)[order] for name, values in stream.items()}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_as_if_rows_had_come_in_order(algorithm: str, rng: np.random.Generator, scale: Scale) -> None:
    size = scale.window // 2
    window = [Window("count", size), Window("time", max(1, size // streams.ROWS_PER_SECOND))][rng.integers(2)]
    stream = shuffled(streams.make("ties", rng, 3 * size), rng, spread=2 * LATENESS)
    queries = servable(algorithm, mixtures.mixture(rng, stream, 4, size, "ties"), window)
    order, late = in_order(stream["time"], LATENESS)
    oracle = Oracle(queries, window, time="time")
    expected = oracle.push({name: values[order] for name, values in stream.items()})
    end = float(np.max(stream["time"]))
    expected += oracle.advance(end)

    def monitor() -> tw.Monitor:
        given = [as_query(query) for query in queries]
        return tw.Monitor(given, as_window(window), algorithm=algorithm, time="time", lateness=f"{LATENESS} seconds")

    watching = monitor()
    got = []
    for number, batch in enumerate(streams.pieces(stream, streams.random_sizes(rng, size))):
        got += as_changes(watching.push(batch))
        if number % 3 == 2:
            watching = tw.Monitor.restore(watching.snapshot())
    assert watching.stats()["waiting"] > 0
    got += as_changes(watching.advance(end))
    expect_equal(got, expected, algorithm)
    assert watching.stats()["late"] == late
    assert watching.stats()["waiting"] == 0
    assert watching.stats()["rows"] == len(order)


def test_the_first_timestamps(rng: np.random.Generator) -> None:
    """What would lie before the earliest time of 64 bits is late for no row, and released by none."""
    stream = shuffled(streams.make("ties", rng, 60), rng, spread=2 * LATENESS)
    since = (stream["time"] * 1e9).astype("timedelta64[ns]")
    result = []
    for start in ("1677-09-21T00:12:44", "2024-02-29T23:59:59"):
        query = tw.TopK(k=3, score=tw.linear(a=1.0), name="top")
        m = tw.Monitor(query, tw.last("5 s"), time="time", lateness=f"{LATENESS} seconds")
        parts = streams.pieces({**stream, "time": np.datetime64(start, "ns") + since}, [7, 20, 33])
        result.append(([change for batch in parts for change in m.push(batch)], m.stats()["late"]))
        m = tw.Monitor.restore(m.snapshot())
    assert result[0] == result[1]
    assert result[0][1] > 0


def test_a_row_of_the_time_that_was_advanced_to_waits_and_is_saved() -> None:
    m = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="x"), window=tw.last(9), time="t", lateness="5 seconds")
    m.advance(100.0)
    m.push({"id": [1], "t": [100.0], "x": [1.0]})
    assert m.stats()["waiting"] == 1
    m = tw.Monitor.restore(m.snapshot())
    m.advance(100.0)
    assert m.answer() == [tw.Entry(1, 1.0)]


def test_timestamps_names_and_a_query_that_comes_later() -> None:
    times = np.array(["2026-01-01T00:00:10", "2026-01-01T00:00:05", "2026-01-01T00:00:12"], "datetime64[s]")
    m = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="x"), window=tw.last(9), time="t", lateness="5 seconds")
    assert len(m.push({"id": ["a", "b", "c"], "t": times, "x": [1.0, 2.0, 3.0]})) == 1  # b, at 00:05
    assert m.answer() == [tw.Entry("b", 2.0)]
    assert m.stats()["waiting"] == 2
    m.add(tw.TopK(k=1, score=tw.linear(y=1.0), name="y"))
    m.push({"id": ["d"], "t": times[2:] + np.timedelta64(60, "s"), "x": [0.0], "y": [7.0]})
    assert m.answer("x") == [tw.Entry("c", 3.0)]
    assert m.answer("y") == []  # rows that waited have no y
    m.advance(np.datetime64("2026-01-01T00:02:00"))
    assert m.answer("y") == [tw.Entry("d", 7.0)]
    m.push({"id": ["e"], "t": times[:1], "x": [9.0], "y": [9.0]})
    assert m.stats()["late"] == 1


def test_time_that_moves_on_before_the_first_row_and_past_a_new_query() -> None:
    m = tw.Monitor(tw.TopK(k=1, score=tw.linear(x=1.0), name="x"), window=tw.last(9), time="t", lateness="5 seconds")
    m.advance(100.0)
    m.push({"id": [1, 2], "t": [98.0, 101.0], "x": [9.0, 1.0]})  # 98 lies before what has been promised
    assert m.stats()["late"] == 1
    m.add(tw.TopK(k=1, score=tw.linear(y=1.0), name="y"))
    m.advance(110.0)
    assert m.answer("x") == [tw.Entry(2, 1.0)]
    assert m.answer("y") == []


def test_what_is_refused() -> None:
    query = tw.TopK(k=1, score=tw.linear(x=1.0))
    with pytest.raises(tw.QueryError, match="lateness: rows are late by their times; give time="):
        tw.Monitor(query, window=tw.last(5), lateness="1 second")
    with pytest.raises(tw.QueryError, match=r"lateness: latest\(\)"):
        tw.Monitor(query, window=tw.latest(), time="t", lateness="1 second")
    with pytest.raises(tw.QueryError, match="lateness: expected a time such as '10 seconds', got 5"):
        tw.Monitor(query, window=tw.last(5), time="t", lateness=5)  # type: ignore[arg-type]
