"""Queries that only our own tests ask, and a life that they lead: they come and go while rows flow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from topwatch.testing import mixtures
from topwatch.testing.lockstep import Lockstep
from topwatch.testing.oracle import Query, Rows
from topwatch.testing.oracle_dominance import carrier
from topwatch.testing.oracle_scores import Score, as_float


def crowd(rng: np.random.Generator, rows: Rows, size: int, largest_k: int) -> list[Query]:
    """Queries over the same columns in the same order, with small k: what is worth a grid with influence lists."""
    columns = ("a", "b", "c")
    queries = []
    for number in range(size):
        kind = str(rng.choice(["linear", "linear", "product", "quadratic", "distance"]))
        values = rng.normal(size=3) * rng.choice([1.0, 1.0, 0.0], size=3)
        if kind == "distance" or rng.random() < 0.3:
            finite = [as_float(rows[column]) for column in columns]
            values = np.array([rng.choice(column[np.isfinite(column)]) for column in finite])
        score = Score(kind, tuple(zip(columns, values.tolist(), strict=True)))
        made = mixtures.query(f"c{number}", score, k=int(rng.integers(1, largest_k + 1)))
        if number % 4 == 1:
            made = mixtures.query(
                f"c{number}", score, above=mixtures.threshold(score, rows, float(rng.choice([0.0, 0.01, 0.1])))
            )
        queries.append(replace(made, where=mixtures.ranges(rng, rows)) if number % 5 == 2 else made)
    return queries


def often(name: str, prefer: dict[str, str], share: float, snapshots: int, where: Any = ()) -> Query:
    """A frequent skyline."""
    pairs = tuple(prefer.items())
    return Query(name, "frequent", carrier(pairs), where=where, prefer=pairs, share=share, snapshots=snapshots)


def live_through(
    both: Lockstep, batches: Iterable[Rows], rng: np.random.Generator, come: Mapping[int, Query], go: Mapping[int, str]
) -> None:
    """Push batches; queries come and go after some of them, ids are deleted where they can be, and it restarts."""
    for number, batch in enumerate(batches):
        both.push(batch)
        if number in come:
            both.add(come[number])
        if number in go:
            both.remove(go[number])
        if both.oracle.window.kind == "latest" and rng.random() < 0.3:
            both.delete(rng.permutation(both.oracle.ids)[:1])
        if rng.random() < 0.1:
            both.restart()
