"""The algorithms of the registry that are not exact: what they state holds, whatever rows they miss.

Answers are rows of the window with their true scores (``approx``: none above), best first, not more than were asked
for; changes, replayed, give them; a row that is refused, a statistic or a restart does no harm.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

import topwatch as tw
from tests.fuzz import lives, random_queries
from tests.fuzz.cases import Case, Target
from tests.fuzz.monitors import batch_kind_of, every_of, ids_of, rows_of, serves, settings, simpler, time_of
from topwatch.algorithms.registry import algorithms
from topwatch.testing.lockstep import Lockstep, as_changes, as_query, plain
from topwatch.testing.oracle import Oracle, Query, Window

APPROXIMATE = [name for name, known in algorithms().items() if not known.exact]
EVERYTHING = 10**6


def make(rng: np.random.Generator) -> Case:
    case = lives.life(rng, [*APPROXIMATE, "floor"])
    if case["algorithm"] == "floor":  # which is exact, until it falls behind
        case |= {"algorithm": "auto", "time": "time", "options": {"max_lag": "1 second"}}
    return case


def run(case: Case) -> None:
    queries = [random_queries.load(query) for query in case["queries"]]
    try:
        both = Rough(queries, Window(*case["window"]), every_of(case), case["algorithm"], **settings(case))
    except tw.TopwatchError:
        return
    for verb, *what in case["steps"]:
        if (shedder := both.monitor._serving.shedder) is not None:  # each look at the clock finds it far behind
            shedder.clock = iter(np.arange(0.0, 1e6, 5.0)).__next__
        both.take(case, verb, what)


class Rough(Lockstep):
    """As its base, with an oracle that ranks everything, and a weaker comparison."""

    def __init__(self, queries: list[Query], window: Window, every: Any, algorithm: str, **options: Any) -> None:
        self.queries = {query.name: query for query in queries}
        super().__init__(queries, window, every, algorithm, **options)

    def take(self, case: Case, verb: str, what: list[Any]) -> None:
        if verb == "push":
            rows = rows_of(case, what[1])
            self.weigh(self.monitor.push(batch_kind_of(what[0])(rows)), lambda oracle: oracle.push(rows))
        elif verb == "add" and what[0]["name"] not in self.queries:
            query = random_queries.load(what[0])
            if serves(self, query):
                self.queries[query.name], self.replayed[query.name] = query, Counter()
                self.weigh(self.monitor.add(as_query(query)), lambda oracle: oracle.add(whole(query)))
        elif verb == "remove" and what[0] in self.queries:
            self.monitor.remove(what[0])
            del self.queries[what[0]], self.replayed[what[0]]
            self.weigh([], lambda oracle: oracle.remove(what[0]))
        elif verb == "delete":
            ids = ids_of(case, what[0])
            self.weigh(self.monitor.delete(ids), lambda oracle: oracle.delete(ids))
        elif verb == "advance":
            time = time_of(case, what[0])
            self.weigh(self.monitor.advance(time), lambda oracle: oracle.advance(time))
        elif verb == "restart":
            self.monitor = tw.Monitor.restore(self.monitor.snapshot())
            self.weigh([], lambda oracle: None, restarted=True)
        elif verb == "why" and what[1] in self.queries:
            assert self.monitor.why(plain(ids_of(case, [what[0]])[0]), what[1]).reason

    def compare(self, got: Any, expected: Any, what: str) -> list[Any]:
        """Called once by the base: begins again with an oracle that ranks all rows."""
        old = self.oracle
        self.oracle = Oracle(map(whole, self.queries.values()), old.window, old.every, time=self.time)
        return []

    def weigh(self, got: Any, do: Any, restarted: bool = False) -> None:
        """Compare answers with all that could be in them."""
        do(self.oracle)
        changes = as_changes(got)
        for change in changes if self.emit == "changes" else []:
            tally, unit = self.replayed[change.query], self.unit(change.query, change.id, change.score)
            tally[unit] += 1 if change.op == "enter" else -1
        for name, query in self.queries.items():
            answer = [(plain(entry.id), float(entry.score)) for entry in self.monitor.answer(name)]
            self._check_answer(name, query, answer)
            if self.emit == "changes" and not restarted:
                units = Counter(self.unit(name, id, score) for id, score in answer)
                assert +self.replayed[name] == units, f"{name}: changes replayed are not the answer: {answer}"
            if restarted:
                self.replayed[name] = Counter(self.unit(name, id, score) for id, score in answer)

    def _check_answer(self, name: str, query: Query, answer: list[tuple[Any, float]]) -> None:
        where = f"{self.algorithm} on {self.window}, row {self.oracle.seen}: {name}"
        if query.k:
            assert len(answer) <= query.k, f"{where}: {len(answer)} rows"
        sign = 1.0 if query.score.smaller_is_better else -1.0
        keys = [sign * score for _, score in answer]
        assert keys == sorted(keys), f"{where}: not best first: {answer}"
        if query.kind == "frequent":  # of the snapshots that were looked at: another share
            return
        there = Counter((plain(id), score) for id, score in self.oracle.answer(name))
        if query.kind == "incomplete":
            best = dict(there.keys())
            for id, score in answer:
                assert id in best, f"{where}: {id} is no object"
                assert score <= best[id] * (1 + 1e-12) + 1e-12, f"{where}: {id} has {score}, above {best[id]}"
            return
        odd = Counter(answer) - there
        assert not odd, f"{where}: not in the window with that score: {odd}"


def whole(query: Query) -> Query:
    """The query that ranks all rows."""
    share = {"share": 1e-9} if query.kind == "frequent" else {}
    return replace(query, k=EVERYTHING if query.k else 0, **share)


TARGET = Target("approximate", make, run, simpler, short=15)
