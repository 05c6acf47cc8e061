"""Runs on several hosts: started, held up in mid-batch, waited for with a time limit, compared with a ``Monitor``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import topwatch
from tests.support import ROOT, sink_files
from tests.support.crashes.processes import LIGHT_JAVA
from tests.support.hosts.driver import HELD, SIDES, task_of
from tests.support.hosts.namespaces import Cluster, Host, wait_for
from tests.support.hosts.streams import FILES, compare, expected, write

TESTS = ROOT / "tests"
SOURCES = Path(topwatch.__file__).parents[1]
CACHE = "TOPWATCH_CACHE_DIR"  # of compiled kernels
EVENTS = "events"  # Spark's log of what it did, in a driver's folder
PATIENCE = 600.0  # seconds for a run: a busy machine may be slow, what takes longer hangs
BEFORE, AFTER = SIDES
EQUAL, REFUSED, ERROR, WRONG, HANG, NOT_TRIED = "equal", "refused", "ERROR", "WRONG", "HANG", "NOT TRIED"
GOOD = (EQUAL, REFUSED)


class Outcome(NamedTuple):
    """How a run came out: its stream, one of the words above, and what it reported."""

    stream: str
    result: str
    note: str = ""


@dataclass
class Run:
    """A stream with a state backend, in a folder that all hosts see.

    The first of the tasks in ``holds``, values of ``driver.task_of``, waits for :meth:`go`. ``ended`` names the file
    that the driver writes at the end, ``begins`` one that it waits for at the beginning, if any. The first ``empty``
    micro-batches have no rows.
    """

    stream: str
    backend: str
    folder: Path
    batches: int
    holds: Sequence[dict[str, Any]] = ()
    partitions: int = 3
    ended: str = "ended"
    begins: str | None = None
    empty: int = 0

    def __post_init__(self) -> None:
        (self.folder / "tasks").mkdir(parents=True, exist_ok=True)
        self.segments.mkdir(exist_ok=True)

    @property
    def segments(self) -> Path:
        """Where window segments are, with the backend that has files."""
        return self.folder / "segments"

    def tasks(self, **which: Any) -> list[dict[str, Any]]:
        """Return the tasks that have come to a gate, those with these values."""
        tasks = [task_of(path.name) for path in (self.folder / "tasks").glob("side=*")]
        return [task for task in tasks if which.items() <= task.items()]

    def begin(self) -> None:
        """Let the driver begin with the run."""
        assert self.begins is not None
        (self.folder / self.begins).touch()

    def go(self) -> None:
        """Let tasks that are held go on."""
        (self.folder / "tasks/go").touch()

    @property
    def error(self) -> str | None:
        """What went wrong, empty where nothing did; None while the run has not ended."""
        path = self.folder / self.ended
        return path.read_text() if path.exists() else None

    def outcome(self, seed: int, refusal: str | None = None) -> Outcome:
        """Compare what was written with what a monitor answers; ``refusal`` matches an error that is a clear one."""
        error = self.error
        out = self.folder / "out"
        result = sink_files.rows(out) if (out / "_spark_metadata").is_dir() else []
        wrong = compare(self.stream, result, expected(self.stream, seed, self.batches, self.empty), whole=error == "")
        if wrong is not None:
            return Outcome(self.stream, WRONG, wrong + (f"; and {reason(error)}" if error else ""))
        if error is None:
            return Outcome(self.stream, HANG)
        if error and refusal is not None and re.search(refusal, error):
            return Outcome(self.stream, REFUSED, reason(error))
        return Outcome(self.stream, ERROR, reason(error)) if error else Outcome(self.stream, EQUAL)


def reason(error: str) -> str:
    """Return the line of an error that says what went wrong."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("topwatch.")]
    theirs = [line for line in lines if re.search(r"(Error|Exception)\b.*: ", line)]
    return (ours or theirs[-1:] or lines or [""])[0][:400]


