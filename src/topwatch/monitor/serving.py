"""Which engine serves each query of a monitor, and what the engines report, put into one order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from topwatch.core.schedule import counted
from topwatch.monitor import planner
from topwatch.monitor.batches import Batch
from topwatch.monitor.changes import Changes, FirstOnly, join
from topwatch.monitor.ingest import Ingest, count_skipped
from topwatch.monitor.load_shedding import LoadShedder, levels, note_of
from topwatch.monitor.planner import EngineKey, PhysicalPlan, QueryPlan
from topwatch.monitor.stream_settings import Settings
from topwatch.query.errors import QueryError, nearest_name
from topwatch.query.queries import Query, snapshots_of
from topwatch.query.windows import LastRows, Latest, duration

if TYPE_CHECKING:
    from topwatch.core.engine import Engine, Feed
    from topwatch.core.kernels.rows import Report, Step

_OUT_OF_ORDER = 2**62
_SPARE_NAMES = 64  # of queries that are gone, until the others are numbered again

Line = tuple[Any, float, int]  # id, score, tick


@dataclass
class SharedEngine:
    """An engine, what its queries have in common, and their numbers."""

    key: EngineKey
    engine: Engine
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(8, np.int64))  # by the engine's index
    last: int = -1  # the index given last; _OUT_OF_ORDER once one was smaller than the one before


@dataclass
class Assignment:
    """A query and the engine that serves it."""

    query: Query
    name: str
    choice: QueryPlan
    number: int  # in the order in which queries were added
    shared: SharedEngine
    index: int = -1  # the engine's number for it

    @property
    def engine(self) -> Engine:
        """The engine that serves it, maybe with others."""
        return self.shared.engine


class Serving:
    """Serves queries over one window. Adding a query is O(1) amortised.

    Parameters
    ----------
    settings, ingest
        Of the monitor.
    held : int, optional
        How many rows the window begins with, after a restore.
    """

    def __init__(self, settings: Settings, ingest: Ingest, held: int | None = None) -> None:
        self.settings = settings
        self.feed = _make_feed(settings, len(ingest.columns), held)
        self.assigned: dict[str, Assignment] = {}
        self.engines: dict[EngineKey, SharedEngine] = {}
        self.names: list[str] = []  # of queries by number, also of some that are gone
        self.first_only = FirstOnly() if settings.emit == "first" else None
        self.shedder: LoadShedder | None = None
        if settings.max_lag is not None:
            self.shedder = LoadShedder(duration("max_lag", settings.max_lag) / 1e9)
        self.counts = dict.fromkeys(("skipped", "evaluations", "unknown_deletes", "pairs", "changes"), 0)
        self.ingest = ingest
        self._signs = np.ones(8)  # by number: -1 for distances, whose keys are negative
        self._alike: dict[tuple[str, ...], int] = {}  # how many queries read the same columns

    # ---- queries

    def expect(self, queries: Collection[Query]) -> None:
        """Count queries that will be served: how many read the same columns decides on grids."""
        for query in queries:
            self._alike[query.reads] = self._alike.get(query.reads, 0) + 1

    def serve(self, query: Query, choice: QueryPlan, key: EngineKey | None = None) -> Assignment:
        """Serve a query as planned; its engine may be known."""
        number = len(self.names)
        self.names.append(choice.query)
        self._signs = _with_room(self._signs, number)
        self._signs[number] = -1.0 if query.smaller_is_better else 1.0
        shared = self._engine(query, choice, key)
        assigned = self.assigned[choice.query] = Assignment(query, choice.query, choice, number, shared)
        self._assign(assigned, shared)
        self.feed.every.repeats = max(self.feed.every.repeats, snapshots_of(query))
        return assigned

    def start(self, assigned: Assignment) -> Changes:
        """Evaluate a query that has been added over the window as of the last evaluation."""
        result = assigned.engine.start(assigned.index, self.feed.head, self.feed.evaluated_tick, 0)
        return self.join([self._changes([(assigned.shared, result)], np.array([self.feed.evaluated]))])

    def remove(self, name: str | None) -> Query:
        """Stop serving a query, and return it."""
        assigned = self.find(name)
        assigned.engine.remove(assigned.index)
        self._alike[assigned.query.reads] -= 1
        if not self._alike[assigned.query.reads]:
            del self._alike[assigned.query.reads]
        del self.assigned[assigned.name]
        self.feed.every.repeats = max((snapshots_of(one.query) for one in self.assigned.values()), default=1)
        self._close_empty()
        if len(self.names) > 2 * len(self.assigned) + _SPARE_NAMES:
            self._renumber()
        return assigned.query

    def _renumber(self) -> None:
        """Number the queries again, in the same order; changes that were returned keep the names that they had."""
        if self.first_only is not None:
            self.first_only.renumber([one.number for one in self.assigned.values()])
        self.names, signs = list(self.assigned), self._signs
        self._signs = np.ones(len(self.names) + 8)
        for number, one in enumerate(self.assigned.values()):
            self._signs[number] = signs[one.number]
            one.number = one.shared.numbers[one.index] = number

    def find(self, name: str | None) -> Assignment:
        """Return what serves a query; with one query its name can be left out."""
        return self.assigned[known_name(name, self.assigned)]

    def choose(self, query: Query, name: str) -> QueryPlan:
        """Choose the algorithm for a query, as planned or by the load."""
        exact = planner.choose(query, name, self.settings)
        return exact if self.shedder is None else self.shedder.load.choice(exact)

    def plan(self) -> PhysicalPlan:
        """Return what serves which query now."""
        queries = {one.name: one.query for one in self.assigned.values()}
        return planner.plan(queries, self.settings, [one.choice for one in self.assigned.values()])

    def change_engines(self) -> None:
        """Choose the engines again; new ones continue from what was last reported."""
        reported = [(one, *self.reported(one)) for one in self.assigned.values()]
        self.engines = {}
        for assigned, slots, keys in reported:
            assigned.choice = self.choose(assigned.query, assigned.name)
            self._assign(assigned, self._engine(assigned.query, assigned.choice))
            assigned.engine.set_answer(assigned.index, slots, keys)
        self.resume()

    def resume(self) -> None:
        """Have all engines continue from the answers that were set."""
        for shared in self.engines.values():
            shared.engine.resume(self.feed.head, self.feed.evaluated_tick)

    def _engine(self, query: Query, choice: QueryPlan, known: EngineKey | None = None) -> SharedEngine:
        """Return the engine for a query; make it where there is none. Its key may be known."""
        key = known or planner.engine_key(query, choice.algorithm, self._alike[query.reads])
        if key not in self.engines:
            engine = planner.make_engine(key, self.feed, self.ingest.indices, self.settings)
            self.engines[key] = SharedEngine(key, engine)
            if key.columns and known is None:
                self._gather(self.engines[key])
        return self.engines[key]

    def _assign(self, assigned: Assignment, shared: SharedEngine) -> None:
        """Assign a query, which keeps its number, to an engine."""
        assigned.shared, assigned.index = shared, shared.engine.add(assigned.query, self.ingest.indices)
        shared.numbers = _with_room(shared.numbers, assigned.index)
        shared.numbers[assigned.index] = assigned.number
        shared.last = assigned.index if assigned.index > shared.last else _OUT_OF_ORDER

    def _gather(self, shared: SharedEngine) -> None:
        """Move queries that read the columns of a new engine to it; it continues from what was last reported."""
        odd = self.engines.get(shared.key._replace(columns=()))
        moving = [
            (one, *self.reported(one))
            for one in self.assigned.values()
            if one.shared is odd and one.query.reads == shared.key.columns
        ]
        for assigned, slots, keys in moving:
            assigned.engine.remove(assigned.index)
            self._assign(assigned, shared)
            shared.engine.set_answer(assigned.index, slots, keys)
        if moving:
            shared.engine.resume(self.feed.head, self.feed.evaluated_tick)
        self._close_empty(keep=shared.key)

    def _close_empty(self, keep: EngineKey | None = None) -> None:
        """Close engines that serve no query any more."""
        busy = {assigned.shared.key for assigned in self.assigned.values()}
        self.engines = {key: shared for key, shared in self.engines.items() if key == keep or key in busy}

    # ---- rows

    def push(self, read: Batch) -> Changes:
        """Push rows that have been read and checked."""
        if read.rows == 0:
            return self.join([])
        if read.times is not None:
            self.feed.measure(self.ingest.unit())
        needed = [c for c, name in zip(read.columns, self.ingest.columns.values(), strict=True) if name]
        self.counts["skipped"] += count_skipped(needed)
        return self._process(self.feed.push(read.rows, read.columns, read.ids, read.times))

    def advance(self, now: float) -> Changes:
        """Advance event time without a row."""
        self.feed.measure(self.ingest.unit())
        return self._process(self.feed.advance(now, evaluate=self.settings.every == 1))

    def delete(self, ids: Any) -> Changes:
        """Remove rows by id, all at once, from a feed of latest rows."""
        unknown, steps = self.feed.delete(ids, evaluate=self.settings.every == 1)  # type: ignore[union-attr]
        self.counts["unknown_deletes"] += unknown
        return self._process(steps)

    def _process(self, steps: Iterator[Step | None]) -> Changes:
        """Have all engines process the steps; count rows and evaluations, and shed load.

        None in place of a step says that the rows have new slots. A feed looks at the next step only when the engines
        have processed the one before.
        """
        shedder, began = self.shedder, 0.0
        if shedder is not None:
            began = shedder.clock()
            if shedder.changes_level():
                self.change_engines()
        parts = []
        rows = evaluations = 0
        for step in steps:
            if step is None:
                for shared in self.engines.values():
                    shared.engine.relocate()
                continue
            evaluations += step.at.size
            rows += step.arrived.size
            # Several evaluations may stand at one row: they are told apart by their numbers until all is in order.
            numbered = step._replace(at=counted(step.at.size))
            reports = [(shared, shared.engine.process(numbered)) for shared in self.engines.values()]
            parts.append(self._changes(reports, step.at))
        self.counts["evaluations"] += evaluations
        self.counts["pairs"] += rows * len(self.assigned)
        if shedder is not None:
            now = self.ingest.now
            shedder.after(began, rows, evaluations > 0, None if now is None else now * self.ingest.unit() / 1e9)
        return self.join(parts)

    def _changes(self, result: list[tuple[SharedEngine, Report]], at_of: np.ndarray) -> Changes:
        """Return what the engines report as changes in order; ``at_of`` is each evaluation's row."""
        result = [(shared, part) for shared, part in result if part.key.size]
        if not result:
            return join(self.names, [])
        what = np.concatenate([part.what for _, part in result])
        key = np.concatenate([part.key for _, part in result])
        query = np.concatenate([shared.numbers[part.what[:, 1]] for shared, part in result])
        number, op, slot = what[:, 0], what[:, 2], what[:, 3]
        seq = self.feed.window.seq[slot]
        score = key * self._signs[query]
        first = result[0][0]
        if len(result) > 1 or not first.engine.in_order or first.last == _OUT_OF_ORDER:
            order = np.lexsort((-seq, -key, op, query, number))
            number, query, op, slot, seq, score = (part[order] for part in (number, query, op, slot, seq, score))
        if self.first_only is not None:
            chosen = self.first_only.choose(query, op, seq, self.feed.head)
            number, query, op, slot, seq, score = (part[chosen] for part in (number, query, op, slot, seq, score))
        self.counts["changes"] += number.size
        return Changes(self.names, at_of[number], query, op, self.feed.ids_of(slot), score, seq)

    def join(self, parts: list[Changes]) -> Changes:
        """Join changes into one."""
        changes = join(self.names, parts)
        return changes if self.shedder is None else self.shedder.noted(changes)

    # ---- answers and counters

    def reported(self, assigned: Assignment) -> tuple[np.ndarray, np.ndarray]:
        """Return a query's answer as of the last evaluation: slots and keys, best first."""
        return assigned.engine.answer(assigned.index, self.feed.live_slots)

    def lines(self, assigned: Assignment) -> list[Line]:
        """Return a query's answer as (id, score, tick)."""
        slots, keys = self.reported(assigned)
        ticks = self.feed.window.seq[slots]
        scores = -keys if assigned.query.smaller_is_better else keys
        return list(zip(self.feed.ids_of(slots).tolist(), scores.tolist(), ticks.tolist(), strict=True))

    def note(self, assigned: Assignment) -> str:
        """Return the note of a query's answer: empty for an exact one."""
        return note_of(assigned.choice.algorithm if self.shedder is None else levels()[self.shedder.load.evaluated])

    def stats(self) -> dict[str, int]:
        """Return counters since the start, those of the engines added up."""
        totals: dict[str, int] = {"switches": 0}
        for shared in self.engines.values():
            for key, value in shared.engine.stats().items():
                totals[key] = totals.get(key, 0) + value
        counts = dict(self.counts)
        pruned = max(0, counts.pop("pairs") - totals.get("scores", 0))
        size = totals.pop("bytes", 0) + self.feed.bytes()
        load = self.shedder.stats() if self.shedder is not None else {}
        rows = {"rows": self.feed.end, "live": self.feed.live(), "queries": len(self.assigned)}
        return {**rows, **counts, **totals, "pruned": pruned, "bytes": size, **load}

    def numbered(self) -> Iterator[tuple[str, Engine, list[int]]]:
        """Yield each engine, called by its number, with the indices of its queries in their order."""
        result: dict[EngineKey, tuple[Engine, list[int]]] = {}
        for assigned in self.assigned.values():
            result.setdefault(assigned.shared.key, (assigned.engine, []))[1].append(assigned.index)
        for i, (engine, indices) in enumerate(result.values()):
            yield f"engine {i} ", engine, indices

    def check(self) -> None:
        """Assert the invariants of all structures."""
        self.feed._check()
        for shared in self.engines.values():
            shared.engine._check()


