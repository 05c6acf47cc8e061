"""The experiments of TKDE'11 on top-k dominating queries, section 9: the defaults, and each parameter varied alone.

Kontaki, Papadopoulos, Manolopoulos: Continuous top-k dominating queries. TKDE 2011.

Every row is an update and a judgement, as in the paper. ``paper`` has its sizes: n = 2M, d = 4, k = 256. ``small`` has
a tenth of the rows, ``tiny`` is for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

EXACT = ("bfa", "eva", "ada", "floor")
ALL = ("bfa", "eva", "ada", "ahba", "amsa", "floor")
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
# Mean accuracy in percent: data and k to (AHBA, AMSA), with ε = 0.1 and δ = 0.9.
TABLE_3 = {
    ("ind", 16): (100.0, 100.0), ("ind", 64): (100.0, 100.0), ("ind", 256): (99.9, 99.8), ("ind", 512): (99.8, 99.5),
    ("ant", 16): (100.0, 100.0), ("ant", 64): (100.0, 99.6), ("ant", 256): (99.9, 99.2), ("ant", 512): (99.8, 98.4),
    ("covtype", 16): (81.7, 79.6), ("covtype", 64): (86.9, 84.3), ("covtype", 256): (92.8, 91.4),
    ("covtype", 512): (94.2, 93.8),
    ("zillow", 16): (100.0, 99.9), ("zillow", 64): (99.8, 99.6), ("zillow", 256): (99.6, 99.3),
    ("zillow", 512): (99.1, 98.6),
}  # fmt: skip
# Mean accuracy of AHBA on ANT in percent: ε and δ.
TABLE_2 = {
    (0.01, 0.99): 100.0, (0.01, 0.95): 100.0, (0.01, 0.90): 100.0,
    (0.03, 0.99): 100.0, (0.03, 0.95): 100.0, (0.03, 0.90): 99.9,
    (0.05, 0.99): 99.9, (0.05, 0.95): 99.9, (0.05, 0.90): 99.9,
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

    def options(self, algorithm: str) -> dict[str, float]:
        """Return what an algorithm is told."""
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
    judged: bool = True


SCALES = {
    "tiny": Scale(Setting("ind", 2000, 3, 8), (1000, 2000), (2, 3), (4, 16), 0.2, 200, judged=False),
    "small": Scale(Setting("ind", 200_000, 4, 256), (50_000, 200_000), (2, 4, 6, 8), (16, 64, 256, 512), 2.0, 20_000),
    "paper": Scale(
        Setting("ind", 2_000_000, 4, 256), (1_000_000, 2_000_000), (2, 4, 6, 8), (16, 64, 256, 512), 10.0, 50_000
    ),
}


@dataclass(frozen=True)
class Experiment:
    """Settings along one axis."""

    name: str
    title: str
    axis: str
    settings: tuple[Setting, ...]


def experiments(scale: Scale) -> list[Experiment]:
    """Return the experiments, those that matter most first.

    >>> [experiment.name for experiment in experiments(SCALES["paper"])]
    ['answers', 'rows', 'columns', 'sampling', 'obsolete', 'real']
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
            "sampling",
            "error ε and confidence δ of ahba",
            "epsilon",
            tuple(
                replace(base, data="ant", algorithms=("ahba", "floor"), epsilon=epsilon, delta=delta)
                for epsilon, delta in TABLE_2
            ),
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
