"""Monitors with the exact algorithms of the registry: answers and changes equal the oracle's to the letter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

import topwatch as tw
from tests.fuzz import lives, random_queries
from tests.fuzz.cases import Case, Target
from tests.support.batch_kinds import BATCH_KINDS, NULL_BATCH_KINDS
from tests.support.sizes import COMPILED
from tests.support.stream_kinds import ID_KINDS
from tests.support.tiers import alternating
from topwatch.algorithms.registry import algorithms
from topwatch.testing.lockstep import Lockstep, plain
from topwatch.testing.oracle import Query, Seconds, Window

EXACT = [name for name, known in algorithms().items() if known.exact]
EPOCH = np.datetime64("2026-03-01T00:00:00", "ns")


def make(rng: np.random.Generator) -> Case:
    return lives.life(rng, [*EXACT, "auto", "auto"])


def run(case: Case) -> None:
    seed = case.get("tiers")
    with alternating(np.random.default_rng(seed)) if COMPILED and seed is not None else nullcontext():
        live_through(case)


def live_through(case: Case) -> None:
    queries = [random_queries.load(query) for query in case["queries"]]
    try:
        both = Lockstep(queries, Window(*case["window"]), every_of(case), case["algorithm"], **settings(case))
    except tw.TopwatchError:
        return  # which combinations are refused is what tests/conformance/test_plan.py is about
    for step in case["steps"]:
        take(both, case, step)


def settings(case: Case) -> dict[str, Any]:
    return {"time": case["time"], **case["options"]}


def every_of(case: Case) -> int | Seconds:
    every = case["every"]
    return Seconds(every[0]) if isinstance(every, list) else every


def ids_of(case: Case, ids: list[int]) -> Any:
    return ID_KINDS[case["ids"]](np.array(ids, dtype=np.int64))


def time_of(case: Case, time: Any) -> Any:
    if not case["stamps"]:
        return time
    return EPOCH + (np.asarray(time, dtype=float) * 1e9).astype("timedelta64[ns]")


def rows_of(case: Case, rows: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {name: np.array(values, dtype=float) for name, values in rows.items() if name != "source"}
    result["id"] = ids_of(case, rows["id"])
    result["time"] = time_of(case, np.array(rows["time"], dtype=float))
    if "source" in rows:
        result["source"] = np.array(rows["source"], dtype=object)
    return result


def batch_kind_of(name: str) -> Callable[[Any], Any]:
    if "polars" in name:  # which makes a column of Python objects of an array of objects, and one of text of a list
        carry = NULL_BATCH_KINDS["polars"] if name.startswith("null ") else BATCH_KINDS[name]
        words = ("source", "group")
        return lambda rows: carry({key: list(rows[key]) if key in words else rows[key] for key in rows})
    return NULL_BATCH_KINDS[name.removeprefix("null ")] if name.startswith("null ") else BATCH_KINDS[name]


def take(both: Lockstep, case: Case, step: list[Any]) -> None:
    """Do one step to both; a step that makes no sense any more, since others were left out, is passed over."""
    verb, *what = step
    oracle = both.oracle
    if verb == "push":
        both.push(rows_of(case, what[1]), batch_kind_of(what[0]))
    elif verb == "add" and what[0]["name"] not in oracle.queries:
        added = random_queries.load(what[0])
        if serves(both, added):
            both.add(added)
    elif verb == "remove" and what[0] in oracle.queries:
        both.remove(what[0])
    elif verb == "delete":
        both.delete(ids_of(case, what[0]))
    elif verb == "advance":
        both.advance(time_of(case, what[0]))
    elif verb == "restart":
        both.restart()
    elif verb == "why" and what[1] in oracle.queries:
        check_why(both, plain(ids_of(case, [what[0]])[0]), what[1])
    elif verb == "stats":
        stats = both.monitor.stats()
        assert stats["rows"] == oracle.seen
        assert stats["queries"] == len(oracle.queries)
        assert len(both.monitor.explain()) > 0


def serves(both: Lockstep, query: Query) -> bool:
    """Whether the planner takes a query to those that are there; asked of a monitor that is thrown away."""
    from topwatch.testing.lockstep import as_every, as_query, as_window

    options = both.monitor.settings.options
    try:
        tw.Monitor(
            as_query(query),
            window=as_window(both.window),
            every=as_every(both.oracle.every),
            algorithm=both.algorithm,
            time=both.time,
            emit=both.emit,
            **options,
        )
    except tw.TopwatchError:
        return False
    return True


def check_why(both: Lockstep, id: Any, name: str) -> None:
    """What ``why`` says of a row is what the oracle's answer says."""
    why = both.monitor.why(id, name)
    mine = [score for other, score in both.oracle.answer(name) if plain(other) == id]
    assert why.reason
    assert why.query == name
    if both.window.kind == "latest" and mine:
        assert why.answer, f"{why} but it is in the answer"
        assert why.score == mine[0], f"{why.score} instead of {mine[0]}"
    if not mine:
        assert not why.answer, f"{why} but it is not in the answer"


def simpler(case: Case) -> Iterator[Case]:
    """Fewer queries, fewer rows, fewer settings."""
    for index in range(len(case["queries"]) - 1, -1, -1):
        if len(case["queries"]) > 1:
            yield {**case, "queries": case["queries"][:index] + case["queries"][index + 1 :]}
    for name in case["options"]:
        yield {**case, "options": {key: value for key, value in case["options"].items() if key != name}}
    for key, value in (("tiers", None), ("stamps", False), ("ids", "int64"), ("every", 1), ("algorithm", "auto")):
        if case.get(key) != value:
            yield {**case, key: value}
    for index, step in enumerate(case["steps"]):
        if step[0] == "push":
            yield from (_with(case, index, smaller) for smaller in _fewer_rows(step))
    for where in (case["queries"], [step[1] for step in case["steps"] if step[0] == "add"]):
        for query in where:
            if query["where"]:
                other = copy.deepcopy(case)
                for result in (*other["queries"], *(step[1] for step in other["steps"] if step[0] == "add")):
                    if result["name"] == query["name"]:
                        result["where"] = []
                yield other


def _with(case: Case, index: int, step: list[Any]) -> Case:
    return {**case, "steps": [*case["steps"][:index], step, *case["steps"][index + 1 :]]}


def _fewer_rows(step: list[Any]) -> Iterator[list[Any]]:
    _, batch_kind, rows = step
    size = count = len(rows["id"])
    if batch_kind != "dict":
        yield ["push", "dict", rows]
    while size := size // 2:
        for start in range(0, count, size):
            kept = {name: values[:start] + values[start + size :] for name, values in rows.items()}
            yield ["push", batch_kind, kept]


TARGET = Target("monitors", make, run, simpler, share=4.0, short=40)
