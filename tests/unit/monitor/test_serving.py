"""Queries that come and go leave nothing behind, and none loses what it has reported."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import topwatch as tw
from topwatch.monitor.planner import MANY_QUERIES


def score(column: str) -> Any:
    return tw.linear({column: 1.0})


@pytest.mark.parametrize("emit", ["changes", "first"])
def test_queries_that_come_and_go_leave_nothing(emit: str) -> None:
    stays = tw.TopK(k=2, score=score("a"), name="stays")
    m = tw.Monitor(stays, window=tw.last(8), emit=emit)
    columns = ["a", *(f"c{number}" for number in range(300))]
    for number in range(300):
        batch = {"id": np.arange(10 * number, 10 * number + 10), **dict.fromkeys(columns, np.arange(10.0))}
        name = f"q{number}"
        m.add(tw.TopK(k=1, score=score(f"c{number}"), name=name))
        changes = list(m.push(batch))
        assert {change.query for change in changes} == {"stays", name}
        assert m.answer(name)[0].id == 10 * number + 9
        m.remove(name)
        m.push({"id": np.arange(10), "a": np.zeros(10)})
    serving = m._serving
    assert serving.feed.window.columns.shape[0] == len(m._ingest.columns) == 2
    assert len(serving.names) < 80
    assert len(serving._alike) == len(serving.engines) == 1
    m._check()


def test_changes_keep_the_names_of_queries_that_are_gone() -> None:
    m = tw.Monitor([], window=tw.last(4))
    kept = []
    for number in range(200):
        m.add(tw.TopK(k=1, score=score("a"), name=f"q{number}"))
        kept.append(m.push({"id": [number], "a": [float(number)]}))
        m.remove(f"q{number}")
    for number, changes in enumerate(kept):
        assert {change.query for change in changes} == {f"q{number}"}


def test_a_column_that_comes_back_has_the_values_of_rows_that_had_them() -> None:
    """Another one replaces it only when no row of the window has a value in it."""
    a, b = (tw.TopK(k=1, score=score(column), name=column) for column in "ab")
    m = tw.Monitor(a, window=tw.last(3))
    m.push({"id": [1], "a": [5.0]})
    m.remove("a")
    m.add(b)
    m.push({"id": [2], "b": [7.0]})
    m.add(a)
    assert [entry.id for entry in m.answer("a")] == [1]
    assert [entry.id for entry in m.answer("b")] == [2]


def test_buffered_rows_keep_their_columns() -> None:
    a, b = (tw.TopK(k=1, score=score(column), name=column) for column in "ab")
    m = tw.Monitor(a, window=tw.last(3), time="t", lateness="1 s")
    m.push({"id": [1], "t": [0.0], "a": [5.0]})
    m.remove("a")
    m.add(b)
    m.push({"id": [2], "t": [9.0], "b": [7.0]})
    assert m.answer("b") == []


def test_words_of_sources_that_no_query_names() -> None:
    m = tw.Monitor([], window=tw.last(3))
    for number in range(5):
        m.add(tw.IncompleteTopK(k=1, sources=[f"s{number}"], value="a", name="q"))
        m.remove("q")
    assert not m._ingest.words


@pytest.mark.parametrize("algorithm", ["pa", "reserve", "sasf"])
def test_queries_that_move_to_a_grid_lose_no_change(algorithm: str) -> None:
    """One more query makes them as many as have a grid of their own: what was reported stays reported."""
    queries: list[Any] = [
        tw.TopK(k=3, score=tw.linear(a=1.0, b=float(number)), name=f"q{number}") for number in range(MANY_QUERIES)
    ]
    m = tw.Monitor(queries[:-1], window=tw.last(500), algorithm=algorithm)
    rng = np.random.default_rng(7)
    replayed: dict[str, Counter[Any]] = {query.name: Counter() for query in queries}

    def replay(changes: Any) -> None:
        for change in changes:
            replayed[change.query][change.id] += 1 if change.op == "enter" else -1

    for number in range(12):
        ids = np.arange(200 * number, 200 * number + 200)
        falling = -ids.astype(float)  # of which pa misses nearly all
        replay(m.push({"id": ids, "a": falling + rng.random(200), "b": falling + rng.random(200)}))
        if number == 8:
            before = {query.name: m.answer(query.name) for query in queries[:-1]}
            replay(m.add(queries[-1]))
            assert {name: m.answer(name) for name in before} == before
        for query in m.queries:
            assert +replayed[query.name] == Counter(entry.id for entry in m.answer(query.name))
        m._check()
