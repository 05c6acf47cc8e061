"""The experiments of TKDE'11 on top-k dominating queries, section 9: the defaults, and each parameter varied alone.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011.

Every row is an update and an evaluation, as in the paper. ``paper`` has its sizes: n = 2M, d = 4, k = 256. ``small``
has a tenth of the rows, ``tiny`` is for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

EXACT = ("bfa", "eva", "ada", "floor")
ALL = ("bfa", "eva", "ada", "ahba", "amsa", "floor")
APPROXIMATE = ("ahba", "amsa")
COLUMNS = {
    "covtype": ("elevation", "slope", "h_dist_hydrology", "h_dist_roadways"),
    "zillow": ("bedroomcnt", "bathroomcnt", "calculatedfinishedsquarefeet", "taxvaluedollarcnt", "lotsizesquarefeet"),
}

# Per 1,000 updates on ANT: k and algorithm to (events, exact scores, million comparisons).
TABLE_4 = {
    (16, "eva"): (1147.3, 15.2, 26.4), (16, "ada"): (1052.7, 3.8, 12.5),
    (16, "ahba"): (1005.4, 0.0, 10.6), (16, "amsa"): (1000.0, 0.0, 0.07),
    (64, "eva"): (201219.0, 22.0, 33.7), (64, "ada"): (22247.3, 8.7, 18.4),
    (64, "ahba"): (22146.3, 0.0, 10.8), (64, "amsa"): (1000.0, 0.0, 0.3),
    (256, "eva"): (201508.9, 50.1, 65.3), (256, "ada"): (22361.1, 14.7, 25.7),
    (256, "ahba"): (22170.5, 0.1, 11.6), (256, "amsa"): (1000.0, 0.0, 1.1),
    (512, "eva"): (802160.8, 296.0, 332.2), (512, "ada"): (123942.3, 22.6, 36.0),
    (512, "ahba"): (123819.1, 0.3, 14.0), (512, "amsa"): (999.6, 0.0, 2.8),
}  # fmt: skip
# Mean accuracy in percent, with ε = 0.1 and δ = 0.9: data and k to each algorithm's.
TABLE_3 = {
    (data, k): {"ahba": ahba, "amsa": amsa}
    for data, rows in {
        "ind": ((16, 100.0, 100.0), (64, 100.0, 100.0), (256, 99.9, 99.8), (512, 99.8, 99.5)),
        "ant": ((16, 100.0, 100.0), (64, 100.0, 99.6), (256, 99.9, 99.2), (512, 99.8, 98.4)),
        "covtype": ((16, 81.7, 79.6), (64, 86.9, 84.3), (256, 92.8, 91.4), (512, 94.2, 93.8)),
        "zillow": ((16, 100.0, 99.9), (64, 99.8, 99.6), (256, 99.6, 99.3), (512, 99.1, 98.6)),
    }.items()
    for k, ahba, amsa in rows
}
# Mean accuracy of AHBA in percent: data, ε and δ.
TABLE_2 = {
    (data, epsilon, delta): share
    for data, rows in {
        "ant": (
            (0.01, 100.0, 100.0, 100.0), (0.02, 100.0, 100.0, 100.0), (0.03, 100.0, 100.0, 99.9),
            (0.04, 99.9, 99.9, 99.9), (0.05, 99.9, 99.9, 99.9),
        ),
        "covtype": (
            (0.01, 99.9, 99.8, 99.8), (0.02, 99.8, 99.8, 99.5), (0.03, 99.5, 99.5, 98.9),
            (0.04, 99.1, 98.0, 97.8), (0.05, 98.3, 97.5, 97.4),
        ),
    }.items()
    for epsilon, *shares in rows
    for delta, share in zip((0.99, 0.95, 0.90), shares, strict=True)
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One point of an experiment, in the paper's letters."""

    data: str
    n: int
    d: int
    k: int
    algorithms: tuple[str, ...] = EXACT
    epsilon: float = 0.1
    delta: float = 0.9
    kept: float = 1.0
    before: float = 0.0  # of a window, that goes by before anything is measured

    def options(self, algorithm: str) -> dict[str, float]:
        """Return the options of an algorithm."""
        known = {"ahba": ("epsilon", "delta", "kept"), "ada": ("kept",), "amsa": ("kept",)}.get(algorithm, ())
        return {name: getattr(self, name) for name in known}


