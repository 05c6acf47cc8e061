"""What is done to runs on several hosts; each must come out as a ``Monitor`` answers, or with a clear error."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.support import sink_files
from tests.support.crashes.cases import CASES
from tests.support.crashes.cases import Stream as Pipeline
from tests.support.hosts.bench import (
    AFTER,
    BEFORE,
    EQUAL,
    ERROR,
    GOOD,
    HANG,
    NOT_TRIED,
    PATIENCE,
    REFUSED,
    SIDES,
    WRONG,
    Bench,
    Driver,
    Outcome,
    Run,
    environment,
)
from tests.support.hosts.namespaces import Host, kill, wait_for
from tests.support.hosts.streams import FILES, STREAMS

Trial = Callable[[Bench, str], list[Outcome]]
Harm = Callable[[Bench, Run, dict[str, Any]], None]

HARMED = ("ranking-by", "pruned", "incomplete-by")  # streams: many partitions, rows that travel, objects
MIDDLE = 1  # the micro-batch in which harm is done
PARTITIONS = "shuffle.partitions"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.task.duration.threshold": "1s",  # for stages with one task
}
SECOND_ATTEMPT = r'"Event":"SparkListenerTaskStart".*"Speculative":true'


def kinds(bench: Bench, backend: str, streams: Sequence[str] = tuple(STREAMS)) -> list[Outcome]:
    """All kinds of query, undisturbed."""
    runs = [bench.run(stream, backend) for stream in streams]
    finish(bench, runs)
    return [run.outcome(bench.seed) for run in runs]


class Trouble(NamedTuple):
    """What is done to a run while one of its tasks is held.

    Attributes
    ----------
    side : str
        Where the task is held.
    harm : function
        What is done then.
    evidence : str
        Pattern of Spark's event log: without it the harm did not do what it should.
    hold : dict
        More about the task that is held.
    """

    side: str
    harm: Harm
    evidence: str
    hold: Mapping[str, Any] = MappingProxyType({})


def troubles(
    bench: Bench, backend: str, names: Sequence[str] | None = None, streams: Sequence[str] = HARMED
) -> list[Outcome]:
    """Every trouble in the middle of every stream, with one driver."""
    chosen = [(name, TROUBLES[name]) for name in names or TROUBLES]
    runs = []
    for name, trouble in chosen:
        held = {"side": trouble.side, "batch": MIDDLE, **trouble.hold}
        runs += [(name, trouble, bench.run(stream, backend, holds=[held])) for stream in streams]
    with bench.drive([run for _, _, run in runs]) as driver:
        outcomes = []
        for name, trouble, run in runs:
            try:
                trouble.harm(bench, run, driver.held(run))
                missed = None
            except AssertionError as error:
                missed = str(error)
            run.go()
            driver.finish(run)
            outcomes.append(counted(run.outcome(bench.seed), missed)._replace(stream=f"{run.stream}, {name}"))
        evidence = Counter(trouble.evidence for _, trouble, _ in runs)
        return proven(driver, outcomes, evidence)


def counted(outcome: Outcome, missed: str | None) -> Outcome:
    """Return an outcome; a good one does not count where the harm could not be done."""
    return (
        outcome if missed is None or outcome.result not in GOOD else Outcome(outcome.stream, NOT_TRIED, missed[:1000])
    )


def proven(driver: Driver, outcomes: list[Outcome], evidence: Mapping[str, int]) -> list[Outcome]:
    """Return outcomes if Spark's event log has so many lines of each pattern; good ones do not count where not."""
    if any(outcome.result not in GOOD for outcome in outcomes):
        return outcomes
    for pattern, count in evidence.items():
        if (seen := driver.seen(pattern)) < count:
            why = f"{seen} of {count} {pattern} in the event log"
            return [Outcome(outcome.stream, NOT_TRIED, why) for outcome in outcomes]
    return outcomes


def kill_executor(bench: Bench, run: Run, task: dict[str, Any]) -> None:
    """Kill the executor of a task; Spark starts another one on its host."""
    pids = bench.cluster.at(task["host"]).executors()
    assert pids
    kill(pids)


def kill_python(bench: Bench, run: Run, task: dict[str, Any]) -> None:
    """Kill all Python workers of a task's host."""
    pids = bench.cluster.at(task["host"]).python_workers()
    assert pids
    kill(pids)


def lose_shuffle_files(bench: Bench, run: Run, task: dict[str, Any]) -> None:
    """Delete the map output that other tasks of the stage have left, on all hosts."""
    others = [number for number in range(FILES) if number != task["partition"]]
    wait_for(lambda: all(run.tasks(**{**side_of(task), "partition": number}) for number in others), "the other tasks")
    time.sleep(1.5)  # they have been seen, and write their output now
    for host in bench.cluster.workers:
        for path in list(host.inside("/tmp").glob("spark-*/**/shuffle_*")):
            path.unlink()


