"""Arrays that grow keep what they hold, and get what others have left, but never what somebody still looks at."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from topwatch.algorithms.topk import growing
from topwatch.algorithms.topk.growing import Growing


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> list[mmap.mmap]:
    monkeypatch.setattr(growing, "_spare", [])
    return growing._spare


def filled(rows: int, value: int) -> Growing:
    array = Growing((), np.int64)
    array.grow(rows)[:] = value
    return array


def test_what_an_array_has_left_is_used_again(nothing_left: list[mmap.mmap]) -> None:
    del nothing_left[:]
    first = filled(1000, 7)
    memory = first._memory
    del first
    assert nothing_left == [memory]
    second = Growing((), np.int64)
    assert second.grow(500).size == 500
    assert second._memory is memory
    assert nothing_left == []


def test_an_array_that_grows_moves_to_what_is_left(nothing_left: list[mmap.mmap]) -> None:
    large = filled(100_000, 7)
    memory = large._memory
    small = filled(100, 8)
    del large
    values = small.grow(5_000)
    assert small._memory is memory
    assert values[:100].tolist() == [8] * 100
    assert len(nothing_left) == 1, "what it had is left in its turn"


def test_memory_that_somebody_looks_at_is_not_given_away(nothing_left: list[mmap.mmap]) -> None:
    array = filled(1000, 7)
    view = array.grow(1000)
    del array
    assert nothing_left == []
    filled(1000, 9)
    assert view.tolist() == [7] * 1000


def test_no_more_is_kept_than_was_said(nothing_left: list[mmap.mmap], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "SPARE", 10_000)
    one, two, three = filled(1000, 1), filled(1000, 2), filled(200, 3)
    del one, two, three
    assert sorted(map(len, nothing_left)) == [1_600, 8_000]


def test_random_sizes_keep_their_values(rng: np.random.Generator) -> None:
    arrays: list[tuple[Growing, int, int]] = []
    for number in range(300):
        if arrays and rng.random() < 0.4:
            del arrays[int(rng.integers(len(arrays)))]
        elif arrays and rng.random() < 0.6:
            index = int(rng.integers(len(arrays)))
            array, size, value = arrays[index]
            more = size + int(rng.integers(1, 5_000))
            values = array.grow(more)
            assert np.all(values[:size] == value)
            values[:] = value
            arrays[index] = (array, more, value)
        else:
            size = int(rng.integers(1, 10_000))
            arrays.append((filled(size, number), size, number))
    for array, size, value in arrays:
        assert np.all(array.grow(size) == value)
