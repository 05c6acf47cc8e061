"""What a user says of incomplete objects, and rows that cannot be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw

TWO = ["EWR", "JFK"]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"k": 0}, "IncompleteTopK: k: expected a whole number of at least 1, got 0"),
    ({"sources": "EWR"}, r"sources: expected a list of names such as \['EWR', 'JFK'\], got 'EWR'"),
    ({"sources": []}, "sources: expected a list of names"),
    ({"sources": ["EWR", 1]}, "sources: expected non-empty strings, or whole numbers"),
    ({"sources": ["EWR", "EWR"]}, "sources: expected each source once"),
    ({"combine": "median"}, "combine: expected 'sum', 'max', 'mean', got 'median'"),
    ({"occurrences": "many"}, "occurrences: expected 'single', 'sum', 'max', got 'many'"),
    ({"weights": {"LGA": 1.0}}, "weights: 'LGA' is no source; sources are 'EWR', 'JFK'"),
    ({"weights": {"EWR": 0.0}}, r"weights\['EWR'\]: expected a number above 0, got 0"),
    ({"weights": 2.0}, "weights: expected a mapping of source to number, got 2.0"),
    ({"bounds": (1.0, 1.0)}, r"bounds: expected \(low, high\) with low < high, got \(1, 1\)"),
    ({"bounds": {"EWR": (0, 1)}}, r"bounds: none for 'JFK'; every source needs \(low, high\)"),
    ({"bounds": {"EWR": (0, 1), "JFK": 3}}, r"bounds\['JFK'\]: expected a pair \(low, high\), got 3"),
    ({"source": ""}, "source: expected the name of a column, got ''"),
    ({"value": "source"}, "value: 'source' is the source column"),
    ({"where": {"value": (1, 0)}}, "low 1 is above high 0"),
]


@pytest.mark.parametrize(("said", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_queries_that_make_no_sense(said: dict[str, Any], message: str) -> None:
    with pytest.raises(tw.QueryError, match=message):
        tw.IncompleteTopK(**{"k": 1, "sources": TWO, **said})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": None}, "id: IncompleteTopK needs id="),
        ({"emit": "first"}, "emit: 'first' is of rows, and IncompleteTopK of objects"),
        ({"algorithm": "tally", "cells": 3}, "option: 'tally' has no option 'cells'; accepted are slack"),
        ({"algorithm": "sla", "kmax": 1}, "kmax: expected at least k of every query, got 1 for a k of 2"),
    ],
)
def test_monitors_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tw.QueryError, match=message):
        tw.Monitor(tw.IncompleteTopK(k=2, sources=TWO), window=tw.last(3), **options)


def test_rows_that_are_refused_are_counted_and_the_stream_goes_on() -> None:
    query = tw.IncompleteTopK(k=2, sources=TWO, bounds=(0, 10), name="q")
    monitor = tw.Monitor(query, window=tw.last(6))
    monitor.push(
        {
            "id": ["a", "a", "a", "b", "b", "c"],
            "source": ["EWR", "EWR", "LGA", "JFK", "EWR", None],
            "value": [5.0, 9.0, 1.0, 11.0, 4.0, 1.0],
        }
    )
    assert monitor.answer() == [("a", 0.5), ("b", 0.4)]
    stats = monitor.stats()
    assert (stats["duplicates"], stats["unknown_source"], stats["out_of_bounds"], stats["skipped"]) == (1, 1, 1, 1)
    assert stats["rows"] == 6
    again = tw.Monitor.restore(monitor.snapshot())
    assert [again.stats()[name] for name in ("duplicates", "unknown_source", "out_of_bounds")] == [1, 1, 1]
    changes = again.push({"id": ["a"], "source": ["EWR"], "value": [1.0]})
    assert [(c.op, c.id) for c in changes] == []
    assert again.answer() == [("b", 0.4), ("a", 0.1)]  # row 1 has gone as row 7 came; row 2 stays refused


@pytest.mark.parametrize("source", [np.array([1, 2]), [True, False], np.array([1.0, 2.0])])
def test_a_source_column_of_another_type_is_refused(source: Any) -> None:
    monitor = tw.Monitor(tw.IncompleteTopK(k=1, sources=TWO, source="at"), window=tw.last(3))
    with pytest.raises(tw.DataError, match=r"source column 'at' is .*; the query names its sources by strings"):
        monitor.push({"id": [1, 2], "at": source, "value": [1.0, 2.0]})
    with pytest.raises(tw.DataError, match=r"column 'at' \(needed by query 'incompletetopk-1'\) is missing"):
        monitor.push({"id": [1, 2], "value": [1.0, 2.0]})
    assert monitor.stats()["rows"] == 0


def test_why() -> None:
    monitor = tw.Monitor(tw.IncompleteTopK(k=1, sources=TWO), window=tw.last(3))
    monitor.push({"id": ["a", "b", "b"], "source": ["EWR", "EWR", "JFK"], "value": [1.0, 2.0, 3.0]})
    assert monitor.why("b").reason == "'b' scores 5 and is number 1 of 1."
    assert monitor.why("a").reason == "'a' is not in the answer: 5 is needed to be among the best 1."
    assert not monitor.why("c").live
