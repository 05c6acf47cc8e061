"""Which algorithm serves what, what it says when it does not, and options that change the cost but no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.exact_algorithms import ALGORITHMS
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, as_query, as_window, servable, serves
from topwatch.testing.oracle import Window

WINDOWS = [Window("count", 20), Window("time", 5), Window("latest")]
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("tma", {"cells": 1}),
    ("tma", {"cells": 5}),
    ("sma", {"cells": 1}),
    ("sma", {"cells": 5}),
    ("reserve", {"slack": 1}),
    ("reserve", {"slack": 30}),
    ("tsl", {"kmax": 100}),
    ("ra", {"relax": 0.0}),
    ("sarf", {"buffer": 3, "relax": 2.0}),
    ("rapf", {"buffer": 1}),
]


def by_kind(window: Window) -> str:
    return window.kind


@pytest.mark.parametrize("name", mixtures.SCORES)
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_planned_or_refused(algorithm: str, window: Window, name: str) -> None:
    score = mixtures.SCORES[name]
    for query in (mixtures.query("top", score), mixtures.query("over", score, above=0.5)):
        time = "time" if window.kind == "time" else None

        def monitor(name: str = algorithm, query: Any = query, time: str | None = time) -> tw.Monitor:
            return tw.Monitor(as_query(query), window=as_window(window), algorithm=name, time=time)

        if serves(algorithm, query, window):
            assert monitor().explain()
            continue
        with pytest.raises(tw.PlanError) as caught:
            monitor()
        message = str(caught.value)
        assert "\n" not in message
        assert algorithm in message
        assert any(other in message for other in ALGORITHMS if other != algorithm and serves(other, query, window))


@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ["tsl", "tma", "sma"])
def test_a_query_that_is_refused_later_changes_nothing(
    algorithm: str, window: Window, rng: np.random.Generator
) -> None:
    stream = streams.make("uniform", rng, 90, pool=25)
    queries = servable(algorithm, mixtures.mixture(rng, stream, 5, 20, "uniform"), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve this")
    both = Lockstep(queries, window, 1, algorithm)
    both.push(streams.part(stream, 0, 50))
    with pytest.raises(tw.PlanError):
        both.monitor.add(as_query(mixtures.query("free", mixtures.SCORES["free"])))
    both.compare([], [], "a refused query")
    both.push(streams.part(stream, 50, 90))


@pytest.mark.parametrize(("algorithm", "options"), OPTIONS, ids=lambda value: str(value))
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
def test_options_do_not_change_answers(
    window: Window, algorithm: str, options: dict[str, Any], rng: np.random.Generator
) -> None:
    stream = streams.make("anticorrelated", rng, 150, pool=30)
    queries = servable(algorithm, mixtures.mixture(rng, stream, 8, 20), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve this")
    both = Lockstep(queries, window, 2, algorithm, **options)
    for batch in streams.pieces(stream, [60, 30]):
        both.push(batch)
        both.restart()


def test_auto_explains_every_query(rng: np.random.Generator) -> None:
    stream = streams.make("uniform", rng, 90)
    queries = mixtures.mixture(rng, stream, 8, 20, "uniform")
    both = Lockstep(queries, Window("count", 20))
    both.push(stream)
    explained = str(both.monitor.explain())
    assert all(query.name in explained for query in queries)
    assert any(algorithm in explained for algorithm in ALGORITHMS)
