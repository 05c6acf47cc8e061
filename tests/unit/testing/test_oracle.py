"""The oracle itself, on cases worked out by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

from topwatch.testing import streams
from topwatch.testing.oracle import Oracle, Query, Seconds, Window
from topwatch.testing.oracle_scores import Score, score_rows

BEST = Query("best", "topk", Score("linear", (("a", 1.0),)), k=2)
HIGH = Query("high", "threshold", Score("linear", (("a", 1.0),)), above=5.0)


def rows(values: list[Any], ids: list[Any] | None = None, time: list[Any] | None = None) -> dict[str, Any]:
    batch: dict[str, Any] = {"id": ids or list(range(1, len(values) + 1)), "a": values}
    return batch if time is None else {**batch, "time": time}


def test_count_window_by_hand() -> None:
    oracle = Oracle([BEST], Window("count", 3))
    assert oracle.push(rows([5, 7, 6, 1, 1, 1])) == [
        (1, "best", "enter", 1, 5.0),
        (2, "best", "enter", 2, 7.0),
        (3, "best", "leave", 1, 5.0),
        (3, "best", "enter", 3, 6.0),
        (5, "best", "leave", 2, 7.0),
        (5, "best", "enter", 5, 1.0),
        (6, "best", "leave", 3, 6.0),
        (6, "best", "enter", 6, 1.0),
    ]
    assert oracle.answer("best") == [(6, 1.0), (5, 1.0)]


def test_what_happens_between_evaluations_is_not_reported() -> None:
    oracle = Oracle([BEST], Window("count", 2), every=3)
    assert oracle.push(rows([9, 9, 1, 2])) == [(3, "best", "enter", 2, 9.0), (3, "best", "enter", 3, 1.0)]
    assert oracle.push(rows([3, 4], [5, 6])) == [
        (6, "best", "leave", 2, 9.0),
        (6, "best", "leave", 3, 1.0),
        (6, "best", "enter", 6, 4.0),
        (6, "best", "enter", 5, 3.0),
    ]


def test_time_window_is_open_at_its_old_end() -> None:
    oracle = Oracle([HIGH], Window("time", 10), time="time")
    oracle.push(rows([6, 7], time=[0.0, 1.0]))
    assert oracle.advance(9.875) == []
    assert oracle.advance(10.0) == [(2, "high", "leave", 1, 6.0)]
    assert oracle.push(rows([9], [3], [11.0])) == [(3, "high", "leave", 2, 7.0), (3, "high", "enter", 3, 9.0)]


def test_boundaries_come_before_the_rows_of_their_minute() -> None:
    oracle = Oracle([HIGH], Window("time", 60), every=Seconds(60), time="time")
    assert oracle.push(rows([6], time=[30.0])) == []
    assert oracle.push(rows([7], [2], [60.0])) == [(1, "high", "enter", 1, 6.0)]
    assert oracle.answer("high") == [(1, 6.0)]
    assert oracle.advance(119.0) == []
    assert oracle.advance(120.0) == [(2, "high", "leave", 1, 6.0)]  # the row of second 60 is a minute old: gone too
    assert oracle.answer("high") == []


def test_a_row_can_enter_and_leave_at_two_boundaries_with_no_row_between() -> None:
    oracle = Oracle([HIGH], Window("time", 60), every=Seconds(60), time="time")
    oracle.push(rows([6], time=[30.0]))
    assert oracle.advance(600.0) == [(1, "high", "enter", 1, 6.0), (1, "high", "leave", 1, 6.0)]


def test_timestamps_and_seconds_agree() -> None:
    seconds = np.cumsum(np.random.default_rng(3).integers(0, 40, 60)) * 0.125
    stamps = np.datetime64("1970-01-01", "ns") + (seconds * 1e9).astype("timedelta64[ns]")
    values = list(range(60))
    for every in (1, 7, Seconds(3)):
        one, other = (Oracle([BEST, HIGH], Window("time", 5), every=every, time="time") for _ in range(2))
        assert one.push(rows(values, time=list(seconds))) == other.push({**rows(values), "time": stamps})


def test_latest_by_hand() -> None:
    oracle = Oracle([BEST], Window("latest"))
    oracle.push(rows([5, 7], ["x", "y"]))
    assert oracle.push(rows([7], ["x"])) == [(3, "best", "leave", "x", 5.0), (3, "best", "enter", "x", 7.0)]
    assert oracle.answer("best") == [("x", 7.0), ("y", 7.0)]
    assert oracle.push(rows([7], ["y"])) == []
    assert oracle.answer("best") == [("y", 7.0), ("x", 7.0)]
    assert oracle.delete(["y", "nobody"]) == [(4, "best", "leave", "y", 7.0)]
    assert oracle.unknown_deletes == 1


def test_added_query_sees_the_window_of_the_last_evaluation() -> None:
    oracle = Oracle([BEST], Window("count", 2), every=2)
    oracle.push(rows([8, 9, 10]))
    assert oracle.add(HIGH) == [(2, "high", "enter", 2, 9.0), (2, "high", "enter", 1, 8.0)]
    assert oracle.remove("best") == []
    assert oracle.push(rows([1], [4])) == [
        (4, "high", "leave", 2, 9.0),
        (4, "high", "leave", 1, 8.0),
        (4, "high", "enter", 3, 10.0),
    ]


def test_rows_that_cannot_be_ranked_are_counted_once() -> None:
    both = Query("both", "topk", Score("linear", (("a", 1.0), ("b", -1.0))), k=9, where=(("c", 0.0, 1.0),))
    oracle = Oracle([BEST, both], Window("count", 9))
    inf, nan = np.inf, np.nan
    batch = {"id": [1, 2, 3, 4, 5], "a": [inf, None, 1, 1, 2], "b": [inf, 1, 1, 1, 1], "c": [0, 0, nan, 2, 1]}
    oracle.push({name: np.array(values, dtype=object) for name, values in batch.items()})
    assert oracle.skipped == 2
    assert oracle.answer("best") == [(1, inf), (5, 2.0)]
    assert oracle.answer("both") == [(5, 1.0)]


def test_a_distance_prefers_small_values_and_thresholds_are_strict() -> None:
    near = Query("near", "nearest", Score("distance", (("a", 0.0), ("b", 0.0))), k=2)
    within = Query("within", "threshold", Score("distance", (("a", 0.0), ("b", 0.0))), above=5.0)
    oracle = Oracle([near, within], Window("count", 9))
    oracle.push({"id": [1, 2, 3], "a": [3, 1, 0], "b": [4, 1, 0]})
    assert oracle.answer("near") == [(3, 0.0), (2, np.sqrt(2.0))]
    assert oracle.answer("within") == [(3, 0.0), (2, np.sqrt(2.0))]


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (Score("linear", (("a", 2.0), ("b", -1.0))), 2.0 * 0.1 + -1.0 * 0.3),
        (Score("product", (("a", 1.0), ("b", 2.0))), (1.0 + 0.1) * (2.0 + 0.3)),
        (Score("quadratic", (("b", 3.0), ("a", 2.0))), 3.0 * (0.3 * 0.3) + 2.0 * (0.1 * 0.1)),
        (Score("distance", (("a", 1.0), ("b", 1.0))), np.sqrt((0.1 - 1) * (0.1 - 1) + (0.3 - 1) * (0.3 - 1))),
        (Score("expr", text="-a / (1 + b) ** 2 - 3 * a"), -0.1 / (1 + 0.3) ** 2 - 3 * 0.1),
        (Score("expr", text="2"), 2.0),
    ],
    ids=lambda value: value.kind if isinstance(value, Score) else "",
)
def test_scores(score: Score, expected: float) -> None:
    assert score_rows(score, {"a": np.array([0.1]), "b": np.array([0.3])}).tolist() == [expected]


def test_count_and_time_windows_against_pandas(rng: np.random.Generator) -> None:
    """The best of the window is pandas' rolling maximum."""
    stream = streams.make("uniform", rng, 80)
    first = Query("first", "topk", Score("linear", (("a", 1.0),)), k=1)
    stamps = pd.to_datetime(stream["time"], unit="s")
    series = pd.Series(stream["a"], index=stamps)
    for window, rolled in (
        (Window("count", 9), series.rolling(9, min_periods=1)),
        (Window("time", 3), series.rolling("3s")),
    ):
        oracle = Oracle([first], window, time="time")
        best = []
        for batch in streams.pieces(stream, [1] * 80):
            oracle.push(batch)
            best.append(oracle.answer("first")[0][1])
        assert best == rolled.max().tolist()


