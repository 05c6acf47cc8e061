"""Skybands and the most dominating rows of a table in memory, against a comparison of all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.sizes import COMPILED
from topwatch.tables import skyband as skyband_module
from topwatch.tables import top_dominating
from topwatch.tables.levels import Tuples
from topwatch.tables.skyband import skyband, skybands
from topwatch.tables.top_dominating import InMemory, best_dominating, best_in_memory
from topwatch.testing.oracle_dominance import dominated, dominators

KINDS = ["ind", "ant", "whole", "few", "constant", "infinite", "same"]
ROWS = 400 if COMPILED else 60


def table(rng: np.random.Generator, kind: str, d: int) -> np.ndarray:
    values = rng.random((d, rng.integers(1, ROWS)))
    if kind == "ant":
        values -= values.mean(axis=0)
    elif kind == "whole":
        values = np.round(values * 9)
    elif kind == "few":
        values = np.round(values * 2)
    elif kind == "constant":
        values[rng.integers(d)] = 5.0
    elif kind == "infinite":
        values = np.where(values < 0.1, -np.inf, np.where(values > 0.9, np.inf, np.round(values * 4)))
    elif kind == "same":
        values[:] = rng.random((d, 1))
    return values


def named(values: np.ndarray) -> dict[str, np.ndarray]:
    return {str(j): column for j, column in enumerate(values)}


def least(values: np.ndarray) -> list[tuple[str, str]]:
    return [(str(j), "min") for j in range(len(values))]


@pytest.mark.parametrize("d", range(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_skyband(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str, d: int) -> None:
    for k in (1, 2, 7, 50):
        values = table(rng, kind, d)
        monkeypatch.setattr(skyband_module, "SIEVED", int(rng.choice([1, 4096])))
        monkeypatch.setattr(skyband_module, "CELL_BITS", int(rng.choice([2, 12])))
        expected = dominators(named(values), least(values)) < k
        assert np.array_equal(skyband(values, k), np.flatnonzero(expected))


@pytest.mark.parametrize("d", [1, 2, 4, 8])
def test_skybands_of_groups(rng: np.random.Generator, d: int) -> None:
    parts = [table(rng, kind, d) for kind in KINDS]
    starts = np.concatenate([[0], np.cumsum([part.shape[1] for part in parts])])
    expected = [dominators(named(part), least(part)) < 2 for part in parts]
    assert np.array_equal(skybands(np.concatenate(parts, axis=1), starts, 2), np.concatenate(expected))


@pytest.mark.parametrize("d", range(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_most_dominating(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str, d: int) -> None:
    """With little room, there are several grids and pieces."""
    for k in (1, 2, 7, 50):
        values = table(rng, kind, d)
        monkeypatch.setattr(top_dominating, "CANDIDATES", int(rng.choice([2, 40, 16_384])))
        monkeypatch.setattr(top_dominating, "CELLS", int(rng.choice([4, 300, 1 << 17])))
        best = best_dominating(InMemory(values), k) if rng.random() < 0.8 else best_in_memory(values, k)
        scores = dominated(named(values), least(values)).astype(int)
        threshold = np.sort(scores)[::-1][min(k, scores.size) - 1]
        assert best.others == (threshold == 0 or scores.size < k)
        result = Tuples(best.values).find(values) if best.scores.size else np.full(scores.size, -1)
        assert np.array_equal(result >= 0, scores >= max(1, threshold) if scores.size >= k else scores >= 1)
        assert np.array_equal(best.scores[result[result >= 0]], scores[result >= 0])


def test_very_many_columns(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skyband_module, "SIEVED", 1)
    monkeypatch.setattr(top_dominating, "CELLS", 1 << 12)
    for d in (9, 17, 32):
        values = np.round(rng.random((d, 60)) ** 4)
        expected = dominators(named(values), least(values)) < 2
        assert np.array_equal(skyband(values, 2), np.flatnonzero(expected))
        best = best_dominating(InMemory(values), 3)
        scores = dominated(named(values), least(values)).astype(int)
        assert best.scores.max(initial=0) == scores.max()


def test_no_rows() -> None:
    best = best_dominating(InMemory(np.empty((2, 0))), 3)
    assert best.values.shape == (2, 0)
    assert skyband(np.empty((2, 0)), 3).size == 0


def test_a_few_rows_beside_many(rng: np.random.Generator) -> None:
    """More rows than a word has room for, at any number of columns."""
    for d in range(1, 9):
        few = np.unique(rng.integers(0, 12, (d, 300)).astype(float), axis=1)
        many = rng.integers(0, 12, (d, 500)).astype(float)
        no_better = (few[:, :, None] <= many[:, None, :]).all(axis=0)
        same = (few[:, :, None] == many[:, None, :]).all(axis=0)
        covered, equal = Tuples(few).compare(many)
        assert np.array_equal(covered, no_better.sum(axis=1))
        assert np.array_equal(equal, same.sum(axis=1))
        assert np.array_equal(Tuples(few).find(many), np.where(same.any(axis=0), same.argmax(axis=0), -1))
