"""Crowds of queries over the same columns: grids, influence lists, and rows outside the grid that was learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.query_mixtures import crowd
from tests.support.sizes import Scale
from topwatch.testing import streams
from topwatch.testing.lockstep import Lockstep, servable
from topwatch.testing.oracle import Window

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tsl": ("tsl", {}),
    "tma": ("tma", {}),
    "tma-fine": ("tma", {"cells": 9}),
    "sma": ("sma", {}),
    "sma-one-cell": ("sma", {"cells": 1}),
    "reserve-lists": ("reserve", {"route": "lists", "slack": 2}),
    "sasf-grid": ("sasf", {"index": "grid", "cells": 4}),
    "rarf-grid": ("rarf", {"index": "grid", "relax": 0.5}),
    "rapf-grid": ("rapf", {"index": "grid", "buffer": 5}),
    "sapf-none": ("sapf", {"index": "none"}),
    "reserve-scan": ("reserve", {"route": "scan", "slack": 1}),
}


@pytest.mark.parametrize("shape", streams.SHAPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_crowd(variant: str, shape: str, rng: np.random.Generator, scale: Scale) -> None:
    """The queries of one grid, a few of them added and removed on the way, with restarts.

    The seed chooses the kind of window.
    """
    algorithm, options = VARIANTS[variant]
    size = scale.window // 2
    stream = streams.make(shape, rng, 4 * size, pool=size)
    queries = crowd(rng, stream, 30, 2)
    kinds = [Window("count", size), Window("time", size // streams.ROWS_PER_SECOND), Window("latest")]
    window = next(kinds[i] for i in rng.permutation(3) if servable(algorithm, queries, kinds[i]))
    both = Lockstep(queries[:26], window, int(rng.choice([1, 5])), algorithm, **options)
    for number, batch in enumerate(streams.pieces(stream, streams.random_sizes(rng, size))):
        both.push(batch)
        if number % 3 == 2 and number < 12:
            both.add(queries[26 + number // 3])
            both.remove(queries[number].name)
        if window.kind == "latest" and rng.random() < 0.3:
            both.delete(rng.permutation(both.oracle.ids)[:1])
        if rng.random() < 0.1:
            both.restart()
