"""Algorithms from outside the package: registered, served, explained, saved and checked like ours."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

import topwatch as tw
from topwatch.algorithms import registry
from topwatch.algorithms.plain_query import Entry, PlainQuery
from topwatch.testing import check_algorithm

HOT = tw.TopK(k=2, score=tw.linear(x=1.0), name="hot")
BATCH = {"id": list("abcde"), "x": [1.0, 3.0, 2.0, 5.0, 0.0]}


class SortedRows(PlainQuery):
    """All rows in a sorted list."""

    def begin_with(self, entries: list[Entry]) -> None:
        self.rows = sorted(entries)

    def arrive(self, entry: Entry) -> None:
        insort(self.rows, entry)

    def expire(self, entry: Entry) -> None:
        del self.rows[bisect_left(self.rows, entry)]

    def best(self) -> list[Entry]:
        return self.rows[: self.query.k]


class Forgetful(SortedRows):
    """Does not let expired rows go."""

    def expire(self, entry: Entry) -> None:
        pass


class TiesOldestFirst(SortedRows):
    """Of equal rows takes the older one."""

    def best(self) -> list[Entry]:
        return sorted(self.rows, key=lambda entry: (entry[0], -entry[1]))[: self.query.k]


def entry(kind: type[PlainQuery] = SortedRows, name: str = "sorted_rows", **more: Any) -> tw.Algorithm:
    return tw.Algorithm(name, kind.engine, family="topk", **more)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {})
    clear()
    yield
    monkeypatch.undo()
    clear()


def clear() -> None:
    for kept in (registry.algorithms, registry.preferred, registry.rougher, registry._installed):
        kept.cache_clear()


def test_served_explained_and_restored() -> None:
    tw.register_algorithm(entry())
    m = tw.Monitor(HOT, window=tw.last(3), algorithm="sorted_rows")
    m.push(BATCH)
    assert [e.id for e in m.answer()] == ["d", "c"]
    assert "hot: sorted_rows" in m.explain()
    again = tw.Monitor.restore(m.snapshot())
    more = {"id": ["f"], "x": [4.0]}
    assert list(again.push(more)) == list(m.push(more))


def test_the_suite_passes_a_right_one() -> None:
    tw.register_algorithm(entry())
    checked = check_algorithm("sorted_rows", rows=80, window=15)
    assert checked.streams == 24
    assert checked.changes > 500


@pytest.mark.parametrize("kind", [Forgetful, TiesOldestFirst])
def test_the_suite_fails_a_wrong_one(kind: type[PlainQuery]) -> None:
    tw.register_algorithm(entry(kind))
    with pytest.raises(AssertionError):
        check_algorithm("sorted_rows", rows=80, window=15)


def test_auto_takes_one_that_is_preferred() -> None:
    tw.register_algorithm(entry(preferred=9, reason="it is mine"))
    assert "hot: sorted_rows – it is mine" in tw.Monitor(HOT, window=tw.last(3)).explain()


def test_refused_as_ours_are() -> None:
    tw.register_algorithm(entry(latest=False))
    with pytest.raises(tw.PlanError, match=r"'sorted_rows' cannot serve query 'hot': it needs rows to expire"):
        tw.Monitor(HOT, window=tw.latest(), algorithm="sorted_rows")
    with pytest.raises(tw.QueryError, match="there are none"):
        tw.Monitor(HOT, window=tw.last(3), algorithm="sorted_rows", cells=3)


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (entry(name="sma"), "not taken"),
        (entry(name="auto"), "not taken"),
        (entry(name="two words"), "not taken"),
        (tw.Algorithm("mine", SortedRows.engine, family="cooking"), "family: accepted are topk"),
        ("sorted_rows", "expected an Algorithm"),
    ],
)
def test_entries_that_make_no_sense(algorithm: Any, said: str) -> None:
    with pytest.raises(tw.QueryError, match=said):
        tw.register_algorithm(algorithm)


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("installed", "nowhere:INSTALLED", registry.ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: entry(name="installed"))
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    clear()
    assert "hot: installed" in tw.Monitor(HOT, window=tw.last(3), algorithm="installed").explain()
    monkeypatch.setattr(EntryPoint, "load", lambda self: "nothing")
    clear()
    with pytest.raises(tw.QueryError, match="must load to an Algorithm"):
        tw.Monitor(HOT, window=tw.last(3))


def test_approximate_algorithms_are_not_compared() -> None:
    with pytest.raises(tw.PlanError, match="approximate"):
        check_algorithm("pa")
    with pytest.raises(tw.PlanError, match="unknown name"):
        check_algorithm("nobody")
