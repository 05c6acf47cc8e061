from __future__ import annotations

import itertools

import numpy as np
import pytest

from topwatch.datagen.generators import BLOCK, CLUSTERS, KINDS, VARIANCE, generate, stream
from topwatch.query.errors import QueryError

ROWS = 100_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dims", [2, 3, 6])
def test_values_lie_in_the_unit_cube_columns_apart(kind: str, dims: int) -> None:
    x = generate(kind, ROWS, dims, seed=1)
    assert x.shape == (dims, ROWS)
    assert x.dtype == np.float64
    assert x.flags.c_contiguous
    assert x.min() >= 0.0
    assert x.max() <= 1.0
    assert len(np.unique(x[0])) > 0.999 * ROWS


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_rows(kind: str) -> None:
    rows = BLOCK + 100
    np.testing.assert_array_equal(generate(kind, rows, 3, seed=5), generate(kind, rows, 3, seed=5))
    assert not np.array_equal(generate(kind, rows, 3, seed=5), generate(kind, rows, 3, seed=6))


def test_kinds_do_not_share_random_numbers() -> None:
    for one, other in itertools.combinations(KINDS, 2):
        x, y = generate(one, ROWS, 2), generate(other, ROWS, 2)
        assert abs(np.corrcoef(x[0], y[0])[0, 1]) < 0.02


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 999, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_rows_do_not_depend_on_the_cut_into_batches(kind: str, batch: int) -> None:
    rows = 2 * BLOCK + 17 if batch > 1 else 50
    parts = list(stream(kind, 3, seed=2, batch=batch, rows=rows))
    assert all(part.shape == (3, batch) and part.flags.c_contiguous for part in parts[:-1])
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), generate(kind, rows, 3, seed=2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_shorter_stream_is_the_beginning_of_a_longer_one(kind: str) -> None:
    longer = generate(kind, 2 * BLOCK + 5, 2, seed=3)
    for rows in (0, 1, BLOCK, BLOCK + 1):
        np.testing.assert_array_equal(generate(kind, rows, 2, seed=3), longer[:, :rows])


def test_stream_without_end_gives_arrays_of_its_own() -> None:
    first, second = itertools.islice(stream("ind", 2, batch=10), 2)
    kept = second.copy()
    first[:] = 0.0
    np.testing.assert_array_equal(second, kept)


@pytest.mark.parametrize("dims", [2, 4, 8])
def test_independent(dims: int) -> None:
    x = generate("ind", ROWS, dims, seed=1)
    np.testing.assert_allclose(x.mean(axis=1), 0.5, atol=0.01)
    np.testing.assert_allclose(x.std(axis=1), np.sqrt(1 / 12), atol=0.01)
    np.testing.assert_allclose(np.corrcoef(x), np.eye(dims), atol=0.02)


@pytest.mark.parametrize(("dims", "neighbours"), [(2, -0.94), (3, -0.46), (4, -0.35), (8, -0.28)])
def test_anticorrelated_rows_lie_near_a_plane(dims: int, neighbours: float) -> None:
    x = generate("ant", ROWS, dims, seed=1)
    np.testing.assert_allclose(x.mean(axis=1), 0.5, atol=0.01)
    pairs = np.corrcoef(x)
    np.testing.assert_allclose(pairs[range(dims), np.arange(1, dims + 1) % dims], neighbours, atol=0.02)
    assert (pairs[np.triu_indices(dims, 1)] < (0.02 if dims > 7 else 0.0)).all()
    total = x.sum(axis=0)
    assert total.mean() == pytest.approx(dims / 2, abs=0.02)
    assert total.std() == pytest.approx(dims / 23, rel=0.08)


@pytest.mark.parametrize(("dims", "neighbours"), [(2, 0.71), (3, 0.67), (4, 0.56), (8, 0.27)])
def test_correlated_rows_lie_near_the_diagonal(dims: int, neighbours: float) -> None:
    x = generate("cor", ROWS, dims, seed=1)
    np.testing.assert_allclose(x.mean(axis=1), 0.5, atol=0.01)
    pairs = np.corrcoef(x)
    np.testing.assert_allclose(pairs[range(dims), np.arange(1, dims + 1) % dims], neighbours, atol=0.02)
    assert (pairs >= neighbours - 0.02).all()
    # the exchange between columns leaves the level: the mean of `dims` uniform values
    assert x.mean(axis=0).std() == pytest.approx(np.sqrt(1 / 12 / dims), rel=0.03)


def moments_of_a_cut_gaussian(centres: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of Gaussians around some centres that are cut off at 0 and 1."""
    x = np.linspace(0, 1, 2001)
    weights = np.exp(-((x - centres[:, None]) ** 2) / (2 * variance))
    weights /= weights.sum(axis=1, keepdims=True)
    means = weights @ x
    return means, weights @ (x * x) - means * means


def test_clusters_are_two_clouds_of_equal_share() -> None:
    # In 40 columns centres lie far apart. Two blocks with others between them: all blocks share their centres.
    rows = generate("clustered", 3 * BLOCK, 40, seed=1)
    rows = np.concatenate([rows[:, :BLOCK], rows[:, -BLOCK:]], axis=1)
    apart = np.linalg.svd(rows - rows.mean(axis=1, keepdims=True), full_matrices=False)[0][:, 0]
    side = apart @ rows > apart @ rows.mean(axis=1)
    assert side.mean() == pytest.approx(1 / CLUSTERS, abs=0.02)
    centres = np.linspace(0, 1, 1001)
    means, variances = moments_of_a_cut_gaussian(centres, VARIANCE)
    for cloud in (rows[:, side], rows[:, ~side]):
        expected = np.interp(cloud.mean(axis=1), means, variances)
        np.testing.assert_allclose(cloud.var(axis=1), expected, rtol=0.05)
        others = np.corrcoef(cloud)[np.triu_indices(40, 1)]
        np.testing.assert_allclose(others, 0.0, atol=0.06)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("antt", 5, 2), "kind: 'antt' is not known; accepted are ind, ant, cor, clustered; did you mean 'ant'?"),
        (("ind", 5, 0), "dims: ind takes 1 to 10,000 columns, got 0"),
        (("cor", 5, 1), "dims: cor takes 2 to 10,000 columns, got 1"),
        (("ant", 5, 21), "dims: ant takes 2 to 20 columns, got 21"),
        (("ind", -1, 2), "rows: accepted is 0 or more, got -1"),
        (("ind", 5, 2, -1), "seed: accepted is 0 or more, got -1"),
    ],
)
def test_errors_name_the_field(arguments: tuple[str, int, int], message: str) -> None:
    with pytest.raises(QueryError) as caught:
        generate(*arguments)
    assert str(caught.value) == message


def test_a_batch_has_at_least_one_row() -> None:
    with pytest.raises(QueryError, match="batch: accepted is 1 or more, got 0"):
        stream("ind", 2, batch=0)
