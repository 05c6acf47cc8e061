"""Queries over incomplete objects: every algorithm equals the oracle at every judgement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import streams
from lockstep import INCOMPLETE, Lockstep, as_query
from oracle import Query, Seconds, Window
from oracle_incomplete import Incomplete
from oracle_scores import Score
from sizes import Scale

import topwatch as tw

EVERY = [1, 7, Seconds(5)]
KINDS = ["count", "time"]
SOURCES = ("north", "east", "south", "west")


def gather(name: str, k: int, where: Any = (), **parts: Any) -> Query:
    return Query(name, "incomplete", Score("linear", ()), k=k, where=where, parts=Incomplete(**parts))


def window_of(kind: str, rows: int) -> Window:
    return Window(kind, rows if kind == "count" else max(1, rows // streams.ROWS_PER_SECOND))


def some(rng: np.random.Generator) -> list[Query]:
    unit = ((0.0, 1.0),) * 4
    uneven = ((0.0, 1.0), (0.25, 2.0), (-1.0, 1.0), (0.0, 0.75))
    weights = tuple(float(w) for w in rng.choice([0.5, 1.0, 1.0, 3.0], 4))
    return [
        gather("sum", int(rng.choice([1, 3, 10])), sources=SOURCES, bounds=unit),
        gather("raw", 5, sources=SOURCES[:3], combine="max", weights=weights[:3]),
        gather("mean", int(rng.choice([2, 200])), sources=SOURCES, combine="mean", bounds=uneven, weights=weights),
        gather("added", 4, sources=SOURCES[1:], occurrences="sum", where=(("a", 0.1, 1.0),)),
        gather("largest", 4, sources=SOURCES, occurrences="max", bounds=unit),
    ]


def bounded(query: Query, rng: np.random.Generator) -> Query:
    """The same with bounds and single occurrences, which eaa needs."""
    assert query.parts is not None
    bounds = query.parts.bounds or ((0.0, float(rng.choice([1.0, 1.5]))),) * len(query.parts.sources)
    return replace(query, parts=replace(query.parts, bounds=bounds, occurrences="single"))


def make(rng: np.random.Generator, rows: int, objects: int, shape: str = "uniform", bursts: bool = False) -> Any:
    """Rows of few objects, so that parts come again, with ties, unknown sources, missing and odd values."""
    stream = streams.make(shape, rng, rows, pool=objects, bursts=bursts)
    value = np.round(rng.random(rows), 1) if rng.random() < 0.5 else rng.random(rows)
    odd = rng.random(rows) < 0.05
    value[odd] = rng.choice([np.nan, np.inf, -np.inf, -0.5, 1.5, 0.0, -0.0], odd.sum())
    source = rng.choice([*SOURCES, *SOURCES, *SOURCES, "nowhere", None], rows)
    return {**stream, "source": source, "value": value}


@pytest.mark.parametrize("every", EVERY, ids=lambda every: f"every-{getattr(every, 'seconds', every)}")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", INCOMPLETE)
def test_pace(algorithm: str, kind: str, every: int | Seconds, rng: np.random.Generator, scale: Scale) -> None:
    """With restarts, and queries that come and go."""
    size = scale.window
    stream = make(rng, scale.rows, int(rng.choice([4, size // 3, 3 * size])), bursts=bool(rng.integers(2)))
    queries = some(rng)
    if algorithm == "eaa":
        queries = [bounded(query, rng) for query in queries]
    both = Lockstep(queries[:4], window_of(kind, size), every, algorithm)
    for number, batch in enumerate(streams.pieces(stream, streams.random_sizes(rng, 2 * size))):
        both.push(batch)
        if number == 3:
            both.add(queries[4])
        if number == 5:
            both.remove("raw")
        if rng.random() < 0.1:
            both.restart()
    if kind == "time":
        both.advance(float(stream["time"][-1]) + 3.0)
        both.advance(float(stream["time"][-1]) + 1e6)


@pytest.mark.parametrize("window", [1, 2, 30])
@pytest.mark.parametrize("algorithm", INCOMPLETE)
def test_starving(algorithm: str, window: int, rng: np.random.Generator, scale: Scale) -> None:
    """The best objects are the oldest, so that every expiry empties the answer; then each is better than the last."""
    rows = scale.rows // 2
    value = np.concatenate([np.linspace(1.0, 0.0, rows // 2), np.linspace(0.0, 1.0, rows - rows // 2)])
    stream = {"id": np.arange(rows) // 2, "source": rng.choice(SOURCES, rows), "value": value}
    options = {"tally": {"slack": 1}, "sla": {"kmax": 3}, "eaa": {"kmax": 3}}.get(algorithm, {})
    query = bounded(gather("q", 3, sources=SOURCES), rng)
    both = Lockstep([query], Window("count", window), 1, algorithm, **options)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 40)):
        both.push(batch)


@pytest.mark.parametrize("combine", ["sum", "max", "mean"])
@pytest.mark.parametrize("algorithm", INCOMPLETE)
def test_few_sources(algorithm: str, combine: str, rng: np.random.Generator, scale: Scale) -> None:
    """Most objects are complete, so that most instances are dominated; small answers, ties, objects that come again."""
    size = int(rng.integers(3, 40))
    stream = make(rng, scale.rows, int(rng.choice([size // 2 + 1, 2 * size])))
    stream["value"] = np.abs(stream["value"])
    queries = [
        gather(f"{k} of {d}", k, sources=SOURCES[:d], combine=combine, bounds=((0.0, 1.5),) * d)
        for k, d in ((1, 1), (2, 2), (4, 2), (1, 3))
    ]
    both = Lockstep(queries, Window("count", size), int(rng.choice([1, 1, 3])), algorithm)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 2 * size)):
        both.push(batch)


@pytest.mark.parametrize("kind", ["int64", "str", "text", "float", "datetime", "uint64"])
def test_ids_of_any_type(kind: str, rng: np.random.Generator) -> None:
    stream = make(rng, 150, 12)
    stream["id"] = streams.ID_KINDS[kind](stream["id"] - stream["id"].min())
    both = Lockstep(some(rng)[:2], Window("count", 25), 4)
    for batch in streams.pieces(stream, [30] * 5):
        both.push(batch)
        both.restart()


def test_numbered_sources(rng: np.random.Generator) -> None:
    stream = make(rng, 200, 12)
    stream["source"] = rng.integers(0, 6, 200).astype(np.int16)
    both = Lockstep([gather("q", 3, sources=(4, 1, 70_000, -2, 3))], Window("count", 25))
    for batch in streams.pieces(stream, [30] * 5):
        both.push(batch)


def test_ids_that_are_gone_are_forgotten() -> None:
    monitor = tw.Monitor(tw.IncompleteTopK(k=1, sources=["x"]), window=tw.last(10))
    for start in range(0, 20_000, 1000):
        rows = range(start, start + 1000)
        monitor.push({"id": [f"row {i}" for i in rows], "source": ["x"] * 1000, "value": [float(i) for i in rows]})
    (engine,) = monitor._engines.values()
    assert len(engine._numbering._numbers) < 10_000


@pytest.mark.parametrize("algorithm", ["reserve", "floor", "brute"])
def test_other_algorithms_are_refused(algorithm: str) -> None:
    with pytest.raises(tw.PlanError, match="what several sources tell of an object; sla, tally can"):
        tw.Monitor(as_query(gather("q", 1, sources=SOURCES)), window=tw.last(5), algorithm=algorithm)


def test_latest_windows_are_refused() -> None:
    with pytest.raises(tw.PlanError, match=r"no algorithm can serve query 'q'.* a latest\(\) window has none"):
        tw.Monitor(as_query(gather("q", 1, sources=SOURCES)), window=tw.latest())


@pytest.mark.parametrize("algorithm", INCOMPLETE)
def test_a_window_that_grows(algorithm: str, rng: np.random.Generator) -> None:
    """Rows of a time window get new slots while some have expired and no judgement has seen that yet."""
    rows = 9000
    stream = make(rng, rows, 400)
    stream["time"] = np.sort(rng.integers(0, 80, rows)) * 0.125 + np.where(np.arange(rows) > 1000, 5.0, 0.0)
    queries = [gather("q", 7, sources=SOURCES, occurrences="sum"), gather("r", 5, sources=SOURCES, occurrences="max")]
    if algorithm == "eaa":
        stream["id"] = rng.permutation(rows) // 2
        queries = [bounded(queries[0], rng)]
    both = Lockstep(queries, Window("time", 6), 2500, algorithm)
    for batch in streams.pieces(stream, [700, 2500, 2000, 3000]):
        both.push(batch)
        both.restart()


def test_eaa_says_what_it_needs() -> None:
    for query, reason in (
        (gather("q", 1, sources=SOURCES), r"\(say bounds=\); sla, tally can"),
        (gather("q", 1, sources=("a",), bounds=((0.0, 1.0),), occurrences="sum"), "there is no end to that"),
    ):
        with pytest.raises(tw.PlanError, match=reason):
            tw.Monitor(as_query(query), window=tw.last(5), algorithm="eaa")


@pytest.mark.parametrize("once", [False, True])
def test_eaa_where_no_source_tells_twice(once: bool, rng: np.random.Generator, scale: Scale) -> None:
    """Every object passes each source at most once in its life, soon after another."""
    size = scale.window // 2
    pairs = [(i, s) for i in range(scale.rows // 3) for s in rng.permutation(4)[: rng.integers(1, 5)]]
    place = np.argsort([i + 0.1 * size * rng.random() for i, _ in pairs])
    stream = {
        "id": np.array([pairs[p][0] for p in place]),
        "source": [SOURCES[pairs[p][1]] for p in place],
        "value": np.round(rng.random(place.size), 2),
    }
    queries = [gather(f"k{k}", k, sources=SOURCES, bounds=((0.0, 1.0),) * 4) for k in (1, 3, 8)]
    both = Lockstep(queries, Window("count", size), 1, "eaa", once=once, kmax=8)
    for batch in streams.pieces(stream, streams.random_sizes(rng, size)):
        both.push(batch)
        if rng.random() < 0.1:
            both.restart()


def test_eaa_retains_fewer_instances_where_most_objects_are_complete(rng: np.random.Generator) -> None:
    rows = 1200
    stream = {"id": np.arange(rows) // 2, "source": ["x", "y"] * (rows // 2), "value": rng.random(rows)}
    query = tw.IncompleteTopK(k=5, sources=["x", "y"], bounds=(0, 1))
    monitor = tw.Monitor(query, window=tw.last(400), algorithm="eaa")
    monitor.push(stream)
    assert monitor.stats()["kept"] < 400
    assert monitor.stats()["instances_pruned"] > 0
