"""The skyline of a table in memory: equal to the oracle, whatever the rows are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.sizes import COMPILED
from topwatch.tables import skyline as module
from topwatch.tables.skyline import front, strong_rows, unbeaten
from topwatch.testing.oracle_dominance import dominators


def table(rng: np.random.Generator, data: str, rows: int, d: int) -> np.ndarray:
    values = rng.random((d, rows))
    if data == "ant":
        values = rng.dirichlet(np.ones(d), rows).T + rng.normal(0, 0.02, rows)
    if data == "cor":
        values = rng.random(rows) + rng.normal(0, 0.05, (d, rows))
    if data == "ties":
        values = np.floor(4 * values)
    if data == "twins":
        values = rng.random((d, 9))[:, rng.integers(0, 9, rows)]
    if data == "near":
        values = 1.0 + np.floor(3 * values) * np.spacing(1.0)
    if data == "infinite":
        odd = rng.random((d, rows)) < 0.3
        values[odd] = rng.choice([np.inf, -np.inf, 0.0, -0.0], odd.sum())
    return values


def expected(values: np.ndarray) -> list[int]:
    columns = {str(j): column for j, column in enumerate(values)}
    return np.flatnonzero(dominators(columns, [(name, "min") for name in columns]) == 0).tolist()


@pytest.mark.parametrize("data", ["ind", "ant", "cor", "ties", "twins", "near", "infinite"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 9, 20])
def test_front(d: int, data: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EASY", 0.0)
    monkeypatch.setattr(module, "FEW", 20)
    monkeypatch.setattr(module, "MANY", 40)
    for rows in (0, 1, 2, 19, 70, 700 if COMPILED else 120):
        values = table(rng, data, rows, d)
        before = values.copy()
        assert front(values).tolist() == expected(values)
        assert np.array_equal(values, before)


@pytest.mark.parametrize("bits", [1, 3])
def test_levels_that_leave_much_open(bits: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with the same word may come in any order, and drop each other."""
    monkeypatch.setattr(module, "LEVEL_BITS", bits)
    monkeypatch.setattr(module, "EASY", 0.0)
    for data in ("ind", "ant", "ties", "twins"):
        for d in (1, 2, 4):
            values = table(rng, data, 400 if COMPILED else 80, d)
            assert front(values).tolist() == expected(values)


@pytest.mark.parametrize("data", ["ind", "ant", "ties", "twins", "infinite"])
def test_easy_rows(data: str, rng: np.random.Generator) -> None:
    for d in (1, 3, 5):
        values = table(rng, data, 300 if COMPILED else 90, d)
        assert front(values).tolist() == expected(values)


def test_strong_rows_drop_only_what_they_dominate(rng: np.random.Generator) -> None:
    values = table(rng, "ind", 500, 3)
    strong = strong_rows(values)
    assert 0 < strong.shape[1] <= module.STRONG
    left = unbeaten(values, strong)
    kept = np.zeros(500, bool)
    kept[left] = True
    le = (strong[:, :, None] <= values[:, None, :]).all(axis=0)
    lt = (strong[:, :, None] < values[:, None, :]).any(axis=0)
    assert np.array_equal(~kept, (le & lt).any(axis=0))
    assert unbeaten(values, strong[:, :0]).size == 500
