"""A process that compiles kernels into the cache for another one: see :mod:`topwatch.core.background_compiler`.

A line on standard input is a kernel and a signature. A line on standard output is the name of a kernel that has been
compiled, or says that a request is done or has failed. The process ends before the next kernel once nobody is left to
ask for more.
"""

from __future__ import annotations

import base64
import importlib
import itertools
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from topwatch.core.background_compiler import PROCESSES
from topwatch.core.kernel_cache import LOCK, PAUSE, try_lock

IDLE = 20.0  # seconds; a process that is asked for nothing ends


class _Listener(event.Listener):  # type: ignore[misc]
    """Reports what is compiled."""

    def __init__(self, left: threading.Event) -> None:
        self._left = left

    def on_start(self, occurred: Any) -> None:
        if self._left.is_set():
            os._exit(0)  # locks of the cache are released with it

    def on_end(self, occurred: Any) -> None:
        function = occurred.data["dispatcher"].py_func
        _report(f"compiled {function.__module__} {function.__qualname__}")


def _report(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError:
        os._exit(0)


def _next(requests: queue.SimpleQueue[bytes]) -> bytes:
    """Return the next line; nothing where none has come for some time."""
    try:
        return requests.get(timeout=IDLE)
    except queue.Empty:
        return b""


def main() -> None:
    """Compile what is asked for."""
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    left = threading.Event()

    def read() -> None:
        for line in sys.stdin.buffer:
            requests.put(line)
        left.set()
        requests.put(b"")

    threading.Thread(target=read, daemon=True).start()
    event.register("numba:compile", _Listener(left))
    while line := _next(requests):
        try:
            module, name, signature = pickle.loads(base64.b64decode(line))
            kernel = getattr(importlib.import_module(module), name)
            with _slot(kernel._cache.cache_path, left):
                kernel.compile(signature)
            kept = kernel._cache.holds(signature, kernel.targetctx)  # or nobody would ever find it
        except Exception:
            kept = False
        _report("done" if kept else "failed")


@contextmanager
def _slot(folder: str, left: threading.Event) -> Iterator[None]:
    """Wait until few others compile into a cache: of many processes that need the same kernels, two are enough."""
    for number in itertools.cycle(range(PROCESSES)):
        with open(os.path.join(folder, f"compiling-{number}{LOCK}"), "ab") as file:
            if try_lock(file.fileno()):
                yield
                return
        if left.is_set():
            os._exit(0)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
