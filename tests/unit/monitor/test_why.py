"""`why` says of a row what `answer` says of it, also where the answer is approximate."""

from __future__ import annotations

from typing import Any

import numpy as np

import topwatch as tw


def agrees(m: tw.Monitor, ids: Any) -> None:
    inside = {entry.id: number for number, entry in enumerate(m.answer(), 1)}
    for id in ids:
        why = m.why(id)
        assert why.answer == (id in inside)
        assert why.reason
        if why.answer:
            assert why.rank == inside[id]
            assert [entry.id for entry in why.dominators] == list(inside)[: inside[id] - 1]


def test_rows_that_pa_has_missed() -> None:
    """All rows that it has kept expire at once."""
    m = tw.Monitor(tw.TopK(k=5, score=tw.linear(x=1.0), name="top"), window=tw.last("1000 s"), time="t", algorithm="pa")
    rows = np.arange(1000)
    m.push({"id": rows, "t": rows.astype(float), "x": -rows.astype(float)})
    agrees(m, range(1, 1000))
    m.advance(1500.0)
    assert (len(m.answer()), m.stats()["live"]) == (0, 499)
    agrees(m, rows)
    missed = m.why(502)
    assert (missed.rank, missed.threshold) == (2, None)
    assert missed.reason == "502 scores -502 and is number 2, but is missing in the answer, which is approximate."
    assert m.why(600).reason == "600 scores -600 and is number 100: not among the best 5."


def test_exact_answers_say_what_is_needed() -> None:
    m = tw.Monitor(tw.TopK(k=2, score=tw.linear(x=1.0), name="top"), window=tw.last(4))
    m.push({"id": ["a", "b", "a", "c"], "x": [5.0, 4.0, 4.0, 1.0]})
    agrees(m, ["c"])
    assert m.why("c").reason == "'c' scores 1 and is number 4: 4 is needed to be among the best 2."
    assert m.why("a").reason == "'a' scores 4 and is number 2 of 2."  # the newer row of that id
    assert m.why("b").reason == "'b' scores 4 and is number 3: 4 is needed to be among the best 2."


def test_an_object_that_approx_has_not_found() -> None:
    query = tw.IncompleteTopK(k=3, sources=["s", "r"], bounds=(0, 1), combine="sum", name="top")
    m = tw.Monitor(query, window=tw.last(100), algorithm="approx")
    rng = np.random.default_rng(4)
    m.push({"id": rng.integers(0, 60, 400), "source": rng.choice(["s", "r"], 400), "value": rng.random(400)})
    inside = {entry.id for entry in m.answer()}
    for id in range(60):
        why = m.why(id)
        assert why.answer == (id in inside)
        assert "not a number" not in why.reason


def test_dominating_rows() -> None:
    m = tw.Monitor(tw.Dominating(k=3, prefer={"x": "min", "y": "max"}, name="d"), window=tw.last(30))
    rng = np.random.default_rng(5)
    m.push({"id": np.arange(90), "x": rng.integers(0, 5, 90), "y": rng.integers(0, 5, 90)})
    inside = [entry.id for entry in m.answer()]
    for id in range(60, 90):
        why = m.why(id)
        assert why.answer == (id in inside)
        assert why.rank == (inside.index(id) + 1 if id in inside else None)