def side_of(task: dict[str, Any]) -> dict[str, Any]:
    """Return what a task shares with the others of its stage."""
    return {name: task[name] for name in ("side", "batch")}


def lose_host(bench: Bench, run: Run, task: dict[str, Any]) -> None:
    """Switch off the host of a task, and start another one instead."""
    host = bench.cluster.at(task["host"])
    bench.cluster.workers.remove(host)
    host.stop()
    bench.cluster.grow(len(bench.cluster.workers) + 1)


def slow_tasks(bench: Bench, backend: str, streams: Sequence[str] = HARMED) -> list[Outcome]:
    """A task is slow, Spark runs a second attempt on another host, and the one or the other is done first."""
    runs = []
    for side in SIDES:
        held = {"side": side, "batch": MIDDLE}
        for winner in ("first", "second"):
            runs += [(winner, bench.run(stream, backend, holds=[held])) for stream in streams]
    with bench.drive([run for _, run in runs], SPECULATION) as driver:
        outcomes = []
        for winner, run in runs:
            try:
                task = driver.held(run)
                driver.wait(run, **side_of(task), partition=task["partition"], attempt=1)
                missed = None
            except AssertionError as error:
                missed = str(error)
            if winner == "first" or missed:
                run.go()
            driver.finish(run)
            name = f"{run.stream}, {run.holds[0]['side']}, {winner} wins"
            outcomes.append(counted(run.outcome(bench.seed), missed)._replace(stream=name))
        return proven(driver, outcomes, {SECOND_ATTEMPT: len(runs)})


def rescale(bench: Bench, backend: str) -> list[Outcome]:
    """Runs go on with one more worker, with as many partitions or with more."""
    wanted = (("ranking-by", 2), ("ranking-by", 3), ("pruned", 3), ("latest", 3))
    runs = [bench.run(stream, backend, batches=2, partitions=2) for stream, _ in wanted]
    finish(bench, runs)
    first = [run.outcome(bench.seed) for run in runs]
    bench.cluster.grow(len(bench.cluster.workers) + 1)
    runs = [
        bench.further(run, 4, partitions=partitions, ended="again")
        for run, (_, partitions) in zip(runs, wanted, strict=True)
    ]
    finish(bench, runs)
    outcomes = []
    for begun, run in zip(first, runs, strict=True):
        outcome = run.outcome(bench.seed, PARTITIONS) if begun.result == EQUAL else begun
        outcomes.append(outcome._replace(stream=f"{run.stream}, 2 to {run.partitions} partitions"))
    return outcomes


def finish(bench: Bench, runs: Sequence[Run]) -> None:
    """Let a driver do some runs to their ends."""
    with bench.drive(runs) as driver:
        for run in runs:
            driver.finish(run)


def two_drivers(bench: Bench, backend: str) -> list[Outcome]:
    """A driver is held in mid-batch while a second one goes on from the same checkpoint; a third one comes later."""
    wanted = (("ranking-by", BEFORE), ("ranking-by", AFTER), ("pruned", AFTER))
    ones = [bench.run(stream, backend, holds=[{"side": side, "batch": MIDDLE}]) for stream, side in wanted]
    others = [bench.further(one, one.batches, holds=[], ended="other", begins="tasks/other") for one in ones]
    share = {"spark.cores.max": "1"}  # each has an executor
    with bench.drive(ones, share) as first, bench.drive(others, share) as second:
        for one, other in zip(ones, others, strict=True):
            first.held(one)
            other.begin()
            second.finish(other)
            one.go()
            first.finish(one)
    pairs = [(one.outcome(bench.seed), other.outcome(bench.seed)) for one, other in zip(ones, others, strict=True)]
    lasts = [bench.further(one, one.batches + 1, holds=[], ended="last") for one in ones]
    finish(bench, lasts)
    outcomes = []
    for last, both, (stream, side) in zip(lasts, pairs, wanted, strict=True):
        failed = [outcome for outcome in both if outcome.result == ERROR]
        bad = [outcome for outcome in both if outcome.result not in (EQUAL, ERROR)]
        end = last.outcome(bench.seed)
        if bad or end.result != EQUAL:
            outcome = (bad or [end])[0]
        elif len(failed) == 1:
            outcome = failed[0]._replace(result=REFUSED)
        else:
            outcome = Outcome(stream, ERROR if failed else WRONG, f"of two drivers {len(failed)} had an error")
        outcomes.append(outcome._replace(stream=f"{stream}, held {side}"))
    return outcomes


ALWAYS, LATER, EMPTY_FIRST = "always", "later", "later, after an empty micro-batch"
HIDDEN = (
    ("ranking-by", ALWAYS),
    ("ranking-by", LATER),
    ("ranking-by", EMPTY_FIRST),
    ("whole", ALWAYS),
    ("whole", LATER),
    ("whole", EMPTY_FIRST),
    ("pruned", LATER),
)


