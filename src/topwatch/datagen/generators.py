"""Rows to test with: independent, anti-correlated, correlated and clustered, the same for the same seed.

The first three are the shapes of Börzsönyi, Kossmann and Stocker, "The Skyline Operator", ICDE 2001, with the constants
of the generator that its authors gave away. All values lie in [0, 1].

Rows are made in blocks of fixed size, each from its own random stream, so row *i* depends on nothing but
(kind, dims, seed, *i*) and NumPy's random streams: not on how many rows are requested, and not on how they are cut into
batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from topwatch.query.errors import QueryError, nearest_name

Array: TypeAlias = NDArray[np.float64]

BLOCK = 8192
CLUSTERS = 2
VARIANCE = 0.1
PERIOD, REACH, SPREAD = 200_000, 0.35, 0.05  # of the moving cloud: rows, way of its centre, standard deviation


def generate(kind: str, rows: int, dims: int, seed: int = 0) -> Array:
    """Return the first ``rows`` rows of a stream, columns apart: a C-contiguous array of shape (dims, rows).

    The shapes are described at :func:`ind`, :func:`ant`, :func:`cor` and :func:`clustered`. Cost: O(rows * dims); a
    million rows of four columns take a fraction of a second.

    >>> generate("ind", rows=3, dims=2, seed=7).round(3)
    array([[0.612, 0.566, 0.498],
           [0.838, 0.385, 0.249]])
    """
    parts = stream(kind, dims, seed, batch=max(rows, 1), rows=rows)
    return next(parts, np.empty((dims, 0)))


def stream(kind: str, dims: int, seed: int = 0, batch: int = BLOCK, rows: int | None = None) -> Iterator[Array]:
    """Yield batches of shape (dims, batch), without end or until ``rows`` rows have come; the last one may be shorter.

    >>> [part.shape for part in stream("cor", dims=3, batch=400, rows=1000)]
    [(3, 400), (3, 400), (3, 200)]
    """
    _check(kind, dims, seed)
    _at_least(1, "batch", batch)
    if rows is not None:
        _at_least(0, "rows", rows)
    return _cut(_blocks(kind, dims, seed), dims, batch, rows)


def part(kind: str, dims: int, seed: int, start: int, stop: int) -> Array:
    """Return the rows ``start`` to ``stop`` - 1 of a stream, without making those before them.

    >>> bool(np.array_equal(part("ind", 2, 0, 10_000, 10_003), generate("ind", 10_003, 2)[:, 10_000:]))
    True
    """
    _check(kind, dims, seed)
    skipped = start - start // BLOCK * BLOCK
    blocks = _blocks(kind, dims, seed, start // BLOCK)
    return next(_cut(blocks, dims, stop - start + skipped, None))[:, skipped:]


def ind(rng: Generator, common: Generator, dims: int) -> Array:
    """Independent: every value uniform in [0, 1), mean 1/2, no correlation."""
    return rng.random((dims, BLOCK))


def ant(rng: Generator, common: Generator, dims: int) -> Array:
    """Anti-correlated: good in one column, bad in another; rows lie close to the plane sum(x) = dims / 2.

    A level v, bell-shaped around 1/2 in [1/4, 3/4], sets all columns to v. With l = min(v, 1 - v), each column then
    gives an amount uniform in [-l, l] to its neighbour, which leaves the sum as it is. Rows that leave [0, 1] are drawn
    again. Every column has mean 1/2. Neighbours, the last and the first too, correlate most: about -0.94 of 2 columns,
    -0.46 of 3, -0.35 of 4, -0.28 of 8. Up to 7 columns every pair correlates negatively; of more columns, those far
    apart hardly correlate. The standard deviation of the sum is about dims / 23, for ``ind`` it is sqrt(dims / 12).

    Of the rows drawn 42 % are kept for 4 columns, 11 % for 10 and 1 % for 20: more than 20 columns are refused.
    """

    def draw(count: int) -> Array:
        level = 0.25 + 0.5 * _peak(rng, 12, count)
        return _exchange(level, lambda room: room * (2.0 * rng.random(count) - 1.0), dims)

    return _kept(draw, dims)


def cor(rng: Generator, common: Generator, dims: int) -> Array:
    """Correlated: good in one column, good in all; rows lie close to the diagonal.

    A level v, the mean of ``dims`` uniform values, sets all columns to v. With l = min(v, 1 - v), each column then
    gives an amount bell-shaped in [-l, l] (standard deviation l / 6) to its neighbour. Rows that leave [0, 1] are drawn
    again, which is rare. Every column has mean 1/2. Columns correlate by about 0.71 when there are 4, 0.51 of 8;
    neighbours, the last and the first too, by less: 0.71 of 2 columns, 0.67 of 3, 0.56 of 4, 0.27 of 8. The recipe is
    for few columns: of more than 14, neighbours do not correlate positively any more.
    """

    def draw(count: int) -> Array:
        level = _peak(rng, dims, count)
        return _exchange(level, lambda room: room * (2.0 * _peak(rng, 12, count) - 1.0), dims)

    return _kept(draw, dims)


def clustered(rng: Generator, common: Generator, dims: int) -> Array:
    """Clustered: two round clouds, the same for the whole stream, with their centres uniform in the unit cube.

    As in TODS 2015, section 8. A row belongs to each cloud with the same probability. Its columns are independent
    Gaussians of variance 0.1 around the centre; a value outside [0, 1] is drawn again.
    """
    spread = float(np.sqrt(VARIANCE))
    centres = common.random((dims, CLUSTERS))
    centre = centres[:, rng.integers(CLUSTERS, size=BLOCK)]
    x = centre + spread * rng.standard_normal((dims, BLOCK))
    outside = (x < 0.0) | (x > 1.0)
    while outside.any():
        x[outside] = centre[outside] + spread * rng.standard_normal(int(outside.sum()))
        outside = (x < 0.0) | (x > 1.0)
    return x


class Kind(NamedTuple):
    """A shape: ``shape(rng, common, dims)`` makes a block; ``common`` starts the same for all blocks of a stream."""

    number: int
    shape: Callable[[Generator, Generator, int], Array]
    fewest_dims: int
    most_dims: int


FLOW_COLUMNS = ("flow", "bytes", "packets", "seconds")  # of the kind "flows": topwatch.datagen.flows

MOST_DIMS = 10_000  # more would need gigabytes for one block

# The number takes part in the seed, so that the kinds are independent of each other: never renumber.
KINDS = {
    "ind": Kind(0, ind, 1, MOST_DIMS),
    "ant": Kind(1, ant, 2, 20),
    "cor": Kind(2, cor, 2, MOST_DIMS),
    "clustered": Kind(3, clustered, 1, MOST_DIMS),
}


def _blocks(kind: str, dims: int, seed: int, first: int = 0) -> Iterator[Array]:
    key = (KINDS[kind].number, dims)
    for index in itertools.count(first):
        own = default_rng(SeedSequence(seed, spawn_key=(*key, index)))
        common = default_rng(SeedSequence(seed, spawn_key=key))
        yield KINDS[kind].shape(own, common, dims)


def _cut(blocks: Iterator[Array], dims: int, batch: int, rows: int | None) -> Iterator[Array]:
    block = np.empty((dims, 0))
    while rows is None or rows > 0:
        part = np.empty((dims, batch if rows is None else min(batch, rows)))
        filled = 0
        while filled < part.shape[1]:
            if block.shape[1] == 0:
                block = next(blocks)
            taken = min(block.shape[1], part.shape[1] - filled)
            part[:, filled : filled + taken] = block[:, :taken]
            block = block[:, taken:]
            filled += taken
        if rows is not None:
            rows -= filled
        yield part


def _peak(rng: Generator, terms: int, count: int) -> Array:
    """Return ``count`` values in [0, 1], each the mean of ``terms`` uniform ones: a bell for 12 terms."""
    mean: Array = rng.random((terms, count)).mean(axis=0)
    return mean


def _exchange(level: Array, amount: Callable[[Array], Array], dims: int) -> Array:
    """Set all columns to ``level`` and let each take from its neighbour, so that the sum over columns stays."""
    room = np.minimum(level, 1.0 - level)
    x = np.repeat(level[np.newaxis], dims, axis=0)
    for column in range(dims):
        given = amount(room)
        x[column] += given
        x[(column + 1) % dims] -= given
    return x


def _kept(draw: Callable[[int], Array], dims: int) -> Array:
    """Fill a block with those of the rows drawn that lie in the unit cube."""
    block = np.empty((dims, BLOCK))
    filled, drawn = 0, 0
    while filled < BLOCK:
        # by the share kept so far, or few rows would be drawn many times
        wanted = BLOCK - filled
        count = min(4 * BLOCK, wanted * drawn // filled + 64) if filled else BLOCK
        x = draw(count)
        drawn += count
        x = x[:, ((x >= 0.0) & (x <= 1.0)).all(axis=0)][:, :wanted]
        block[:, filled : filled + x.shape[1]] = x
        filled += x.shape[1]
    return block


def _check(kind: str, dims: int, seed: int) -> None:
    if kind not in KINDS:
        raise QueryError(f"kind: {kind!r} is not known; accepted are {', '.join(KINDS)}{nearest_name(kind, KINDS)}")
    fewest, most = KINDS[kind].fewest_dims, KINDS[kind].most_dims
    if not fewest <= dims <= most:
        raise QueryError(f"dims: {kind} takes {fewest} to {most:,} columns, got {dims}")
    _at_least(0, "seed", seed)


def _at_least(least: int, field: str, value: int) -> None:
    if value < least:
        raise QueryError(f"{field}: accepted is {least} or more, got {value}")


def moving(count: int, dims: int, seed: int) -> Array:
    """Return rows of a stream that drifts, in the order of time, columns apart.

    One round cloud, whose centre moves along a closed curve of ``PERIOD`` rows: five windows of TODS 2015.

    >>> moving(PERIOD, 2, 0).mean(axis=1).round(2)
    array([0.5, 0.5])
    """
    angle = 2 * np.pi * np.arange(count) / PERIOD
    centre = np.array([0.5 + REACH * np.sin((1 + i // 2) * angle + i * np.pi / 2) for i in range(dims)])
    return np.clip(centre + SPREAD * np.random.default_rng([seed, dims]).standard_normal((dims, count)), 0.0, 1.0)
