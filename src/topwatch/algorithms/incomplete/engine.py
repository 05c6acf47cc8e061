"""The engine of queries over objects whose parts come in rows of their own.

Queries share the window and the numbers of ids, and nothing else. A row that a query refuses stays refused, whatever
expires later; that is all that cannot be derived from the window, and is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from topwatch.algorithms.incomplete.kernels.object_scores import NO_OBJECT, Observations
from topwatch.algorithms.incomplete.objects import ObjectTable, Reported, TableFactory
from topwatch.algorithms.incomplete.observations import MOST_LEARNT, IdNumbers, RowReader, cut_step
from topwatch.core.arrays import NO_FLOATS, NO_INTS, Floats, Ints
from topwatch.core.engine import NO_STEP, one_evaluation
from topwatch.core.fifo import FifoFeed
from topwatch.core.kernels.rows import Report, Step, joined
from topwatch.core.saved_state import Saved
from topwatch.query.incomplete_topk import IncompleteTopK
from topwatch.query.queries import Query

_NO_ANSWER = (NO_INTS, NO_FLOATS)
_NOTHING_REPORTED = Reported(NO_INTS, NO_FLOATS, NO_INTS, NO_FLOATS)


class _Query(NamedTuple):
    reader: RowReader
    table: ObjectTable


class IncompleteEngine:
    """A group of queries over one window; an engine.

    Parameters
    ----------
    feed : FifoFeed
        Owns the rows, their ids and their times.
    design : TableFactory
        Makes the state of a query.
    """

    in_order = False

    def __init__(self, feed: FifoFeed, design: TableFactory) -> None:
        self._feed = feed
        self._design = design
        self._ids = IdNumbers(feed)
        self._queries: dict[int, _Query] = {}  # by index
        self._added = 0  # queries so far
        self._reported: dict[int, tuple[Ints, Floats]] = {}  # slots and keys, until :meth:`load`

    def add(self, query: Query, column_of: Mapping[str, int]) -> int:
        """Take in a query; :meth:`start` or :meth:`load` gives it its first answer."""
        assert isinstance(query, IncompleteTopK)
        index, self._added = self._added, self._added + 1
        self._queries[index] = _Query(RowReader(self._feed, query, column_of), self._design(self._feed, query))
        return index

    def start(self, index: int, head: int, moment: int, at: int) -> Report:
        """Evaluate a new query over the rows of the last evaluation, then take in what has come since."""
        query = self._queries[index]
        reader, table = query
        window = self._feed.window
        held = window.live_slots()
        seen = window.seq[held] <= moment
        ids = self._ids.of(held)
        reader.learn(held[seen])
        table.begin(window.head, reader.read(held[seen], ids[seen]), _NOTHING_REPORTED)
        result = table.process(reader.read(NO_INTS, NO_INTS), one_evaluation(at, moment, head), index)
        self._take(query, held[~seen], ids[~seen], NO_STEP._replace(heads=np.full(1, head)), index)
        return result

    def resume(self, head: int, evaluated: int) -> None:
        """Nothing yet: :meth:`load` follows, and knows which rows were refused."""

    def save(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Return which of the rows held count, and the counters of those that do not."""
        window = self._feed.window
        ordinals = window.seq[window.live_slots()]
        saved = {}
        for order, index in enumerate(indices):
            reader, table = self._queries[index]
            saved[f"{order} taken"] = table.counted(ordinals)
            saved[f"{order} refused"] = np.array([reader.unknown, reader.outside, table.duplicates])
            reported = table.answer()
            saved[f"{order} sources"], saved[f"{order} best"] = reported.sources, reported.best
            if reader.learns and reader.bounds is not None:
                saved[f"{order} learnt"] = reader.bounds
        return saved

    def load(self, saved: Saved) -> None:
        """Rebuild the state from the window and what was saved by an engine with the same queries."""
        held = self._feed.window.live_slots()
        for order, (index, query) in enumerate(self._queries.items()):
            mine = saved.part(f"{order} ")
            reader, table = query
            if reader.learns:
                learnt = mine.floats("learnt", 2, reader.sources)
                holds = np.all((learnt[0] >= -MOST_LEARNT) & (learnt[0] <= 0) & (learnt[1] >= 0))
                mine.expect(holds and np.all(learnt[1] <= MOST_LEARNT), "learnt", "bounds that hold 0")
                reader.bounds = learnt
            slots, keys = self._reported.pop(index, _NO_ANSWER)
            sources = mine.ints("sources", slots.size, low=0, high=(1 << reader.sources) - 1)
            reported = Reported(self._feed.window.seq[slots], keys, sources, mine.floats("best", slots.size, nan=True))
            self._begin(query, held, mine.flags("taken", held.size), reported)
            reader.unknown, reader.outside, table.duplicates = mine.counts("refused", 3)
            mine.expect(reader.single or not table.duplicates, "refused", "no duplicates", table.duplicates)
            mine.done()

    def _begin(self, query: _Query, held: Ints, counted: np.ndarray, reported: Reported) -> None:
        """Rebuild the state of a query from the rows held, of which those count that did before."""
        rows = query.reader.read(held, self._ids.of(held), count=False)
        rows.source[~counted] = NO_OBJECT
        query.table.begin(self._feed.window.head, rows, reported)

    def remove(self, index: int) -> None:
        """Take a query out."""
        del self._queries[index]

    def process(self, step: Step) -> Report:
        """Take a step of the window; return the changes at its evaluations."""
        ids = self._ids.of(step.arrived)
        return joined([self._take(query, step.arrived, ids, step, index) for index, query in self._queries.items()])

    def _take(self, query: _Query, slots: Ints, ids: Ints, step: Step, index: int) -> Report:
        """Take a step for one query; where learnt bounds widen, normalise all its rows again before."""
        reader, table = query
        widenings = reader.widenings(slots)
        if not widenings.size:
            return table.process(reader.read(slots, ids), step, index)
        result = []
        for start, stop, part, wider in cut_step(step, slots.size, widenings):
            if wider:
                reader.learn(slots[start : start + 1])
                self._normalise(query, int(self._feed.window.seq[slots[start]]))
            result.append(table.process(reader.read(slots[start:stop], ids[start:stop]), part, index))
        return joined(result)

    def _normalise(self, query: _Query, until: int) -> None:
        """Begin again with the rows before one, under the bounds that it has brought."""
        table, window = query.table, self._feed.window
        held = window.live_slots()
        held = held[window.seq[held] < until]
        duplicates = table.duplicates
        self._begin(query, held, table.counted(window.seq[held]), table.answer())
        table.duplicates = duplicates

    def answer(self, index: int, live: Callable[[], Ints]) -> tuple[Ints, Floats]:
        """Return rows of the objects of the last evaluation's answer and their scores, best first."""
        if index in self._reported:
            return self._reported[index]
        reported = self._queries[index].table.answer()
        return reported.rows & (self._feed.window.capacity - 1), reported.scores

    def reported(self, index: int) -> Reported:
        """Return the last evaluation's answer with what is known of its objects."""
        return self._queries[index].table.answer()

    def precision(self, index: int) -> float | None:
        """Estimate the share of a query's answer that is right; None where all of it is."""
        return self._queries[index].table.precision()

    def counting(self, index: int, slots: Ints) -> Observations:
        """Return rows as a query sees them; those that it has refused have no source."""
        reader, table = self._queries[index]
        rows = reader.read(slots, np.zeros(slots.size, np.int64), count=False)
        rows.source[~table.counted(rows.ordinal)] = NO_OBJECT
        return rows

    def set_answer(self, index: int, slots: Ints, keys: Floats) -> None:
        """Set what was last reported, after a restore; :meth:`load` follows."""
        self._reported[index] = (slots, keys)

    def relocate(self) -> None:
        """Follow the rows to their new slots after the window has grown."""
        for query in self._queries.values():
            query.table.relocate()

    def indexed(self) -> None:
        """Nothing is indexed by queries."""

    def stats(self) -> dict[str, int]:
        """Counters since the start: also rows of an ``unknown_source``, ``out_of_bounds``, and ``duplicates``."""
        total = {"unknown_source": 0, "out_of_bounds": 0, "duplicates": 0}
        for reader, table in self._queries.values():
            total["unknown_source"] += reader.unknown
            total["out_of_bounds"] += reader.outside
            total["duplicates"] += table.duplicates
            for name, value in table.stats().items():
                total[name] = total.get(name, 0) + value
        return total

    def _check(self) -> None:
        for query in self._queries.values():
            query.table._check()
