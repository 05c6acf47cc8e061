"""A monitor and the oracle, driven by the same operations and compared after each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import topwatch as tw
from topwatch.monitor.planner import refusal
from topwatch.testing.oracle import Change, Oracle, Query, Rows, Seconds, Window
from topwatch.testing.oracle_scores import Score


def serves(algorithm: str, query: Query, window: Window) -> bool:
    """Return whether an algorithm can serve a query."""
    named, sized = replace(query, name=query.name or "unnamed"), replace(window, size=window.size or 1)
    return algorithm == "auto" or not refusal(as_query(named), as_window(sized), algorithm)


def servable(algorithm: str, queries: Iterable[Query], window: Window) -> list[Query]:
    """Return the queries that an algorithm can serve."""
    return [query for query in queries if serves(algorithm, query, window)]


def as_score(score: Score) -> Any:
    """Return a score as the package has it."""
    if score.kind == "expr":
        return tw.expr(score.text, increasing=list(score.increasing), decreasing=list(score.decreasing))
    makers = {"linear": tw.linear, "product": tw.product, "quadratic": tw.quadratic, "distance": tw.distance}
    return makers[score.kind](dict(score.terms))


def as_query(query: Query) -> Any:
    """Return a query as the package has it."""
    where = {column: (low, high) for column, low, high in query.where}
    if query.parts is not None:
        parts = query.parts
        formula = tw.expr(parts.formula, increasing=tw.expr(parts.formula).columns) if parts.formula else None
        bounds = dict(zip(parts.sources, parts.bounds, strict=True)) if parts.bounds else None
        return tw.IncompleteTopK(
            k=query.k,
            sources=list(parts.sources),
            combine=formula or parts.combine,
            weights=dict(zip(parts.sources, parts.weights, strict=True)) if parts.weights else None,
            bounds="learn" if parts.learn else bounds,
            occurrences=parts.occurrences,
            most=parts.most,
            source=parts.source,
            value=parts.value,
            name=query.name,
            where=where,
        )
    prefer: Any = dict(query.prefer)
    if query.kind == "dominating":
        return tw.Dominating(k=query.k, prefer=prefer, name=query.name, where=where)
    if query.kind == "skyline":
        return tw.Skyline(prefer=prefer, name=query.name, where=where)
    if query.kind == "frequent":
        share, snapshots = query.share, query.snapshots
        return tw.FrequentSkyline(prefer=prefer, share=share, snapshots=snapshots, name=query.name, where=where)
    if query.kind == "nearest":
        return tw.Nearest(k=query.k, point=dict(query.score.terms), name=query.name, where=where)
    if query.kind == "threshold":
        return tw.Threshold(score=as_score(query.score), above=query.above, name=query.name, where=where)
    return tw.TopK(k=query.k, score=as_score(query.score), name=query.name, where=where)


def as_window(window: Window) -> Any:
    """Return a window as the package has it."""
    if window.kind == "latest":
        return tw.latest()
    return tw.last(window.size if window.kind == "count" else f"{window.size} seconds")


def as_every(every: int | Seconds) -> int | str:
    """Return a pace as the package has it."""
    return f"{every.seconds} seconds" if isinstance(every, Seconds) else every


def plain(value: Any) -> Any:
    """An id as the tests compare it: NumPy's scalars as Python's, any timestamp as one of pandas."""
    if isinstance(value, np.datetime64) or type(value).__module__ == "datetime":
        import pandas as pd

        return pd.Timestamp(value)
    return value.item() if isinstance(value, np.generic) else value


def as_changes(changes: Iterable[Any]) -> list[Change]:
    """Return changes as the oracle has them."""
    return [Change(int(c.at), c.query, c.op, plain(c.id), float(c.score)) for c in changes]


def expect_equal(got: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    """Equal to the bit, or a message that shows the first difference with what is around it."""
    if list(got) == list(expected):
        return
    pairs = enumerate(zip(got, expected, strict=False))
    first = next((i for i, (one, other) in pairs if one != other), min(len(got), len(expected)))
    around = slice(max(0, first - 2), first + 3)
    raise AssertionError(
        f"{what}: {len(got)} instead of {len(expected)}, first difference at {first}\n"
        f"  got      {list(got[around])}\n  expected {list(expected[around])}"
    )


class Lockstep:
    """Each method does the same to a `Monitor` and to an `Oracle`, then compares all that can be seen of them."""

    def __init__(
        self,
        queries: Sequence[Query],
        window: Window,
        every: int | Seconds = 1,
        algorithm: str = "auto",
        *,
        time: str | None = None,
        **options: Any,
    ) -> None:
        timed = window.kind == "time" or isinstance(every, Seconds)
        self.time = time or ("time" if timed else None)
        self.window, self.algorithm = window, algorithm
        self.emit = options.get("emit", "changes")
        self.oracle = Oracle(queries, window, every, time=self.time, emit=self.emit)
        self.monitor = tw.Monitor(
            [as_query(query) for query in queries],
            window=as_window(window),
            every=as_every(every),
            algorithm=algorithm,
            time=self.time,
            **options,
        )
        self.replayed: dict[str, Counter[tuple[Any, float]]] = {query.name: Counter() for query in queries}
        self.compare([], [], "a new monitor")

    def push(self, rows: Rows, carry: Callable[[Rows], Any] = dict) -> list[Change]:
        """`carry` turns the rows into what is pushed: a dict, a table, a frame."""
        what = f"push of {len(rows['id'])} rows after {self.oracle.seen}"
        return self.compare(self.monitor.push(carry(rows)), self.oracle.push(rows), what)

    def delete(self, ids: Any) -> list[Change]:
        """Delete ids."""
        return self.compare(self.monitor.delete(ids), self.oracle.delete(ids), f"delete of {list(ids)}")

    def advance(self, time: Any) -> list[Change]:
        """Advance event time."""
        return self.compare(self.monitor.advance(time), self.oracle.advance(time), f"advance to {time}")

    def add(self, query: Query) -> list[Change]:
        """Watch one more query."""
        self.replayed[query.name] = Counter()
        return self.compare(self.monitor.add(as_query(query)), self.oracle.add(query), f"add of {query}")

    def remove(self, name: str) -> None:
        """Watch a query no more."""
        self.monitor.remove(name)
        self.oracle.remove(name)
        del self.replayed[name]
        self.compare([], [], f"remove of {name}")

    def restart(self) -> None:
        """Go on with a restored copy."""
        self.monitor = tw.Monitor.restore(self.monitor.snapshot())
        self.compare([], [], "snapshot and restore")

    def unit(self, name: str, id: Any, score: float) -> tuple[Any, float]:
        """What changes are replayed by: what stays in a dominating or incomplete answer may change its score."""
        query = self.oracle.queries.get(name)
        return (id, 0.0) if query is not None and (query.prefer or query.parts) else (id, score)

    def compare(self, got: Iterable[Any], expected: Iterable[Change], what: str) -> list[Change]:
        """Compare changes, and all that both can report; return the changes."""
        changes = as_changes(got)
        wanted = [change._replace(id=plain(change.id)) for change in expected]
        what = f"{self.algorithm} on {self.window}, row {self.oracle.seen}: {what}"
        expect_equal(changes, wanted, f"{what}: changes")
        for change in changes if self.emit == "changes" else []:
            tally, unit = self.replayed[change.query], self.unit(change.query, change.id, change.score)
            tally[unit] += 1 if change.op == "enter" else -1
            assert tally[unit] >= 0, f"{what}: {change} leaves without having entered"
        for name in self.oracle.queries:
            answer = [(plain(entry.id), float(entry.score)) for entry in self.monitor.answer(name)]
            expect_equal(answer, [(plain(i), s) for i, s in self.oracle.answer(name)], f"{what}: answer of {name}")
            if name in self.oracle.parts:
                reported = {plain(id): sources for id, sources in self.oracle.parts[name].reported.items()}
                entries: Any = self.monitor.answer(name)
                for entry in entries:
                    assert entry.sources == reported[plain(entry.id)], f"{what}: sources of {entry.id}"
                    assert entry.best >= entry.score, f"{what}: the best score of {entry.id}"
            units = Counter(self.unit(name, id, score) for id, score in answer)
            assert self.emit == "first" or +self.replayed[name] == units, (
                f"{what}: changes replayed are not the answer of {name}"
            )
        stats = self.monitor.stats()
        assert stats["skipped"] == self.oracle.skipped, f"{what}: rows skipped"
        parts = self.oracle.parts.values()
        for counter, number in (("unknown_source", "unknown"), ("out_of_bounds", "outside"), ("duplicates",) * 2):
            refused = sum(getattr(part, number) for part in parts)
            assert stats.get(counter, 0) == refused, f"{what}: rows refused: {counter}"
        if self.window.kind == "latest":
            assert stats["unknown_deletes"] == self.oracle.unknown_deletes, f"{what}: unknown ids deleted"
        self.monitor._check()
        return changes
