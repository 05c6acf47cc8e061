"""Load switching: a monitor that falls behind answers approximately, says so, and comes back.

Time is made up: each reading of the clock moves it on by what a push is to take, so that nothing here depends on the
machine. Rows come a hundredth of a second of event time apart when there is much to do, a tenth when there is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import topwatch as tw
from tests.support.sizes import COMPILED
from topwatch.monitor.load_shedding import Load, levels
from topwatch.testing.lockstep import as_changes
from topwatch.testing.oracle import Oracle, Query, Window
from topwatch.testing.oracle_dominance import carrier

SIZE = 120 if COMPILED else 40
BATCH = 20
QUIET = 0.1  # seconds between rows
PREFER = (("x", "min"), ("y", "max"))


class Clock:
    """Seconds that pass with every reading."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pace = 0.0

    def __call__(self) -> float:
        self.now += self.pace
        return self.now


class Stream:
    """A monitor with a made-up clock beside the oracle; the reported answer is replayed from the changes."""

    def __init__(self, rng: np.random.Generator, kind: str = "count", every: int = 1, **options: Any) -> None:
        self.rng, self.clock = rng, Clock()
        window = tw.last(SIZE) if kind == "count" else tw.last(f"{SIZE * 10} ms")
        size = SIZE if kind == "count" else SIZE / 100
        self.monitor = tw.Monitor(
            tw.Dominating(k=5, prefer=dict(PREFER), name="q"), window, every, time="t", max_lag="1 second", **options
        )
        assert self.monitor._serving.shedder is not None
        self.monitor._serving.shedder.clock = self.clock
        query = Query("q", "dominating", carrier(PREFER), k=5, prefer=PREFER)
        self.oracle = Oracle([query], Window(kind, size), every, time="t")
        self.rows, self.time = 0, 0.0
        self.replayed: set[int] = set()
        self.notes: set[str] = set()

    def push(self, seconds: float, apart: float = 0.01) -> tw.Changes:
        """Push a batch that is to take so long; its rows come within 0.2 seconds, or ``apart`` seconds apart."""
        self.clock.pace = seconds
        times = self.time + apart * np.arange(1, BATCH + 1)
        batch = {"id": np.arange(self.rows, self.rows + BATCH), "t": times}
        batch |= {name: self.rng.random(BATCH) for name, _ in PREFER}
        self.rows, self.time = self.rows + BATCH, float(times[-1])
        changes = self.monitor.push(batch)
        self.oracle.push(batch)
        for change in changes:
            (self.replayed.add if change.op == "enter" else self.replayed.remove)(change.id)
            self.notes.add(change.note)
        assert {entry.id for entry in self.monitor.answer()} == self.replayed
        self.monitor._check()
        return changes

    def until(self, level: int, seconds: float, apart: float = 0.01) -> None:
        for _ in range(40):
            self.push(seconds, apart)
            if self.monitor.stats()["level"] == level:
                return
        raise AssertionError(f"level {level} was not reached: {self.monitor.stats()}")

    def until_noted(self, note: str) -> None:
        """Push at the pace of the rows, so that the level stays, until a change has the note."""
        while note not in self.notes:
            self.push(0.2)

    def expect_exact(self) -> None:
        answer = self.monitor.answer()
        assert [(entry.id, entry.score) for entry in answer] == self.oracle.answer("q")
        assert answer.exact
        assert answer.note == ""


