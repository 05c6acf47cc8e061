"""How right sampling is: Theorem 5.1 of SIGMOD 2009 over seeds, recall and precision, and who needs few messages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import sigmod2009
from tests.support import moving_records
from topwatch.core.sampled_timestamps import draw, is_sampled, sampling_rate
from topwatch.edge.protocol import simulate

PREFER = dict.fromkeys("abc", "min")


def test_reported_records_are_frequent_as_theorem_5_1_has_it(rng: np.random.Generator) -> None:
    share, window, epsilon, delta = 0.5, 300, 0.3, 0.2
    assert 0.1 < sampling_rate(window, share, epsilon, delta) < 0.6
    snapshots = moving_records.independent(rng, 500, 40, 3)
    inside = np.zeros((500, 40))
    for tick, snapshot in enumerate(snapshots):
        inside[tick, list(moving_records.skyline(snapshot))] = 1.0
    below = reported = 0
    for seed in range(12):
        answers = simulate(snapshots, PREFER, "sampling", share, window, epsilon, delta, seed).answers
        for tick in range(window - 1, 500):
            result = np.array(sorted(answers[tick]), dtype=np.int64)
            frequency = inside[tick + 1 - window : tick + 1, result].sum(axis=0)
            below += int((frequency <= (share - epsilon) * window).sum())
            reported += result.size
    assert reported > 1000
    assert below <= 2 * delta * reported


@pytest.mark.slow
def test_recall_and_precision_of_a_full_window() -> None:
    """Smaller than the paper's defaults in records alone; the mean over three seeds, as there."""
    quality = []
    for seed in range(3):
        setting = sigmod2009.Setting(n=600, ticks=1250)
        snapshots = np.array(list(sigmod2009.snapshots(setting, seed)))
        report = simulate(snapshots, dict.fromkeys("abcd", "min"), "sampling", seed=seed)
        quality.append([report.per_timestamp[name][1000:].mean() for name in ("recall", "precision")])
    recall, precision = np.mean(quality, axis=0)
    assert recall > 0.9
    assert precision > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "d", "fewest"),
    [("ind", 2, "filter"), ("cor", 4, "filter"), ("ant", 4, "sampling"), ("ind", 6, "sampling")],
)
def test_who_needs_the_fewest_messages(data: str, d: int, fewest: str) -> None:
    setting = sigmod2009.Setting(data=data, n=1000, d=d, ticks=25)
    if fewest == "filter":  # the first filters are not the best ones
        setting = replace(setting, n=2000, ticks=100)
    snapshots = np.array(list(sigmod2009.snapshots(setting, seed=0)))
    prefer = {str(k): "min" for k in range(d)}
    total = {method: simulate(snapshots, prefer, method).total for method in ("naive", "filter", "sampling")}
    assert min(total, key=lambda method: total[method]) == fewest
    if fewest == "sampling":
        assert total["filter"] > total["naive"]


def test_the_schedule_is_that_of_its_rate() -> None:
    draws = np.array([draw(7, tick) for tick in range(20_000)])
    assert abs(draws.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03
    shares = [np.mean([is_sampled(seed, 0.2, tick) for tick in range(2000)]) for seed in range(5)]
    assert max(abs(share - 0.2) for share in shares) < 0.05
    assert len({tuple(is_sampled(seed, 0.2, tick) for tick in range(50)) for seed in range(5)}) == 5
