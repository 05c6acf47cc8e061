"""What is planned for Spark before anything runs: refused here, or executed as ``explain`` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import topwatch as tw
from tests.support.registered import registered_as_before
from tests.support.specs import TOP, spec_of
from topwatch.algorithms import registry
from topwatch.spark.planner import monitor_of

MOVING = [
    tw.Dominating(k=3, prefer={"x": "max"}, name="moving"),
    tw.FrequentSkyline(prefer={"x": "max"}, share=0.5, snapshots=9, name="moving"),
    tw.IncompleteTopK(k=3, sources=["a", "b"], name="moving"),
]


@pytest.mark.parametrize("query", MOVING, ids=lambda query: type(query).__name__)
def test_scores_that_move_have_no_whole_answers(query: Any) -> None:
    window = tw.latest() if isinstance(query, tw.FrequentSkyline) else tw.last(9)
    with pytest.raises(tw.QueryError, match=r"emit: .answers. does not serve .* queries, whose scores move"):
        monitor_of([TOP, query], "answers", window=window, id="id")


@pytest.fixture
def _registry() -> Iterator[None]:
    with registered_as_before():
        yield


@pytest.mark.usefixtures("_registry")
@pytest.mark.parametrize("algorithm", ["mine", "auto"])
def test_an_algorithm_that_only_this_process_knows_is_refused(algorithm: str) -> None:
    """Whether it is named or "auto" takes it: Spark's workers would serve another, or fail."""
    make = registry.algorithms()["brute"].make
    tw.register_algorithm(tw.Algorithm("mine", make, "topk", preferred=9))
    assert "top: mine" in tw.Monitor(TOP, tw.last(9), algorithm=algorithm).explain()
    with pytest.raises(tw.PlanError, match="'mine', which serves query 'top', was registered in this process"):
        monitor_of(TOP, "changes", window=tw.last(9), id="id", algorithm=algorithm)
    monitor_of(TOP, "changes", window=tw.last(9), id="id", algorithm="sma")


@pytest.mark.usefixtures("_registry")
def test_a_worker_executes_the_plan_and_makes_none() -> None:
    spec = spec_of(window=tw.last(9), time="t")
    tw.register_algorithm(tw.Algorithm("other", registry.algorithms()["brute"].make, "topk", preferred=9))
    assert spec.monitor().plan.queries == spec.plan.queries
    assert spec.monitor().plan.queries[0].algorithm == "reserve"


def test_the_plan_of_a_pruned_stream_says_what_serves_it() -> None:
    plan = spec_of(window=tw.last(10_000)).plan
    assert (plan.pruned, plan.backend) == (True, "state store")
    assert "top: reserve – the grouped engine keeps the rows that pruning leaves" in plan.lines()


def test_the_same_distance_in_other_words_is_the_same_state() -> None:
    one, other, third = (spec_of(every=every, time="t").fingerprint() for every in ("1 minute", "60 s", "2 minutes"))
    assert one == other != third