def test_latest_against_pandas(rng: np.random.Generator) -> None:
    stream = streams.make("ties", rng, 120, pool=20)
    query = Query("all", "topk", Score("linear", (("a", 1.0), ("b", 0.5))), k=5)
    oracle = Oracle([query], Window("latest"))
    for stop in range(1, 121):
        oracle.push(streams.part(stream, stop - 1, stop))
        frame = pd.DataFrame(streams.part(stream, 0, stop)).drop_duplicates("id", keep="last")
        frame["score"], frame["row"] = frame.a + 0.5 * frame.b, frame.index
        frame = frame.sort_values(["score", "row"], ascending=False).head(5)
        assert oracle.answer("all") == list(zip(frame.id, frame.score, strict=True))


@pytest.mark.parametrize("every", [1, 7, Seconds(4)], ids=str)
@pytest.mark.parametrize("window", [Window("count", 20), Window("time", 5), Window("latest")], ids=lambda w: w.kind)
def test_changes_replayed_give_the_answer_however_they_are_cut(
    window: Window, every: int | Seconds, rng: np.random.Generator
) -> None:
    stream = streams.make("ties", rng, 300, pool=40)
    whole, cut = (Oracle([BEST, HIGH], window, every, time="time") for _ in range(2))
    changes = whole.push(stream)
    batches = streams.pieces(stream, streams.random_sizes(rng, 50))
    assert changes == [change for batch in batches for change in cut.push(batch)]
    for name in ("best", "high"):
        replayed: Counter[tuple[Any, float]] = Counter()
        for change in changes:
            if change.query == name:
                replayed[change.id, change.score] += 1 if change.op == "enter" else -1
                assert replayed[change.id, change.score] >= 0
        assert +replayed == Counter(whole.answer(name))
