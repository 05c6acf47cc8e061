"""Answers: of one query and of several, as frames, and as notebooks show them."""

from __future__ import annotations

import topwatch as tw


def test_without_a_name_an_answer_is_the_only_one_or_all() -> None:
    m = tw.Monitor([tw.TopK(k=1, score="x", name="top"), tw.Skyline({"x": "min"}, name="front")], window=tw.last(3))
    assert m.answer() == {"top": [], "front": []}
    m.push({"id": [1, 2], "x": [1.0, 2.0]})
    assert m.answer() == {"top": [(2, 2.0)], "front": [(1, 0.0)]}
    assert m.answer()["front"].exact
    m.remove("front")
    assert m.answer() == m.answer("top") == [(2, 2.0)]
    m.remove("top")
    assert m.answer() == {}
