"""The experiments of SIGMOD'06 on top-k monitoring, section 8: the defaults, and each parameter varied alone.

Mouratidis, Bakiras, Papadias: Continuous monitoring of top-k queries over sliding windows. SIGMOD 2006.

Sizes are those of the paper's Table 1; Q also has 1 and 10,000. Queries are linear with weights uniform in [0, 1], the
grid has 12 cells per axis (about 12^4 in all for any d), views of TSL are tuned as in the paper, and a run is 100
cycles. ``small`` measures the defaults at full size and varies the parameters at a tenth of N and r, where an
arrival enters ten times as many answers: speeds are lower there. ``tiny`` is for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.workload import Setting

KMAX = {1: 4, 5: 10, 10: 20, 20: 30, 50: 70, 100: 120}
DATA = ("ind", "ant")

# Average view and skyband sizes per query: k to (TSL, SMA).
TABLE_2 = {
    "ind": {1: (3.3, 1.1), 5: (8.6, 5.9), 10: (17.1, 11.2), 20: (26.7, 21.6), 50: (63.0, 53.3), 100: (113.2, 104.6)},
    "ant": {1: (3.1, 1.1), 5: (8.4, 5.9), 10: (17.2, 11.5), 20: (26.9, 22.4), 50: (64.4, 54.4), 100: (113.6, 106.5)},
}


@dataclass(frozen=True)
class Scale:
    """How large and how long."""

    defaults: Setting
    base: Setting  # what the sweeps vary
    sizes: Setting  # where Table 2 is measured, for so many seeds
    size_seeds: int
    d: tuple[int, ...]
    scores_d: tuple[int, ...]
    N: tuple[int, ...]
    r: tuple[int, ...]
    Q: tuple[int, ...]
    k: tuple[int, ...]
    cells: tuple[int, ...]
    defaults_budget: float  # seconds of timed cycles per algorithm, at the defaults
    budget: float  # and at any other setting
    has_targets: bool = True  # large enough for the targets to mean something


@dataclass(frozen=True)
class Experiment:
    """Settings along one axis.

    Attributes
    ----------
    name, title : str
        What ``--only`` takes, and what the table is called.
    axis : str
        The field of :class:`Setting` that varies; empty for the defaults.
    settings : tuple of Setting
        In the order of measuring.
    shows_state : bool
        The paper has a figure of the space too.
    """

    name: str
    title: str
    axis: str
    settings: tuple[Setting, ...]
    shows_state: bool = False


PAPER = Setting(data="ind", d=4, N=1_000_000, r=10_000, Q=1000, k=20, cells=12, kmax=30, cycles=100)
SMALL = replace(PAPER, N=100_000, r=1000, cells=7, cycles=200)
TINY = replace(PAPER, N=4000, r=40, Q=30, cells=4, cycles=10)
SIZES = replace(PAPER, N=20_000, r=200, Q=100, cells=5)

SCALES = {
    "tiny": Scale(
        defaults=TINY,
        base=TINY,
        sizes=replace(TINY, Q=10),
        size_seeds=2,
        d=(2, 4),
        scores_d=(2, 4),
        N=(4000, 6000),
        r=(20, 80),
        Q=(1, 30),
        k=(1, 20),
        cells=(3, 5),
        defaults_budget=2.0,
        budget=2.0,
        has_targets=False,
    ),
    "small": Scale(
        defaults=PAPER,
        base=SMALL,
        sizes=SIZES,
        size_seeds=8,
        d=(2, 4, 6),
        scores_d=(2, 4),
        N=(100_000, 200_000, 500_000),
        r=(200, 1000, 10_000),
        Q=(1, 100, 1000, 10_000),
        k=tuple(KMAX),
        cells=(4, 7, 12, 15),
        defaults_budget=4.0,
        budget=0.5,
    ),
    "paper": Scale(
        defaults=PAPER,
        base=PAPER,
        sizes=replace(SIZES, N=100_000, r=1000, cells=7),
        size_seeds=20,
        d=(2, 3, 4, 5, 6),
        scores_d=(2, 3, 4, 5, 6),
        N=(1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000),
        r=(1000, 5000, 10_000, 50_000, 100_000),
        Q=(1, 100, 500, 1000, 2000, 5000, 10_000),
        k=tuple(KMAX),
        cells=tuple(range(5, 16)),
        defaults_budget=20.0,
        budget=20.0,
    ),
}


def experiments(scale: Scale) -> list[Experiment]:
    """Return the experiments, those that matter most first.

    >>> [experiment.name for experiment in experiments(SCALES["paper"])]
    ['defaults', 'k', 'd', 'N', 'r', 'Q', 'cells', 'scores']
    """
    base = scale.base
    first = scale.defaults
    settings = (first, replace(first, data="ant"), replace(first, k=100, kmax=KMAX[100]))
    return [
        Experiment("defaults", "the paper's defaults", "", settings),
        Experiment("k", "result cardinality k", "k", tuple(_vary_k(scale)), shows_state=True),
        Experiment("d", "dimensions d", "d", tuple(_vary_d(scale, scale.d, "linear"))),
        Experiment(
            "N",
            "window N, with r = N/100",
            "N",
            tuple(replace(base, data=data, N=n, r=n // 100) for data in DATA for n in scale.N),
        ),
        Experiment(
            "r", "arrivals per cycle r", "r", tuple(replace(base, data=data, r=r) for data in DATA for r in scale.r)
        ),
        Experiment(
            "Q", "number of queries Q", "Q", tuple(replace(base, data=data, Q=q) for data in DATA for q in scale.Q)
        ),
        Experiment(
            "cells",
            "cells per axis",
            "cells",
            tuple(replace(base, cells=cells, cells_for_all=True) for cells in scale.cells),
            shows_state=True,
        ),
        Experiment(
            "scores",
            "dimensions d, by kind of score",
            "d",
            tuple(s for score in ("linear", "product", "quadratic") for s in _vary_d(scale, scale.scores_d, score)),
        ),
    ]


def _vary_k(scale: Scale) -> Iterator[Setting]:
    for data in DATA:
        for k in scale.k:
            yield replace(scale.base, data=data, k=k, kmax=KMAX[k])


def _vary_d(scale: Scale, ds: tuple[int, ...], score: str) -> Iterator[Setting]:
    """About as many cells whatever the number of dimensions."""
    total = scale.base.cells**scale.base.d
    for data in DATA:
        for d in ds:
            yield replace(scale.base, data=data, d=d, cells=round(total ** (1 / d)), score=score)
