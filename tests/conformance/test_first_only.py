"""The result stream: each row once, when it first becomes an answer, whatever the algorithm, cut and restart."""

from __future__ import annotations

import numpy as np
import pytest

import topwatch as tw
from tests.support.exact_algorithms import ALGORITHMS
from tests.support.sizes import Scale
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, servable
from topwatch.testing.oracle import Window


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_row_once(algorithm: str, rng: np.random.Generator, scale: Scale) -> None:
    shape = str(rng.choice(["uniform", "ties", "drifting", "worsening"]))
    size = scale.window // 2
    window = [Window("count", size), Window("time", max(1, size // streams.ROWS_PER_SECOND))][rng.integers(2)]
    stream = streams.make(shape, rng, 4 * size)
    queries = servable(algorithm, mixtures.mixture(rng, stream, 6, size, shape), window)
    both = Lockstep(queries, window, int(rng.choice([1, 3])), algorithm, emit="first")
    for number, batch in enumerate(streams.pieces(stream, streams.random_sizes(rng, size))):
        both.push(batch)
        if number % 4 == 3:
            both.restart()


def test_what_is_refused() -> None:
    query = tw.TopK(k=1, score=tw.linear(x=1.0))
    with pytest.raises(tw.QueryError, match="emit: expected 'changes' or 'first', got 'all'"):
        tw.Monitor(query, window=tw.last(5), emit="all")
    with pytest.raises(tw.QueryError, match=r"latest\(\)"):
        tw.Monitor(query, window=tw.latest(), emit="first")
