"""Moving records for tests, and skylines in plain NumPy: every pair is compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from topwatch.testing.oracle_dominance import dominators

Snapshots = np.ndarray  # (timestamps, records, columns)


def _around(rng: np.random.Generator, centres: np.ndarray, ticks: int, reach: float = 0.08) -> Snapshots:
    return centres[None] + rng.uniform(-reach, reach, (ticks, *centres.shape))


def independent(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    return _around(rng, rng.random((records, d)), ticks)


def correlated(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    return _around(rng, rng.random((records, 1)) + rng.normal(0.0, 0.03, (records, d)), ticks)


def anticorrelated(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    centres = rng.random((records, d))
    return _around(rng, centres - centres.mean(axis=1, keepdims=True), ticks, 0.04)


def drifting(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    return rng.random((records, d))[None] + np.cumsum(rng.normal(0.0, 0.01, (ticks, records, d)), axis=0)


def resting(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    """Most rest most of the time; some jump."""
    result = np.repeat(rng.random((1, records, d)), ticks, axis=0)
    jumps = rng.random((ticks, records)) < 0.05
    result[jumps] = rng.random((int(jumps.sum()), d))
    return result


def ties(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    return rng.integers(0, 4, (ticks, records, d)).astype(np.float64)


def comers_and_goers(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    """Records are there for a while, away for a while."""
    result = independent(rng, ticks, records, d)
    unmaterialised = np.cumsum(rng.random((ticks, records)) < 0.1, axis=0) % 2 == 1
    result[unmaterialised] = np.nan
    return result


def holes(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    result = ties(rng, ticks, records, d)
    result[rng.random(result.shape) < 0.05] = np.nan
    return result


def infinities(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    result = independent(rng, ticks, records, d)
    where = rng.random(result.shape)
    result[where < 0.05], result[where > 0.95] = np.inf, -np.inf
    return result


def alone(rng: np.random.Generator, ticks: int, records: int, d: int) -> Snapshots:
    """One record, and now and then a second one."""
    result = independent(rng, ticks, 2, d)
    result[rng.random(ticks) < 0.7, 1] = np.nan
    return result


SHAPES: dict[str, Callable[[np.random.Generator, int, int, int], Snapshots]] = {
    shape.__name__: shape
    for shape in (
        *(independent, correlated, anticorrelated, drifting, resting, ties),
        *(comers_and_goers, holes, infinities, alone),
    )
}


def skyline(snapshot: np.ndarray, better: list[str] | None = None) -> set[int]:
    """Return the records that are there and that no other dominates."""
    there = np.flatnonzero(~np.isnan(snapshot).any(axis=1))
    names = [str(k) for k in range(snapshot.shape[1])]
    prefer = list(zip(names, better or ["min"] * len(names), strict=True))
    columns = dict(zip(names, snapshot[there].T, strict=True))
    return set(there[dominators(columns, prefer) == 0].tolist()) if there.size else set()


def frequent(skylines: list[set[int] | None], share: float, window: int) -> list[set[int]]:
    """Return the records in at least that share of the last skylines that were looked at, for each timestamp."""
    result = []
    for tick in range(len(skylines)):
        seen = [skyline for skyline in skylines[max(0, tick + 1 - window) : tick + 1] if skyline is not None]
        everyone = set().union(*seen) if seen else set()
        result.append({r for r in everyone if sum(r in skyline for skyline in seen) / len(seen) >= share - 1e-12})
    return result
