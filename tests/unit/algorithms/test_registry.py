"""Algorithms from outside the package: registered, served, explained, saved and checked like ours."""

from __future__ import annotations

import os
import subprocess
import sys
from bisect import bisect_left, insort
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import topwatch as tw
from topwatch.algorithms import registry
from topwatch.algorithms.plain_query import Entry, PlainQuery
from topwatch.algorithms.topk.grouped_engine import GroupedEngine
from topwatch.monitor.load_shedding import levels
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
    registry._installed.cache_clear()
    registry._look_again()


def test_planned_explained_and_restored() -> None:
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
    ("algorithm", "message"),
    [
        (entry(name="sma"), "not taken"),
        (entry(name="auto"), "not taken"),
        (entry(name="two words"), "not taken"),
        (entry(name="filter"), "not taken"),
        (entry(name="hasty", rough=1), "rough: only algorithms of the family 'dominating'"),
        (tw.Algorithm("mine", SortedRows.engine, family="cooking"), "family: accepted are topk"),
        ("sorted_rows", "expected an Algorithm"),
    ],
)
def test_entries_that_make_no_sense(algorithm: Any, message: str) -> None:
    with pytest.raises(tw.QueryError, match=message):
        tw.register_algorithm(algorithm)


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("installed", "nowhere:INSTALLED", registry.ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: entry(name="installed"))
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    clear()
    assert "hot: installed" in tw.Monitor(HOT, window=tw.last(3), algorithm="installed").explain()


@pytest.mark.parametrize(
    ("module", "reason"), [("os:sep", "must load to an Algorithm"), ("nowhere:X", "No module named")]
)
def test_a_broken_entry_point_breaks_nothing_but_its_own_name(
    module: str, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    point = EntryPoint("installed", module, registry.ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    clear()
    assert "hot: reserve" in tw.Monitor(HOT, window=tw.last(3)).explain()
    assert reason in caplog.text
    with pytest.raises(tw.QueryError, match=f"the entry point 'installed' of '{module}': .*{reason}"):
        tw.Monitor(HOT, window=tw.last(3), algorithm="installed")


def test_an_entry_point_may_import_the_package(tmp_path: Path) -> None:
    """Also where it is the first to ask for a monitor."""
    (tmp_path / "mine.py").write_text(
        "from topwatch import Algorithm, Monitor\n"
        "from topwatch.algorithms.plain_query import PlainQuery\n"
        "ALGORITHM = Algorithm('mine', PlainQuery.engine, family='topk')\n"
    )
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[topwatch.algorithms]\nmine = mine:ALGORITHM\n")
    program = "import topwatch as tw; print(tw.Monitor([], tw.last(3), algorithm='mine').settings.algorithm)"
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (run.stdout, run.stderr) == ("mine\n", "")


def test_one_that_takes_over_under_load() -> None:
    tw.register_algorithm(tw.Algorithm("hasty", SortedRows.engine, family="dominating", exact=False, rough=3))
    assert levels() == ("", "ahba", "amsa", "hasty")


def test_nothing_compared_is_no_success() -> None:
    tw.register_algorithm(entry(refuses=lambda query: "it is shy"))
    with pytest.raises(tw.PlanError, match="nothing was compared"):
        check_algorithm("sorted_rows", rows=40, window=10)


def test_a_plan_names_what_takes_a_threshold() -> None:
    over = tw.Threshold(score=tw.linear(x=1.0), above=2.5, name="over")
    for algorithm in ("auto", "tma", "scan"):
        m = tw.Monitor([HOT, over], window=tw.last(3), algorithm=algorithm)
        assert m.plan.queries[1].algorithm == "thresholds"
        assert "over: thresholds – a threshold never moves" in m.explain()
    assert tw.Monitor(over, window=tw.last(3), algorithm="brute").plan.queries[0].algorithm == "brute"
    with pytest.raises(tw.QueryError, match="unknown name 'thresholds'"):
        tw.Monitor(over, window=tw.last(3), algorithm="thresholds")


def test_groups_have_the_engine_of_the_algorithm_that_is_named() -> None:
    """Each group by an engine of its own where the algorithm has none for many groups."""
    made = []

    def in_groups(request: registry.GroupedRequest) -> GroupedEngine:
        made.append(request)
        return GroupedEngine(*request)

    batch = {"g": list("uvuvu"), **BATCH}
    for number, grouped in enumerate((None, in_groups)):
        tw.register_algorithm(entry(grouped=grouped))
        m: Any = tw.Monitor(HOT, window=tw.last(3), algorithm="sorted_rows", by="g")
        m.push(batch)
        assert m.plan.grouping == ("grouped engine" if grouped else "a monitor for each group")
        assert [entry.id for entry in m.answer(by="u")] == ["c", "a"]
        assert len(made) == number


def test_approximate_algorithms_are_not_compared() -> None:
    with pytest.raises(tw.PlanError, match="approximate"):
        check_algorithm("pa")
    with pytest.raises(tw.PlanError, match="unknown name"):
        check_algorithm("nobody")
