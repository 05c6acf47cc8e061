"""Seeded streams for the tests: rows with columns a, b, c, an id and a time, in many shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

Rows = dict[str, np.ndarray]
Values = dict[str, np.ndarray]

COLUMNS = ("a", "b", "c")
# Times are multiples of an eighth of a second: exact as doubles and as nanoseconds.
STEP = 0.125
ROWS_PER_SECOND = 4


def uniform(rng: np.random.Generator, rows: int) -> Values:
    """Independent numbers."""
    return {name: rng.random(rows) for name in COLUMNS}


def anticorrelated(rng: np.random.Generator, rows: int) -> Values:
    """Good in one column, bad in the others: large skybands and many changes."""
    parts = rng.dirichlet(np.ones(len(COLUMNS)), rows) + rng.normal(0, 0.02, (rows, 1))
    return {name: parts[:, i].copy() for i, name in enumerate(COLUMNS)}


def ties(rng: np.random.Generator, rows: int) -> Values:
    """A small grid of whole numbers: most scores tie."""
    return {name: rng.integers(0, 4, rows).astype(float) for name in COLUMNS}


def duplicates(rng: np.random.Generator, rows: int) -> Values:
    """Few different rows, each many times."""
    pool = rng.random((12, len(COLUMNS)))
    picked = rng.integers(0, len(pool), rows)
    return {name: pool[picked, i] for i, name in enumerate(COLUMNS)}


def constant(rng: np.random.Generator, rows: int) -> Values:
    """The same row again and again."""
    return {name: np.full(rows, value) for name, value in zip(COLUMNS, rng.random(len(COLUMNS)), strict=True)}


def holes(rng: np.random.Generator, rows: int) -> Values:
    """NaN in a fifth of each column."""
    values = uniform(rng, rows)
    for column in values.values():
        column[rng.random(rows) < 0.2] = np.nan
    return values


def infinities(rng: np.random.Generator, rows: int) -> Values:
    """Both infinities, zeros of both signs and NaN among common values: some scores are infinity minus infinity."""
    values = uniform(rng, rows)
    for column in values.values():
        odd = rng.random(rows) < 0.25
        column[odd] = rng.choice([np.inf, -np.inf, 0.0, -0.0, np.nan], odd.sum())
    return values


def drifting(rng: np.random.Generator, rows: int) -> Values:
    """The cluster moves through space: the best corner of yesterday is empty today."""
    phase = np.linspace(0, 4 * np.pi, rows)
    return {name: np.sin(phase + i) + rng.normal(0, 0.05, rows) for i, name in enumerate(COLUMNS)}


def scaled(rng: np.random.Generator, rows: int) -> Values:
    """Columns far from [0, 1]: large, negative and heavy-tailed."""
    return {
        "a": rng.uniform(1e6, 1e9, rows),
        "b": -rng.uniform(0, 1e-6, rows),
        "c": rng.standard_cauchy(rows) * 1e4,
    }


def growing(rng: np.random.Generator, rows: int) -> Values:
    """Values grow without bound in both directions, so that a grid learnt at the start is soon left."""
    reach = 1.02 ** np.arange(rows)
    return {"a": rng.random(rows) * reach, "b": rng.normal(0, 1, rows) * reach, "c": -rng.random(rows) * reach}


def improving(rng: np.random.Generator, rows: int) -> Values:
    """Each row is better than nearly all before: every row enters."""
    return {name: np.arange(rows) * (i + 1) + rng.random(rows) for i, name in enumerate(COLUMNS)}


def worsening(rng: np.random.Generator, rows: int) -> Values:
    """The best rows are the oldest: every expiry empties an answer."""
    return {name: -values for name, values in improving(rng, rows).items()}


SHAPES: dict[str, Callable[[np.random.Generator, int], Values]] = {
    shape.__name__: shape
    for shape in (
        uniform, anticorrelated, ties, duplicates, constant, holes, infinities, drifting, scaled, growing, improving,
        worsening,
    )
}  # fmt: skip


def steady_times(rng: np.random.Generator, rows: int) -> np.ndarray:
    """About four rows in a second, some at the same time, now and then a pause."""
    steps = rng.integers(0, 2 * round(1 / STEP / ROWS_PER_SECOND) + 1, rows)
    steps[rng.random(rows) < 0.01] += round(10 / STEP)
    return np.cumsum(steps) * STEP


def burst_times(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Rows come in bursts of one and the same time, with silence between."""
    starts = rng.random(rows) < 0.05
    return np.cumsum(np.where(starts, rng.integers(1, 10 * round(1 / STEP), rows), 0)) * STEP


def pooled_ids(rng: np.random.Generator, rows: int, pool: int) -> np.ndarray:
    """Ids that come again: updates for latest(), namesakes in the other windows."""
    return rng.integers(-pool // 2, pool - pool // 2, rows)


def make(shape: str, rng: np.random.Generator, rows: int, *, pool: int | None = None, bursts: bool = False) -> Rows:
    """A whole stream: columns, an id (1, 2, 3 ... or from a pool) and a time."""
    times = burst_times(rng, rows) if bursts else steady_times(rng, rows)
    ids = np.arange(1, rows + 1) if pool is None else pooled_ids(rng, rows, pool)
    return {"id": ids, "time": times, **SHAPES[shape](rng, rows)}


def part(rows: Mapping[str, np.ndarray], start: int, stop: int) -> Rows:
    """Return the rows from one to another."""
    return {name: values[start:stop] for name, values in rows.items()}


def pieces(rows: Mapping[str, np.ndarray], sizes: Iterator[int] | list[int]) -> Iterator[Rows]:
    """The stream cut into batches of these sizes; what is left comes as one last batch."""
    start, total = 0, len(rows["id"])
    for size in sizes:
        if start >= total:
            return
        yield part(rows, start, min(start + size, total))
        start += size
    if start < total:
        yield part(rows, start, total)


def random_sizes(rng: np.random.Generator, largest: int) -> Iterator[int]:
    """Many small batches, a few large ones, empty ones among them."""
    while True:
        yield int(rng.integers(0, 4)) if rng.random() < 0.5 else int(rng.integers(0, largest + 1))
