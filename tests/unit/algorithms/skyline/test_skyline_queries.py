"""Skylines beyond the answers: why a row is in one, what is kept, what is refused, and what sampling promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.refusal import refused
from topwatch.core.sampled_timestamps import is_sampled, sampling_rate
from topwatch.testing.oracle_dominance import dominators

PREFER: Any = {"x": "min", "y": "min"}


def test_why_names_rows_of_the_skyline() -> None:
    m = tw.Monitor(tw.Skyline(PREFER, name="sky", where={"y": (0.0, 8.0)}), window=tw.last(5))
    m.push({"id": list("abcdef"), "x": [0.0, 1.0, 2.0, 3.0, 2.0, None], "y": [1.0, 2.0, 1.0, 3.0, 9.0, 0.0]})
    best, worst, outside, missing, expired = (m.why(id, "sky") for id in "cdefa")
    assert (best.answer, best.score, best.dominated_by, best.dominators) == (True, 0.0, 0, [])
    assert str(best) == "'c' is in the skyline: no row dominates it."
    assert (worst.answer, worst.score, worst.dominated_by) == (False, None, 2)
    assert worst.dominators == [tw.Entry("c", 0.0), tw.Entry("b", 0.0)]
    assert str(worst) == "'d' is not in the skyline: 2 rows dominate it, of the skyline 'c', 'b'."
    assert str(outside) == "'e' is not ranked: its y is 9, outside 0 to 8."
    assert str(missing) == "'f' is not ranked: it has no value for x."
    assert str(expired) == "No live row has the id 'a'."


def test_why_tells_the_share() -> None:
    m = tw.Monitor(tw.FrequentSkyline(PREFER, share=0.5, snapshots=4, name="often"), window=tw.latest(), every=2)
    for x in ([1.0, 2.0], [3.0, 2.0], [1.0, 2.0]):
        m.push({"id": ["a", "b"], "x": x, "y": [1.0, 1.0]})
    often, seldom = m.why("a", "often"), m.why("b", "often")
    assert (often.answer, often.score, often.threshold) == (True, 2 / 3, 0.5)
    assert "was in the skyline in 0.6667 of the snapshots, of 4 at most; now no row dominates it." in str(often)
    assert (seldom.answer, seldom.score) == (False, None)
    assert "in less than 0.5 of the snapshots, of 4 at most; now 1 row dominates it, of the skyline 'a'." in str(seldom)
    assert m.stats()["snapshots"] == 3


def test_the_first_batch_may_make_the_window_grow(rng: np.random.Generator) -> None:
    # Before the query has seen a row: what it keeps by id has to have room for all of them.
    batch = {"id": rng.integers(0, 150, 3000), "x": rng.random(3000), "y": rng.random(3000)}
    at_once, in_parts = (tw.Monitor(tw.FrequentSkyline(PREFER, 0.3, 20), tw.latest(), every=15) for _ in range(2))
    parts = [{name: column[i : i + 100] for name, column in batch.items()} for i in range(0, 3000, 100)]
    assert list(at_once.push(batch)) == [change for part in parts for change in in_parts.push(part)]


def test_explain_says_what_waits_for_what() -> None:
    sky = tw.Skyline(PREFER, name="sky")
    assert "sky: witness – it drops rows that a newer one dominates" in tw.Monitor(sky, window=tw.last(9)).explain()
    assert "sky: witness – a dominated row waits" in tw.Monitor(sky, window=tw.latest()).explain()


def test_only_rows_that_no_newer_one_dominates_are_kept(rng: np.random.Generator) -> None:
    rows, window = 400, 150
    values = {"x": rng.random(rows), "y": rng.random(rows)}
    m = tw.Monitor(tw.Skyline(PREFER), window=tw.last(window), id=None)
    m.push(values)
    live = {name: column[-window:] for name, column in values.items()} | {"age": -np.arange(window, dtype=float)}
    assert m.stats()["kept"] == (dominators(live, [(name, "min") for name in live]) == 0).sum()


def test_inputs_are_not_modified(rng: np.random.Generator) -> None:
    batch = {"id": np.arange(50), "x": rng.random(50), "y": rng.random(50)}
    before = {name: column.copy() for name, column in batch.items()}
    for window in (tw.last(20), tw.latest()):
        tw.Monitor(tw.Skyline({"x": "max", "y": "min"}), window=window).push(batch)
        assert all(np.array_equal(batch[name], before[name]) for name in batch)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tw.Skyline({}), "Skyline: prefer: expected a mapping of column to 'min' or 'max', got {}"),
        (lambda: tw.Skyline({"x": "low"}), r"Skyline: prefer\['x'\]: expected 'min' or 'max', got 'low'"),
        (lambda: tw.FrequentSkyline(PREFER, 0, 5), "FrequentSkyline: share: .* above 0 and at most 1, got 0"),
        (lambda: tw.FrequentSkyline(PREFER, 1.5, 5), "FrequentSkyline: share: .* above 0 and at most 1, got 1.5"),
        (lambda: tw.FrequentSkyline(PREFER, 0.5, 0), "FrequentSkyline: snapshots: .* from 1 to 2,147,483,647, got 0"),
        (
            lambda: tw.Monitor(tw.FrequentSkyline(PREFER, 0.5, 5), tw.latest(), algorithm="sampling", seed=-1),
            "seed: expected a whole number of at least 0, got -1",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with refused(tw.QueryError, message):
        make()


def test_what_sampling_reports_is_frequent_enough(rng: np.random.Generator) -> None:
    """Theorem 5.1: reported at any time, in more than (share - epsilon) of the snapshots with 1 - 2 delta.

    Records move around in a small box, and some are close to being frequent; the bound is for each one.
    """
    records, snapshots, window = 12, 240, 120
    share, epsilon, delta = 0.6, 0.3, 0.2
    assert 0.3 < sampling_rate(window, share, epsilon, delta) < 0.9
    centres = rng.random((records, 2)) * 0.4 + 0.3
    moving = centres[None] + rng.uniform(-0.25, 0.25, (snapshots, records, 2))
    skylines = np.array([dominators({"x": at[:, 0], "y": at[:, 1]}, list(PREFER.items())) == 0 for at in moving])
    wrong = reported = 0
    for seed in range(12):
        query = tw.FrequentSkyline(PREFER, share=share, snapshots=window)
        m = tw.Monitor(query, tw.latest(), every=records, algorithm="sampling", epsilon=epsilon, delta=delta, seed=seed)
        for now, at in enumerate(moving):
            m.push({"id": np.arange(records), "x": at[:, 0], "y": at[:, 1]})
            if now >= window - 1:
                true = skylines[now - window + 1 : now + 1].mean(axis=0)
                result = [entry.id for entry in m.answer()]
                reported += len(result)
                wrong += sum(true[id] <= share - epsilon for id in result)
    assert reported > 0
    assert wrong <= 2 * delta * reported


def test_all_who_know_the_seed_sample_the_same_snapshots() -> None:
    chosen = [number for number in range(20_000) if is_sampled(11, 0.2, number)]
    assert chosen == [number for number in range(20_000) if is_sampled(11, 0.2, number)]
    assert 3700 < len(chosen) < 4300
    assert chosen != [number for number in range(20_000) if is_sampled(12, 0.2, number)]
    assert all(is_sampled(5, 1.0, number) for number in range(200))
