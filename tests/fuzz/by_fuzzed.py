"""Monitors with ``by``, with ``lateness`` or with both: for each group the oracle of that group, its rows in order."""

from __future__ import annotations

from typing import Any

import numpy as np

import topwatch as tw
from tests.fuzz import lives, random_queries
from tests.fuzz.cases import Case, Target
from tests.fuzz.monitors import EXACT, batch_kind_of, every_of, ids_of, rows_of, settings, simpler, time_of
from tests.fuzz.random_queries import pick
from topwatch.testing.lockstep import as_changes, as_every, as_query, as_window, expect_equal, plain
from topwatch.testing.oracle import Change, Oracle, Window, as_time

GROUPS: dict[str, Any] = {
    "text": np.array(["north", "south", "", "east"], object),
    "null": np.array([None, "north", "south", "north"], object),
    "int64": np.array([3, -1, 2**62, 0]),
    "bool": np.array([True, False, True, False]),
}


def make(rng: np.random.Generator) -> Case:
    case = lives.life(rng, [*EXACT, "auto", "auto", "auto", "auto"])
    case["by"] = pick(rng, list(GROUPS)) if rng.random() < 0.8 else None
    late = case["time"] is not None and case["window"][0] != "latest"
    case["lateness"] = pick(rng, [1, 4, 30]) if late and (case["by"] is None or rng.random() < 0.4) else None
    case["groups"] = [int(group) for group in rng.integers(0, 4, 400)]
    for step in case["steps"]:
        if step[0] == "push" and case["lateness"] is not None:
            behind = rng.choice([0.0, 0.0, 0.5, 2.0, 9.0], len(step[2]["time"]))
            step[2]["time"] = (np.array(step[2]["time"]) - behind).tolist()
    return case


def run(case: Case) -> None:
    try:
        both = Groups(case)
    except tw.TopwatchError:
        return
    for step in case["steps"]:
        both.take(*step)


