"""Server processes on loopback ports for tests: started, awaited, and stopped by their process id whatever happens."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


def free_port(address: str = HOST) -> int:
    with socket.create_server((address, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(command: Sequence[str | Path], port: int, log: Path, stop: signal.Signals, **how: Any) -> Iterator[int]:
    """Run a server until the block ends; enter the block when the port answers. Yield the process id."""
    guard = shutil.which("setpriv")
    if guard:  # where there is one, the server also stops when the tests are killed
        command = [guard, "--pdeathsig", stop.name.removeprefix("SIG"), *command]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **how)
    try:
        _await(server, port, log)
        yield server.pid
    finally:
        server.send_signal(stop)
        try:
            server.wait(20.0)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _await(server: subprocess.Popen[bytes], port: int, log: Path, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            socket.create_connection((HOST, port), 1.0).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{server.args} did not come up:\n{log.read_text(errors='replace')[-4000:]}")
