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
    ({"combine": "median"}, r"combine: expected 'sum', 'max', 'mean' or expr\(...\), got 'median'"),
    ({"combine": tw.linear(EWR=1.0)}, r"combine: expected expr\(...\), got linear\(EWR=1\); for a weighted sum say"),
    ({"combine": tw.expr("EWR + JKF", ["EWR", "JKF"])}, "combine: 'JKF' is no source; .*; did you mean 'JFK'?"),
    ({"combine": tw.expr("EWR - JFK", ["EWR"])}, r"must rise along every source: say increasing=\['JFK'\]"),
    ({"combine": tw.expr("EWR", ["EWR"]), "weights": {"EWR": 2}}, "weights: an expr has its own; leave them out"),
    ({"bounds": "guess"}, r"bounds: expected a pair \(low, high\) or 'learn', got 'guess'"),
    ({"most": 2}, "most: goes with occurrences='sum' or 'max'; with 'single' it is 1"),
    ({"most": 0, "occurrences": "sum"}, "most: expected a whole number of at least 1, got 0"),
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


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_queries_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tw.QueryError, match=message):
        tw.IncompleteTopK(**{"k": 1, "sources": TWO, **options})


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
    monitor = tw.Monitor(tw.IncompleteTopK(k=1, sources=TWO, bounds=(0, 4)), window=tw.last(4))
    monitor.push({"id": ["a", "b", "b", "d"], "source": ["EWR", "EWR", "JFK", "x"], "value": [1.0, 2.0, 3.0, 0.0]})
    best = "'b' scores 1.25 and is number 1 of 1; seen by EWR, JFK; it can get 1.25."
    assert monitor.why("b").reason == best
    low = "'a' scores 0.25: 1.25 is needed to be among the best 1; seen by EWR and not by JFK; it can get 1.25."
    assert monitor.why("a").reason == low
    assert monitor.why("d").reason == "'d' is not ranked: none of its live rows counts."
    assert not monitor.why("c").live


@pytest.mark.parametrize(
    ("options", "best"),
    [
        ({"bounds": (0, 4)}, [1.25, 1.5]),
        ({}, [5.0, np.inf]),
        ({"bounds": (0, 4), "occurrences": "max"}, [2.0, 2.0]),
        ({"bounds": (0, 4), "occurrences": "sum", "most": 3}, [5.25, 5.5]),
        ({"bounds": (0, 4), "occurrences": "sum"}, [np.inf, np.inf]),
        ({"bounds": (0, 4), "combine": tw.expr("EWR * (1 + JFK)", ["EWR", "JFK"])}, [0.875, 1.0]),
    ],
)
def test_entries_say_what_is_known_of_an_object(options: dict[str, Any], best: list[float]) -> None:
    monitor = tw.Monitor(tw.IncompleteTopK(k=2, sources=TWO, **options), window=tw.last(4), every=3)
    monitor.push({"id": ["a", "b", "b"], "source": ["EWR", "EWR", "JFK"], "value": [2.0, 2.0, 3.0]})
    monitor.push({"id": ["a"], "source": ["JFK"], "value": [4.0]})  # not evaluated yet
    for each in (monitor, tw.Monitor.restore(monitor.snapshot())):
        first, second = each.answer()
        assert (first.id, first.sources, first.current) == ("b", ("EWR", "JFK"), first.score)
        assert (second.id, second.sources) == ("a", ("EWR",))
        assert [first.best, second.best] == best
        assert each.answer() == [("b", first.score), ("a", second.score)]
        query = each.queries[0]
        scale = 4 if options else 1
        values = {"EWR": [2 / scale], "JFK": [3 / scale]}
        assert query.evaluate(values) == (first.score, first.best)


@pytest.mark.parametrize("bounds", [None, (0, 9)], ids=["free", "bounded"])
def test_a_ready_made_source_that_there_is_not(bounds: Any) -> None:
    query = tw.IncompleteTopK(k=2, sources=["a", "b"], bounds=bounds, name="q")
    monitor = tw.Monitor(query, window=tw.last(5))
    monitor.push({"id": [1, 2, 3], query.coded: [0.0, 7.0, 1e300], "value": [1.0, 2.0, 3.0]})
    assert [entry.id for entry in monitor.answer()] == [1]
    assert monitor.stats()["unknown_source"] == 2
