"""Skylines, and how often ids are in them: every algorithm equals the oracle at every evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.exact_algorithms import SKYLINE
from tests.support.query_mixtures import live_through, often
from tests.support.sizes import COMPILED, Scale
from tests.support.stream_kinds import columns
from topwatch.testing import streams
from topwatch.testing.lockstep import Lockstep, as_query
from topwatch.testing.mixtures import front, skylines
from topwatch.testing.oracle import Query, Seconds, Window

EVERY = [1, 7, Seconds(5)]
KINDS = ["count", "time", "latest"]


def window_of(kind: str, rows: int) -> Window:
    return Window(kind, rows if kind == "count" else max(1, rows // streams.ROWS_PER_SECOND))


def counted() -> list[Query]:
    return [
        often("most", {"a": "min", "b": "max"}, 0.6, 9),
        often("each", {"a": "min", "c": "min", "b": "min"}, 1.0, 3),
        often("ever", {"c": "max", "b": "max"}, 0.01, 20, where=(("a", 0.0, 2.0),)),
        front("now", {"a": "min", "b": "max"}),
    ]


@pytest.mark.parametrize("every", EVERY, ids=lambda every: f"every-{getattr(every, 'seconds', every)}")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", SKYLINE)
def test_pace(algorithm: str, kind: str, every: int | Seconds, rng: np.random.Generator, scale: Scale) -> None:
    size = scale.window // 2
    shape = str(rng.choice(["uniform", "anticorrelated", "ties"]))
    stream = streams.make(shape, rng, scale.rows // (2 if algorithm == "witness" else 5), pool=size)
    both = Lockstep(skylines(), window_of(kind, size), every, algorithm)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 2 * size)):
        both.push(batch)
        if rng.random() < 0.1:
            both.restart()


@pytest.mark.parametrize("shape", streams.SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_shape(kind: str, shape: str, rng: np.random.Generator, scale: Scale) -> None:
    """With deletions, restarts and queries that come and go."""
    size = scale.window // 2
    stream = streams.make(shape, rng, scale.rows // 3, pool=size, bursts=bool(rng.integers(2)))
    queries = skylines()
    both = Lockstep(queries[:3], window_of(kind, size), int(rng.choice([1, 1, 4])), "witness")
    live_through(both, streams.pieces(stream, streams.random_sizes(rng, size)), rng, {2: queries[3]}, {4: "two"})


@pytest.mark.parametrize("data", ["ind", "ant", "cor", "duplicates"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("kind", ["count", "latest"])
def test_columns(kind: str, d: int, data: str, rng: np.random.Generator) -> None:
    size, rows = (200, 500) if COMPILED else (30, 80)
    stream = {"id": rng.integers(0, size, rows), **columns(rng, data, rows, d)}
    prefer = {f"x{i}": str(rng.choice(["min", "max"])) for i in range(d)}
    both = Lockstep([front("sky", prefer)], window_of(kind, size), 1, "witness")
    for batch in streams.pieces(stream, streams.random_sizes(rng, size)):
        both.push(batch)


@pytest.mark.parametrize("every", EVERY, ids=lambda every: f"every-{getattr(every, 'seconds', every)}")
@pytest.mark.parametrize("shape", ["uniform", "anticorrelated", "ties", "holes", "infinities", "drifting"])
def test_frequent(shape: str, every: int | Seconds, rng: np.random.Generator, scale: Scale) -> None:
    pool = scale.window // 3
    stream = streams.make(shape, rng, scale.rows // 2, pool=pool)
    queries = counted()
    both = Lockstep(queries[:3], Window("latest"), every, "auto")
    live_through(both, streams.pieces(stream, streams.random_sizes(rng, 20)), rng, {3: queries[3]}, {6: "each"})


def test_a_deletion_that_finds_no_row_is_no_snapshot() -> None:
    both = Lockstep([often("often", {"a": "min"}, 0.5, 10)], Window("latest"), 1)
    both.push({"id": np.array([1, 2]), "a": np.array([1.0, 2.0])})
    for ids, taken in (([], 2), ([3, 3], 2), ([1, 1, 3], 3), ([1], 3)):
        both.delete(ids)
        assert both.monitor.stats()["snapshots"] == taken
    assert [(entry.id, entry.score) for entry in both.monitor.answer()] == []


def test_all_snapshots_sampled_is_exact(rng: np.random.Generator) -> None:
    """With few snapshots in the window the rate of Theorem 5.1 is 1."""
    stream = streams.make("uniform", rng, 300, pool=25)
    both = Lockstep(counted()[:3], Window("latest"), 5, "sampling", epsilon=0.2, delta=0.1, seed=3)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 40)):
        both.push(batch)
        if rng.random() < 0.2:
            both.restart()


@pytest.mark.parametrize(
    ("algorithm", "query", "message"),
    [
        ("floor", tw.Skyline({"a": "min"}), "it ranks by the number of dominated rows, and the query by whether"),
        ("witness", tw.Dominating(1, {"a": "min"}), "it ranks by whether it is dominated, and the query by the number"),
        ("sampling", tw.Skyline({"a": "min"}), "the query asks for each; brute, witness can"),
        ("brute", tw.FrequentSkyline({"a": "min"}, 0.5, 3), "it remembers nothing.*; witness, sampling can"),
        ("filter", tw.Skyline({"a": "min"}), "'filter' cannot serve a query of a monitor"),
    ],
)
def test_what_cannot_serve_is_refused(algorithm: str, query: Any, message: str) -> None:
    with pytest.raises(tw.PlanError, match=message):
        tw.Monitor(query, window=tw.latest(), algorithm=algorithm)


def test_how_often_needs_rows_with_ids_that_stay() -> None:
    with pytest.raises(tw.QueryError, match=r"counted over latest\(\); got the last 5 rows"):
        tw.Monitor(as_query(often("q", {"a": "min"}, 0.5, 3)), window=tw.last(5))
