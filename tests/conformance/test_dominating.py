"""Queries that count dominated rows: every algorithm equals the oracle at every evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.exact_algorithms import DOMINATING
from tests.support.query_mixtures import live_through
from tests.support.sizes import COMPILED, Scale
from tests.support.stream_kinds import columns
from topwatch.testing import streams
from topwatch.testing.lockstep import Lockstep, as_query
from topwatch.testing.mixtures import dominating, rivals
from topwatch.testing.oracle import Seconds, Window

EVERY = [1, 7, Seconds(5)]
KINDS = ["count", "time", "latest"]
FIFO = ("eva", "ada", "ahba", "amsa")


def window_of(kind: str, rows: int) -> Window:
    return Window(kind, rows if kind == "count" else max(1, rows // streams.ROWS_PER_SECOND))


@pytest.mark.parametrize("every", EVERY, ids=lambda every: f"every-{getattr(every, 'seconds', every)}")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", DOMINATING)
def test_pace(algorithm: str, kind: str, every: int | Seconds, rng: np.random.Generator, scale: Scale) -> None:
    if kind == "latest" and algorithm in FIFO:
        pytest.skip(f"{algorithm} does not serve this")
    size = scale.window
    stream = streams.make("uniform", rng, scale.rows, pool=size)
    both = Lockstep(dominating(rng, size), window_of(kind, size), every, algorithm)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 2 * size)):
        both.push(batch)
        if rng.random() < 0.1:
            both.restart()


@pytest.mark.parametrize("shape", streams.SHAPES)
@pytest.mark.parametrize("algorithm", DOMINATING)
def test_shape(algorithm: str, shape: str, rng: np.random.Generator, scale: Scale) -> None:
    """On a kind of window that the seed chooses, with deletions, restarts and queries that come and go."""
    size = scale.window // 2
    kinds = [kind for kind in KINDS if kind != "latest" or algorithm not in FIFO]
    kind = str(rng.choice(kinds))
    stream = streams.make(shape, rng, scale.rows // 3, pool=size, bursts=bool(rng.integers(2)))
    queries = dominating(rng, size)
    both = Lockstep(queries[:2], window_of(kind, size), int(rng.choice([1, 1, 4])), algorithm)
    live_through(both, streams.pieces(stream, streams.random_sizes(rng, size)), rng, {2: queries[2]}, {4: "two"})


@pytest.mark.parametrize("data", ["ind", "ant", "cor", "duplicates", "mass"])
@pytest.mark.parametrize("d", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("algorithm", [name for name in DOMINATING if name not in ("brute", "auto")])
def test_columns(algorithm: str, d: int, data: str, rng: np.random.Generator) -> None:
    """At every update, for k from 1 to 64; the window is long enough for floors, epochs and new grids."""
    size, rows = (300, 800) if COMPILED else (40, 90)
    stream = {"id": np.arange(rows), **columns(rng, data, rows, d)}
    prefer = {f"x{i}": str(rng.choice(["min", "max"])) for i in range(d)}
    queries = [rivals(f"k{k}", prefer, k) for k in (1, 8, 64)]
    both = Lockstep(queries, Window("count", size), 1, algorithm)
    for batch in streams.pieces(stream, streams.random_sizes(rng, size)):
        both.push(batch)


@pytest.mark.parametrize("algorithm", DOMINATING)
def test_a_burst_lifts_a_row_that_expires_next(algorithm: str) -> None:
    """In a window of time any number of rows may arrive before the oldest one goes: it is not out of the race."""
    rows = [(1.0, 3.0, 0)]  # dominates the burst at last
    rows += [(9.0, 9.0, 0)] * 2
    rows += [(3.0, 1.0, 1)]  # dominates the next five
    rows += [(4.0, 1.5, 1)] * 5
    rows += [(2.0, 4.0, 2)] * 9
    a, b, time = (np.array(column, float) for column in zip(*rows, strict=True))
    stream = {"id": np.arange(len(rows)), "a": a, "b": b, "time": time}
    both = Lockstep([rivals("q", {"a": "min", "b": "min"}, 1)], Window("time", 10), 1, algorithm)
    for batch in streams.pieces(stream, [len(rows)]):
        both.push(batch)
    assert [entry.id for entry in both.monitor.answer()] == [0]


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("floor", {"cells": 1}),
    ("floor", {"cells": 5, "slack": 1}),
    ("eva", {"cells": 3}),
    ("ada", {"suffix": True}),
    ("ada", {"kept": 0.0, "cells": 4}),
    ("ada", {"near": 1, "maxcand": 2}),
    ("ada", {"near": 500}),
    ("ada", {"near": 500, "maxcand": 40}),
]


@pytest.mark.parametrize(("algorithm", "options"), OPTIONS, ids=lambda value: str(value))
def test_options_do_not_change_answers(algorithm: str, options: dict[str, Any], rng: np.random.Generator) -> None:
    stream = streams.make("anticorrelated", rng, 400)
    both = Lockstep(dominating(rng, 60), Window("count", 60), 1, algorithm, **options)
    for batch in streams.pieces(stream, [60, 30, 1, 200]):
        both.push(batch)
        both.restart()


@pytest.mark.parametrize("data", ["ind", "ant", "mass"])
@pytest.mark.parametrize("kind", ["count", "time"])
def test_boards_that_are_used_for_long(kind: str, data: str, rng: np.random.Generator) -> None:
    """ADA with a Δt so long that its board is seldom made again, and that all rows near the answer are candidates."""
    size, rows = (400, 2400) if COMPILED else (60, 200)
    stream = {"id": np.arange(rows), "time": np.arange(rows) / 4, **columns(rng, data, rows, 3)}
    queries = [rivals(f"k{k}", {"x0": "min", "x1": "max", "x2": "min"}, k) for k in (2, 16)]
    both = Lockstep(queries, window_of(kind, size), 1, "ada", near=size)
    for batch in streams.pieces(stream, streams.random_sizes(rng, size)):
        both.push(batch)
        if rng.random() < 0.2:
            both.restart()


@pytest.mark.parametrize("algorithm", FIFO)
def test_windows_without_an_order_of_expiry_are_refused(algorithm: str) -> None:
    query = rivals("q", {"a": "min"}, 1)
    with pytest.raises(tw.PlanError, match=f"'{algorithm}' cannot serve query 'q'.*; brute, bfa, floor can"):
        tw.Monitor(as_query(query), window=tw.latest(), algorithm=algorithm)


@pytest.mark.parametrize("algorithm", ["reserve", "sma"])
def test_algorithms_of_another_family_are_refused(algorithm: str) -> None:
    with pytest.raises(tw.PlanError, match="it ranks by a score, and the query by the number of dominated rows"):
        tw.Monitor(as_query(rivals("q", {"a": "min"}, 1)), window=tw.last(5), algorithm=algorithm)


@pytest.mark.parametrize("one_in", [17, 23])
@pytest.mark.parametrize("algorithm", [*DOMINATING, "ahba", "amsa"])
def test_few_rows_are_ranked(algorithm: str, one_in: int, rng: np.random.Generator) -> None:
    """The window goes round before many rows are counted: a slot has another row by then, which is not ranked."""
    stream = streams.make("uniform", rng, 1_500)
    stream["c"] = np.where(np.arange(1_500) % one_in == 0, 1.0, 0.0)
    query = rivals("few", {"a": "max", "b": "min"}, 3, where=(("c", 1.0, 1.0),))
    both = Lockstep([query], Window("count", 20), 1, algorithm)  # all are exact over so few rows
    for batch in streams.pieces(stream, [150] * 9):
        both.push(batch)
