"""A monitor with groups: what each method does before a group has rows in its window, and with names left out."""

from __future__ import annotations

from typing import Any

import pytest

import topwatch as tw

SCORE = tw.linear(x=1.0)
QUERIES: list[Any] = [
    tw.TopK(k=2, score=SCORE, name="q"),
    tw.Nearest(k=2, point={"x": 0.0}, name="q"),
    tw.Threshold(score=SCORE, above=0.0, name="q"),
    tw.Dominating(k=2, prefer={"x": "min"}, name="q"),
    tw.Skyline(prefer={"x": "min"}, name="q"),
    tw.IncompleteTopK(k=2, sources=["s"], value="x", name="q"),
]


def row(time: float, group: str) -> dict[str, list[Any]]:
    return {"id": [int(time)], "t": [time], "g": [group], "x": [1.0], "source": ["s"]}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_a_group_whose_only_row_is_buffered(query: Any) -> None:
    m = tw.Monitor(query, window=tw.last(5), time="t", lateness="10 s", by="g")
    assert len(m.push(row(1.0, "a"))) == 0
    assert m.answers() == {"a": []}
    assert m.answer(by="a") == m.lines(by="a") == []
    assert not m.why(1, by="a").live
    m = tw.Monitor.restore(m.snapshot())
    assert m.answers() == {"a": []}
    changes = list(m.push(row(20.0, "b")))
    assert [(change.by, change.id) for change in changes] == [("a", 1)]
    assert [entry.id for entry in m.answer(by="a")] == [1]
    assert m.answer(by="b") == []
    assert m.stats()["waiting"] == 1


def test_remove_finds_the_only_query() -> None:
    m = tw.Monitor(QUERIES[0], window=tw.last(5), by="g")
    m.push(row(1.0, "a"))
    m.remove(None)
    assert m.queries == []
    m.add(QUERIES[0])
    assert [entry.id for entry in m.answer(by="a")] == [1]


def test_answers_of_several_queries() -> None:
    two = [tw.TopK(k=1, score="x", name="high"), tw.Nearest(k=1, point={"x": 0.0}, name="low")]
    rows = {"id": [1, 2, 3], "x": [1.0, 2.0, 3.0], "g": ["a", "a", "b"]}
    for extra in ([], [tw.Threshold(score="x", above=1.5, name="over")]):  # one engine, and a monitor for each group
        m = tw.Monitor([*two, *extra], window=tw.last(5), by="g")
        m.push(rows)
        answers = m.answer(by="a")
        assert list(answers) == [query.name for query in m.queries]
        assert all(answers[name] == m.answer(name, by="a") for name in answers)
        assert (answers["high"], answers["low"]) == ([(2, 2.0)], [(1, 1.0)])
        with pytest.raises(tw.QueryError, match="say which, by="):
            m.answer()
    for query in m.queries[1:]:
        m.remove(query.name)
    assert m.answer(by="a") == [(2, 2.0)]
    m.remove(None)
    assert m.answer(by="a") == {}


def test_by_is_given_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        tw.Monitor(QUERIES[0], tw.last(5), 1, "auto", "id", None, "changes", None, None, "g")  # type: ignore[misc]
