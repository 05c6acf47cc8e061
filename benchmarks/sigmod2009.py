"""The experiments of SIGMOD'09 on skylines of many devices, section 7: the defaults, and each parameter varied alone.

Zhang, Cheng, Papadias, Tung: Minimizing the communication cost for continuous skyline maintenance. SIGMOD 2009.

An object moves in a box of edge 2u around its centre, cut off at 0 and 1, and is anywhere in it at each timestamp.
``paper`` has 1,000 timestamps, ``small`` a part of them with the same window (and so the same sampling rate), ``tiny``
is for tests. On quality: of the timestamps, those with a full window are evaluated, as many as the window has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topwatch.datagen import generators

METHODS = ("naive", "filter", "sampling", "hybrid")
FOLDER = "worldcup98-snapshots"  # made by `topwatch dataset worldcup98 --set shape=snapshots`
CLASSES = ("images", "pages", "programs", "others")


@dataclass(frozen=True)
class Setting:
    """One point of an experiment, in the paper's letters."""

    data: str = "ind"
    n: int = 10_000
    d: int = 4
    u: float = 0.08
    share: float = 0.8
    epsilon: float = 0.2
    delta: float = 0.1
    window: int = 1000
    ticks: int = 1000
    methods: tuple[str, ...] = METHODS
    evaluated_from: int = 0  # the timestamp from which recall and precision count


@dataclass(frozen=True)
class Scale:
    """How large and how long."""

    base: Setting
    d: tuple[int, ...]
    n: tuple[int, ...]
    u: tuple[float, ...]
    compared: int  # timestamps beside the transcription
    rounds: int  # of the experiments on quality, as many seeds
    has_targets: bool = True


_ALL_U = (0.01, 0.02, 0.04, 0.08, 0.16)
SCALES = {
    "tiny": Scale(Setting(n=80, d=3, ticks=12, window=20), (2, 3), (40, 80), (0.02, 0.08), 3, 1, has_targets=False),
    "small": Scale(Setting(ticks=100), (2, 3, 4, 5, 6), (2500, 5000, 10_000, 20_000), _ALL_U, 8, 1),
    "paper": Scale(Setting(), (2, 3, 4, 5, 6), (2500, 5000, 10_000, 20_000), _ALL_U, 8, 3),
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
    ['server', 'columns', 'distribution', 'uncertainty', 'records', 'epsilon', 'delta', 'share', 'web']
    """
    base = scale.base

    def vary(name: str, title: str, axis: str, **values: tuple[object, ...]) -> Experiment:
        ((field, chosen),) = values.items()
        return Experiment(name, title, axis, tuple(replace(base, **{field: value}) for value in chosen))  # type: ignore[arg-type]

    # Sampling and Hybrid have the same answers (Lemma 6.1), so that one of them tells the quality of both.
    lasting = replace(base, ticks=2 * base.window, evaluated_from=base.window, methods=("sampling",))

    def quality(name: str, title: str, values: tuple[float, ...]) -> Experiment:
        return Experiment(name, title, name, tuple(replace(lasting, **{name: value}) for value in values))  # type: ignore[arg-type]

    return [
        Experiment(
            "server", "the filter server beside Algorithms 2 to 5, transcribed", "data", tuple(_compared(scale))
        ),
        vary("columns", "columns d (Fig. 9)", "d", d=scale.d),
        vary("distribution", "distribution (Fig. 10)", "data", data=("cor", "ind", "ant")),
        vary("uncertainty", "uncertainty u (Fig. 11)", "u", u=scale.u),
        vary("records", "records n (Fig. 12)", "n", n=scale.n),
        quality("epsilon", "error ε (Fig. 13)", (0.1, 0.2, 0.3, 0.4)),
        quality("delta", "confidence δ (Fig. 14)", (0.05, 0.1, 0.15, 0.2)),
        quality("share", "threshold θ (Fig. 15)", (0.6, 0.7, 0.8, 0.9)),
        Experiment("web", "clients of a web site, error ε (Fig. 16)", "epsilon", tuple(_web(scale))),
    ]


def snapshots(setting: Setting, seed: int) -> Iterator[np.ndarray]:
    """Yield the snapshots of a generated setting, of shape (records, columns)."""
    centres = generators.generate(setting.data, setting.n, setting.d, seed).T
    low, high = np.clip(centres - setting.u, 0.0, 1.0), np.clip(centres + setting.u, 0.0, 1.0)
    rng = np.random.default_rng([seed, 2009])
    for _ in range(setting.ticks):
        yield low + (high - low) * rng.random(centres.shape)


class Web(NamedTuple):
    """Counts of clients, more is better: what changes from one snapshot to the next, by client."""

    clients: int
    ids: list[np.ndarray]
    counts: list[np.ndarray]

    def snapshots(self, ticks: int) -> Iterator[np.ndarray]:
        """Yield snapshots, negative since smaller is better in a simulation."""
        now = np.zeros((self.clients, len(CLASSES)))
        for ids, counts in zip(self.ids[:ticks], self.counts[:ticks], strict=True):
            now[ids] = -counts
            yield now.copy()


def web(folder: Path | None) -> Web | None:
    """Return the snapshots of a web site's clients; None where they are not there."""
    if folder is None or not (folder / FOLDER).is_dir():
        return None
    import pyarrow.parquet as pq

    files = sorted((folder / FOLDER).glob("*.parquet"))
    table = pq.read_table([str(file) for file in files], columns=["id", "snapshot", *CLASSES])
    names, ids = np.unique(table.column("id").to_numpy(), return_inverse=True)
    ticks = table.column("snapshot").to_numpy()
    order = np.argsort(ticks, kind="stable")
    counts = np.stack([table.column(name).to_numpy() for name in CLASSES], axis=1)[order]
    ends = np.searchsorted(ticks[order], np.arange(1, int(ticks.max()) + 1))
    return Web(names.size, np.split(ids[order], ends), np.split(counts, ends))


def _compared(scale: Scale) -> Iterator[Setting]:
    for data in ("ind", "cor"):
        yield replace(scale.base, data=data, ticks=scale.compared, methods=("filter", "transcription"))


def _web(scale: Scale) -> Iterator[Setting]:
    base = replace(scale.base, data="web", d=len(CLASSES), u=0.0, ticks=10 * scale.base.ticks)
    for epsilon in (0.1, 0.2, 0.3, 0.4):  # which Naive and Filter do not know
        yield replace(base, epsilon=epsilon, methods=METHODS if epsilon == 0.1 else ("sampling", "hybrid"))
