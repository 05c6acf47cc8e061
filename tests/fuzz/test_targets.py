"""A short part of ``make fuzz``: a few cases of each target, in this process, and the runner itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.cases import Case, Outcome, Target, made, tried
from tests.fuzz.runner import Run
from tests.fuzz.shrinking import minimal
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import Worker
from tests.support.sizes import COMPILED


@pytest.mark.parametrize("name", TARGETS)
def test_cases(name: str, request: pytest.FixtureRequest) -> None:
    target, seed = TARGETS[name], request.config.getoption("--seed")
    for number in range(target.short if COMPILED else max(3, target.short // 5)):
        outcome = tried(target, made(target, seed, number))
        again = f"python -m tests.fuzz --targets {name} --seed {seed} --number {number}"
        assert not outcome.kind, f"{again}\n{outcome.text}"


def test_a_case_is_the_same_each_time_and_survives_json() -> None:
    for target in TARGETS.values():
        for number in range(5):
            case = made(target, 7, number)
            assert repr(made(target, 7, number)) == repr(case)
            assert repr(json.loads(json.dumps(case))) == repr(case)


def test_what_fails_is_made_small() -> None:
    """Of two hundred steps two are at fault, and of a setting one value."""

    def run(case: Case) -> None:
        if 17 in case["steps"] and 150 in case["steps"]:
            raise KeyError("both")
        if 3 not in case["steps"]:
            raise ValueError("another failure")

    def simpler(case: Case) -> Iterator[Case]:
        if case["size"] > 1:
            yield {**case, "size": case["size"] // 2}

    target = Target("sought", lambda rng: {}, run, simpler)
    case = {"steps": list(range(200)), "size": 64}
    outcome = tried(target, case)
    assert outcome.kind == "KeyError"
    small, again = minimal(target, case, outcome, lambda case: tried(target, case))
    assert small == {"steps": [17, 150], "size": 1}
    assert again.kind == "KeyError"


def test_a_crash_is_a_failure_and_the_next_case_runs() -> None:
    worker = Worker()
    try:
        outcome = worker.run("crash", {"steps": []})
        assert outcome.kind == f"crash {-signal.SIGSEGV}"
        assert "Segmentation fault" in outcome.text
        assert worker.run("mqtt", (1, 0)) == Outcome(seconds=pytest.approx(0.0, abs=600.0))
    finally:
        worker.close()


def test_a_crash_between_two_cases_is_a_failure() -> None:
    worker = Worker()
    try:
        assert not worker.run("mqtt", (1, 0)).kind
        worker._process.kill()
        worker._process.join()
        outcome = worker.run("mqtt", (1, 1))
        assert outcome.kind == f"crash {-signal.SIGKILL}"
        assert "after mqtt (1, 0)" in outcome.text
        assert not worker.run("mqtt", (1, 1)).kind
    finally:
        worker.close()


def test_what_a_thread_of_the_runner_raises_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> Outcome:
        raise BrokenPipeError

    monkeypatch.setattr(Worker, "run", run)
    with pytest.raises(BrokenPipeError):
        Run([TARGETS["mqtt"]], 1, tmp_path).go(60.0, 2)


def test_rows_of_all_kinds_come_up() -> None:
    """The generator reaches every algorithm, window and verb of a monitor's life."""
    from topwatch.algorithms.registry import algorithms

    lives = [made(TARGETS[name], 1, number) for name in ("monitors", "approximate") for number in range(400)]
    assert {life["algorithm"] for life in lives} == {*algorithms(), "auto"}
    assert any("max_lag" in life["options"] for life in lives)
    grouped = [made(TARGETS["by"], 1, number) for number in range(400)]
    assert {life["by"] is None for life in grouped} == {life["lateness"] is None for life in grouped} == {True, False}
    assert {life["window"][0] for life in lives} == {"count", "time", "latest"}
    verbs = {step[0] for life in lives for step in life["steps"]}
    assert verbs == {"push", "add", "remove", "delete", "advance", "restart", "why", "stats"}
    kinds = {query["kind"] for life in lives for query in life["queries"]}
    assert kinds == {"topk", "nearest", "threshold", "dominating", "skyline", "frequent", "incomplete"}
    assert np.isnan([life["steps"][0][2]["a"][0] for life in lives if _begins_with_rows(life)]).any()


def _begins_with_rows(life: Case) -> bool:
    return bool(life["steps"]) and life["steps"][0][0] == "push" and bool(life["steps"][0][2]["a"])