def hidden_folder(bench: Bench, backend: str, wanted: Sequence[tuple[str, str]] = HIDDEN) -> list[Outcome]:
    """One host does not see the segments: from the beginning, or from a restart on."""
    runs = [bench.run(stream, backend, batches=1, empty=int(when == EMPTY_FIRST)) for stream, when in wanted]
    if begun := [run for run, (_, when) in zip(runs, wanted, strict=True) if when != ALWAYS]:
        finish(bench, begun)
    for run in runs:
        bench.cluster.workers[0].hide(run.segments)
    runs = [bench.further(run, 3, ended="again") for run in runs]
    finish(bench, runs)
    outcomes = []
    for run, (_, when) in zip(runs, wanted, strict=True):
        outcome = run.outcome(bench.seed, re.escape(str(run.segments)))
        outcomes.append(outcome._replace(stream=f"{run.stream}, {when}"))
    return outcomes


def equal_pids(bench: Bench, backend: str) -> list[Outcome]:
    """Python workers on all hosts have the same process ids."""
    runs = [bench.run(stream, backend, batches=10, partitions=4) for stream in ("ranking-by", "latest-by")]
    with bench.drive(runs, {"spark.python.daemon.module": "tests.support.hosts.daemon"}) as driver:
        for run in runs:
            driver.finish(run)
    outcomes = []
    for run in runs:
        hosts = defaultdict(set)
        for task in run.tasks():
            hosts[task["pid"]].add(task["host"])
        outcome = run.outcome(bench.seed)
        equal = [pid for pid, where in hosts.items() if len(where) > 1]
        if outcome.result in GOOD and not equal:
            outcome = Outcome(run.stream, NOT_TRIED, f"no equal pids: {dict(hosts)}")
        outcomes.append(outcome)
    return outcomes


def command(bench: Bench, backend: str) -> list[Outcome]:
    """``topwatch run`` on the cluster; the executor of a host is killed twice on the way."""
    name = "by-sma-long-50"
    pipeline = Pipeline(CASES[name], bench.cluster.folder / "runs/command", bench.seed)
    pipeline.grow(6)
    wanted = pipeline.wanted()
    driver = bench.cluster.host("driver")
    try:
        conf = [f"--conf={name}={value}" for name, value in bench.settings(driver).items() if name != "spark.master"]
        program = [
            sys.executable,
            "-m",
            "topwatch",
            "run",
            pipeline.file,
            "--once",
            "--master",
            bench.cluster.url,
        ]
        process = driver.run([*program, *conf], "driver", environment())
        for batch in (1, 3):
            committed = pipeline.folder / f"ckpt/changes/commits/{batch}"
            wait_for(committed.exists, f"micro-batch {batch}", lambda: ended(driver, process), PATIENCE)
            kill(bench.cluster.workers[0].executors())
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return [Outcome(name, HANG, driver.text("driver")[-400:])]
        if process.returncode:
            return [Outcome(name, ERROR, driver.text("driver")[-400:])]
    finally:
        driver.stop()
    same = Counter(sink_files.rows(pipeline.out)) == Counter(wanted)
    return [Outcome(name, EQUAL if same else WRONG)]


def ended(driver: Host, process: subprocess.Popen[bytes]) -> str | None:
    """Return what a program has printed, if it has ended."""
    return None if process.poll() is None else driver.text("driver")[-2000:]


LOST, RAISED, UNREACHED = (f'"Reason":"{name}"' for name in ("ExecutorLostFailure", "ExceptionFailure", "FetchFailed"))
TROUBLES = {
    "executor killed, packing": Trouble(BEFORE, kill_executor, LOST),
    "executor killed, operator": Trouble(AFTER, kill_executor, LOST),
    "Python killed, packing": Trouble(BEFORE, kill_python, RAISED),
    "Python killed, operator": Trouble(AFTER, kill_python, RAISED),
    "shuffle files lost": Trouble(BEFORE, lose_shuffle_files, UNREACHED, {"partition": 2}),
    "host lost, packing": Trouble(BEFORE, lose_host, LOST),
    "host lost, operator": Trouble(AFTER, lose_host, LOST),
}
BOTH, ONLY_FILES = ("files", "store"), ("files",)
TRIALS: dict[str, tuple[Trial, tuple[str, ...]]] = {
    "all kinds": (kinds, BOTH),
    "trouble": (troubles, BOTH),
    "slow tasks": (slow_tasks, BOTH),
    "two drivers": (two_drivers, BOTH),
    "hidden folder": (hidden_folder, ONLY_FILES),
    "equal pids": (equal_pids, BOTH),
    "topwatch run": (command, ONLY_FILES),
    "rescale": (rescale, BOTH),  # last, since it leaves more workers behind
}
