"""A process that makes and runs cases for another, so that a crash or a hang is seen and does no harm."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Case, Outcome, made, tried

LIMIT = 180.0  # seconds of work, for what takes milliseconds or, at first, has to be compiled
PATIENCE = 1500.0  # seconds in which a process that gets little of the machine, or waits, has to answer
MOST_MEMORY = 6 << 30  # bytes of address space: allocating more is an error that must be caught


def serve(connection: Connection, log: str) -> None:
    """Run what comes until nothing does."""
    from tests.fuzz.targets import TARGETS

    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    while True:
        try:
            name, case = connection.recv()
        except EOFError:
            return
        if name == "crash":  # for the test of this file
            os.kill(os.getpid(), signal.SIGSEGV)
        target = TARGETS[name]
        connection.send(tried(target, case if isinstance(case, dict) else made(target, *case)))


class Worker:
    """The other end: started when first asked, and again after a crash or a hang."""

    def __init__(self) -> None:
        self._process: Any = None
        self._last = ""  # what it was given last
        self._log = Path(tempfile.mkstemp(prefix="fuzz-", suffix=".log")[1])

    def run(self, target: str, case: Case | tuple[int, int]) -> Outcome:
        """Run a case, or that of a seed and a number."""
        if self._process is None:
            self._start()
        elif not self._process.is_alive():  # memory that was spoilt may be met only after a case has ended
            return self._crashed(time.perf_counter(), f"\nafter {self._last}")
        self._last = f"{target} {case}"[:4000]
        began, worked = time.perf_counter(), _worked(self._process.pid)
        try:
            self._connection.send((target, case))
            while time.perf_counter() - began < PATIENCE and _worked(self._process.pid) - worked < LIMIT:
                if self._connection.poll(2.0):
                    return self._connection.recv()
        except (EOFError, ConnectionError):
            return self._crashed(began)
        os.kill(self._process.pid, signal.SIGUSR1)
        time.sleep(1.0)
        self.stop(gently=False)
        return Outcome("hang", self._last_words(), time.perf_counter() - began)

    def _crashed(self, began: float, after: str = "") -> Outcome:
        self._process.join(10)
        kind = f"crash {self._process.exitcode}"
        outcome = Outcome(kind, self._last_words() + after, time.perf_counter() - began)
        self.stop()
        return outcome

    def stop(self, gently: bool = True) -> None:
        """End the process."""
        if self._process is not None:
            self._connection.close()
            if not gently:
                self._process.kill()
            self._process.join(10)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process = None

    def close(self) -> None:
        """End it for good."""
        self.stop()
        self._log.unlink(missing_ok=True)

    def _start(self) -> None:
        self._log.write_bytes(b"")
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, str(self._log)), daemon=True)
        self._process.start()
        theirs.close()

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-20_000:]


def _worked(process: int) -> float:
    """Seconds for which a process has had a processor; where the system does not tell, those of the clock."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.perf_counter()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
