"""The approximate algorithms for dominating queries: within what they state, over seeds."""

from __future__ import annotations

import numpy as np
import pytest

import topwatch as tw
from tests.support.sizes import COMPILED
from topwatch.algorithms.dominating.safe_intervals import sample_size
from topwatch.testing.oracle_dominance import dominated

PREFER = (("x", "min"), ("y", "min"))
ROWS = 1200 if COMPILED else 250
SEEDS = 8 if COMPILED else 3


def monitor(algorithm: str, k: int, **options: float) -> tw.Monitor:
    query = tw.Dominating(k=k, prefer=dict(PREFER), name="q")
    return tw.Monitor(query, window=tw.last(ROWS), id=None, algorithm=algorithm, **options)


def stream(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    return {name: rng.random(rows) for name, _ in PREFER}


def test_a_sample_misses_the_mean_of_its_cell_seldom(rng: np.random.Generator) -> None:
    """By more than ε of the range of scores in the cell no more often than 1 - δ, in cells larger than a sample."""
    epsilon, delta = 0.25, 0.8
    size = sample_size(epsilon, delta)
    missed = missed_by_the_worst = cells = 0
    for _ in range(5 * SEEDS):
        m = monitor("ahba", 5, epsilon=epsilon, delta=delta, cells=2)
        m.push(stream(rng, 2 * ROWS))
        state = next(iter(m._serving.engines.values())).engine._states[0]
        live = m._serving.feed.live_slots()
        scores = dominated(
            {name: m._serving.feed.window.columns[i, live] for i, (name, _) in enumerate(PREFER)}, PREFER
        )
        known = dict(zip(m._serving.feed.window.seq[live].tolist(), scores.tolist(), strict=True))
        grid, samples = state._grid, state._samples
        n = int(samples.size[0])
        assert [known[seq] for seq in samples.seq[:n].tolist()] == samples.score[:n].tolist()
        index = np.array([_coordinates(grid, code) for code in grid.codes[live]])
        sampled = np.array([_coordinates(grid, code) for code in samples.code[:n]]).reshape(n, 2)
        for cell in np.unique(sampled, axis=0):
            rows = scores[np.all(index == cell, axis=1)]
            mine = samples.score[:n][np.all(sampled == cell, axis=1)]
            if rows.size > 2 * size <= 2 * mine.size:
                least = rows.mean() - epsilon * (rows.max() - rows.min())
                missed += mine.mean() < least
                missed_by_the_worst += np.sort(rows)[: mine.size].mean() < least
                cells += 1
    allowed = (1 - delta) * cells + 2 * np.sqrt(cells * delta * (1 - delta))
    assert cells >= SEEDS
    assert missed <= allowed
    assert missed_by_the_worst > allowed  # a sample that is not random would be told from one that is


def _coordinates(grid: object, code: int) -> tuple[int, ...]:
    lanes = grid.lanes  # type: ignore[attr-defined]
    width = 64 // len(lanes.shift)
    levels = [(int(code) >> int(s)) & ((1 << (width - 1)) - 1) for s in lanes.shift]
    return tuple(level >> int(c) for level, c in zip(levels, lanes.coarse, strict=True))


@pytest.mark.parametrize(("algorithm", "least"), [("ahba", 1.0), ("amsa", 0.85)])
def test_most_rows_are_right(algorithm: str, least: float, rng: np.random.Generator) -> None:
    """With four columns, as in the paper; cells hold fewer rows than a sample has, so that ``ahba`` misses none."""
    rows, shares = (6000 if COMPILED else 400), []
    query = tw.Dominating(k=32, prefer=dict.fromkeys("abcd", "min"), name="q")
    rough, exact = (tw.Monitor(query, window=tw.last(rows), id=None, algorithm=name) for name in (algorithm, "floor"))
    for _ in range(9):
        batch = {name: rng.random(rows // 3) for name in "abcd"}
        rough.push(batch)
        exact.push(batch)
        right = {entry.id for entry in exact.answer()}
        shares.append(len(right & {entry.id for entry in rough.answer()}) / len(right))
    assert np.mean(shares) >= least


def test_where_samples_are_smaller_than_cells_rows_can_be_missed(rng: np.random.Generator) -> None:
    """Sampled rows are found by their own scores, and the others only if the mean of their cell is high enough."""
    shares = []
    rough, exact = monitor("ahba", 10, epsilon=0.4, delta=0.5, cells=4), monitor("floor", 10)
    for _ in range(9):
        batch = stream(rng, ROWS // 3)
        rough.push(batch)
        exact.push(batch)
        right = {entry.id for entry in exact.answer()}
        shares.append(len(right & {entry.id for entry in rough.answer()}) / len(right))
    assert np.mean(shares) < 1


@pytest.mark.parametrize("algorithm", ["ahba", "amsa"])
def test_samples_and_exclusions_keep_the_invariants(algorithm: str, rng: np.random.Generator) -> None:
    m = monitor(algorithm, 10, cells=4)
    for rows in (ROWS, 3, ROWS // 2, 1):
        m.push(stream(rng, rows))
        m._check()
    seen = m.stats()
    assert seen["estimates" if algorithm == "ahba" else "excluded"] > 0


def test_scores_of_an_approximate_answer_are_exact(rng: np.random.Generator) -> None:
    m = monitor("amsa", 10)
    m.push(stream(rng, ROWS + 50))
    live = m._serving.feed.live_slots()
    scores = dominated({name: m._serving.feed.window.columns[i, live] for i, (name, _) in enumerate(PREFER)}, PREFER)
    known = dict(zip(m._serving.feed.window.seq[live].tolist(), scores.tolist(), strict=True))
    assert all(known[entry.id] == entry.score for entry in m.answer())


@pytest.mark.skipif(not COMPILED, reason="the interpreter would take long over as many rows as it needs")
def test_amsa_excludes_no_row_that_is_close_to_the_answer(rng: np.random.Generator) -> None:
    """Rows get worse by and by, so that those a little below it come up when the older ones above them go."""
    rows = 10_000
    query = tw.Dominating(k=16, prefer=dict.fromkeys("abcd", "min"), name="q")
    rough, exact = (tw.Monitor(query, window=tw.last(rows), id=None, algorithm=name) for name in ("amsa", "floor"))
    for i in range(20):
        common = rng.random(rows // 8) + 0.01 * i
        batch = {name: common + 0.05 * rng.random(common.size) for name in "abcd"}
        assert list(rough.push(batch)) == list(exact.push(batch))
    assert rough.stats()["excluded"] > rows
