"""Reserves that run out again and again: they ask for more rows each time, and give them back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.sizes import COMPILED
from topwatch.algorithms.topk.kernels import run_updates
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep
from topwatch.testing.oracle import Window

KINDS = {
    "count": Window("count", 300),
    "time": Window("time", 300 // streams.ROWS_PER_SECOND),
    "latest": Window("latest"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("route", ["scan", "lists"])
@pytest.mark.parametrize("shape", ["drifting", "rounded", "worsening"])
def test_reserves_that_run_out(shape: str, route: str, kind: str, rng: np.random.Generator) -> None:
    """With hardly a row beyond the answer; rounded values tie, so that no mark parts them."""
    rows = 2400 if COMPILED else 900
    stream = streams.make("drifting" if shape == "rounded" else shape, rng, rows, pool=300)
    if shape == "rounded":
        for column in ("a", "b", "c"):
            stream[column] = stream[column].round(1)
    scores = [mixtures.SCORES["linear"], *(mixtures.random_score(rng, stream) for _ in range(9))]
    queries = [mixtures.query(f"q{i}", score, k=int(rng.integers(1, 25))) for i, score in enumerate(scores)]
    both = Lockstep(queries, KINDS[kind], 5, "reserve", slack=int(rng.integers(1, 6)), route=route)
    for batch in streams.pieces(stream, streams.random_sizes(rng, 300)):
        both.push(batch)
    assert kind == "latest" or both.monitor.stats()["recomputations"] > 0


@pytest.mark.parametrize("seed", [8, 13, 15])
def test_equal_scores_in_slots_that_are_in_no_order_of_time(seed: int) -> None:
    """Streams on which a newer row was cut, and an older one with an equal score taken in after it."""
    test_reserves_that_run_out("rounded", "lists", "latest", np.random.default_rng(seed))


def test_a_mark_parts_keys_or_is_not_there(rng: np.random.Generator) -> None:
    """As Python reads it: the compiled one is for other kernels only."""
    mark_of = getattr(run_updates.mark_of, "py_func", run_updates.mark_of)
    result = 0
    for _ in range(60):
        keys = rng.normal(size=rng.integers(2, 200)).round(int(rng.choice([0, 1, 9])))
        least, most = np.sort(rng.integers(1, keys.size, 2))
        mark = mark_of(keys, least, most)
        there = any(least <= (keys >= key).sum() <= most for key in keys)
        assert np.isnan(mark) != there
        if there:
            result += 1
            assert least <= (keys >= mark).sum() <= most
    assert result > 20
    with np.errstate(invalid="ignore"):
        assert np.isnan(mark_of(np.array([np.inf, 1.0, -np.inf]), 1, 1))
