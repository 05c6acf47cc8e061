"""Random queries and rows, as plain data: what the targets around a monitor share."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from topwatch.testing.oracle import Query
from topwatch.testing.oracle_dominance import carrier
from topwatch.testing.oracle_incomplete import Incomplete
from topwatch.testing.oracle_scores import Score

Plain = dict[str, Any]

COLUMNS = ("a", "b", "c")
SOURCES = (("north", "east", "south"), ("east", "north"), ("west",))
COMMON = [0.0, 0.25, 0.5, 0.5, 1.0, 2.0, -1.0, 100.0]
ODD = [float("nan"), float("inf"), -float("inf"), -0.0, 1e308, -1e308, 5e-324, 1e-300]
WEIGHTS = [1.0, 0.5, -1.0, -0.25, 0.0, 3.0]


def pick(rng: np.random.Generator, things: Any) -> Any:
    """One of some things, as it is."""
    return things[int(rng.integers(0, len(things)))]


def load(plain: Plain) -> Query:
    """A query for the oracle from what JSON has of it."""
    result = {**plain, "score": Score(**{key: _tuples(value) for key, value in plain["score"].items()})}
    if plain["parts"] is not None:
        result["parts"] = Incomplete(**{key: _tuples(value) for key, value in plain["parts"].items()})
    return Query(**{key: _tuples(value) for key, value in result.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def scored(rng: np.random.Generator, name: str, columns: tuple[str, ...] | None = None) -> Plain:
    """A query that ranks by a score."""
    score = _score(rng, columns)
    where = _ranges(rng)
    if rng.random() < 0.3:
        return asdict(Query(name, "threshold", score, above=float(pick(rng, [0.0, 0.5, 1.0, -1.0, 50.0])), where=where))
    kind = "nearest" if score.kind == "distance" else "topk"
    return asdict(Query(name, kind, score, k=int(pick(rng, [1, 1, 2, 3, 5, 40])), where=where))


def dominating(rng: np.random.Generator, name: str) -> Plain:
    """A query that counts dominated rows."""
    prefer = _prefer(rng)
    k = int(pick(rng, [1, 2, 3, 40]))
    return asdict(Query(name, "dominating", carrier(prefer), k=k, where=_ranges(rng), prefer=prefer))


def front(rng: np.random.Generator, name: str) -> Plain:
    """A skyline."""
    prefer = _prefer(rng)
    return asdict(Query(name, "skyline", carrier(prefer), where=_ranges(rng), prefer=prefer))


def often(rng: np.random.Generator, name: str) -> Plain:
    """A frequent skyline."""
    prefer, share = _prefer(rng), float(pick(rng, [0.01, 0.3, 0.5, 0.8, 1.0]))
    many = int(pick(rng, [1, 2, 3, 10]))
    return asdict(
        Query(name, "frequent", carrier(prefer), where=_ranges(rng), prefer=prefer, share=share, snapshots=many)
    )


def gathered(rng: np.random.Generator, name: str, bounded: bool) -> Plain:
    """A query over incomplete objects."""
    sources = pick(rng, SOURCES)
    parts: Plain = {"sources": sources, "combine": pick(rng, ["sum", "max", "mean"])}
    parts["occurrences"] = pick(rng, ["single", "single", "sum", "max"])
    if rng.random() < 0.4:
        parts["weights"] = tuple(float(pick(rng, [0.5, 1.0, 3.0])) for _ in sources)
    kind = pick(rng, ["none", "given", "learn"] if not bounded else ["given", "learn"])
    if kind == "given":
        parts["bounds"] = tuple(pick(rng, [(0.0, 1.0), (-1.0, 2.0), (0.25, 100.0)]) for _ in sources)
    parts["learn"] = kind == "learn"
    if parts["occurrences"] != "single" and rng.random() < 0.5:
        parts["most"] = int(pick(rng, [1, 2, 5]))
    where = _ranges(rng) if rng.random() < 0.3 else ()
    score = Score("linear", ())
    k = int(pick(rng, [1, 2, 3, 40]))
    return asdict(Query(name, "incomplete", score, k=k, where=where, parts=Incomplete(**parts)))


def values(rng: np.random.Generator, shape: str, count: int) -> list[float]:
    """A column."""
    if shape == "ties":
        return [float(pick(rng, COMMON)) for _ in range(count)]
    if shape == "odd":
        return [float(pick(rng, COMMON if rng.random() < 0.6 else ODD)) for _ in range(count)]
    if shape == "holes":
        return [float("nan") if rng.random() < 0.4 else float(pick(rng, COMMON)) for _ in range(count)]
    if shape == "constant":
        return [0.5] * count
    return rng.random(count).tolist()


SHAPES = ("ties", "ties", "odd", "holes", "constant", "uniform", "uniform")


def _score(rng: np.random.Generator, columns: tuple[str, ...] | None) -> Score:
    if columns is None and rng.random() < 0.25:
        return pick(
            rng,
            [
                Score("expr", text="3 * a - c / 2", increasing=("a",), decreasing=("c",)),
                Score("expr", text="a * b - a / (b + 1)"),
                Score("expr", text="-(b - 0.5) * (b - 0.5) + c"),
                Score("expr", text="b + 2", increasing=("b",)),
            ],
        )
    kind = pick(rng, ["linear", "linear", "product", "quadratic", "distance"])
    named = columns or tuple(rng.permutation(COLUMNS)[: rng.integers(1, 4)].tolist())
    weights = [float(pick(rng, WEIGHTS)) if rng.random() < 0.8 else float(rng.normal()) for _ in named]
    return Score(kind, tuple(zip(named, weights, strict=True)))


def _prefer(rng: np.random.Generator) -> tuple[tuple[str, str], ...]:
    named = rng.permutation(COLUMNS)[: rng.integers(1, 4)].tolist()
    return tuple((name, pick(rng, ["min", "max"])) for name in named)


def _ranges(rng: np.random.Generator) -> tuple[tuple[str, float, float], ...]:
    if rng.random() < 0.7:
        return ()
    low, high = sorted(float(pick(rng, [*COMMON, float("inf"), -float("inf")])) for _ in range(2))
    return ((pick(rng, COLUMNS), low, high),)
