"""Event time: windows that expire, time that moves on without rows, evaluations at boundaries."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.batch_kinds import BATCH_KINDS
from tests.support.exact_algorithms import ALGORITHMS
from tests.support.sizes import Scale
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, as_changes, servable
from topwatch.testing.oracle import Query, Seconds, Window
from topwatch.testing.oracle_incomplete import Incomplete
from topwatch.testing.oracle_scores import Score

TOP = mixtures.query("top", Score("linear", (("a", 1.0),)), 2)
EPOCH = np.datetime64("1970-01-01T00:00:00", "ns")


def rows(times: list[float], values: list[float], start: int = 1) -> dict[str, np.ndarray]:
    return {"id": np.arange(start, start + len(times)), "time": np.array(times, float), "a": np.array(values, float)}


def stamped(stream: dict[str, Any], unit: str, start: str = "2024-02-29T23:59:00") -> dict[str, Any]:
    """The same stream with timestamps of this unit, from a day on."""
    times = np.datetime64(start, "ns") + (stream["time"] * 1e9).astype("timedelta64[ns]")
    return {**stream, "time": times.astype(f"datetime64[{unit}]")}


@pytest.mark.parametrize("every", [1, 7, Seconds(2), Seconds(60)], ids=["every-1", "every-7", "every-2s", "every-60s"])
@pytest.mark.parametrize("window", [Window("count", 25), Window("time", 6), Window("latest")], ids=lambda w: w.kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_advance(algorithm: str, window: Window, every: int | Seconds, rng: np.random.Generator, scale: Scale) -> None:
    stream = streams.make("ties", rng, scale.rows // 4, pool=30, bursts=bool(rng.integers(2)))
    queries = servable(algorithm, mixtures.mixture(rng, stream, scale.queries // 2, 25, "ties"), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve this")
    both = Lockstep(queries, window, every, algorithm, time="time")
    both.advance(stream["time"][0])
    ahead = 0.0
    for batch in streams.pieces(stream, streams.random_sizes(rng, 30)):
        both.push({**batch, "time": batch["time"] + ahead})
        if rng.random() < 0.5 and len(batch["id"]):
            step = float(rng.choice([0.0, 0.125, 1.0, 3.5, 6.0, 20.0]))
            both.advance(batch["time"][-1] + ahead + step)
            ahead += step
    both.advance(both.oracle.now + 1000)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
class TestByHand:
    def test_a_row_of_exactly_the_windows_age_is_gone(self, algorithm: str) -> None:
        both = Lockstep([TOP], Window("time", 10), 1, algorithm)
        both.push(rows([0, 0, 0.125], [3, 2, 1]))
        assert both.advance(9.875) == []
        assert [change.id for change in both.advance(10.0)] == [1, 2, 3]
        assert both.advance(10.0) == []
        both.push(rows([10.125], [5], start=4))

    def test_a_whole_window_expires_within_a_batch(self, algorithm: str) -> None:
        both = Lockstep([TOP], Window("time", 10), 1, algorithm)
        both.push(rows([0, 1, 2, 50, 51, 52, 100], [9, 8, 7, 1, 2, 3, 0]))

    def test_boundaries_without_rows_between_them(self, algorithm: str) -> None:
        both = Lockstep([TOP], Window("time", 120), Seconds(60), algorithm)
        assert both.push(rows([30, 90], [5, 4])) == [(1, "top", "enter", 1, 5.0)]
        assert [(change.op, change.id) for change in both.push(rows([1000], [1], start=3))] == [
            ("enter", 2),
            ("leave", 1),
            ("leave", 2),
        ]

    def test_a_boundary_comes_before_its_row(self, algorithm: str) -> None:
        both = Lockstep([TOP], Window("count", 2), Seconds(60), algorithm)
        assert both.push(rows([59.875], [5])) == []
        assert both.push(rows([60], [9], start=2)) == [(1, "top", "enter", 1, 5.0)]
        assert both.push(rows([60], [8], start=3)) == []
        assert both.advance(119.875) == []
        both.add(mixtures.query("late", TOP.score, 5))
        assert [change.id for change in both.advance(120)] == [1, 2, 3, 1, 2, 3]

    def test_long_silence(self, algorithm: str) -> None:
        """A billion boundaries without a row are not walked one by one."""
        both = Lockstep([TOP], Window("time", 5), Seconds(1), algorithm)
        both.push(rows([0.5, 1e9], [5, 4]))
        both.advance(2e9)

    def test_times_before_the_epoch(self, algorithm: str) -> None:
        both = Lockstep([TOP], Window("time", 5), Seconds(2), algorithm)
        both.push(rows([-7.5, -6.0, -1.875, -0.125, 0, 0.125, 2, 4], [5, 4, 3, 2, 1, 2, 3, 4]))


@pytest.mark.parametrize("batch_kind", ["dict", "table", "pandas", "polars"])
@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
@pytest.mark.parametrize("every", [1, 7, Seconds(4)], ids=["every-1", "every-7", "every-4s"])
def test_timestamps(unit: str, batch_kind: str, every: int | Seconds, rng: np.random.Generator) -> None:
    stream = stamped(streams.make("uniform", rng, 90), unit)
    both = Lockstep(mixtures.mixture(rng, stream, 5, 20, "uniform"), Window("time", 5), every)
    for batch in streams.pieces(stream, [20, 1, 40]):
        both.push(batch, BATCH_KINDS[batch_kind])
    both.restart()
    both.advance(stream["time"][-1] + np.timedelta64(2, "s"))
    both.advance(stream["time"][-1] + np.timedelta64(1, "h"))


@pytest.mark.parametrize("every", [1, 3, Seconds(2)], ids=["every-1", "every-3", "every-2s"])
@pytest.mark.parametrize("start", ["1677-09-21T00:12:43.145224193", "1677-09-21T00:12:46", "2262-04-11T23:46:46"])
def test_the_first_and_last_timestamps(start: str, every: int | Seconds, rng: np.random.Generator) -> None:
    """A window that reaches back to before the earliest time of 64 bits holds all rows."""
    parts = Incomplete(sources=("up", "down"), source="source", value="b")
    queries = [TOP, Query("gathered", "incomplete", Score("linear"), k=2, parts=parts)]
    both = Lockstep(queries, Window("time", 5), every)
    count = 60
    stream = {
        "id": np.arange(count),
        "time": np.cumsum(rng.choice([0.0, 0.125, 0.5], count)),
        "a": rng.random(count),
        "b": rng.integers(0, 9, count).astype(float),
        "source": rng.choice(np.array(["up", "down"], object), count),
    }
    stream = stamped(stream, "ns", start)
    for batch in streams.pieces(stream, streams.random_sizes(rng, count)):
        both.push(batch)


def test_whole_numbers_count_seconds(rng: np.random.Generator) -> None:
    stream = streams.make("uniform", rng, 90)
    stream["time"] = np.floor(stream["time"]).astype(np.int64)
    both = Lockstep([TOP], Window("time", 5), 2)
    both.push(stream)
    both.advance(int(stream["time"][-1]) + 3)


@pytest.mark.parametrize(
    "moment",
    [np.datetime64("2024-03-01T00:00:30"), datetime.datetime(2024, 3, 1, 0, 0, 30)],
    ids=["numpy", "datetime"],
)
def test_advance_takes_timestamps_of_any_make(moment: Any) -> None:
    times = np.array(["2024-03-01T00:00:00", "2024-03-01T00:00:20"], dtype="datetime64[s]")
    monitor = tw.Monitor(tw.TopK(k=2, score=tw.linear(a=1.0)), window=tw.last("30 seconds"), time="time")
    monitor.push({"id": [1, 2], "time": times, "a": np.array([1.0, 2.0])})
    assert [(change.op, change.id) for change in monitor.advance(moment)] == [("leave", 1)]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90 seconds", 90), ("1 minute", 60), ("2 minutes", 120), ("1 hour", 3600), ("1 day", 86400)]
)
def test_durations_in_words(text: str, seconds: int, rng: np.random.Generator) -> None:
    stream = streams.make("uniform", rng, 60)
    stream["time"] = stream["time"] * (seconds // 2)
    spelt = tw.Monitor(tw.TopK(k=2, score=tw.linear(a=1.0), name="top"), window=tw.last(text), every=text, time="time")
    both = Lockstep([TOP], Window("time", seconds), Seconds(seconds))
    assert as_changes(spelt.push(stream)) == both.push(stream) != []


def test_time_of_a_count_window_is_not_needed(rng: np.random.Generator) -> None:
    stream = streams.make("uniform", rng, 60)
    del stream["time"]
    Lockstep([TOP], Window("count", 9), 3).push(stream)
