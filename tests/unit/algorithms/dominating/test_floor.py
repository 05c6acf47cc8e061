"""What ``floor`` does inside, where answers alone would not tell: deferred rows, few contenders, room given back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.sizes import COMPILED
from topwatch.algorithms.dominating.kernels.blocks import CONTENDS, NO_BOUND
from topwatch.algorithms.dominating.kernels.contenders import ROOMY
from topwatch.algorithms.dominating.kernels.floor_bounds import LEAST_DEPTH, MOST_NEAR, bounds_by_slot
from topwatch.datagen import generators
from topwatch.testing.oracle_dominance import dominated

ROWS = 3000 if COMPILED else 300


def monitor(d: int, k: int, rows: int) -> tuple[tw.Monitor, Any]:
    """Return a monitor and the state of its query."""
    query = tw.Dominating(k=k, prefer=dict.fromkeys(names(d), "min"), name="q")
    m = tw.Monitor(query, window=tw.last(rows), id=None, algorithm="floor")
    return m, next(iter(m._serving.engines.values())).engine._states[0]


def names(d: int) -> list[str]:
    return [f"x{j}" for j in range(d)]


def batch(columns: np.ndarray) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(column) for name, column in zip(names(len(columns)), columns, strict=True)}


def right_scores(columns: np.ndarray, k: int) -> list[float]:
    prefer = [(name, "min") for name in names(len(columns))]
    return np.sort(dominated(batch(columns), prefer))[::-1][:k].tolist()


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_rows_are_looked_up_at_once_when_no_more_can_be_deferred(pieces: int, rng: np.random.Generator) -> None:
    """With eight columns many rows share levels, so that counts leave rows open."""
    columns = rng.random((8, 2 * ROWS))
    m, state = monitor(8, 16, ROWS)
    deferred = state._walk.deferred
    state._walk = state._walk._replace(deferred=deferred._replace(piece=np.zeros(pieces, np.int64)))
    for first in range(0, 2 * ROWS, ROWS // 4):
        m.push(batch(columns[:, first : first + ROWS // 4]))
    assert m.stats()["scores"] > 16
    assert [entry.score for entry in m.answer()] == right_scores(columns[:, ROWS:], 16)


@pytest.mark.skipif(not COMPILED, reason="takes too many rows")
def test_low_scores_are_followed_for_few_rows(rng: np.random.Generator) -> None:
    """Among anticorrelated rows of six columns scores are low: nearly all could reach the floor in 1.4 √N arrivals."""
    rows = 20_000
    columns = generators.generate("ant", 2 * rows, 6, int(rng.integers(2**31)))
    m, state = monitor(6, 16, rows)
    for first in range(0, 2 * rows, rows // 10):
        m.push(batch(columns[:, first : first + rows // 10]))
    kept = m.stats()["kept"]
    assert kept < rows // 10
    assert len(state._contenders.code) <= 10 * kept + 2 * ROOMY
    m._check()


@pytest.mark.skipif(not COMPILED, reason="takes too many rows")
@pytest.mark.parametrize("d", [3, 4])
def test_scores_of_contenders_are_exact_however_far_counts_go(d: int, rng: np.random.Generator) -> None:
    """How far below the floor rows are followed and bounds are counted down is learnt; here the first is the larger."""
    m, state = monitor(d, 16, ROWS)
    columns = rng.random((d, 3 * ROWS))
    prefer = [(name, "min") for name in names(d)]
    below = 0
    for end in range(ROWS // 10, 3 * ROWS + 1, ROWS // 10):
        now = state._floor.now
        now.depth, now.near = LEAST_DEPTH * now.length, MOST_NEAR * now.length
        m.push(batch(columns[:, end - ROWS // 10 : end]))
        first = max(0, end - ROWS)
        scores = dominated(batch(columns[:, first:end]), prefer)
        c = state._contenders
        n = int(c.size[0])
        assert c.score[:n].tolist() == scores[c.seq[:n] - 1 - first].tolist()
        below += int(np.sum(c.score[:n] < now.level - now.depth))
    assert below > 0


@pytest.mark.skipif(not COMPILED, reason="takes too many rows")
@pytest.mark.parametrize(("d", "data"), [(2, "ind"), (4, "ind"), (6, "ind"), (3, "levels")])
def test_bounds_are_never_below_the_scores(d: int, data: str, rng: np.random.Generator) -> None:
    """Neither those by cells nor those by the rows that came and went, which are used only where counts are long."""
    rows = ROWS // 3
    columns = rng.random((d, 4 * rows)) if data == "ind" else rng.integers(0, 40, (d, 4 * rows)).astype(float)
    m, state = monitor(d, 4, rows)
    state._walk.counters.compared = 10**12  # as if they were
    prefer = [(name, "min") for name in names(d)]
    bounded = 0
    for end in range(rows // 5, 4 * rows + 1, rows // 5):
        m.push(batch(columns[:, end - rows // 5 : end]))
        first = max(0, end - rows)
        scores = dominated(batch(columns[:, first:end]), prefer)
        slots = state._window.live_slots()
        bounds = np.full(state._window.capacity, NO_BOUND, np.int32)
        bounds_by_slot(state._state(), state._grid.blocks, bounds)
        known = (bounds[slots] != NO_BOUND) & (bounds[slots] != CONTENDS)
        assert np.all(bounds[slots][known] >= scores[state._window.seq[slots] - 1 - first][known])
        bounded += int(known.sum())
        assert [entry.score for entry in m.answer()] == right_scores(columns[:, first:end], 4)
    assert bounded > 0
