"""LUCE as arrays, without Spark: the real data of TODS'15, clipped and scaled as ``topwatch dataset`` does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FILE = "luce.parquet"
COLUMNS = ("solar_current", "global_current", "primary_voltage", "secondary_voltage")
PERCENT = 99.9


def available(folder: str) -> bool:
    """Tell whether the data set is there."""
    return bool(folder) and Path(folder, FILE).is_file()


def rows(folder: str, count: int, d: int, seed: int | None) -> np.ndarray:
    """Return rows in the order of time, or shuffled; from the start again when there are too few."""
    import pyarrow.parquet as pq

    table = pq.read_table(Path(folder, FILE), columns=["time", *COLUMNS[:d]]).sort_by("time")
    columns = np.array([table[name].to_numpy().astype(np.float64) for name in COLUMNS[:d]])
    columns = columns[:, ~np.isnan(columns).any(axis=0)]
    low, high = np.percentile(columns, (100 - PERCENT, PERCENT), axis=1)
    scaled = (np.clip(columns.T, low, high) - low) / np.where(high > low, high - low, 1.0)
    if seed is not None:
        scaled = scaled[np.random.default_rng(seed).permutation(scaled.shape[0])]
    return np.ascontiguousarray(np.resize(scaled, (count, d)).T)