class Groups:
    """The monitor and an oracle for each group; with lateness, the rows that wait, one by one."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.queries = {query["name"]: random_queries.load(query) for query in case["queries"]}
        self.window, self.every = Window(*case["window"]), every_of(case)
        given = {"lateness": f"{case['lateness']} seconds"} if case["lateness"] is not None else {}
        self.monitor = tw.Monitor(
            [as_query(query) for query in self.queries.values()],
            window=as_window(self.window),
            every=as_every(self.every),
            algorithm=case["algorithm"],
            by="group" if case["by"] else None,
            **settings(case),
            **given,
        )
        self.oracles: dict[Any, Oracle] = {} if case["by"] else {None: self.oracle()}
        self.waiting: list[dict[str, Any]] = []
        self.latest: float | None = None
        self.passed = -np.inf
        self.late = self.rows = 0

    def oracle(self) -> Oracle:
        emit = self.case["options"].get("emit", "changes")
        return Oracle(self.queries.values(), self.window, self.every, time=self.case["time"], emit=emit)

    def take(self, verb: str, *what: Any) -> None:
        """Do one step to all; a step that makes no sense, since others were left out, is passed over."""
        expected: dict[Any, list[Change]] = {}
        changes: Any = []
        if verb == "push":
            rows = self.with_groups(what[1])
            changes = self.monitor.push(batch_kind_of(what[0])(rows))
            expected = self.push(rows)
        elif verb == "add" and what[0]["name"] not in self.queries:
            query = random_queries.load(what[0])
            if query.parts is not None and self.case["lateness"] is not None:
                return  # what sources said of rows that wait is kept for the queries that were there
            try:
                changes = self.monitor.add(as_query(query))
            except tw.TopwatchError:
                return
            self.queries[query.name] = query
            expected = {group: oracle.add(query) for group, oracle in self.oracles.items()}
        elif (
            verb == "remove" and what[0] in self.queries and self.case["lateness"] is None
        ):  # rows that wait keep values
            self.monitor.remove(what[0])
            del self.queries[what[0]]
            for oracle in self.oracles.values():
                oracle.remove(what[0])
        elif verb == "delete" and self.oracles:
            group = list(self.oracles)[what[0][0] % len(self.oracles)]
            ids = ids_of(self.case, what[0])
            changes = self.monitor.delete(ids, **self.of(group))
            expected = {group: self.oracles[group].delete(ids)}
        elif verb == "advance":
            changes = self.monitor.advance(time_of(self.case, what[0]))
            expected = self.advance(time_of(self.case, what[0]))
        elif verb == "restart":
            self.monitor = tw.Monitor.restore(self.monitor.snapshot())
        elif verb == "why" and what[1] in self.queries:
            for group, oracle in self.oracles.items():
                id = plain(ids_of(self.case, [what[0]])[0])
                there = id in [plain(other) for other, _ in oracle.answer(what[1])]
                why = self.monitor.why(id, what[1], **self.of(group))
                assert there or not why.answer, f"{why} but it is not in the answer"
        self.compare(changes, expected, verb)

    def of(self, group: Any) -> dict[str, Any]:
        return {"by": group} if self.case["by"] else {}

    def with_groups(self, rows: dict[str, Any]) -> dict[str, Any]:
        result = rows_of(self.case, rows)
        if self.case["by"]:
            groups = np.resize(np.array(self.case["groups"]), self.rows + len(rows["id"]))[self.rows :]
            result["group"] = GROUPS[self.case["by"]][groups]
        self.rows += len(rows["id"])
        return result

    def push(self, rows: dict[str, Any]) -> dict[Any, list[Change]]:
        """Return the changes of each group; rows that are late are counted, others wait."""
        count = len(rows["id"])
        named = rows["group"].tolist() if self.case["by"] else [None] * count
        for group in named:
            if group not in self.oracles:
                self.oracles[group] = self.oracle()
        if self.case["lateness"] is None:
            return self.handed(rows, np.arange(count), named)
        span = self.case["lateness"] * (10**9 if self.case["stamps"] else 1)
        self.forget(rows)
        for row, time in enumerate(as_time(rows["time"]).tolist() if count else []):
            bound = max(self.passed, (time if self.latest is None else self.latest) - span)
            self.latest = time if self.latest is None else max(self.latest, time)
            if time < bound:
                self.late += 1
            else:
                self.waiting.append(
                    {"at": time, "group": named[row], "rows": {k: v[row : row + 1] for k, v in rows.items()}}
                )
        return self.released(self.latest - span) if self.latest is not None and count else {}

    def forget(self, rows: dict[str, Any]) -> None:
        """Take the values of rows that may wait from the columns that no query needs when they come."""
        needed = {name for query in self.queries.values() for name in Oracle._needs(query)}
        for name in random_queries.COLUMNS:
            if name not in needed:
                rows[name] = np.full(len(rows["id"]), np.nan)

    def released(self, until: float) -> dict[Any, list[Change]]:
        self.passed = max(self.passed, until)
        going = sorted((one for one in self.waiting if one["at"] <= until), key=lambda one: one["at"])
        self.waiting = [one for one in self.waiting if one["at"] > until]
        if not going:
            return {}
        names = set.intersection(*(set(one["rows"]) for one in going))
        rows = {name: np.concatenate([one["rows"][name] for one in going]) for name in sorted(names)}
        return self.handed(rows, np.arange(len(going)), [one["group"] for one in going])

    def handed(self, rows: dict[str, Any], order: np.ndarray, groups: list[Any]) -> dict[Any, list[Change]]:
        """Push the rows of each group to its oracle."""
        result = {}
        for group in dict.fromkeys(groups):
            mine = order[[other == group for other in groups]]
            part = {
                name: [values[row] for row in mine] if name in ("id", "source") else values[mine]
                for name, values in rows.items()
            }
            result[group] = self.oracles[group].push(part)
        return result

    def advance(self, time: Any) -> dict[Any, list[Change]]:
        first: dict[Any, list[Change]] = {}
        if self.case["lateness"] is not None:
            now = as_time(time).item()
            self.latest = now if self.latest is None else max(self.latest, now)
            first = self.released(now)
        return {group: first.get(group, []) + oracle.advance(time) for group, oracle in self.oracles.items()}

    def compare(self, changes: Any, expected: dict[Any, list[Change]], what: str) -> None:
        """Compare the changes of each group, all answers, and what was counted."""
        got: dict[Any, list[Any]] = {}
        for change in changes:
            got.setdefault(change.by if self.case["by"] else None, []).append(change)
        for group in {**expected, **got}:
            wanted = [change._replace(id=plain(change.id)) for change in expected.get(group, [])]
            expect_equal(as_changes(got.get(group, [])), wanted, f"{what}: changes of {group!r}")
        for group, oracle in self.oracles.items():
            for name in self.queries:
                answer = [(plain(one.id), float(one.score)) for one in self.monitor.answer(name, **self.of(group))]
                wanted = [(plain(id), score) for id, score in oracle.answer(name)]
                expect_equal(answer, wanted, f"{what}: answer of {group!r} to {name}")
        stats = self.monitor.stats()
        assert stats["late"] == self.late
        assert stats["waiting"] == len(self.waiting)
        assert stats["skipped"] == sum(oracle.skipped for oracle in self.oracles.values()), f"{what}: rows skipped"
        self.monitor._check()


TARGET = Target("by", make, run, simpler, share=2.0, short=25)
