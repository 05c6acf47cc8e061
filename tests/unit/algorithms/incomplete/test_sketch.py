"""Sliding FM sketches: counts, unions and what sources share, within the stated errors over many seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from topwatch.algorithms.incomplete.kernels.object_scores import Observations
from topwatch.algorithms.incomplete.sketches import (
    Appearances,
    SelfJoin,
    add_rows,
    empty_sketches,
    intersections,
    standard_error,
    unions,
)
from topwatch.core.arrays import Ints

SEEDS = 40


class SlidingSketch:
    """A sketch of one source."""

    def __init__(self, bitmaps: int) -> None:
        self.last = empty_sketches(1, bitmaps)
        self.error = standard_error(bitmaps)

    def add(self, ids: Ints, rows: Ints) -> None:
        add_rows(self.last, ids, np.zeros(rows.size, np.int64), rows)

    def count(self, head: int = 1) -> float:
        return float(unions(self.last, head)[1])


def shared(sketches: Sequence[SlidingSketch]) -> float:
    """Estimate how many ids all of some sketches have in common."""
    result = intersections(unions(np.concatenate([sketch.last for sketch in sketches]), 1))
    return max(0.0, float(result[-1]))


def appearance(sketch: SlidingSketch, given: Sequence[SlidingSketch]) -> float:
    """Estimate the probability that an id which all of ``given`` have seen has been seen by another source too."""
    among = shared(given)
    return min(1.0, shared([sketch, *given]) / among) if among > 0 else 0.0


def ids_of(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.choice(2**40, count, replace=False)


@pytest.mark.parametrize("bitmaps", [64, 256])
@pytest.mark.parametrize("distinct", [40, 300, 1000, 20_000])
def test_counts(bitmaps: int, distinct: int, rng: np.random.Generator) -> None:
    """No bias beyond a fraction of the error, and the error as stated (within 40 %, for 40 seeds)."""
    off = []
    for _ in range(SEEDS):
        sketch = SlidingSketch(bitmaps)
        ids = np.repeat(ids_of(rng, distinct), 2)
        sketch.add(ids, np.arange(1, ids.size + 1))
        off.append(sketch.count() / distinct - 1)
    assert abs(np.mean(off)) < 4 * sketch.error / np.sqrt(SEEDS) + 0.03
    stated = sketch.error if not bitmaps <= distinct <= 4 * bitmaps else 1.2 / np.sqrt(bitmaps)
    assert np.std(off) < 1.4 * stated


def test_rows_that_have_gone_do_not_count(rng: np.random.Generator) -> None:
    ids = ids_of(rng, 6000)
    whole, part = SlidingSketch(256), SlidingSketch(256)
    whole.add(ids, np.arange(1, 6001))
    part.add(ids[4000:], np.arange(4001, 6001))
    assert whole.count(head=4001) == part.count()
    assert whole.count(head=6001) == 0.0
    assert SlidingSketch(64).count() == 0.0


def test_batches_do_not_matter(rng: np.random.Generator) -> None:
    ids = rng.integers(0, 500, 3000)
    one, other = SlidingSketch(64), SlidingSketch(64)
    one.add(ids, np.arange(1, 3001))
    for start in range(0, 3000, 170):
        other.add(ids[start : start + 170], np.arange(start + 1, min(start + 170, 3000) + 1))
    assert np.array_equal(one.last, other.last)


@pytest.mark.parametrize("overlap", [0.1, 0.5, 0.9])
def test_what_two_sources_share(overlap: float, rng: np.random.Generator) -> None:
    """What is shared and Pr(A | B), within four times the stated standard error, for all seeds."""
    size = 4000
    common = int(overlap * size)
    for _ in range(SEEDS):
        ids = ids_of(rng, 2 * size - common)
        a, b = SlidingSketch(256), SlidingSketch(256)
        a.add(ids[:size], np.arange(1, size + 1))
        b.add(ids[-size:], np.arange(1, size + 1))
        error = np.sqrt(3) * a.error * ids.size
        assert abs(shared([a, b]) - common) < 4 * error
        assert abs(appearance(a, [b]) - overlap) < 4 * error / size + 4 * a.error * overlap


def test_what_three_sources_share(rng: np.random.Generator) -> None:
    ids = ids_of(rng, 9000)
    sketches = [SlidingSketch(1024) for _ in range(3)]
    for number, sketch in enumerate(sketches):
        mine = np.concatenate([ids[:3000], ids[3000 + 2000 * number : 5000 + 2000 * number]])
        sketch.add(mine, np.arange(1, mine.size + 1))
    assert abs(shared(sketches) - 3000) < 4 * np.sqrt(7) * sketches[0].error * 9000
    assert abs(appearance(sketches[0], sketches[1:]) - 1.0) < 0.5


def test_probabilities_given_all_sources_that_have_seen_an_object(rng: np.random.Generator) -> None:
    """Within four times the error that follows from those of the unions added up, for all seeds, sets and sources."""
    for _ in range(10):
        ids = ids_of(rng, 5000)
        shares = rng.uniform(0.2, 0.9, 3)
        common = rng.random(ids.size) < 0.4  # what makes sources dependent
        seen = (rng.random((3, ids.size)) < shares[:, None]) | common
        source, index = np.nonzero(seen)
        order = rng.permutation(source.size)
        rows = np.arange(1, order.size + 1)
        arrivals = Observations(
            rows, ids[index[order]], source[order], np.zeros(order.size), np.ones(order.size, np.int64)
        )
        statistics = Appearances(3, 1024)
        statistics.add(arrivals)
        statistics._check()
        table = statistics.table(head=1)
        for given in range(1, 8):
            among = np.logical_and.reduce([seen[s] for s in range(3) if given >> s & 1])
            union = np.logical_or.reduce(seen).sum()
            for s in range(3):
                if not given >> s & 1:
                    true = (seen[s] & among).sum() / among.sum()
                    error = np.sqrt(2 ** (given.bit_count() + 1) - 1) * statistics.error * union / among.sum()
                    assert abs(table[given, s] - true) < 4 * error
        assert (table[0] == 1).all()


def test_sets_that_are_too_rare_take_the_mean_of_smaller_ones() -> None:
    statistics = Appearances(3, 256)
    ids = np.arange(4000)
    source = np.where(ids < 2000, 0, 1)  # no object is seen by both
    statistics.add(Observations(ids + 1, ids, source, np.zeros(4000), np.ones(4000, np.int64)))
    table = statistics.table(head=1)
    assert table[0b011, 2] == pytest.approx((table[0b001, 2] + table[0b010, 2]) / 2)


@pytest.mark.parametrize("times", [1, 3, 10])
def test_self_joins(times: int, rng: np.random.Generator) -> None:
    """The size within four times its error, for all seeds; how often a key comes, and blocks that have gone."""
    for _ in range(20):
        keys = rng.permutation(np.repeat(ids_of(rng, 600), times))
        join = SelfJoin()
        for start in range(0, keys.size, 250):
            part = keys[start : start + 250]
            join.add(part, np.arange(start + 1, start + part.size + 1))
        join._check()
        assert abs(join.size() / (600 * times**2) - 1) < 4 * join.error
        assert abs(join.repeats() - times) <= 1 + 4 * join.error * times
        join.add(np.full(40, 7), np.arange(keys.size + 1, keys.size + 41))
        assert join.size(head=keys.size + 1) == 1600
        assert join.repeats(head=keys.size + 1) == 40
    assert SelfJoin().size() == 0
    assert SelfJoin().repeats() == 1
