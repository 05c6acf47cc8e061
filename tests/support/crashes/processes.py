"""``topwatch run`` as a process that can be killed, and what lies in its checkpoint at that moment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from topwatch.spark.state.segments import SUFFIX

STARTING = "starting"
BETWEEN = "between two batches"
BEGUN = "batch begun"
SEGMENT = "segment, no state"
PART = "some states"
STATE = "state, no output"
OUTPUT = "output, no commit"
KINDS = (STARTING, BETWEEN, BEGUN, SEGMENT, PART, STATE, OUTPUT)  # in the order in which a micro-batch passes them
# For Java that lives for seconds or minutes: thorough compilation does not pay, nor do threads for garbage.
LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
GAP = (STATE, OUTPUT)  # all state is committed, the micro-batch is not


class Run:
    """A run of a pipeline over what there is now, in a session of its own: the driver, its JVM, Spark's workers."""

    def __init__(self, file: Path, *arguments: str) -> None:
        self.log = file.parent / "run.log"
        # What a killed JVM leaves behind goes with the folder: unpacked libraries, shuffle files.
        self._scratch = file.parent / "scratch"
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        settings = {
            "spark.local.dir": str(self._scratch),
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={self._scratch}",
        }
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        command = [sys.executable, "-m", "topwatch", "run", str(file), "--once", *given, *arguments]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "TMPDIR": str(self._scratch)},
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the driver is there."""
        return self._process.poll() is None

    def finish(self, seconds: float = 900.0) -> None:
        """Wait for the end; anything but success is an error with what the run said."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"topwatch run did not end in {seconds:.0f} s:\n{self._logged()}") from None
        if self._process.returncode != 0:
            raise AssertionError(f"topwatch run ended with {self._process.returncode}:\n{self._logged()}")
        ended(self._process.pid)

    def kill(self, workers: bool = True) -> None:
        """Kill the driver and its JVM, and the Python workers too or let them find out; return when all are gone."""
        left = session_of(self._process.pid) if workers else []
        if self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in left:
            kill(process)
        self._process.wait()
        ended(self._process.pid)

    def _logged(self) -> str:
        logs = [self.log, *self._scratch.glob("topwatch-spark-*.log")]
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in logs)


def session_of(leader: int) -> list[int]:
    """Return the processes of a session that still run."""
    result = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = status.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if int(session) == leader and state not in "ZX":
            result.append(int(status.parent.name))
    return result


def ended(leader: int, seconds: float = 20.0) -> None:
    """Wait until nothing of a session runs any more; what stays too long is killed."""
    end = time.monotonic() + seconds
    while left := session_of(leader):
        if time.monotonic() > end:
            for process in left:
                kill(process)
        time.sleep(0.02)


def kill(process: int) -> None:
    with suppress(ProcessLookupError):  # it went by itself
        os.kill(process, signal.SIGKILL)


class Seen(NamedTuple):
    """How far a run has come with its micro-batch."""

    batch: int
    stirred: bool  # this run has written something
    begun: bool
    segments: int
    states: int
    output: bool


class Checkpoint:
    """What a run has written since it began, of the micro-batch that is not committed yet."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self._changes, self._segments, self._out = folder / "ckpt/changes", folder / "ckpt/segments", folder / "out"
        self._partitions = partitions
        self._batch = self._next()
        # An attempt of an earlier run may have written these already.
        self._old_states = self._states(self._batch)
        self._old_segments = self._stamps(self._batch)
        self._old_begun = self._batch in _numbers(self._changes / "offsets")

    def look(self) -> Seen:
        """Say how far the run has come."""
        batch = self._next()
        fresh = self._stamps(batch) - self._old_segments
        old = self._old_states if batch == self._batch else set()
        states = len(self._states(batch) - old)
        begun = batch in _numbers(self._changes / "offsets")
        stirred = batch > self._batch or begun > self._old_begun or bool(fresh) or states > 0
        return Seen(batch, stirred, begun, len(fresh), states, batch in _numbers(self._out / "_spark_metadata"))

    def kind(self, seen: Seen) -> str:
        """Name the moment."""
        if not seen.stirred:
            return STARTING
        if not seen.begun:
            return BETWEEN
        if seen.output:
            return OUTPUT
        if seen.states:
            return STATE if seen.states == self._partitions else PART
        return SEGMENT if seen.segments else BEGUN

    def segments(self) -> set[str]:
        """Return the names of all segments."""
        return {entry.name for entry in _entries(self._segments) if entry.name.endswith(SUFFIX)}

    def _stamps(self, batch: int) -> set[tuple[int, int] | None]:
        """Tell apart the segments that were written since a micro-batch was planned."""
        planned = _stamp(self._changes / "offsets" / str(batch))
        if planned is None:
            return set()
        stamps = {_stamp(self._segments / name) for name in self.segments()}
        return {stamp for stamp in stamps if stamp is not None and stamp[1] >= planned[1]}

    def _next(self) -> int:
        return max(_numbers(self._changes / "commits"), default=-1) + 1

    def _states(self, batch: int) -> set[tuple[int, int] | None]:
        """Tell apart the files with the state after a micro-batch, in Spark's store."""
        # RocksDB writes what changed, or a snapshot only.
        files = [
            self._changes / f"state/0/{i}/{batch + 1}{end}"
            for i in range(self._partitions)
            for end in (".changelog", ".zip")
        ]
        return {_stamp(path) for path in files} - {None}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        result = path.stat()
    except FileNotFoundError:
        return None
    return result.st_ino, result.st_mtime_ns


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as result:
            return list(result)
    except FileNotFoundError:
        return []


def _numbers(folder: Path) -> set[int]:
    """Return the micro-batches that a log of Spark has; every tenth entry has those before it too."""
    return {int(name) for entry in _entries(folder) if (name := entry.name.removesuffix(".compact")).isdecimal()}
