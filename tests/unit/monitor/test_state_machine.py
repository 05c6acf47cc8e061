"""Random lives of a monitor, each step compared with the oracle; Hypothesis shrinks what fails to a few steps."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.support.exact_algorithms import ALGORITHMS
from tests.support.sizes import COMPILED
from topwatch.testing.lockstep import Lockstep, serves
from topwatch.testing.oracle import Query, Seconds, Window
from topwatch.testing.oracle_scores import Score

# Few values, so that ties, duplicates and rows that cannot be ranked are common; some far from the rest.
VALUES = st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0, 2.0, -1.0, -0.0, 100.0, float("nan"), float("inf"), -float("inf")])
WEIGHTS = st.sampled_from([1.0, 0.5, -1.0, -0.25, 0.0])
IDS = st.integers(0, 8)
STEPS = st.sampled_from([0.0, 0.0, 0.125, 0.5, 1.0, 3.0])
BATCHES = st.lists(st.tuples(IDS, STEPS, VALUES, VALUES), max_size=9)
RANGES = st.sampled_from([(), (("a", 0.25, 1.0),), (("b", -1.0, 0.5), ("a", -float("inf"), 1.0))])
COLUMNS = st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a")])


@st.composite
def scores(draw: st.DrawFn) -> Score:
    kind = draw(st.sampled_from(["linear", "product", "quadratic", "distance", "rising", "free"]))
    if kind == "rising":
        return Score("expr", text="3 * a - b / 2", increasing=("a",), decreasing=("b",))
    if kind == "free":
        return Score("expr", text="a * b - a / (b + 1)")
    return Score(kind, tuple((column, draw(WEIGHTS)) for column in draw(COLUMNS)))


@st.composite
def queries(draw: st.DrawFn) -> Query:
    score = draw(scores())
    where = draw(RANGES)
    if draw(st.booleans()):
        return Query("", "threshold", score, above=draw(st.sampled_from([0.0, 0.5, 1.0])), where=where)
    return Query("", "nearest" if score.kind == "distance" else "topk", score, k=draw(st.integers(1, 5)), where=where)


class Life(RuleBasedStateMachine):
    """Push, add, remove, delete, advance, snapshot and restore, in any order."""

    algorithm: ClassVar[str]
    kind: ClassVar[Any]
    both: Lockstep

    @initialize(every=st.sampled_from([1, 1, 2, 5, Seconds(1)]), size=st.integers(1, 7))
    def begin(self, every: int | Seconds, size: int) -> None:
        # Names every column for as long as the monitor lives, so that later queries find them in the window.
        first = Query("first", "topk", Score("linear", (("a", 1.0), ("b", -0.5))), k=2)
        self.both = Lockstep([first], Window(self.kind, size), every, self.algorithm)
        self.clock, self.made = 0.0, 0

    @rule(rows=BATCHES)
    def push(self, rows: list[tuple[int, float, float, float]]) -> None:
        columns = np.array(rows, dtype=float).reshape(-1, 4)
        times = self.clock + np.cumsum(columns[:, 1])
        self.clock = float(times[-1]) if len(times) else self.clock
        ids = columns[:, 0].astype(np.int64)
        self.both.push({"id": ids, "time": times, "a": columns[:, 2].copy(), "b": columns[:, 3].copy()})

    @rule(query=queries())
    def add(self, query: Query) -> None:
        if serves(self.algorithm, query, self.both.window):
            self.made += 1
            self.both.add(Query(f"q{self.made}", query.kind, query.score, query.k, query.above, query.where))

    @precondition(lambda self: len(self.both.oracle.queries) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.both.remove(data.draw(st.sampled_from(list(self.both.oracle.queries)[1:])))

    @precondition(lambda self: self.kind == "latest")
    @rule(ids=st.lists(IDS, unique=True, max_size=5))
    def delete(self, ids: list[int]) -> None:
        self.both.delete(np.array(ids, dtype=np.int64))

    @precondition(lambda self: self.both.time is not None)
    @rule(step=STEPS)
    def advance(self, step: float) -> None:
        self.clock += step
        self.both.advance(self.clock)

    @rule()
    def restart(self) -> None:
        self.both.restart()


@pytest.mark.parametrize("kind", ["count", "time", "latest"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_life(algorithm: str, kind: Any) -> None:
    if not serves(algorithm, Query("", "topk", Score("linear", (("a", 1.0),)), k=1), Window(kind)):
        pytest.skip(f"{algorithm} does not serve {kind} windows")
    machine = type(f"{algorithm.title()}{kind.title()}", (Life,), {"algorithm": algorithm, "kind": kind})
    run_state_machine_as_test(machine, settings=settings(max_examples=25 if COMPILED else 8, stateful_step_count=20))
