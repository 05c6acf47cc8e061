"""What was asked for, what was measured, and whether that is enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.measure import Point
from benchmarks.sigmod2006 import Experiment
from benchmarks.sizes import Size

# At the defaults: which algorithm, how many times as fast as which other, on which setting of the three.
SPEEDS = (
    ("sma", "scan", 0, 2.5),
    ("sma", "tma", 0, 1.3),
    ("sma", "tma", 1, 3.0),
    ("sma", "tma", 2, 4.0),
    ("tma", "tsl", 0, 10.0),
    ("reserve", "scan", 0, 8.0),
    ("reserve", "scan", 1, 8.0),
)
AIMS = {("reserve", "scan"): 15}
ORDER = ("sma", "tma", "tsl")
SAME_SIZE = 0.05  # skybands beside the paper's
SAME_SPEED = 0.10  # two runs of one algorithm differ by as much
FLAT = 1.25  # times the cost per row at the smallest window
WORDS = 3.0  # for each word of the paper's formula


@dataclass(frozen=True)
class Verdict:
    """One target."""

    what: str
    target: str
    measured: str
    met: bool


def evaluate(experiment: Experiment, points: Sequence[Point], sizes: Sequence[Size]) -> list[Verdict]:
    """Evaluate the targets of an experiment; what was not measured is left out."""
    result: list[Verdict] = []
    if experiment.name == "defaults":
        # Smaller windows and other grids are the reader's to compare: their fixed costs are another story.
        result += [*_speeds(points), *_order(points), *_state(points)]
    result += _skybands([size for size in sizes if size.algorithm == "sma"])
    if experiment.name == "N":
        result += _flat(points)
    if experiment.name == "Q":
        result += [_choice(point) for point in points if "auto" in point.runs]
    return result


def setting_name(point: Point) -> str:
    """Name a setting by what differs most.

    >>> from benchmarks.sigmod2006 import PAPER
    >>> setting_name(Point(PAPER, {}, {}))
    'IND, k=20'
    """
    return f"{point.setting.data.upper()}, k={point.setting.k}"


def _speeds(points: Sequence[Point]) -> Iterator[Verdict]:
    for fast, slow, number, target in SPEEDS:
        ratio = points[number].ratio(fast, slow)
        if ratio is not None:
            aim = f", aim {AIMS[fast, slow]}" if (fast, slow) in AIMS else ""
            what = f"{fast} / {slow}, {setting_name(points[number])}"
            yield Verdict(what, f"at least {target:g} times as fast{aim}", f"{ratio:.2f}", ratio >= target)


def _skybands(sizes: Sequence[Size]) -> Iterator[Verdict]:
    for data in dict.fromkeys(size.data for size in sizes):
        worst = max((size for size in sizes if size.data == data), key=lambda size: abs(size.off))
        yield Verdict(
            f"sma's skyband sizes, {data.upper()}",
            f"within {SAME_SIZE:.0%} of the paper's Table 2",
            f"at most {worst.off:+.1%} (k={worst.k}, ± {worst.error / worst.paper:.1%})",
            abs(worst.off) <= SAME_SIZE,
        )


def _flat(points: Sequence[Point]) -> Iterator[Verdict]:
    for data in dict.fromkeys(point.setting.data for point in points):
        mine = sorted((p for p in points if p.setting.data == data), key=lambda p: p.setting.N)
        first, final = mine[0], mine[-1]
        for name in ("reserve", "sma", "tma"):
            if name in first.runs and name in final.runs:
                grown = first.runs[name].speed / final.runs[name].speed
                yield Verdict(
                    f"{name}'s cost per row, {data.upper()}, N={final.setting.N:,} / N={first.setting.N:,}",
                    f"does not grow (at most {FLAT:g})",
                    f"{grown:.2f}",
                    grown <= FLAT,
                )


def _choice(point: Point) -> Verdict:
    auto = point.runs["auto"]
    fixed = {name: run.speed for name, run in point.runs.items() if name != "auto"}
    fastest, best = max(fixed.items(), key=lambda item: item[1], default=("auto", auto.speed))
    # Where auto took one algorithm, that one's own run is what counts: the rest is noise.
    taken = fixed.get(auto.chosen, auto.speed)
    return Verdict(
        f"auto, {point.setting.data.upper()}, Q={point.setting.Q:,}",
        "takes the fastest",
        f"took {auto.chosen}, {taken:.3g} M/s" + ("" if fastest == auto.chosen else f"; {fastest} {best:.3g} M/s"),
        taken >= (1 - SAME_SPEED) * best,
    )


def _order(points: Iterable[Point]) -> Iterator[Verdict]:
    ordered = [
        point.runs[ORDER[0]].speed > point.runs[ORDER[1]].speed > point.runs[ORDER[2]].speed
        for point in points
        if all(name in point.runs for name in ORDER)
    ]
    if ordered:
        measured = f"in {sum(ordered)} of {len(ordered)} settings"
        yield Verdict("the paper's order", "SMA < TMA < TSL in time", measured, all(ordered))


def _state(points: Sequence[Point]) -> Iterator[Verdict]:
    shares = [
        (point.runs[name].state_bytes / point.paper_bytes(point.runs[name]), name)
        for point in points
        for name in ("reserve", "sma", "tma")
        if name in point.runs
    ]
    if shares:
        most, name = max(shares)
        yield Verdict(
            "state / (N(d+1) + Q(C+d+3k)) words",
            f"bounded (at most {WORDS:g})",
            f"{min(shares)[0]:.2f} ({min(shares)[1]}) to {most:.2f} ({name})",
            most <= WORDS,
        )
