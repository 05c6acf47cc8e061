"""Streams that only our own tests push: ids of all types, and columns as many as wanted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ID_KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "int64": lambda ids: ids.astype(np.int64),
    "negative": lambda ids: -ids.astype(np.int64) - 7,
    "int16": lambda ids: ids.astype(np.int16),
    "uint64": lambda ids: ids.astype(np.uint64) + np.uint64(2**63),
    "hash": lambda ids: ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15),
    "float": lambda ids: ids / 2,
    "str": lambda ids: np.array([f"row-{i}" for i in ids]),
    "text": lambda ids: np.array([f"Zürich ✓ {i}" for i in ids], dtype=object),
    "uuid": lambda ids: np.array([f"{i * 2654435761 % 2**32:08x}-7d5e-4a11-8c3f-{i:012x}" for i in ids], dtype=object),
    "datetime": lambda ids: np.datetime64("2024-02-29T12:00:00", "us") + ids.astype("timedelta64[s]"),
    "bool": lambda ids: ids % 2 == 0,
}


def columns(rng: np.random.Generator, data: str, rows: int, d: int) -> dict[str, np.ndarray]:
    """Return columns x0, x1 ... of a kind of data."""
    base = rng.random((rows, d))
    if data == "ant":
        base = rng.dirichlet(np.ones(d), rows) + rng.normal(0, 0.02, (rows, 1))
    if data == "cor":
        base = rng.random((rows, 1)) + rng.normal(0, 0.05, (rows, d))
    if data == "duplicates":
        base = np.floor(3 * base)
    if data == "mass":
        base = rng.random((6, d))[rng.integers(0, 6, rows)]
    return {f"x{i}": base[:, i].copy() for i in range(d)}