@pytest.mark.parametrize("kind", ["count", "time"])
@pytest.mark.parametrize("algorithm", ["auto", "ada", "bfa"])
def test_there_and_back(algorithm: str, kind: str, rng: np.random.Generator) -> None:
    s = Stream(rng, kind, algorithm=algorithm)
    exact = "floor" if algorithm == "auto" else algorithm
    for _ in range(4):
        s.push(0.1)
        s.expect_exact()
    assert s.notes == {""}
    s.until(1, 0.5)
    assert s.monitor.answer().note == "approximate: ahba"
    assert not s.monitor.answer().exact
    assert f"q: ahba – it is behind, by more than max_lag; {exact} serves it again" in s.monitor.explain()
    s.until_noted("approximate: ahba")
    s.until(2, 0.4)
    assert s.monitor.answer().note == "approximate: amsa"
    s.until_noted("approximate: amsa")
    assert s.monitor.stats()["switches"] == 2
    assert s.monitor.stats()["lag_ms"] > 1000
    s.until(0, 0.01, QUIET)
    s.expect_exact()
    for _ in range(12):
        s.push(0.01, QUIET)
        s.expect_exact()
    assert s.notes == {"", "approximate: ahba", "approximate: amsa"}
    assert f"q: {exact} – " in s.monitor.explain()


def test_changes_at_a_switch_are_the_difference_to_what_was_reported(rng: np.random.Generator) -> None:
    """Evaluated seldom: the level changes between two evaluations, and the answer keeps the note of the last one."""
    s = Stream(rng, every=3 * BATCH)
    s.until(1, 0.5)
    s.until(2, 0.4)
    while s.monitor.answer().note != "approximate: amsa":
        s.push(0.4)
    s.until(0, 0.01, QUIET)
    while not s.monitor.answer().exact:
        s.push(0.01, QUIET)
    s.expect_exact()


def test_a_snapshot_keeps_the_level(rng: np.random.Generator) -> None:
    s = Stream(rng)
    s.until(1, 0.5)
    before = s.monitor.stats()
    s.monitor = tw.Monitor.restore(s.monitor.snapshot())
    assert s.monitor._serving.shedder is not None
    s.monitor._serving.shedder.clock = s.clock
    kept = ("level", "switches", "lag_ms")
    assert [s.monitor.stats()[name] for name in kept] == [before[name] for name in kept]
    assert s.monitor.answer().note == "approximate: ahba"
    s.until(2, 0.4)
    s.until(0, 0.01, QUIET)
    s.expect_exact()


def test_notes_are_columns_only_where_there_can_be_some(rng: np.random.Generator) -> None:
    s = Stream(rng)
    assert s.push(0.5).to_arrow().column_names == ["at", "query", "op", "id", "score", "note"]
    s.until(1, 0.5)
    table = s.push(0.1).to_arrow()
    assert set(table.column("note").to_pylist()) <= {"approximate: ahba"}
    assert s.monitor.push({"id": [], "t": [], "x": [], "y": []}).to_arrow().column_names[-1] == "note"
    plain = tw.Monitor(tw.Dominating(k=1, prefer={"x": "min"}), tw.last(5))
    changes = plain.push({"id": [1, 2], "x": [1.0, 0.0]})
    assert changes.to_pandas().columns.tolist() == ["at", "query", "op", "id", "score"]
    assert [change.note for change in changes] == ["", "", ""]
    assert "level" not in plain.stats()


def test_a_noted_change_is_a_change(rng: np.random.Generator) -> None:
    s = Stream(rng)
    s.until(1, 0.5)
    changes: list[tw.Change] = []
    while not changes:
        changes = list(s.push(0.1))
    at, query, op, row, score = changes[0]
    assert changes[0] == (at, query, op, row, score)
    assert as_changes(changes)[0].id == row
    assert repr(changes[0]).endswith("note='approximate: ahba')")


def test_what_is_only_requested_approximately_says_so() -> None:
    query = tw.Dominating(k=1, prefer={"x": "min"})
    m = tw.Monitor(query, tw.last(5), algorithm="amsa")
    m.push({"id": [1, 2], "x": [1.0, 0.0]})
    assert m.answer().note == "approximate: amsa"


def used(load: Load, seconds: dict[int, float], pushes: int) -> list[int]:
    """Return the level of each push, of 100 rows within a second, that takes so long at each level."""
    levels = []
    for _ in range(pushes):
        if load.wanted != load.level:
            load.level, load.fresh = load.wanted, True
        levels.append(load.level)
        load.record(seconds[load.level], 100, (load.now or 0.0) + 1.0)
    return levels


