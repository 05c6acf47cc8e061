"""Rows as dicts: a list of them is a batch, and so is a dict of single values."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import topwatch as tw
from tests.support.refusal import refused

TOP = tw.TopK(k=2, score="x", name="top")
COLUMNS: dict[str, list[Any]] = {"id": ["a", "b", "c"], "x": [1.0, 3.0, 2.5], "g": ["n", "s", "n"], "t": [0, 1, 2]}
ROWS = [dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)]


def monitor(**more: Any) -> Any:
    return tw.Monitor(TOP, window=tw.last(10), **more)


MONITORS: list[dict[str, Any]] = [{}, {"by": "g"}, {"time": "t"}, {"time": "t", "lateness": "1 s"}, {"id": None}]


@pytest.mark.parametrize("more", MONITORS, ids=str)
def test_rows_are_as_good_as_columns(more: Any) -> None:
    by_columns, at_once, one_by_one = monitor(**more), monitor(**more), monitor(**more)
    expected = list(by_columns.push(COLUMNS))
    assert expected
    assert list(at_once.push(ROWS)) == expected
    assert list(monitor(**more).push(tuple(ROWS))) == expected
    assert sorted(change for row in ROWS for change in one_by_one.push(row)) == sorted(expected)
    assert at_once.stats() == by_columns.stats()


def test_a_missing_key_is_null() -> None:
    m = monitor()
    m.push([{"id": 1, "x": 5.0}, {"id": 2}, {"id": 3, "x": None}, {"x": 7.0, "id": 4, "more": [1, 2]}])
    assert m.answer() == [(4, 7.0), (1, 5.0)]
    assert m.stats()["skipped"] == 2
    with refused(tw.DataError, "id", "1 nulls"):
        m.push([{"id": 5, "x": 5.0}, {"x": 5.0}])


def test_columns_that_no_query_needs_may_hold_anything() -> None:
    m = monitor()
    m.push({"id": 1, "x": 5.0, "tags": ["a", "b"], "more": {}})
    assert m.answer() == [(1, 5.0)]


def test_numbers_and_times_of_all_kinds() -> None:
    m = tw.Monitor(TOP, window=tw.last("1 hour"), time="t")
    day = datetime.datetime(2026, 11, 15)
    m.push({"id": np.int64(1), "x": np.float32(0.5), "t": day})
    m.push({"id": np.int64(2), "x": True, "t": np.datetime64(day)})
    m.push([{"id": 2, "x": np.float64(1), "t": day}, {"id": np.int64(3), "x": 2.5, "t": pd.Timestamp(day)}])
    m.push({"id": 4, "x": decimal.Decimal(4), "t": day})
    assert m.answer() == [(4, 4.0), (3, 2.5)]
    frame = pd.DataFrame({"id": [5], "x": [6.0], "t": [day]})
    m.push(frame.to_dict("records"))
    assert m.answer()[0] == (5, 6.0)


def test_no_rows_are_a_batch() -> None:
    for more in MONITORS:
        m = monitor(**more)
        assert len(m.push([])) == 0
        assert len(m.push(ROWS)) > 0
    queries = [tw.IncompleteTopK(k=1, sources=["s", "t"], name="late")]
    m = tw.Monitor(queries, window=tw.last(3))
    m.push([])
    m.push([{"id": 1, "source": "s", "value": 0.5}, {"id": 2, "source": "t", "value": 0.25}])
    m.push({"id": 2, "source": "s", "value": 0.5})
    assert m.answer() == [(2, 0.75)]


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a column in no row": ([{"id": 1, "y": 1.0}, {"id": 2}], ("'x'", "'top'", "missing", "id, y")),
    "a column that a row lacks": ({"id": 1, "y": 1.0}, ("'x'", "'top'", "missing", "id, y")),
    "a row that is none": ([{"id": 1, "x": 1.0}, 7], ("row 1", "dict", "got int")),
    "a row in words": ({"id": 1, "x": "much"}, ("'x'", "string", "numbers")),
    "words in a row": ([{"id": 1, "x": 1.0}, {"id": 2, "x": "much"}], ("'x'", "numbers")),
    "a list in a row": ([{"id": 1, "x": [1.0]}], ("'x'", "list", "numbers")),
    "an array and a number": ({"id": [1], "x": 1.0}, ("'x'", "expected an array", "1.0")),
    "a null id": ({"id": None, "x": 1.0}, ("'id'", "null")),
    "rows as tuples": ([(1, 1.0)], ("list", "dict", "Arrow")),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_change_nothing(case: str) -> None:
    batch, patterns = BAD[case]
    m = monitor()
    with refused(tw.DataError, *patterns):
        m.push(batch)
    assert m.stats()["rows"] == 0
    m.push({"id": "text after a number", "x": 1.0})


def test_without_ids_the_error_names_the_way_out() -> None:
    with refused(tw.DataError, "'id'", "missing", "id=None", "ordinals"):
        monitor().push({"x": [1.0]})
    m = monitor(id=None)
    m.push([{"x": 1.0}, {"x": 2.0}])
    assert m.answer() == [(2, 2.0), (1, 1.0)]
    with refused(tw.DataError, "'g'", "by column"):
        monitor(by="g").push({"id": 1, "x": 1.0})
