"""Queries over incomplete objects: every algorithm equals the oracle at every evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.exact_algorithms import INCOMPLETE
from tests.support.sizes import Scale
from tests.support.stream_kinds import ID_KINDS
from topwatch.testing import streams
from topwatch.testing.lockstep import Lockstep, as_query
from topwatch.testing.mixtures import SOURCES, bounded, gather, incomplete, with_sources
from topwatch.testing.oracle import Seconds, Window
from topwatch.testing.oracle_incomplete import Part

EVERY = [1, 7, Seconds(5)]
KINDS = ["count", "time"]


def window_of(kind: str, rows: int) -> Window:
    return Window(kind, rows if kind == "count" else max(1, rows // streams.ROWS_PER_SECOND))


def make(rng: np.random.Generator, rows: int, objects: int, shape: str = "uniform", bursts: bool = False) -> Any:
    """Rows of few objects, so that parts come again, with ties, unknown sources, missing and odd values."""
    stream = streams.make(shape, rng, rows, pool=objects, bursts=bursts)
    return with_sources(rng, stream)


@pytest.mark.parametrize("every", EVERY, ids=lambda every: f"every-{getattr(every, 'seconds', every)}")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", INCOMPLETE)
def test_pace(algorithm: str, kind: str, every: int | Seconds, rng: np.random.Generator, scale: Scale) -> None:
    """With restarts, and queries that come and go."""
    size = scale.window // 3
    stream = make(rng, 6 * size, int(rng.choice([4, size // 3, 3 * size])), bursts=bool(rng.integers(2)))
    queries = incomplete(rng)
    if algorithm == "eaa":
        queries = [bounded(query, rng) for query in queries]
    both = Lockstep(queries[:4], window_of(kind, size), every, algorithm)
    rest = iter(queries[4:])
    for number, batch in enumerate(streams.pieces(stream, streams.random_sizes(rng, 2 * size))):
        both.push(batch)
        if number in (2, 4):
            both.add(next(rest))
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
    rows = scale.rows // 3
    value = np.concatenate([np.linspace(1.0, 0.0, rows // 2), np.linspace(0.0, 1.0, rows - rows // 2)])
    stream = {"id": np.arange(rows) // 2, "source": rng.choice(SOURCES, rows), "value": value}
    options = {"tally": {"slack": 1}, "sla": {"kmax": 3}, "eaa": {"slack": 1, "sweep": 1}}.get(algorithm, {})
    query = bounded(gather("q", 3, sources=SOURCES), rng)
    both = Lockstep([query], Window("count", window), 1, algorithm, **options)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 40)):
        both.push(batch)


@pytest.mark.parametrize("combine", ["sum", "max", "mean"])
@pytest.mark.parametrize("algorithm", INCOMPLETE)
def test_few_sources(algorithm: str, combine: str, rng: np.random.Generator, scale: Scale) -> None:
    """Most objects are complete, so that most instances are dominated; small answers, ties, objects that come again."""
    size = int(rng.integers(3, 40))
    stream = make(rng, scale.rows // 4, int(rng.choice([size // 2 + 1, 2 * size])))
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
    stream["id"] = ID_KINDS[kind](stream["id"] - stream["id"].min())
    both = Lockstep(incomplete(rng)[:2], Window("count", 25), 4)
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
    (shared,) = monitor._serving.engines.values()
    assert len(shared.engine._ids._numbers) < 10_000


@pytest.mark.parametrize("algorithm", ["reserve", "floor", "brute"])
def test_other_algorithms_are_refused(algorithm: str) -> None:
    with pytest.raises(tw.PlanError, match="what several sources tell of an object; sla, tally can"):
        tw.Monitor(as_query(gather("q", 1, sources=SOURCES)), window=tw.last(5), algorithm=algorithm)


def test_latest_windows_are_refused() -> None:
    with pytest.raises(tw.PlanError, match=r"no algorithm can serve query 'q'.* a latest\(\) window has none"):
        tw.Monitor(as_query(gather("q", 1, sources=SOURCES)), window=tw.latest())


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", INCOMPLETE)
def test_a_window_that_grows(algorithm: str, rng: np.random.Generator) -> None:
    """Rows of a time window get new slots while some have expired and no evaluation has seen that yet."""
    rows = 9000
    stream = make(rng, rows, 400)
    stream["time"] = np.sort(rng.integers(0, 80, rows)) * 0.125 + np.where(np.arange(rows) > 1000, 5.0, 0.0)
    queries = [gather("q", 7, sources=SOURCES, occurrences="sum"), gather("r", 5, sources=SOURCES, occurrences="max")]
    if algorithm == "eaa":
        queries = [bounded(query, rng) for query in queries]
    both = Lockstep(queries, Window("time", 6), 2500, algorithm)
    for batch in streams.pieces(stream, [700, 2500, 2000, 3000]):
        both.push(batch)
        both.restart()


def test_sla_without_a_view(rng: np.random.Generator, scale: Scale) -> None:
    stream = make(rng, scale.rows // 5, 20)
    both = Lockstep(incomplete(rng), Window("count", 30), 1, "sla", view=False)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 30)):
        both.push(batch)


def test_bounds_that_widen_with_every_row(rng: np.random.Generator) -> None:
    """Rising and falling values, all evaluated; a restart in between."""
    rows = 120
    stream = make(rng, rows, 10)
    stream["value"] = np.where(np.arange(rows) % 3 == 0, -1.0, 1.0) * np.arange(rows)
    query = gather("q", 3, sources=SOURCES, learn=True)
    both = Lockstep([query], Window("count", 20), 1, "auto")
    for batch in streams.pieces(stream, [1, 30, 29, 60]):
        both.push(batch)
        both.restart()


@pytest.mark.parametrize("algorithm", ["eaa", "approx"])
def test_what_it_needs(algorithm: str) -> None:
    query = as_query(gather("q", 1, sources=SOURCES))
    with pytest.raises(tw.PlanError, match=r"\(say bounds=\); sla, tally can"):
        tw.Monitor(query, window=tw.last(5), algorithm=algorithm)


def dominance_set(rows: list[Part], window: int, k: int, sources: int) -> set[int]:
    """Definition 1 of CIKM 2009 and what follows it, to the letter: the ordinals of the instances in S_k."""
    head = max(1, len(rows) - window + 1)
    live = {t: rows[t - 1] for t in range(head, len(rows) + 1)}
    instances = {}
    for t, part in live.items():
        mine = {other.source: (when, other.value) for when, other in live.items() if other.id == part.id}
        current = sum(value for when, value in mine.values() if when >= t)
        best = current + sources - len(mine)
        instances[t] = (part.id, current, best)
    kept = set()
    for t, (id, _, best) in instances.items():
        rivals = {other for u, (other, current, _) in instances.items() if u > t and current > best and other != id}
        if len(rivals) < k:
            kept.add(t)
    return kept


@pytest.mark.parametrize("k", [1, 4])
def test_eaa_retains_the_k_dominance_set(k: int, rng: np.random.Generator) -> None:
    """After every row, where no object comes again once one of its rows has gone."""
    window, count = 40, 160
    pairs = [(i, s) for i in range(count // 2) for s in rng.permutation(3)[: rng.integers(1, 4)]]
    order = np.argsort([i + 6 * rng.random() for i, _ in pairs])
    parts = [Part(int(pairs[p][0]), int(pairs[p][1]), float(rng.integers(0, 65) / 64)) for p in order[:count]]
    query = tw.IncompleteTopK(k=k, sources=[0, 1, 2], bounds=(0, 1))
    monitor = tw.Monitor(query, window=tw.last(window), algorithm="eaa", sweep=1)
    (shared,) = monitor._serving.engines.values()
    for number, part in enumerate(parts, 1):
        monitor.push({"id": [part.id], "source": [part.source], "value": [part.value]})
        instances = shared.engine._queries[0].table._loop._instances
        live = range(max(1, number - window + 1), number + 1)
        retained = {t for t in live if instances.retained[t & (instances.retained.size - 1)]}
        expected = dominance_set(parts[:number], window, k, 3)
        early = {t for t in live if parts[t - 1].id in {parts[u - 1].id for u in range(1, live[0])}}
        assert retained - early == expected - early, f"after row {number}"


@pytest.mark.parametrize("options", [{}, {"occurrences": "sum"}, {"occurrences": "max", "bounds": "learn"}], ids=str)
def test_approx(options: dict[str, Any], rng: np.random.Generator, scale: Scale) -> None:
    """Scores are never above the true ones, the cut into batches does not matter, and it says how right it is."""
    size = scale.window
    pairs = [(i, s) for i in range(3 * size) for s in rng.permutation(4)[: 1 + rng.integers(0, 4) // 2]]
    order = np.argsort([i + 0.2 * size * rng.random() for i, _ in pairs])
    stream = {
        "id": np.array([pairs[p][0] // (2 if options else 1) for p in order]),
        "source": np.array(SOURCES)[[pairs[p][1] for p in order]],
        "value": rng.random(order.size),
    }
    query = tw.IncompleteTopK(k=5, sources=SOURCES, **{"bounds": (0, 1), **options})
    names = ("tally", "eaa", "approx", "approx")
    truth, exact, one, other = (tw.Monitor(query, window=tw.last(size), algorithm=name) for name in names)
    changes = list(one.push(stream))
    again = []
    for batch in streams.pieces(stream, streams.random_sizes(rng, size)):
        exact.push(batch)
        truth.push(batch)
        again += other.push(batch)
        other._check()
        scores = [entry.score for entry in truth.answer()]
        assert all(entry.score <= best + 1e-12 for entry, best in zip(other.answer(), scores, strict=False))
    assert changes == again or "bounds" in options
    stats = one.stats()
    assert stats["kept"] <= exact.stats()["kept"] or options
    assert 0 < stats["audited_right"] <= stats["audited"]
    assert one.answer().note.startswith("approximate: approx, precision about ")
    assert not exact.answer().note
    restored = tw.Monitor.restore(one.snapshot())
    assert list(restored.answer()) == list(one.answer())
    restored._check()


@pytest.mark.parametrize("algorithm", INCOMPLETE)
def test_why_reports_the_same_scores(algorithm: str, rng: np.random.Generator) -> None:
    """To the last bit, of objects in the answer and of others, with sums of many rows and learnt bounds."""
    stream = make(rng, 150, 12)
    weights = tuple(rng.random(4) + 0.1)
    several = {"sources": SOURCES, "occurrences": "sum", "learn": True}
    queries = [
        gather("added", 2, **several, weights=weights),
        gather("mean", 2, **several, combine="mean", weights=weights),
        gather("formula", 2, **several, formula="east * (1 + north) ** 3 + 0.7 * west ** 2"),
    ]
    both = Lockstep(queries, Window("count", 80), 1, algorithm)
    for batch in streams.pieces(stream, [50, 30, 70]):
        both.push(batch)
        for query in queries:
            ranking = both.oracle.parts[query.name].ranking(both.oracle._live.tolist(), both.oracle.seen)
            assert len(ranking) > 5
            for _, id, score in ranking:
                assert both.monitor.why(id, query.name).score == score
