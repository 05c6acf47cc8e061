"""Compiles kernels in processes of their own, while this one interprets them: the kernel cache is where they meet.

Nothing is started for a small job: compiling begins when interpreting has taken some time. The processes end soon after
this one has, whichever way it ended. What they have compiled by then is in the cache, and the next start goes on from
there.
"""

from __future__ import annotations

import atexit
import base64
import logging
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from topwatch.core.interpreted import is_kernel

WORTHWHILE = 0.25  # seconds of interpreting after which compiling begins
PROCESSES = 2  # at most: each takes some hundred megabytes

Request = tuple[str, str, Any]  # module, name and signature

logger = logging.getLogger("topwatch")


class Progress(NamedTuple):
    """How many kernels are compiled, of about how many."""

    done: int
    total: int

    def __str__(self) -> str:
        return f"{self.done} of {self.total} kernels compiled"


class BackgroundCompiler:
    """The processes that compile for this one."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._queued: list[Request] = []
        self._requested: set[Request] = set()
        self._failed: set[Request] = set()
        self._workers: list[_Worker] = []
        self._names: set[tuple[str, str]] = set()  # of kernels that requests need
        self._compiled: set[tuple[str, str]] = set()
        self._announced = False

    def spend(self, seconds: float) -> None:
        """Count time for which kernels were interpreted; begin to compile once it is too much."""
        self._spent += seconds
        if self._queued and self._spent > WORTHWHILE:
            self.start()

    def request(self, kernel: Any, signature: Any) -> bool:
        """Have a kernel compiled, sooner or later; return whether that can be."""
        request = (kernel.py_func.__module__, kernel.py_func.__qualname__, signature)
        if request not in self._requested:
            self._requested.add(request)
            self._queued.append(request)
            self._names |= reachable(kernel)
        elif self._workers:
            self._read()
        return request not in self._failed

    def start(self) -> None:
        """Compile what was requested, from now on at once."""
        if not self._announced:
            self._announced = True
            logger.warning(
                "compiling kernels for this machine in the background: once, in about half a minute; until then answers"
                " are as right and come more slowly"
            )
        self._spent = float("inf")
        self._read()
        queued, self._queued = self._queued, []
        for request in queued:
            if len(self._workers) < min(PROCESSES, os.cpu_count() or 1) and all(one.requested for one in self._workers):
                self._workers.append(_Worker())
            if not min(self._workers, key=lambda one: len(one.requested)).ask(request):
                self._failed.add(request)

    def progress(self) -> Progress | None:
        """Return how far compiling is; None where nothing is being compiled."""
        self._read()
        if not any(worker.requested for worker in self._workers):
            return None
        return Progress(len(self._compiled & self._names), len(self._names))

    def _read(self) -> None:
        """Read what the processes report; forget those that have ended, as they do when nothing is left to compile."""
        for worker in list(self._workers):
            for request in worker.read():
                logger.warning("kernel cache: %s.%s could not be compiled in the background", *request[:2])
                self._failed.add(request)
            self._compiled |= worker.compiled
            if worker.ended:
                self._workers.remove(worker)

    def close(self) -> None:
        """Leave the processes alone: at the end, and in a forked process, whose parent has them."""
        for worker in self._workers:
            worker.close()
        self.__init__()  # type: ignore[misc]  # as new


class _Worker:
    """A process that compiles."""

    def __init__(self) -> None:
        self.requested: list[Request] = []
        self.compiled: set[tuple[str, str]] = set()
        self.ended = False
        self._rest = b""
        package = Path(__file__).resolve().parents[2]
        path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "topwatch.core.compile_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process alone; the other one ends when it is left
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def ask(self, request: Request) -> bool:
        """Have a kernel compiled; return whether the process could be reached."""
        assert self._process.stdin is not None
        self.requested.append(request)
        try:
            self._process.stdin.write(base64.b64encode(pickle.dumps(request)) + b"\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def read(self) -> set[Request]:
        """Read what was compiled; return the requests that failed."""
        assert self._process.stdout is not None
        with suppress(BlockingIOError):
            self._rest += self._process.stdout.read() or b""
        *lines, self._rest = self._rest.split(b"\n")
        failed = set()
        for line in lines:
            what, *names = line.decode().split(" ")
            if what == "compiled":
                self.compiled.add((names[0], names[1]))
            elif self.requested:
                request = self.requested.pop(0)
                failed |= {request} if what == "failed" else set()
        self.ended = self._process.poll() is not None
        if self.ended:
            failed |= set(self.requested)  # it was killed, or could not even begin
            self.requested = []
            self.close()
        return failed

    def close(self) -> None:
        """Close the pipes: the process ends soon."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if self._process.returncode is None:
            self._process.returncode = 0  # nobody waits for it


def reachable(kernel: Any) -> set[tuple[str, str]]:
    """Return the names of the kernels that a kernel is made of, its own among them."""
    names, left = set(), [kernel]
    while left:
        function = left.pop().py_func
        name = function.__module__, function.__qualname__
        if name not in names:
            names.add(name)
            values = map(function.__globals__.get, function.__code__.co_names)
            left += [value for value in values if is_kernel(value)]
    return names


compiler = BackgroundCompiler()
atexit.register(compiler.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=compiler.close)
