"""Each kind of query alone, many at once, and queries that come and go while rows flow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.exact_algorithms import ALGORITHMS
from tests.support.sizes import Scale
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, servable, serves
from topwatch.testing.oracle import Query, Seconds, Window
from topwatch.testing.oracle_scores import Score

WINDOWS = [Window("count", 25), Window("time", 6), Window("latest")]


def by_kind(window: Window) -> str:
    return window.kind


@pytest.mark.parametrize("name", mixtures.SCORES)
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_score_alone(algorithm: str, window: Window, name: str, rng: np.random.Generator) -> None:
    """Top-k or nearest, threshold, and both within a range, one monitor each."""
    score = mixtures.SCORES[name]
    stream = streams.make("uniform", rng, 120, pool=30)
    level = mixtures.threshold(score, stream, 0.1)
    inside = mixtures.ranges(rng, stream)
    queries = [mixtures.query("top", score, 4), mixtures.query("above", score, above=level)]
    queries += [replace(query, name=f"{query.name} inside", where=inside) for query in queries]
    if not serves(algorithm, queries[0], window):
        pytest.skip(f"{algorithm} does not serve this")
    for query in queries:
        both = Lockstep([query], window, 1, algorithm)
        for batch in streams.pieces(stream, [1, 2, 60]):
            both.push(batch)


@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_queries_share_a_monitor(algorithm: str, window: Window, rng: np.random.Generator, scale: Scale) -> None:
    stream = streams.make("anticorrelated", rng, scale.rows // 4, pool=40)
    queries = servable(algorithm, mixtures.mixture(rng, stream, 8 * scale.queries, 25), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve this")
    both = Lockstep(queries, window, 3, algorithm)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 80)):
        both.push(batch)


@pytest.mark.parametrize("every", [1, 7, Seconds(3)], ids=["every-1", "every-7", "every-3s"])
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_queries_come_and_go(
    algorithm: str, window: Window, every: int | Seconds, rng: np.random.Generator, scale: Scale
) -> None:
    stream = streams.make("ties", rng, max(100, scale.rows // 8), pool=30)
    queries = servable(algorithm, mixtures.mixture(rng, stream, 2 * scale.queries, 25, "ties"), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve this")
    both, waiting = Lockstep(queries[:2], window, every, algorithm), queries[2:]
    for batch in streams.pieces(stream, streams.random_sizes(rng, 20)):
        both.push(batch)
        standing_now = list(both.oracle.queries.values())[1:]
        if waiting and rng.random() < 0.5:
            both.add(waiting.pop(int(rng.integers(len(waiting)))))
        elif standing_now and rng.random() < 0.4:
            gone = standing_now[int(rng.integers(len(standing_now)))]
            both.remove(gone.name)
            waiting.append(gone)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_added_before_the_first_row_and_after_the_last_query_went(algorithm: str, rng: np.random.Generator) -> None:
    stream = streams.make("ties", rng, 90)
    one, two = mixtures.query("one", mixtures.SCORES["linear"], 3), mixtures.query("two", mixtures.SCORES["single"], 2)
    both = Lockstep([one], Window("count", 10), 1, algorithm)
    assert both.add(two) == []
    both.remove("one")
    both.push(streams.part(stream, 0, 40))
    both.add(mixtures.query("one", mixtures.SCORES["single"], 9))
    both.remove("two")
    both.push(streams.part(stream, 40, 90))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_names_of_columns_may_be_anything(algorithm: str, rng: np.random.Generator) -> None:
    names = {"a": "net.bytes", "b": "Größe in m²", "c": "class"}
    stream = {names.get(name, name): values for name, values in streams.make("uniform", rng, 60).items()}
    score = Score("linear", (("net.bytes", 0.5), ("Größe in m²", -0.25), ("class", 1.0)))
    query = Query("a name: with ✓", "topk", score, k=3, where=(("class", 0.1, 0.9),))
    Lockstep([query], Window("count", 10), 1, algorithm).push(stream)


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a not in ("tsl", "tma", "sma", "cpm", "snn")])
@pytest.mark.parametrize(
    "text", ["a / b", "a / (b - c)", "b ** 2 - a", "a ** -1 + b", "2 ** b * a", "a - -b + +c", "a / 0 + b", "1e308 * a"]
)
def test_expressions(text: str, algorithm: str, rng: np.random.Generator) -> None:
    """On a grid of whole numbers, so that powers are exact; a division by zero is infinite or not a number."""
    stream = streams.make("ties", rng, 120)
    score = Score("expr", text=text)
    queries = [mixtures.query("top", score, 4), mixtures.query("above", score, above=1.0)]
    Lockstep(queries, Window("count", 20), 1, algorithm).push(stream)


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a not in ("tsl", "tma", "sma", "cpm", "snn")])
@pytest.mark.parametrize("text", ["a ** 2 + b", "a ** 3 - b ** 0.5", "(1 + a) ** (b - c)", "c ** -2"])
def test_powers(text: str, algorithm: str, rng: np.random.Generator) -> None:
    """On any numbers, to the last bit: vectorised powers are other ones in some of a hundred rows."""
    stream = streams.make("uniform", rng, 400)
    both = Lockstep([mixtures.query("top", Score("expr", text=text), 400)], Window("count", 400), 100, algorithm)
    both.push(stream)
    for id in stream["id"][:5].tolist():
        assert both.monitor.why(id).score == dict(both.oracle.answer("top"))[id]