@dataclass
class Driver:
    """A driver on a host of its own, with the runs that it does one after the other."""

    host: Host
    process: subprocess.Popen[bytes]
    events: Path

    def wait(self, run: Run, **which: Any) -> None:
        """Return when a task with these values has come to a gate."""
        wait_for(lambda: run.tasks(**which), f"a task of {run.stream} with {which}", lambda: self._gone(run), PATIENCE)

    def held(self, run: Run) -> dict[str, Any]:
        """Return the task that is held, when there is one."""
        file = run.folder / "tasks" / HELD
        wait_for(file.exists, f"a task of {run.stream} with one of {run.holds}", lambda: self._gone(run), PATIENCE)
        wait_for(file.read_text, "its name")
        return task_of(file.read_text())

    def finish(self, run: Run) -> None:
        """Wait until a run has ended, or has had its time."""
        try:
            wait_for(lambda: run.error is not None, f"the end of {run.stream}", lambda: self._dead(run), PATIENCE)
        except AssertionError as late:
            run.go()
            print(f"{late}\n{self.host.text('driver')[-3000:]}", file=sys.stderr)

    def seen(self, pattern: str) -> int:
        """Count the lines of Spark's event log that match, once the driver has stopped."""
        wait_for(lambda: self.process.poll() is not None, "the end of the driver", seconds=PATIENCE)
        texts = [path.read_text(errors="replace") for path in self.events.rglob("events_*")]
        return sum(bool(re.search(pattern, line)) for text in texts for line in text.splitlines())

    def _gone(self, run: Run) -> str | None:
        return self._dead(run) or (f"the run ended before: {reason(run.error)}" if run.error is not None else None)

    def _dead(self, run: Run) -> str | None:
        if self.process.poll() is None or run.error is not None:
            return None
        return f"the driver ended with {self.process.returncode}: {self.host.text('driver')[-3000:]}"


@dataclass
class Bench:
    """A cluster, and the runs on it."""

    cluster: Cluster
    seed: int
    _made: int = field(default=0, init=False)

    def run(self, stream: str, backend: str, batches: int = 3, **more: Any) -> Run:
        """Make a run in a new folder, with the files of so many micro-batches."""
        self._made += 1
        folder = self.cluster.folder / f"runs/{self._made}-{stream}"
        return self.further(Run(stream, backend, folder, batches, **more), batches)

    def further(self, run: Run, batches: int, **other: Any) -> Run:
        """Make a run that goes on from the checkpoint of another one, with more files and other settings."""
        write(run.folder / "rows", self.seed, batches, run.empty)
        expected(run.stream, self.seed, batches, run.empty)  # kernels are compiled here, by one process
        return replace(run, batches=batches, **other)

    @contextmanager
    def drive(self, runs: Sequence[Run], conf: Mapping[str, str] | None = None) -> Iterator[Driver]:
        """Start a driver on a new host; nothing of it is left when the block ends."""
        host = self.cluster.host("driver")
        try:
            job = {
                "conf": {**self.settings(host), **(conf or {})},
                "runs": [{**asdict(run), "holds": list(run.holds)} for run in runs],
            }
            file = host.folder / "job.json"
            file.write_text(json.dumps(job, default=str))
            program = [sys.executable, "-m", "tests.support.hosts.driver", file]
            yield Driver(host, host.run(program, "driver", environment()), host.folder / EVENTS)
        finally:
            host.stop()

    def settings(self, host: Host) -> dict[str, str]:
        """Return what Spark is configured with for a driver on a host."""
        (host.folder / EVENTS).mkdir()
        return {
            "spark.master": self.cluster.url,
            "spark.driver.host": host.address,
            "spark.driver.bindAddress": host.address,
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.files.minPartitionNum": str(FILES),  # each file is a task
            "spark.executor.memory": "600m",
            "spark.executor.extraJavaOptions": LIGHT_JAVA,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # all workers have executors before anything runs
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (host.folder / EVENTS).as_uri(),
            "spark.eventLog.compress": "false",
            **{f"spark.executorEnv.{name}": value for name, value in environment().items()},
        }


def environment() -> dict[str, str]:
    """Return what Python processes need on a host: code and kernels that are compiled already."""
    code = {"PYTHONPATH": f"{SOURCES}:{ROOT}", "PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": LIGHT_JAVA}
    return {**code, **{name: os.environ[name] for name in (CACHE, "TOPWATCH_COMPILE") if name in os.environ}}


@contextmanager
def bench(folder: Path, seed: int, workers: int = 2) -> Iterator[Bench]:
    """Start a cluster, and stop all of it at the end."""
    shared = [SOURCES, TESTS, Path(sys.prefix), *([Path(os.environ[CACHE])] if CACHE in os.environ else [])]
    with Cluster(folder, workers, shared) as cluster:
        yield Bench(cluster, seed)
