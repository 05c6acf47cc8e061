"""Answers: of one query and of several, as frames, and as notebooks show them."""

from __future__ import annotations

import datetime
import re
import sys
from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.refusal import refused
from topwatch.monitor.display import SHOWN


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


def answered(id: Any = "a") -> tw.Answer:
    m = tw.Monitor(tw.TopK(k=2, score="x"), window=tw.last(5))
    m.push({"id": np.array([id, id]) if isinstance(id, int) else [id, id], "x": [1.0, 2.5]})
    return m.answer("topk-1")


IDS = ["a", 7, 2**63 + 1, 0.5, b"\x00", datetime.datetime(2026, 11, 15), datetime.date(2026, 11, 15)]


@pytest.mark.parametrize("id", IDS, ids=repr)
def test_an_answer_is_a_frame(id: Any) -> None:
    answer = answered(id)
    expected = {"rank": [1, 2], "id": [id, id], "score": [2.5, 1.0]}
    assert answer.to_arrow().to_pydict() == expected
    assert answer.to_pandas().to_dict("list") == expected
    assert answer.to_polars().to_dict(as_series=False) == expected
    assert repr(answer) == repr(list(answer))


def test_an_empty_answer_is_a_frame() -> None:
    empty = tw.Answer()
    assert empty.to_arrow().schema.names == ["rank", "id", "score"]
    assert empty.to_pandas().shape == empty.to_polars().shape == (0, 3)
    assert "0 rows" in empty._repr_html_()


def test_what_is_known_of_objects_is_in_the_frame() -> None:
    query = tw.IncompleteTopK(k=2, sources=["s", "t"], bounds=(0, 1))
    m = tw.Monitor(query, window=tw.last(5))
    m.push({"id": ["a", "a", "b"], "source": ["s", "t", "t"], "value": [0.5, 0.25, 0.5]})
    expected: dict[str, Any] = {"rank": [1, 2], "id": ["a", "b"], "score": [0.75, 0.5]}
    expected |= {"sources": [["s", "t"], ["t"]], "best": [0.75, 1.5]}
    assert m.answer().to_arrow().to_pydict() == expected
    assert m.answer().to_polars().to_dict(as_series=False) == expected
    assert m.answer().to_pandas()["best"].tolist() == [0.75, 1.5]
    assert "<th>sources</th><th>best</th>" in m.answer()._repr_html_()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named_with_its_extra(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, changes = answered(), tw.Monitor([], window=tw.last(2)).push({"id": [1]})
    monkeypatch.setitem(sys.modules, library, None)
    for one in (answer, changes):
        with refused(tw.TopwatchError, library, re.escape(f"pip install 'topwatch[{library}]'")):
            getattr(one, f"to_{library}")()
    assert answer.to_arrow().num_rows == 2


def test_long_answers_are_shown_in_part() -> None:
    html = tw.Answer([tw.Entry(number, 1.0) for number in range(30)], "approximate: amsa")._repr_html_()
    assert html.count("<tr>") == 1 + SHOWN
    assert "30 rows, approximate: amsa" in html
    assert "10 more" in html
