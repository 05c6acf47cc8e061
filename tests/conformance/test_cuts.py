"""Any cut of a stream into batches, and any number of restarts, gives the same changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import topwatch as tw
from tests.support.exact_algorithms import ALGORITHMS
from tests.support.sizes import Scale
from tests.support.stream_kinds import ID_KINDS
from topwatch.testing import mixtures, streams
from topwatch.testing.lockstep import Lockstep, as_changes, expect_equal, servable
from topwatch.testing.oracle import Change, Seconds, Window

WINDOWS = [Window("count", 20), Window("time", 5), Window("latest")]
EVERY = [1, 7, Seconds(3)]


def by_kind(window: Window) -> str:
    return window.kind


def cuts(rng: np.random.Generator, rows: int) -> dict[str, Iterator[int] | list[int]]:
    """One batch (longer than the window), one row at a time, empty batches between, and a random one."""
    return {
        "whole": [rows],
        "single": [1] * rows,
        "empty": [0, 3, 0, 0, 11] * rows,
        "random": streams.random_sizes(rng, rows // 2),
    }


@pytest.mark.parametrize("every", EVERY, ids=["every-1", "every-7", "every-3s"])
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_cut(algorithm: str, window: Window, every: int | Seconds, rng: np.random.Generator, scale: Scale) -> None:
    stream = streams.make("ties", rng, max(100, scale.rows // 10), pool=30, bursts=bool(rng.integers(2)))
    queries = servable(algorithm, mixtures.mixture(rng, stream, scale.queries // 2, 20, "ties"), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve this")
    results: dict[str, list[Change]] = {}
    for name, sizes in cuts(rng, len(stream["id"])).items():
        both = Lockstep(queries, window, every, algorithm)
        results[name] = [change for batch in streams.pieces(stream, sizes) for change in both.push(batch)]
        expect_equal(results[name], results["whole"], f"cut {name!r}")
    assert results["whole"] or isinstance(every, Seconds)  # a short stream may pass no boundary


@pytest.mark.parametrize("every", EVERY, ids=["every-1", "every-7", "every-3s"])
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_restart_in_mid_stream(
    algorithm: str, window: Window, every: int | Seconds, rng: np.random.Generator, scale: Scale
) -> None:
    """Also in the middle of a cycle, before the first row, twice in a row, and with queries added and removed."""
    stream = streams.make("duplicates", rng, max(100, scale.rows // 10), pool=30)
    queries = servable(algorithm, mixtures.mixture(rng, stream, scale.queries, 20, "duplicates"), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve this")
    both = Lockstep(queries[:-2], window, every, algorithm)
    both.restart()
    for number, batch in enumerate(streams.pieces(stream, streams.random_sizes(rng, 30))):
        both.push(batch)
        if number == 3:
            both.add(queries[-2])
        if number == 5:
            both.remove(queries[1].name)
        if rng.random() < 0.4:
            both.restart()
        if rng.random() < 0.1:
            both.restart()


@pytest.mark.parametrize("kind", ["int64", "str", "text", "float", "datetime", "uint64"])
@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
def test_restart_keeps_ids_of_any_type(window: Window, kind: str, rng: np.random.Generator) -> None:
    stream = streams.make("uniform", rng, 120, pool=30)
    stream["id"] = ID_KINDS[kind](stream["id"] - stream["id"].min())
    both = Lockstep(mixtures.mixture(rng, stream, 6, 20, "uniform"), window, 4)
    for batch in streams.pieces(stream, [30] * 4):
        both.push(batch)
        both.restart()


@pytest.mark.parametrize("window", WINDOWS, ids=by_kind)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_snapshot_is_a_copy(algorithm: str, window: Window, rng: np.random.Generator) -> None:
    """The monitor goes on; two monitors restored from one blob go their own ways, and all three agree."""
    stream = streams.make("ties", rng, 150, pool=30)
    queries = servable(algorithm, mixtures.mixture(rng, stream, 6, 20, "ties"), window)
    if not queries:
        pytest.skip(f"{algorithm} does not serve this")
    both = Lockstep(queries, window, 7, algorithm)
    both.push(streams.part(stream, 0, 80))
    blob = both.monitor.snapshot()
    assert isinstance(blob, bytes)
    expected = both.push(streams.part(stream, 80, 150))
    one, other = tw.Monitor.restore(blob), tw.Monitor.restore(blob)
    for batch in streams.pieces(streams.part(stream, 80, 150), [30, 30]):
        expect_equal(as_changes(one.push(batch)), as_changes(other.push(batch)), "two copies")
    again = tw.Monitor.restore(blob)
    expect_equal(as_changes(again.push(streams.part(stream, 80, 150))), expected, "a restored copy")
    assert [one.answer(q.name) for q in queries] == [both.monitor.answer(q.name) for q in queries]