def _make_feed(settings: Settings, columns: int, held: int | None) -> Feed:
    """Make a feed; ``held`` is how many rows it begins with, after a restore."""
    from topwatch.core.fifo import FifoFeed
    from topwatch.core.latest import LatestFeed

    window, schedule = settings.window, settings.schedule()
    if isinstance(window, Latest):
        return LatestFeed(columns, schedule) if held is None else LatestFeed(columns, schedule, held)
    if isinstance(window, LastRows):
        return FifoFeed(columns, window.rows, None, schedule, held)
    return FifoFeed(columns, None, window.nanoseconds, schedule, held)


def known_name(name: str | None, names: Collection[str]) -> str:
    """Return the name of a query; None is the only one."""
    if name is None:
        if len(names) == 1:
            return next(iter(names))
        raise QueryError(f"name: this monitor has {len(names)} queries; say which: {', '.join(names)}")
    if name not in names:
        raise QueryError(
            f"name: no query is called {name!r}; there are {', '.join(names) or 'none'}"
            + nearest_name(str(name), names)
        )
    return name


def _with_room(array: np.ndarray, index: int) -> np.ndarray:
    if index < array.size:
        return array
    larger: np.ndarray = np.ones(index + 1 + array.size, array.dtype)
    larger[: array.size] = array
    return larger
