"""The experiments of CIKM'09 on incomplete streams, section 6, its generator and its tables.

Haghani, Michel, Aberer: Evaluating top-k queries over incomplete data streams. CIKM 2009.

The generator is that of section 6.1.1. How many items of each stream it remembers, C, is not given: ``DEFAULT_C`` is
ours, and the experiment ``memory`` shows what it does. Which stream comes next is drawn, and values are uniform in
[0, 1]. The WorldCup98 log with its servers cannot be had: flights from New York stand in for Tables 3 and 4.
"""

from __future__ import annotations

import functools
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

DEFAULT_C = 50
TRIES = 64  # to find a remembered item that the stream has not sent, before a fresh one is drawn
FLIGHTS = "nycflights13.parquet"
AIRPORTS = ("EWR", "JFK", "LGA")
MOST_DELAY = 99.9  # percentile at which delays are cut

# Streams, k or window: instances of EAA, of the approximate algorithm, its precision and relative error.
TABLE_1 = {3: (345, 69, 0.80, 0.0174), 4: (450, 92, 0.81, 0.0242), 6: (495, 115, 0.76, 0.0408)}
TABLE_2 = {
    10: (345.3, 69.26, 0.80, 0.01743),
    20: (396.3, 105.6, 0.86, 0.0103),
    50: (450.0, 198.7, 0.96, 0.0027),
    100: (481.7, 315.1, 0.99, 0.0009),
}
TABLE_3 = {2: (217.46, 80.1, 0.92, 0.0113), 3: (250.0, 110.9, 0.93, 0.0136)}
TABLE_4 = {500: (217.46, 80.1, 0.923, 0.0113), 750: (310.66, 80.9, 0.959, 0.0082), 1000: (407.09, 80.86, 0.974, 0.0084)}


@dataclass(frozen=True)
class Setting:
    """One point of an experiment, in the paper's letters."""

    data: str = "synthetic"
    streams: int = 3
    W: int = 1000
    k: int = 10
    xi: float = 0.5
    C: int = DEFAULT_C
    every: str = "1 day"  # chunks of flights


@dataclass(frozen=True)
class Experiment:
    """Settings along one axis, and the paper's result there."""

    name: str
    title: str
    axis: str
    settings: tuple[Setting, ...]
    table: Mapping[int, tuple[float, float, float, float]]


@dataclass(frozen=True)
class Scale:
    """How large and how long."""

    windows: tuple[int, ...]
    speed: Setting
    seeds: int
    evaluations: int  # a tenth of a window apart
    budget: float  # seconds of timed rows per algorithm
    has_targets: bool = True


SCALES = {
    "tiny": Scale((200, 400), Setting(streams=4, W=500, k=5), 1, 3, 0.05, has_targets=False),
    "small": Scale((500, 1000, 2000, 4000, 8000), Setting(streams=4, W=20_000, k=20), 3, 50, 2.0),
    "paper": Scale((500, 1000, 2000, 5000, 10_000, 20_000), Setting(streams=4, W=100_000, k=20), 5, 50, 8.0),
}