def test_a_stream_that_is_kept_up_with_stays_exact() -> None:
    assert set(used(Load(5.0), {0: 0.9}, 200)) == {0}


def test_only_as_rough_as_it_must_be() -> None:
    load = Load(5.0)
    levels = used(load, {0: 1.5, 1: 0.5, 2: 0.1}, 60)
    assert levels[0] == 0
    assert set(levels[-30:]) == {1}
    assert load.lag <= 1.0


def test_no_level_is_kept_that_is_no_faster() -> None:
    """Where the exact algorithm is the fastest, roughness does not help: each level is tried, and left."""
    levels = used(Load(5.0), {0: 1.5, 1: 3.0, 2: 2.0}, 100)
    assert set(levels) == {0, 1, 2}
    assert levels.count(0) > 80


def test_the_first_push_at_a_level_does_not_count_against_it() -> None:
    load = Load(5.0)
    load.record(60.0, 100, 0.0)
    load.record(0.1, 100, 1.0)
    assert load.lag > 5.0
    assert load.wanted == 0


def test_times_that_stand_still() -> None:
    """A burst at one moment is lag as well."""
    load = Load(1.0)
    for _ in range(20):
        load.record(0.2, 100, 7.0)
    assert load.wanted == 1


REFUSED: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (tw.TopK(k=1, score=tw.linear(x=1.0), name="q"), {}, tw.PlanError, "query 'q' has no approximate algorithm"),
    (tw.Dominating(k=1, prefer={"x": "min"}, name="q"), {"window": tw.latest()}, tw.PlanError, "latest"),
    (tw.Dominating(k=1, prefer={f"x{i}": "min" for i in range(17)}), {}, tw.PlanError, "at most 16 columns"),
    (tw.Dominating(k=1, prefer={"x": "min"}), {"algorithm": "ahba"}, tw.PlanError, "'ahba' is approximate already"),
    (tw.Dominating(k=1, prefer={"x": "min"}), {"time": None}, tw.QueryError, "max_lag: .* give time="),
    (tw.Dominating(k=1, prefer={"x": "min"}), {"max_lag": "5 parsecs"}, tw.QueryError, "max_lag: unknown unit"),
    (tw.Dominating(k=1, prefer={"x": "min"}), {"max_lag": 5}, tw.QueryError, "max_lag: expected a time"),
    (tw.Dominating(k=1, prefer={"x": "min"}), {"max_lag": "0 s"}, tw.QueryError, "max_lag: expected a time longer"),
]


@pytest.mark.parametrize(("query", "options", "error", "message"), REFUSED, ids=[case[3] for case in REFUSED])
def test_refused(query: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tw.Monitor(query, **{"window": tw.last(5), "time": "t", "max_lag": "1 s", **options})


def test_a_query_that_is_added_must_have_levels_too(rng: np.random.Generator) -> None:
    s = Stream(rng)
    with pytest.raises(tw.PlanError, match="max_lag: query 'top' has no approximate algorithm"):
        s.monitor.add(tw.TopK(k=1, score=tw.linear(x=1.0), name="top"))
    s.until(1, 0.5)
    changes = list(s.monitor.add(tw.Dominating(k=2, prefer={"x": "min"}, name="more")))
    assert [change.note for change in changes] == ["approximate: ahba"] * 2
    assert s.monitor.answer("more").note == "approximate: ahba"


def test_options_of_the_levels_are_accepted() -> None:
    query = tw.Dominating(k=1, prefer={"x": "min"})
    tw.Monitor(query, tw.last(5), time="t", max_lag="1 s", epsilon=0.2, slack=3)
    with pytest.raises(tw.QueryError, match="'auto' has no option 'epsilon'"):
        tw.Monitor(query, tw.last(5), time="t", epsilon=0.2)


def test_the_levels_are_those_of_the_paper() -> None:
    assert levels() == ("", "ahba", "amsa")
