"""However event time passes: by rows alone, by ``advance`` at each boundary, or now and then. Changes are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.sizes import Scale
from topwatch.core import schedule
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, as_changes, as_query
from topwatch.testing.oracle import Query, Seconds, Window
from topwatch.testing.oracle_dominance import carrier
from topwatch.testing.oracle_scores import Score

PREFER = (("a", "min"), ("b", "max"))
OFTEN = Query("often", "frequent", carrier(PREFER), prefer=PREFER, share=0.6, snapshots=10)
RARELY = Query("rarely", "frequent", carrier(PREFER[:1]), prefer=PREFER[:1], share=0.2, snapshots=3)
FRONT = Query("front", "skyline", carrier(PREFER), prefer=PREFER)
RIVALS = Query("rivals", "dominating", carrier(PREFER), prefer=PREFER, k=2)
TOP = mixtures.query("top", Score("linear", (("a", 1.0), ("b", 0.5))), 3)
WINDOWS = [Window("count", 12), Window("time", 90), Window("latest")]


def sparse(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """Bursts of rows, and silences of up to ten minutes between them."""
    pauses = np.where(rng.random(rows) < 0.3, rng.integers(0, 600 * 8, rows), rng.integers(0, 8, rows))
    return {**streams.make("ties", rng, rows, pool=8), "time": np.cumsum(pauses) * streams.STEP}


def queries_of(window: Window) -> list[Query]:
    return [TOP, FRONT, RIVALS, *([OFTEN, RARELY] if window.kind == "latest" else [])]


def all_at_once(stream: Any, push: Callable[..., Any], advance: Callable[..., Any], rng: np.random.Generator) -> None:
    push(stream)


def row_by_row(stream: Any, push: Callable[..., Any], advance: Callable[..., Any], rng: np.random.Generator) -> None:
    for row in range(len(stream["id"])):
        push(streams.part(stream, row, row + 1))


def at_each_boundary(
    stream: Any, push: Callable[..., Any], advance: Callable[..., Any], rng: np.random.Generator
) -> None:
    last = 0
    for row, time in enumerate(stream["time"].tolist()):
        for boundary in range(last + 1, int(time // 60) + 1):
            advance(60.0 * boundary)
        last = int(time // 60)
        push(streams.part(stream, row, row + 1))


def now_and_then(stream: Any, push: Callable[..., Any], advance: Callable[..., Any], rng: np.random.Generator) -> None:
    now = 0.0
    for batch in streams.pieces(stream, streams.random_sizes(rng, 6)):
        if len(batch["id"]):
            for moment in np.sort(rng.uniform(now, batch["time"][0], rng.integers(0, 4))).tolist():
                advance(moment)
            push(batch)
            now = float(batch["time"][-1])


WAYS = [all_at_once, row_by_row, at_each_boundary, now_and_then]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.kind)
def test_changes_do_not_depend_on_how_time_passes(
    window: Window, way: Any, rng: np.random.Generator, scale: Scale
) -> None:
    """Equal to the oracle after each push and advance, and all together equal to those of a single push."""
    stream = sparse(rng, max(60, scale.rows // 8))
    both = Lockstep(queries_of(window), window, Seconds(60))
    reported: list[Any] = []
    end = float(stream["time"][-1]) + 3600
    way(
        stream, lambda rows: reported.extend(both.push(rows)), lambda moment: reported.extend(both.advance(moment)), rng
    )
    reported += both.advance(end)
    other = Lockstep(queries_of(window), window, Seconds(60))
    assert reported == [*other.push(stream), *other.advance(end)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nor_do_those_of_samples(way: Any, rng: np.random.Generator, scale: Scale) -> None:
    """With so little asked that few of the snapshots are sampled; also across a restore."""
    query = tw.FrequentSkyline(prefer={"a": "min", "b": "max"}, share=0.5, snapshots=40, name="often")
    options = {"algorithm": "sampling", "epsilon": 0.9, "delta": 0.7, "seed": int(rng.integers(2**31))}

    def monitor() -> tw.Monitor:
        return tw.Monitor(query, window=tw.latest(), every="1 minute", time="time", **options)

    stream = sparse(rng, max(60, scale.rows // 8))
    stands = [monitor()]
    reported: list[Any] = []

    def advance(moment: float) -> None:
        if rng.random() < 0.05:
            stands[0] = tw.Monitor.restore(stands[0].snapshot())
        reported.extend(as_changes(stands[0].advance(moment)))

    way(stream, lambda rows: reported.extend(as_changes(stands[0].push(rows))), advance, rng)
    one, other = stands[0], monitor()
    end = float(stream["time"][-1]) + 7200
    reported += as_changes(one.advance(end))
    assert reported == [*as_changes(other.push(stream)), *as_changes(other.advance(end))] != []
    assert one.answer() == other.answer()


FIRST = {"id": np.array([1, 2]), "time": np.array([0.0, 1.0]), "a": np.array([1.0, 2.0])}
LATER = {"id": np.array([2]), "time": np.array([630.0]), "a": np.array([0.5])}


class TestByHand:
    def test_ten_minutes_of_silence_are_ten_snapshots(self) -> None:
        query = tw.FrequentSkyline(prefer={"a": "min"}, share=0.01, snapshots=100, name="often")
        one, other = (tw.Monitor(query, window=tw.latest(), every="1 minute", time="time") for _ in range(2))
        for monitor in (one, other):
            monitor.push(FIRST)
        for minute in range(1, 11):
            other.advance(60.0 * minute)
        for monitor in (one, other):
            monitor.push(LATER)
            monitor.advance(660.0)
            assert [(entry.id, entry.score) for entry in monitor.answer()] == [(1, 10 / 11), (2, 1 / 11)]
            assert monitor.stats()["snapshots"] == 11

    def test_a_row_is_no_boundary(self) -> None:
        """Where the tick is a row, moving time on takes no snapshot."""
        query = tw.FrequentSkyline(prefer={"a": "min"}, share=0.01, snapshots=100, name="often")
        monitor = tw.Monitor(query, window=tw.latest(), time="time")
        monitor.push(FIRST)
        assert list(monitor.advance(600.0)) == []
        assert monitor.stats()["snapshots"] == 2

    @pytest.mark.parametrize("snapshots", [1, 7, 5000])
    def test_a_billion_boundaries(self, snapshots: int) -> None:
        """More of them than count are not walked one by one."""
        query = tw.FrequentSkyline(prefer={"a": "min"}, share=1e-4, snapshots=snapshots, name="often")
        monitor = tw.Monitor(query, window=tw.latest(), every="1 second", time="time")
        monitor.push(FIRST)
        monitor.push({**LATER, "time": np.array([1e9])})
        assert [(entry.id, entry.score) for entry in monitor.answer()] == [(1, 1.0)]
        assert [(c.op, c.id) for c in monitor.advance(1e9 + 1)] == [("leave", 1)] * (snapshots == 1) + [("enter", 2)]
        assert monitor.stats()["snapshots"] <= snapshots + 3


@pytest.mark.parametrize("stamped", [False, True], ids=["seconds", "timestamps"])
def test_a_window_of_many_boundaries(stamped: bool, rng: np.random.Generator, scale: Scale) -> None:
    """An hour, evaluated each second, in which few rows come: only boundaries that see one come or go are evaluated."""
    stream = sparse(rng, max(60, scale.rows // 8))
    if stamped:
        stream["time"] = np.datetime64("2024-02-29T23:59:00", "ns") + (stream["time"] * 1e9).astype("timedelta64[ns]")
    both = Lockstep([TOP, FRONT, RIVALS], Window("time", 3600), Seconds(1))
    for batch in streams.pieces(stream, streams.random_sizes(rng, 30)):
        both.push(batch)
    assert both.monitor.stats()["evaluations"] < 30 * len(stream["id"]) + 1024 * 40
    both.advance(stream["time"][-1] + (np.timedelta64(2, "h") if stamped else 7200.0))
    assert both.oracle.answer("top") == []


def test_a_year_evaluated_each_millisecond() -> None:
    """Thirty billion boundaries in a window find no room, and need none."""
    monitor = tw.Monitor(as_query(TOP), window=tw.last("365 days"), every="1 ms", time="time")
    monitor.push({"id": [1, 2], "time": np.array([0.0, 86_400.0]), "a": np.ones(2), "b": np.ones(2)})
    reported = [(c.op, c.id) for c in monitor.advance(400 * 86_400.0)]
    assert reported == [("enter", 2), ("leave", 1), ("leave", 2)]
    assert monitor.stats()["evaluations"] < 50


def test_more_snapshots_than_are_planned_at_once(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr(schedule, "MOST", 4)
    stream = sparse(rng, 60)
    both = Lockstep([OFTEN, RARELY, TOP], Window("latest"), Seconds(60))
    for batch in streams.pieces(stream, streams.random_sizes(rng, 30)):
        both.push(batch)
        if rng.random() < 0.3 and both.oracle.now is not None:
            both.advance(both.oracle.now)
    both.advance(float(stream["time"][-1]) + 7200)
