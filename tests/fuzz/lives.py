"""Random lives: a window, queries, options and what is done to a monitor, as plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz import random_queries
from tests.fuzz.cases import Case
from tests.fuzz.random_queries import Plain, pick
from tests.support.batch_kinds import BATCH_KINDS, NULL_BATCH_KINDS
from tests.support.stream_kinds import ID_KINDS
from topwatch.algorithms.registry import algorithms
from topwatch.monitor.planner import MANY_QUERIES

# Which kinds of query each family of the registry serves; an algorithm without a family serves rows of all kinds.
KINDS = {
    "topk": (random_queries.scored,),
    "dominating": (random_queries.dominating,),
    "skyline": (random_queries.front, random_queries.often),
    "incomplete": (),
    "": (random_queries.scored, random_queries.dominating, random_queries.front),
}
OPTIONS: dict[str, Any] = {
    "cells": [1, 2, 3, 7, 20],
    "slack": [1, 2, 8],
    "route": ["auto", "lists", "scan"],
    "index": ["auto", "grid", "none"],
    "kmax": [40, 50],
    "buffer": [1, 1, 2, 3],
    "relax": [0, 0.5, 1.5, 10],
    "sigma": [0.001, 0.1, 0.5],
    "max_error": [0.01, 0.3],
    "near": [1, 3, 10],
    "maxcand": [1, 5, 50],
    "kept": [0, 0.3, 1],
    "suffix": [True, False],
    "view": [True, False],
    "sweep": [1, 2, 7],
    "bitmaps": [16, 64],
    "epsilon": [0.1, 0.5],
    "delta": [0.1, 0.9],
    "seed": [0, 7],
}


def life(rng: np.random.Generator, names: list[str]) -> Case:
    """A whole life of a monitor with one of these algorithms."""
    algorithm = pick(rng, names)
    family = pick(rng, ["topk", "dominating", "skyline", "incomplete", ""])
    latest = True
    if algorithm != "auto":
        family, latest = algorithms()[algorithm].family, algorithms()[algorithm].latest
    kind = pick(rng, ["count", "count", "time", *(["latest"] if latest and family != "incomplete" else [])])
    if algorithm == "sampling":
        kind = "latest"
    every = pick(rng, [1, 1, 1, 2, 3, 7, [1], [5]])  # a list: seconds
    timed = kind == "time" or isinstance(every, list) or rng.random() < 0.1
    queries = _Queries(rng, algorithm, family, kind)
    crowd = rng.random() < 0.08 and family == "topk"
    number = int(rng.integers(MANY_QUERIES, MANY_QUERIES + 9)) if crowd else int(rng.integers(1, 5))
    first = [queries.next(random_queries.COLUMNS[:2] if crowd else None) for _ in range(number)]
    case: Case = {
        "algorithm": algorithm,
        "window": [kind, int(pick(rng, [1, 2, 3, 7, 20, 60]))],
        "every": every,
        "time": "time" if timed else None,
        "stamps": bool(timed and rng.random() < 0.3),
        "ids": pick(rng, ["int64", "int64", *ID_KINDS]),
        "options": _options(rng, algorithm),
        "queries": first,
    }
    if kind != "latest" and family != "incomplete" and rng.random() < 0.1:
        case["options"]["emit"] = "first"
    case["steps"] = list(
        _steps(rng, queries, kind, timed, family == "incomplete" or (not family and algorithm == "auto"))
    )
    case["tiers"] = int(rng.integers(2**31)) if rng.random() < 0.25 else None  # a seed: interpreted in part
    return case


class _Queries:
    """Makes queries one after the other, each with a name of its own."""

    def __init__(self, rng: np.random.Generator, algorithm: str, family: str, kind: str) -> None:
        self.rng, self.made = rng, 0
        bounded = algorithm in algorithms() and algorithms()[algorithm].bounded
        makers = [maker for maker in KINDS[family] if maker is not random_queries.often or kind == "latest"]
        if algorithm == "sampling":
            makers = [random_queries.often]
        if (family == "incomplete" or (not family and algorithm == "auto")) and kind != "latest":
            makers.append(lambda rng, name: random_queries.gathered(rng, name, bounded))  # type: ignore[arg-type]
        self._makers = makers

    def next(self, columns: tuple[str, ...] | None = None) -> Plain:
        maker: Any = pick(self.rng, self._makers)
        self.made += 1
        name = f"q{self.made}"
        return maker(self.rng, name, columns) if columns else maker(self.rng, name)


def _options(rng: np.random.Generator, algorithm: str) -> Plain:
    known = algorithms()[algorithm].options if algorithm in algorithms() else ()
    return {name: pick(rng, OPTIONS[name]) for name in known if name in OPTIONS and rng.random() < 0.35}


def _steps(rng: np.random.Generator, queries: _Queries, kind: str, timed: bool, parts: bool) -> Any:
    shape, pool, clock = pick(rng, random_queries.SHAPES), int(pick(rng, [1, 4, 12, 1000])), 0.0
    names = [f"q{number + 1}" for number in range(queries.made)]
    for _ in range(int(pick(rng, [2, 5, 10, 20]))):
        verb = rng.random()
        if verb < 0.6:
            count = int(pick(rng, [0, 1, 2, 5, 9, 30, 100]))
            rows: Plain = {"id": rng.integers(0, pool, count).tolist()}
            pauses = rng.choice([0.0, 0.0, 0.125, 0.5, 1.0, 3.0, 12.0], count)
            rows["time"] = (clock + np.cumsum(pauses)).tolist()
            clock = rows["time"][-1] if count else clock
            rows |= {column: random_queries.values(rng, shape, count) for column in random_queries.COLUMNS}
            if parts:
                rows["source"] = [pick(rng, ["north", "east", "south", "west", "nowhere", None]) for _ in range(count)]
                rows["value"] = random_queries.values(rng, shape, count)
            yield [
                "push",
                pick(rng, ["dict", "dict", *BATCH_KINDS, *(f"null {name}" for name in NULL_BATCH_KINDS)]),
                rows,
            ]
        elif verb < 0.67:
            yield ["add", queries.next()]
            names.append(f"q{queries.made}")
        elif verb < 0.75:
            yield ["remove", pick(rng, names)]
        elif verb < 0.82 and kind == "latest":
            yield ["delete", rng.integers(0, pool + 1, int(rng.integers(1, 5))).tolist()]
        elif verb < 0.87 and timed:
            clock += float(pick(rng, [0.0, 0.125, 1.0, 4.0, 30.0]))
            yield ["advance", clock]
        elif verb < 0.93:
            yield ["restart"]
        elif verb < 0.97:
            yield ["why", int(rng.integers(0, pool)), pick(rng, names)]
        else:
            yield ["stats"]
