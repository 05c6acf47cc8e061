"""A stream that drifts: one round cloud whose centre moves along a closed curve, five windows of TODS'15 long."""

from __future__ import annotations

import numpy as np

TURN = 200_000  # rows
REACH = 0.35
SPREAD = 0.05


def rows(count: int, d: int, seed: int) -> np.ndarray:
    """Return rows in the order of time, columns apart.

    >>> rows(TURN, 2, 0).mean(axis=1).round(2)
    array([0.5, 0.5])
    """
    angle = 2 * np.pi * np.arange(count) / TURN
    centre = np.array([0.5 + REACH * np.sin((1 + i // 2) * angle + i * np.pi / 2) for i in range(d)])
    return np.clip(centre + SPREAD * np.random.default_rng([seed, d]).standard_normal((d, count)), 0.0, 1.0)
