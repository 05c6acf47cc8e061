"""Standing queries for tests: of every kind, and random mixtures of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from topwatch.testing.oracle import Query, Rows
from topwatch.testing.oracle_dominance import carrier
from topwatch.testing.oracle_incomplete import Incomplete
from topwatch.testing.oracle_scores import Score, as_float, score_rows

# One of each kind.
SCORES = {
    "linear": Score("linear", (("a", 0.7), ("b", 0.3))),
    "falling": Score("linear", (("c", -1.5), ("a", 0.25), ("b", -0.5))),
    "single": Score("linear", (("b", 1.0),)),
    "product": Score("product", (("a", 0.1), ("b", 0.4), ("c", 0.2))),
    "product_of_negatives": Score("product", (("a", -0.5), ("c", -0.5))),
    "quadratic": Score("quadratic", (("a", 0.1), ("b", 0.4), ("c", 2.0))),
    "saddle": Score("quadratic", (("a", 1.0), ("c", -1.0))),
    "distance": Score("distance", (("a", 0.4), ("b", 0.6))),
    "monotone": Score("expr", text="a / (1 + c) - 2 * -b", increasing=("a", "b"), decreasing=("c",)),
    "straight": Score("expr", text="3 * a - c / 2", increasing=("a",), decreasing=("c",)),
    "free": Score("expr", text="a * b - (c - 0.5) / (a + 1) + 3"),
}
# Shapes where no value is negative, and the score whose promises need that.
POSITIVE_SHAPES = ("uniform", "ties", "duplicates", "constant", "holes", "improving")
POSITIVE_ONLY = ("monotone",)


def query(name: str, score: Score, k: int = 5, above: float | None = None, where: Any = ()) -> Query:
    """A query of the kind that its arguments describe."""
    if above is not None:
        return Query(name, "threshold", score, above=above, where=where)
    return Query(name, "nearest" if score.kind == "distance" else "topk", score, k=k, where=where)


def threshold(score: Score, rows: Rows, share: float) -> float:
    """The score of one of the rows, such that about this share of the rows is better: it is met exactly."""
    names = [name for name in rows if name not in ("id", "time")]
    scores = score_rows(score, {name: as_float(rows[name]) for name in names})
    scores = np.sort(scores[np.isfinite(scores)])
    if len(scores) == 0:
        return 0.0
    index = int(share * len(scores))
    return float(scores[index if score.smaller_is_better else len(scores) - 1 - index])


def ranges(rng: np.random.Generator, rows: Rows) -> tuple[tuple[str, float, float], ...]:
    """A closed range over one or two columns; its ends are values that occur, now and then infinite."""
    result = []
    for column in rng.permutation(["a", "b", "c"])[: rng.integers(1, 3)]:
        values = as_float(rows[column])
        values = values[~np.isnan(values)]
        low, high = np.sort(rng.choice(values, 2)) if len(values) else (0.0, 1.0)
        result.append((str(column), float(low), float("inf") if rng.random() < 0.3 else float(high)))
    return tuple(result)


def random_score(rng: np.random.Generator, rows: Rows) -> Score:
    """A score over some of the columns."""
    columns = rng.permutation(["a", "b", "c"])[: rng.integers(1, 4)].tolist()
    kind = str(rng.choice(["linear", "product", "quadratic", "distance"]))
    if kind == "distance":
        values = [as_float(rows[column]) for column in columns]
        picked = [float(rng.choice(column[np.isfinite(column)])) for column in values]
        return Score("distance", tuple(zip(columns, picked, strict=True)))
    weights = [float(rng.choice([-1.0, 1.0, 0.5, rng.normal()])) for _ in columns]
    return Score(kind, tuple(zip(columns, weights, strict=True)))


def mixture(rng: np.random.Generator, rows: Rows, size: int, window: int, shape: str = "") -> list[Query]:
    """Queries of all kinds with different weights, k and ranges; the first names every column.

    `window` gives the measure for k: some want more rows than it has.
    """
    scores = [score for name, score in SCORES.items() if shape in POSITIVE_SHAPES or name not in POSITIVE_ONLY]
    scores = [scores[i] for i in rng.permutation(len(scores))]
    scores += [random_score(rng, rows) for _ in range(max(0, size - len(scores)))]
    queries = [query("q0", SCORES["product"], k=3)]
    for number, score in enumerate(scores[: size - 1], start=1):
        k = int(rng.choice([1, 2, 3, 5, max(1, window // 3), 2 * window]))
        made = query(f"q{number}", score, k=k)
        if number % 3 == 2:
            made = query(f"q{number}", score, above=threshold(score, rows, float(rng.choice([0.0, 0.02, 0.1, 0.5]))))
        if number % 4 == 3:
            made = replace(made, where=ranges(rng, rows))
        queries.append(made)
    return queries


def rivals(name: str, prefer: dict[str, str], k: int, where: Any = ()) -> Query:
    """A query that counts dominated rows."""
    pairs = tuple(prefer.items())
    return Query(name, "dominating", carrier(pairs), k=k, where=where, prefer=pairs)


def dominating(rng: np.random.Generator, window: int) -> list[Query]:
    """Queries that count dominated rows, over different columns."""
    return [
        rivals("all", {"a": "min", "b": "max", "c": "min"}, int(rng.choice([1, 3, 10]))),
        rivals("two", {"b": "min", "a": "min"}, int(rng.choice([1, 5, 2 * window]))),
        rivals("part", {"c": "max", "a": "max"}, 4, where=(("b", 0.0, 2.0),)),
    ]


def front(name: str, prefer: dict[str, str], where: Any = ()) -> Query:
    """A skyline."""
    pairs = tuple(prefer.items())
    return Query(name, "skyline", carrier(pairs), where=where, prefer=pairs)


def skylines() -> list[Query]:
    """Skylines of different columns."""
    return [
        front("all", {"a": "min", "b": "max", "c": "min"}),
        front("two", {"b": "min", "a": "min"}),
        front("one", {"c": "max"}),
        front("part", {"c": "max", "a": "max"}, where=(("b", 0.0, 2.0),)),
    ]


SOURCES = ("north", "east", "south", "west")


def gather(name: str, k: int, where: Any = (), **parts: Any) -> Query:
    """A query over incomplete objects."""
    return Query(name, "incomplete", Score("linear", ()), k=k, where=where, parts=Incomplete(**parts))


def incomplete(rng: np.random.Generator) -> list[Query]:
    """Queries over incomplete objects, combined in all ways."""
    unit = ((0.0, 1.0),) * 4
    uneven = ((0.0, 1.0), (0.25, 2.0), (-1.0, 1.0), (0.0, 0.75))
    weights = tuple(float(w) for w in rng.choice([0.5, 1.0, 1.0, 3.0], 4))
    many = None if rng.random() < 0.5 else int(rng.integers(1, 4))
    return [
        gather("sum", int(rng.choice([1, 3, 10])), sources=SOURCES, bounds=unit),
        gather("raw", 5, sources=SOURCES[:3], combine="max", weights=weights[:3]),
        gather("mean", int(rng.choice([2, 200])), sources=SOURCES, combine="mean", bounds=uneven, weights=weights),
        gather("added", 4, sources=SOURCES[1:], occurrences="sum", where=(("a", 0.1, 1.0),), most=many),
        gather("largest", 4, sources=SOURCES, occurrences="max", learn=True, most=many),
        gather("formula", 3, sources=SOURCES, formula="east * (1 + north) + 0.5 * west ** 2", learn=True),
    ]


def bounded(query: Query, rng: np.random.Generator) -> Query:
    """The same with bounds, which some algorithms need."""
    assert query.parts is not None
    if query.parts.learn:
        return query
    bounds = query.parts.bounds or ((0.0, float(rng.choice([1.0, 1.5]))),) * len(query.parts.sources)
    return replace(query, parts=replace(query.parts, bounds=bounds))


def with_sources(rng: np.random.Generator, stream: Rows) -> Rows:
    """Give rows a source and a value: ties, unknown sources, missing and odd values among them."""
    rows = len(stream["id"])
    value = np.round(rng.random(rows), 1) if rng.random() < 0.5 else rng.random(rows)
    odd = rng.random(rows) < 0.05
    value[odd] = rng.choice([np.nan, np.inf, -np.inf, -0.5, 1.5, 0.0, -0.0], odd.sum())
    names: Any = [*SOURCES, *SOURCES, *SOURCES, "nowhere", None]
    source = rng.choice(names, rows)
    return {**stream, "source": source, "value": value}