@dataclass(frozen=True)
class Scale:
    """How large and how long."""

    base: Setting
    n: tuple[int, ...]
    d: tuple[int, ...]
    k: tuple[int, ...]
    budget: float  # seconds of timed updates per algorithm
    updates: int  # at most
    settle: float  # of a window, that goes by before accuracy is measured
    has_targets: bool = True


SCALES = {
    "tiny": Scale(Setting("ind", 2000, 3, 8), (1000, 2000), (2, 3), (4, 16), 0.2, 200, 0.1, has_targets=False),
    "small": Scale(
        Setting("ind", 200_000, 4, 256), (50_000, 200_000), (2, 4, 6, 8), (16, 64, 256, 512), 2.0, 20_000, 0.5
    ),
    "paper": Scale(
        Setting("ind", 2_000_000, 4, 256), (1_000_000, 2_000_000), (2, 4, 6, 8), (16, 64, 256, 512), 10.0, 400_000, 0.1
    ),
}


@dataclass(frozen=True)
class Experiment:
    """Settings along one axis."""

    name: str
    title: str
    axis: str
    settings: tuple[Setting, ...]
    accuracy: bool = False  # of the approximate algorithms; else speed


def experiments(scale: Scale) -> list[Experiment]:
    """Return the experiments, those that matter most first.

    >>> [experiment.name for experiment in experiments(SCALES["paper"])]
    ['answers', 'rows', 'columns', 'drift', 'accuracy', 'sampling', 'obsolete', 'real']
    """
    base = scale.base
    some = tuple(name for name in ALL if name not in ("bfa", "eva"))
    return [
        Experiment("answers", "answers k", "k", tuple(_vary_k(scale))),
        Experiment(
            "rows", "window n", "n", tuple(replace(base, data=data, n=n) for data in ("ind", "ant") for n in scale.n)
        ),
        Experiment(
            "columns",
            "columns d",
            "d",
            tuple(
                replace(base, data=data, d=d, algorithms=("ada", "floor")) for data in ("ind", "ant") for d in scale.d
            ),
        ),
        Experiment(
            "drift",
            "a cloud that moves, answers k",
            "k",
            tuple(replace(base, data="moving", k=k, algorithms=("ada", "floor")) for k in scale.k[:3]),
        ),
        Experiment("accuracy", "accuracy and answers k (Table 3)", "k", tuple(_accuracy(scale)), accuracy=True),
        Experiment(
            "sampling",
            "accuracy of ahba with error ε and confidence δ (Table 2)",
            "epsilon",
            tuple(
                replace(_settled(scale, data), algorithms=("ahba", "floor"), epsilon=epsilon, delta=delta)
                for data, epsilon, delta in TABLE_2
            ),
            accuracy=True,
        ),
        Experiment(
            "obsolete",
            "share of obsolete events kept",
            "kept",
            tuple(
                replace(base, data="ant", algorithms=("ada", "amsa", "floor"), kept=kept) for kept in (0.01, 0.1, 1.0)
            ),
        ),
        Experiment(
            "real",
            "data sets",
            "data",
            tuple(
                replace(base, data=data, d=len(columns[:4]), n=min(base.n, 25_000), k=k, algorithms=some)
                for data, columns in COLUMNS.items()
                for k in scale.k
            ),
        ),
    ]


def _vary_k(scale: Scale) -> Iterator[Setting]:
    for data in ("ant", "ind"):
        for k in scale.k:
            yield replace(scale.base, data=data, k=k, algorithms=ALL)


def _accuracy(scale: Scale) -> Iterator[Setting]:
    for data in ("ind", "ant", *COLUMNS):
        for k in scale.k:
            yield replace(_settled(scale, data), k=k, algorithms=(*APPROXIMATE, "floor"))


def _settled(scale: Scale, data: str) -> Setting:
    """Return the setting in which accuracy is measured; the paper's windows of covtype had 500,000 rows."""
    most = {"covtype": 500_000, "zillow": 25_000}.get(data, scale.base.n)
    d = min(scale.base.d, 4)
    return replace(scale.base, data=data, n=min(scale.base.n, most), d=d, before=scale.settle)