def experiments(scale: Scale) -> list[Experiment]:
    """Return the experiments on what is retained and how right it is.

    >>> [experiment.name for experiment in experiments(SCALES["paper"])]
    ['streams', 'answers', 'windows', 'correlation', 'memory', 'airports', 'flights']
    """
    base = Setting()
    flights = Setting("flights", streams=2, W=500, k=20)
    shares = [(W, share) for W in (500, 1000) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    return [
        Experiment("streams", "streams (Table 1)", "streams", _vary(base, "streams", TABLE_1), TABLE_1),
        Experiment("answers", "answers k (Table 2)", "k", _vary(base, "k", TABLE_2), TABLE_2),
        Experiment("windows", "window W (Fig. 5a, b)", "W", _vary(base, "W", scale.windows), {}),
        Experiment(
            "correlation",
            "correlation ξ, two streams (Fig. 5c, d)",
            "xi",
            tuple(replace(base, streams=2, W=W, xi=share) for W, share in shares),
            {},
        ),
        Experiment(
            "memory", "items C that the generator remembers", "C", _vary(base, "C", (5, 10, 20, 50, 100, 200)), {}
        ),
        Experiment("airports", "airports (Table 3 in form)", "streams", _vary(flights, "streams", (2, 3)), TABLE_3),
        Experiment("flights", "window W of flights (Table 4 in form)", "W", _vary(flights, "W", TABLE_4), TABLE_4),
    ]


def _vary(base: Setting, axis: str, values: object) -> tuple[Setting, ...]:
    return tuple(replace(base, **{axis: value}) for value in values)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Rows:
    """A stream: objects, sources by number, and values in [0, 1]."""

    id: np.ndarray
    source: np.ndarray
    value: np.ndarray

    def batch(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return rows as a monitor takes them."""
        return {"id": self.id[start:stop], "source": self.source[start:stop], "value": self.value[start:stop]}


def generate(streams: int, xi: float, C: int, rows: int, seed: int) -> Rows:
    """Draw streams of distinct items in which an item comes again elsewhere with probability ``xi`` (section 6.1.1).

    >>> rows = generate(streams=3, xi=0.5, C=20, rows=1000, seed=1)
    >>> pairs = set(zip(rows.id.tolist(), rows.source.tolist()))
    >>> len(pairs), len(set(rows.id.tolist())) < 700
    (1000, True)
    """
    rng = np.random.default_rng(seed)
    source = rng.integers(0, streams, rows)
    again = (rng.random(rows) < xi).tolist()
    draws = iter(rng.random(rows * 8).tolist())
    recent: list[deque[int]] = [deque(maxlen=C) for _ in range(streams)]
    sent: list[int] = []  # by item: a bit for each stream that has sent it
    items = []
    for mine, known in zip(source.tolist(), again, strict=True):
        item = -1
        others = sum(len(recent[s]) for s in range(streams) if s != mine) if known else 0
        for _ in range(TRIES if others else 0):
            draw = next(draws, None)
            index = int((rng.random() if draw is None else draw) * others)
            for s in range(streams):
                if s != mine:
                    if index < len(recent[s]):
                        break
                    index -= len(recent[s])
            if not sent[recent[s][index]] >> mine & 1:
                item = recent[s][index]
                break
        if item < 0:
            item = len(sent)
            sent.append(0)
        sent[item] |= 1 << mine
        recent[mine].append(item)
        items.append(item)
    return Rows(np.array(items), source, rng.random(rows))


@functools.cache
def flights(folder: Path | None, airports: int, span: str) -> Rows | None:
    """Return the delays of aeroplanes, summed over chunks of time; None where the data set is not there.

    As in section 6.1.1, an aeroplane that comes again at an airport that has reported it is another object from then
    on.
    """
    import pyarrow.parquet as pq

    from topwatch.query.windows import duration

    if folder is None or not (folder / FLIGHTS).is_file():
        return None
    table = pq.read_table(folder / FLIGHTS, columns=["time", "tailnum", "origin", "dep_delay"]).drop_null()
    stamps = table["time"].to_numpy().astype("datetime64[ns]").astype(np.int64)
    chunk = stamps // duration("every", span)
    origin = np.array([AIRPORTS.index(name) for name in table["origin"].to_pylist()])
    delay = np.maximum(table["dep_delay"].to_numpy().astype(np.float64), 0.0)
    planes = table["tailnum"].to_pylist()
    summed: dict[tuple[int, str, int], float] = {}
    for when, plane, where, minutes in zip(chunk.tolist(), planes, origin.tolist(), delay.tolist(), strict=True):
        if where < airports:
            summed[when, plane, where] = summed.get((when, plane, where), 0.0) + minutes
    number: dict[str, int] = {}
    reported: dict[str, int] = {}
    ids, count = [], 0
    # Chunks of one time have no order of their own.
    order = sorted(summed, key=lambda key: (key[0], zlib.crc32(f"{key[1]} {key[2]}".encode())))
    for _, plane, where in order:
        if plane not in number or reported[plane] >> where & 1:
            number[plane], reported[plane] = count, 0
            count += 1
        reported[plane] |= 1 << where
        ids.append(number[plane])
    value = np.array([summed[key] for key in order])
    value = np.minimum(value / np.percentile(value, MOST_DELAY), 1.0)
    return Rows(np.array(ids), np.array([where for _, _, where in order]), value)
