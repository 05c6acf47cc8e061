"""Streams long enough for buffers to grow, chunks to be merged and grids to be made again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.exact_algorithms import ALGORITHMS
from tests.support.query_mixtures import crowd
from tests.support.stream_kinds import ID_KINDS
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, servable
from topwatch.testing.oracle import Window

KINDS = {
    "count": Window("count", 3000),
    "time": Window("time", 3000 // streams.ROWS_PER_SECOND),
    "latest": Window("latest"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_long_stream(algorithm: str, kind: str, rng: np.random.Generator) -> None:
    """Evaluated seldom, so that the oracle keeps up; in one batch of 70,000 rows, then in small ones."""
    window, shape = KINDS[kind], str(rng.choice(["uniform", "drifting", "scaled"]))
    rows = 70_000 if algorithm not in ("tsl", "brute") else 20_000
    stream = streams.make(shape, rng, rows + 3000, pool=3000)
    queries = crowd(rng, stream, 30, 5) + mixtures.mixture(rng, stream, 8, 60, shape)
    queries = servable(algorithm, queries, window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve {kind} windows")
    both = Lockstep(queries, window, 4000, algorithm)
    for batch in streams.pieces(stream, [rows, 1, 700, 0, 1300]):
        both.push(batch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_small_batches_with_text_as_ids(kind: str, rng: np.random.Generator) -> None:
    window = Window(kind, {"count": 50, "time": 12, "latest": 0}[kind])
    stream = streams.make("uniform", rng, 5200, pool=50)
    stream["id"] = ID_KINDS["text"](stream["id"])
    both = Lockstep(mixtures.mixture(rng, stream, 4, 50, "uniform"), window, 500)
    for batch in streams.pieces(stream, [9] * 600):
        both.push(batch)
        if kind == "latest" and rng.random() < 0.1:
            both.delete(batch["id"][:1])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_query_per_row(algorithm: str, rng: np.random.Generator) -> None:
    """Many more queries than rows, added and removed in turn, so that places are used again."""
    stream = streams.make("uniform", rng, 60)
    window = Window("count", 20)
    queries = servable(algorithm, mixtures.mixture(rng, stream, 80, 20, "uniform"), window)
    both = Lockstep(queries[:1], window, 2, algorithm)
    for number, batch in enumerate(streams.pieces(stream, [1] * 60)):
        both.push(batch)
        both.add(queries[number + 1])
        if number % 2:
            both.remove(list(both.oracle.queries)[1])
