"""Every algorithm, on every kind of window, at every pace: the same changes, answers and scores as the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.exact_algorithms import ALGORITHMS
from tests.support.sizes import Scale
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, servable
from topwatch.testing.oracle import Seconds, Window

EVERY = [1, 7, 1000, Seconds(5)]
KINDS = ["count", "time", "latest"]


def window_of(kind: str, rows: int) -> Window:
    """A window of about so many rows."""
    return Window(kind, rows if kind == "count" else max(1, rows // streams.ROWS_PER_SECOND))


@pytest.mark.parametrize("every", EVERY, ids=lambda every: f"every-{getattr(every, 'seconds', every)}")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pace(algorithm: str, kind: str, every: int | Seconds, rng: np.random.Generator, scale: Scale) -> None:
    shape = str(rng.choice(["uniform", "ties", "duplicates"]))
    size = scale.window if every != 1000 else int(rng.choice([scale.window, 1500]))
    window = window_of(kind, size)
    stream = streams.make(shape, rng, 2500 if every == 1000 else scale.rows, pool=size)
    queries = servable(algorithm, mixtures.mixture(rng, stream, scale.queries, size, shape), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve {kind} windows")
    both = Lockstep(queries, window, every, algorithm)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 3 * scale.window)):
        both.push(batch)


@pytest.mark.parametrize("shape", streams.SHAPES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_shape(algorithm: str, shape: str, rng: np.random.Generator, scale: Scale) -> None:
    """On a kind of window that the seed chooses."""
    size = scale.window // 3
    stream = streams.make(shape, rng, scale.rows // 5, pool=size, bursts=bool(rng.integers(2)))
    mixed = mixtures.mixture(rng, stream, scale.queries, size, shape)
    window = next(
        w for w in (window_of(kind, size) for kind in rng.permutation(KINDS)) if servable(algorithm, mixed, w)
    )
    queries = servable(algorithm, mixed, window)
    both = Lockstep(queries, window, int(rng.choice([1, 1, 4])), algorithm)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 2 * size)):
        both.push(batch)
