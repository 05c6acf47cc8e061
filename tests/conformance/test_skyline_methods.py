"""Every method finds the oracle's skyline whenever it looks, and every set of filters is robust."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import moving_records
from tests.support.sizes import COMPILED
from topwatch.core.arrays import Ints
from topwatch.edge.protocol import methods, simulate
from topwatch.edge.protocol.device_records import Outcome, Records, Settings
from topwatch.edge.protocol.filter import FilterMethod
from topwatch.edge.protocol.hybrid import Hybrid
from topwatch.edge.protocol.messages import SAMPLE
from topwatch.edge.protocol.simulation import Report, run

TICKS, RECORDS = (60, 120) if COMPILED else (14, 20)
SHARE, WINDOW = 0.6, 9


class CheckedFilter(FilterMethod):
    def _make_filters(self, skyline: Ints) -> None:
        super()._make_filters(skyline)
        self._check()


class CheckedHybrid(Hybrid):
    def _make_filters(self, skyline: Ints) -> None:
        super()._make_filters(skyline)
        self._check()


CHECKED = {"filter": CheckedFilter, "hybrid": CheckedHybrid}


def run_checked(method: str, snapshots: np.ndarray, settings: Settings) -> tuple[Report, list[set[int] | None]]:
    """Simulate; compare every skyline that is looked at with the oracle's."""
    result: list[set[int] | None] = []

    def watch(tick: int, records: Records, outcome: Outcome) -> None:
        result.append(None if outcome.skyline is None else set(outcome.skyline.tolist()))
        if result[-1] is not None:
            assert result[-1] == moving_records.skyline(snapshots[tick]), (tick, method)

    records = CHECKED.get(method, methods.METHODS[method])(settings)
    return run(iter(snapshots), snapshots.shape[1], records, method in ("naive", "filter"), watch), result


@pytest.mark.parametrize("shape", list(moving_records.SHAPES))
@pytest.mark.parametrize("method", list(methods.METHODS))
def test_skylines_and_answers_are_the_oracles(method: str, shape: str, rng: np.random.Generator) -> None:
    for d in (1, 2, 4) if COMPILED else (3,):
        snapshots = moving_records.SHAPES[shape](rng, TICKS, RECORDS, d)
        # Error and confidence so weak that only a part of the timestamps is sampled.
        settings = Settings(d, SHARE, WINDOW, 0.99, 0.8, int(rng.integers(1000)))
        assert 0.1 < settings.rate < 0.5
        report, result = run_checked(method, snapshots, settings)
        assert report.answers == moving_records.frequent(result, SHARE, WINDOW)
        looked = [tick for tick, skyline in enumerate(result) if skyline is not None]
        exact = method in ("naive", "filter")
        assert looked == [tick for tick in range(TICKS) if exact or settings.is_sampled(tick)]


@pytest.mark.parametrize("shape", ["independent", "resting", "comers_and_goers", "ties"])
def test_hybrid_is_sampling_at_sampled_timestamps(shape: str, rng: np.random.Generator) -> None:
    snapshots = moving_records.SHAPES[shape](rng, 2 * TICKS, RECORDS, 3)
    options = {"share": 0.7, "window": 40, "epsilon": 0.9, "delta": 0.5, "seed": int(rng.integers(1000))}
    prefer = dict.fromkeys("abc", "min")
    sampling, hybrid = (simulate(snapshots, prefer, method, **options) for method in ("sampling", "hybrid"))
    assert hybrid.answers == sampling.answers
    assert (hybrid.per_timestamp["skyline"] == sampling.per_timestamp["skyline"]).all()
    assert (hybrid.recall, hybrid.precision) == (sampling.recall, sampling.precision)


def test_messages_are_counted_as_theorem_4_1_has_it(rng: np.random.Generator) -> None:
    for shape in ("independent", "drifting", "comers_and_goers"):
        report = simulate(moving_records.SHAPES[shape](rng, TICKS, RECORDS, 3), dict.fromkeys("abc", "min"))
        assert report.uplink == report.failures + report.probes
        assert report.downlink == report.failures + 2 * report.probes
        assert report.total == report.uplink + report.downlink == 2 * report.failures + 3 * report.probes
        assert report.per_timestamp["uplink"].sum() == report.uplink
        assert report.per_timestamp["bytes"].sum() == report.bytes


def test_records_change_their_modes(rng: np.random.Generator) -> None:
    """Restless records are sampled; when they calm down they get filters again."""
    calm = np.repeat(rng.random((1, RECORDS, 2)), 3 * TICKS, axis=0)
    snapshots = calm.copy()
    snapshots[: 2 * TICKS] += rng.uniform(-0.3, 0.3, (2 * TICKS, RECORDS, 2))
    seen = []
    records = CheckedHybrid(Settings(2, 0.5, 40, 0.9, 0.5, 3))
    count = snapshots.shape[1]
    run(iter(snapshots), count, records, False, lambda t, r, o: seen.append(int((r.mode[:count] == SAMPLE).sum())))
    assert max(seen) > count // 4
    if COMPILED:
        assert seen[-1] < max(seen) // 2
