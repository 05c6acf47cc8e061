"""Engines that are made while rows flow: all queries of one go, rows come without them, and they are added again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.sizes import Scale
from topwatch.algorithms.registry import algorithms
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, as_query, as_window, serves
from topwatch.testing.oracle import Query, Seconds, Window
from topwatch.testing.oracle_dominance import carrier
from topwatch.testing.oracle_incomplete import Incomplete
from topwatch.testing.oracle_scores import Score

EXACT = [name for name, known in algorithms().items() if known.exact]
WINDOWS = [Window("count", 25), Window("time", 6), Window("latest")]
SOURCES = ("north", "east", "south")


def of_family(family: str, latest: bool) -> list[Query]:
    """Queries that one engine serves, all over the columns a and b, or over what sources say."""
    prefer = (("a", "min"), ("b", "max"))
    if family == "dominating":
        return [Query(f"q{k}", "dominating", carrier(prefer), k=k, prefer=prefer) for k in (1, 4)]
    if family == "skyline":
        result = [Query("front", "skyline", carrier(prefer), prefer=prefer)]
        often = Query("often", "frequent", carrier(prefer), prefer=prefer, share=0.5, snapshots=5)
        return [*result, often] if latest else result
    if family == "incomplete":
        sure = Incomplete(SOURCES, bounds=((0.0, 1.0),) * 3)
        learnt = Incomplete(SOURCES, combine="mean", occurrences="sum", learn=True)
        return [
            Query(f"q{k}", "incomplete", Score("linear"), k=k, parts=parts) for k, parts in ((2, sure), (5, learnt))
        ]
    scores = [mixtures.SCORES["linear"], Score("distance", (("a", 0.4), ("b", 0.6)))]
    return [mixtures.query(f"q{i}", score, k) for i, (score, k) in enumerate(zip(scores, (3, 30), strict=True))]


def stream_of(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    stream = streams.make(str(rng.choice(["uniform", "ties", "anticorrelated"])), rng, rows, pool=15)
    return {**stream, "source": rng.choice(SOURCES, rows), "value": rng.random(rows)}


@pytest.mark.parametrize("every", [1, 7, Seconds(3)], ids=["every-1", "every-7", "every-3s"])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.kind)
@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("read_on", [True, False], ids=["read-on", "not-read"])
def test_the_last_query_goes_and_comes_back(
    read_on: bool, algorithm: str, window: Window, every: int | Seconds, rng: np.random.Generator, scale: Scale
) -> None:
    """Also before the window is full. Where another engine's query needs the columns, rows between have values."""
    family = algorithms()[algorithm].family or "topk"
    leaving = of_family(family, window.kind == "latest")
    leaving = [query for query in leaving if algorithm != "brute" or query.kind != "frequent"]
    if window.kind == "latest" and not algorithms()[algorithm].latest:
        pytest.skip(f"{algorithm} does not serve this")
    stays = mixtures.query("stays", mixtures.SCORES["linear"], above=0.9)
    if read_on and (family != "topk" or algorithm == "brute"):
        pytest.skip("one engine serves all queries that it can")
    stream = stream_of(rng, max(120, scale.rows // 8))
    both = Lockstep([*([stays] if read_on else []), *leaving], window, every, algorithm)
    assert all(serves(algorithm, query, window) for query in leaving)
    for number, batch in enumerate(streams.pieces(stream, [8, 6, 5, 40, 12, 30])):
        both.push(batch)
        for query in leaving if number % 2 == 0 else leaving[::-1]:
            if number % 2 == 0:
                both.remove(query.name)
            else:
                both.add(query)


@pytest.mark.parametrize("algorithm", ["pa", "approx", "ahba", "amsa", "sampling"])
def test_no_row_that_has_left_the_window_is_an_answer(algorithm: str, rng: np.random.Generator) -> None:
    """The same for those that are not exact."""
    family = algorithms()[algorithm].family
    latest = algorithm == "sampling"
    window = Window("latest") if latest else Window("count", 25)
    queries = [as_query(query) for query in of_family(family, latest) if (query.kind == "frequent") == latest]
    stays = tw.Threshold(score=tw.linear(a=1.0, b=1.0), above=9.0, name="stays")
    monitor = tw.Monitor([*([stays] if family == "topk" else []), *queries], as_window(window), algorithm=algorithm)
    stream = {**stream_of(rng, 200), "id": np.arange(200)}
    seen = 0
    for number, batch in enumerate(streams.pieces(stream, [40, 40, 30, 50])):
        monitor.push(batch)
        seen += len(batch["id"])
        for query in queries:
            if number % 2 == 0:
                monitor.remove(query.name)
            else:
                monitor.add(query)
                oldest = 0 if latest else seen - 25
                assert all(oldest <= entry.id < seen for entry in monitor.answer(query.name))
        monitor._check()


@pytest.mark.parametrize(
    ("algorithm", "options", "query", "message"),
    [
        ("tsl", {"kmax": 5}, tw.TopK(k=6, score=tw.linear(c=1.0)), "kmax: expected at least k"),
        ("tsl", {"kmax": 5}, tw.Skyline(prefer={"c": "min"}), "it ranks by a score"),
        ("tma", {}, tw.TopK(k=1, score=tw.expr("c * a")), "increasing= or decreasing= for c, a"),
        ("auto", {}, tw.FrequentSkyline(prefer={"c": "min"}, share=0.5, snapshots=3), "counted over latest"),
        ("auto", {"emit": "first"}, tw.IncompleteTopK(k=1, sources=["x"], value="c"), "'first' is of rows"),
    ],
)
def test_a_query_that_is_refused_leaves_nothing_behind(
    algorithm: str, options: dict[str, Any], query: Any, message: str
) -> None:
    """Its columns are not asked for afterwards."""
    stays = tw.TopK(k=2, score=tw.linear(a=1.0), name="stays")
    monitor = tw.Monitor(stays, window=tw.last(5), algorithm=algorithm, **options)
    with pytest.raises(tw.TopwatchError, match=message):
        monitor.add(query)
    monitor.push({"id": [1, 2, 3], "a": [1.0, 3.0, 2.0]})
    assert (monitor.columns, [entry.id for entry in monitor.answer()]) == (["a"], [2, 3])


@pytest.mark.parametrize(
    ("algorithm", "options"), [("reserve", {"route": "map"}), ("rapf", {"index": None}), ("approx", {"bitmaps": 3})]
)
def test_options_are_refused_before_there_are_queries(algorithm: str, options: dict[str, Any]) -> None:
    with pytest.raises(tw.QueryError, match=f"{next(iter(options))}: expected"):
        tw.Monitor([], window=tw.last(5), algorithm=algorithm, **options)
