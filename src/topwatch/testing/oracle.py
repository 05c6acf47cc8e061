"""The oracle: docs/explanation/semantics.md, recomputed from all rows, with nothing of what is under test.

Every evaluation looks at all live rows again. Only two things are carried along: the score of a row, which depends on
nothing but the row, and which row is the latest of each id.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from topwatch.testing.oracle_dominance import dominated, dominators, often
from topwatch.testing.oracle_incomplete import Incomplete, Parts, is_missing
from topwatch.testing.oracle_scores import Score, as_float, score_rows

Rows = Mapping[str, Any]


@dataclass(frozen=True)
class Query:
    """A standing query."""

    name: str
    kind: Literal["topk", "nearest", "threshold", "dominating", "skyline", "frequent", "incomplete"]
    score: Score
    k: int = 0
    above: float = 0.0
    where: tuple[tuple[str, float, float], ...] = ()
    prefer: tuple[tuple[str, str], ...] = ()  # of a query about dominance, whose score is made from it
    share: float = 0.0  # of a frequent skyline
    snapshots: int = 0
    parts: Incomplete | None = None  # of an incomplete query, which has no score


@dataclass(frozen=True)
class Window:
    """`size` is a number of rows or of seconds, or nothing."""

    kind: str  # count, time, latest
    size: int = 0


@dataclass(frozen=True)
class Seconds:
    """A duration, where `every` could also be a number of rows."""

    seconds: int


class Change(NamedTuple):
    """A row that entered or left an answer."""

    at: int
    query: str
    op: str
    id: Any
    score: float


class RankedRow(NamedTuple):
    """A row in an answer. `unit` is what a change is about: the row, or in latest() its id with its score.

    Where the score is dominance it is the id alone.
    """

    unit: Hashable
    id: Any
    score: float


def as_time(values: Any) -> np.ndarray:
    """Numbers stay seconds; timestamps become nanoseconds since the epoch, so that nothing is rounded."""
    values = np.asarray(values)
    if values.dtype.kind == "M":
        return np.asarray(values.astype("datetime64[ns]").astype(np.int64))
    return np.asarray(values, np.float64)


class Oracle:
    """Takes one operation after the other; each gives its changes."""

    def __init__(
        self,
        queries: Iterable[Query],
        window: Window,
        every: int | Seconds = 1,
        id: str = "id",
        time: str | None = None,
        emit: str = "changes",
    ) -> None:
        self.emit = emit
        self._reported: dict[str, set[Hashable]] = {}
        self.queries: dict[str, Query] = {}
        self.window, self.every, self.id_column, self.time_column = window, every, id, time
        self.columns: dict[str, np.ndarray] = {}
        self.ids: list[Any] = []
        self.times = np.zeros(0)
        self.seen = 0
        self.now: Any = None
        self.boundary: Any = None
        self.latest: dict[Any, int] = {}
        self.skipped = 0
        self.unknown_deletes = 0
        self._tick = 1  # one second in units of the time column
        self._at = 0
        self._live = np.zeros(0, dtype=np.int64)
        self._answers: dict[str, list[RankedRow]] = {}
        self._scores: dict[str, np.ndarray] = {}
        self._words: dict[str, list[Any]] = {}  # what sources reported, by the sources that a query names
        self.parts: dict[str, Parts] = {}  # of incomplete queries
        self._snapshots: dict[str, list[tuple[set[Any], set[Any]]]] = {}  # ids in the window, ids in the skyline
        for query in queries:
            self.add(query)

    # -- operations -------------------------------------------------------------------------------------------------

    def push(self, rows: Rows) -> list[Change]:
        """Take in rows."""
        ids = list(rows[self.id_column])
        fresh = self._read(rows, len(ids))
        times = as_time(rows[self.time_column]) if self.time_column is not None and ids else np.zeros(len(ids))
        if not ids:
            return []
        if self.time_column is not None and np.asarray(rows[self.time_column]).dtype.kind == "M":
            self._tick = 1_000_000_000
        self._remember(ids, fresh, times)
        changes: list[Change] = []
        for name, time in zip(ids, times.tolist(), strict=True):  # numbers of Python's do not wrap around
            if self.time_column is not None:
                changes += self._pass_boundaries(time)
                self.now = time if self.now is None else max(self.now, time)
            self.seen += 1
            self.latest[name] = self.seen
            for query_name, parts in self.parts.items():
                self._take(self.queries[query_name], parts, self.seen)
            if not isinstance(self.every, Seconds) and self.seen % self.every == 0:
                changes += self._evaluate(self.now)
        return changes

    def delete(self, ids: Iterable[Any]) -> list[Change]:
        """An id that is named twice is named once; a deletion that finds no row is none."""
        before = len(self.latest)
        for name in dict.fromkeys(ids):
            if self.latest.pop(name, None) is None:
                self.unknown_deletes += 1
        return self._evaluate(self.now) if self.every == 1 and len(self.latest) < before else []

    def advance(self, time: Any) -> list[Change]:
        """Advance event time."""
        value = as_time(time).item()
        if np.asarray(time).dtype.kind == "M":
            self._tick = 1_000_000_000
        changes = self._pass_boundaries(value)
        self.now = value if self.now is None else max(self.now, value)
        if self.every == 1 and self.window.kind != "latest":  # where rows do not expire, time changes nothing
            return self._evaluate(self.now)
        return changes

    def add(self, query: Query) -> list[Change]:
        """Evaluated at once over the window as of the last evaluation."""
        assert query.name not in self.queries
        self.queries[query.name] = query
        for column in self._needs(query):
            self.columns.setdefault(column, np.full(len(self.ids), np.nan))
        self._scores[query.name] = self._ranked(query, self.columns)[0]
        self._answers[query.name] = []
        self._reported[query.name] = set()
        if query.parts is not None:
            first = int(self._live[0]) if len(self._live) else self._at + 1
            self.parts[query.name] = Parts(query.parts, first)
            for ordinal in range(first, self.seen + 1):
                self._take(query, self.parts[query.name], ordinal)
        self._snapshots[query.name] = []
        return self._evaluate_query(query)

    def remove(self, name: str) -> list[Change]:
        """Watch a query no more."""
        del self.queries[name], self._answers[name], self._scores[name]
        self.parts.pop(name, None)
        return []

    def answer(self, name: str) -> list[tuple[Any, float]]:
        """Return an answer, best first."""
        return [(ranked.id, ranked.score) for ranked in self._answers[name]]

    # -- rows -------------------------------------------------------------------------------------------------------

    def _read(self, rows: Rows, count: int) -> dict[str, np.ndarray]:
        """The columns of a batch; one that no query needs now has no values in its rows."""
        fresh: dict[str, np.ndarray] = {}
        for query in self.queries.values():
            if query.parts is not None and query.parts.named not in fresh:
                words = list(rows[query.parts.source])
                fresh[query.parts.named] = np.array([np.nan if is_missing(word) else 0.0 for word in words])
                reported = self._words.setdefault(query.parts.named, [])
                reported += [None] * (len(self.ids) - len(reported)) + words
            fresh |= {name: as_float(rows[name]) for name in self._needs(query) if name in rows}
        nothing = np.full(count, np.nan)
        return dict.fromkeys(self.columns, nothing) | fresh

    @staticmethod
    def _needs(query: Query) -> tuple[str, ...]:
        read = (query.parts.named, query.parts.value) if query.parts else query.score.columns
        return read + tuple(column for column, _, _ in query.where)

    def _take(self, query: Query, parts: Parts, ordinal: int) -> None:
        """Hand a row to an incomplete query, with what is live once it has come, evaluated or not."""
        row = ordinal - 1
        if self.window.kind == "count":
            head = ordinal - self.window.size + 1
        else:
            head = int(np.argmax(self.times > self.times[row].item() - self.window.size * self._tick)) + 1
        ranked = not np.isnan(self._scores[query.name][row])
        reported = self._words.get(parts.query.named, [])
        word = reported[row] if row < len(reported) else None
        parts.take(self.ids[row], word, self.columns[parts.query.value][row], ranked, head)

    def _remember(self, ids: list[Any], fresh: dict[str, np.ndarray], times: np.ndarray) -> None:
        known = len(self.ids)
        self.ids += ids
        self.times = np.concatenate([self.times, times]) if known else times
        for name, values in fresh.items():
            self.columns[name] = np.concatenate([self.columns.get(name, np.full(known, np.nan)), values])
        lost = np.zeros(len(ids), dtype=bool)
        for name, query in self.queries.items():
            scores, lacking = self._ranked(query, fresh)
            self._scores[name] = np.concatenate([self._scores[name], scores])
            lost |= lacking
        self.skipped += int(lost.sum())

    @staticmethod
    def _ranked(query: Query, columns: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The scores, NaN for rows that stay out of the answer, and which rows lack a value that the query needs."""
        if not columns:
            return np.zeros(0), np.zeros(0, dtype=bool)
        rows = len(next(iter(columns.values())))
        scores = np.zeros(rows) if query.prefer or query.parts else score_rows(query.score, columns)
        lacking = np.zeros(len(scores), dtype=bool)
        for column in Oracle._needs(query):
            lacking |= np.isnan(columns[column])
        out = lacking | np.isnan(scores)
        for column, low, high in query.where:
            out |= ~((columns[column] >= low) & (columns[column] <= high))
        return np.where(out, np.nan, scores), lacking

    # -- evaluations -------------------------------------------------------------------------------------------------

    def _pass_boundaries(self, time: Any) -> list[Change]:
        """Evaluate at each boundary up to and including `time`. Before the first time there is nothing to evaluate."""
        if not isinstance(self.every, Seconds):
            return []
        step = self.every.seconds * self._tick
        last = time // step * step
        changes: list[Change] = []
        counting = max((query.snapshots for query in self.queries.values()), default=0)
        while self.boundary is not None and self.boundary < last:
            self.boundary += step
            changes += self._evaluate(self.boundary)
            counting -= 1
            if (self.window.kind != "time" or len(self._live) == 0) and counting <= 0:
                break  # no row comes and none expires: the boundaries that are left see the same
        self.boundary = last
        return changes

    def _evaluate(self, now: Any) -> list[Change]:
        self._at = self.seen
        ordinals = np.arange(1, self.seen + 1)
        if self.window.kind == "count":
            self._live = ordinals[ordinals > self.seen - self.window.size]
        elif self.window.kind == "latest":
            self._live = np.array(sorted(self.latest.values()), dtype=np.int64)
        elif self.seen:
            self._live = ordinals[self.times[: self.seen] > now - self.window.size * self._tick]
        return [change for query in self.queries.values() for change in self._evaluate_query(query)]

    def _evaluate_query(self, query: Query) -> list[Change]:
        old, new = self._answers[query.name], self._rank(query)
        self._answers[query.name] = new
        if self.emit == "first":
            fresh = [ranked for ranked in new if ranked.unit not in self._reported[query.name]]
            self._reported[query.name] |= {ranked.unit for ranked in fresh}
            return [Change(self._at, query.name, "enter", p.id, p.score) for p in fresh]
        before, after = {ranked.unit for ranked in old}, {ranked.unit for ranked in new}
        left = [Change(self._at, query.name, "leave", p.id, p.score) for p in old if p.unit not in after]
        return left + [Change(self._at, query.name, "enter", p.id, p.score) for p in new if p.unit not in before]

    def _rank(self, query: Query) -> list[RankedRow]:
        """Better score first, then the newer row first."""
        if query.parts is not None:
            ranking = self.parts[query.name].ranking(self._live.tolist(), self._at)
            return [RankedRow(id, id, score) for _, id, score in ranking[: query.k]]
        scores = self._scores[query.name][self._live - 1]
        keep = ~np.isnan(scores)
        if query.kind == "threshold":
            keep &= scores < query.above if query.score.smaller_is_better else scores > query.above
        live, scores = self._live[keep], scores[keep]
        if query.prefer:
            columns = {name: self.columns.get(name, np.zeros(0))[live - 1] for name, _ in query.prefer}
            if query.kind == "dominating" and len(live):
                scores = dominated(columns, query.prefer)
            elif query.kind != "dominating":
                scores = np.where(dominators(columns, query.prefer) == 0, 0.0, np.nan)
            if query.kind == "frequent":
                scores = self._shares(query, live, scores)
            live, scores = live[~np.isnan(scores)], scores[~np.isnan(scores)]
        order = np.lexsort((-live, scores if query.score.smaller_is_better else -scores))
        if query.kind not in ("threshold", "skyline", "frequent"):
            order = order[: query.k]
        by_row = self.window.kind != "latest"
        return [
            RankedRow(
                ordinal if by_row else self.ids[ordinal - 1] if query.prefer else (self.ids[ordinal - 1], score),
                self.ids[ordinal - 1],
                score,
            )
            for ordinal, score in zip(live[order].tolist(), scores[order].tolist(), strict=True)
        ]

    def _shares(self, query: Query, live: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Take a snapshot; the share of each ranked row, NaN where it is too small."""
        past = self._snapshots[query.name]
        if not len(self._live):  # nothing to take a snapshot of, and no id whose past would count
            past[:] = [(set(), set()) for _ in past]
            return scores
        past.append(({self.ids[o - 1] for o in self._live}, {self.ids[o - 1] for o in live[~np.isnan(scores)]}))
        del past[: -query.snapshots]
        shares = np.array([often(self.ids[o - 1], past) for o in live], dtype=float)
        return np.where((shares > 0) & (shares >= query.share), shares, np.nan)
