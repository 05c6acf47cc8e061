"""Peer workers: what a Python worker of this machine has in memory serves tasks of the others.

Spark gives a task to any of its Python workers, and a worker that does not have the bucket would have to read it again.
Instead it looks in a folder of this machine for the worker that has it, and calls that worker, where a thread answers.
What a call or an answer means is not known here. A peer that is gone, has another version or is silent for some seconds
costs no more than reading.

The folder belongs to the user alone; what is sent is bytes, nothing that is executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from topwatch.core.file_writer import whole_file
from topwatch.query.errors import DataError
from topwatch.spark import node

BEAT = 0.5  # seconds between two signs of life of a peer that computes
SILENCE = 3.0  # seconds without one after which a task does without its peer
BACKLOG = 64  # calls that may wait for a peer to accept them
OLD = 7 * 24 * 3600.0  # seconds after which an offer that no worker has renewed is removed
PAUSE = 0.5  # seconds between two tries where a call cannot be accepted, as without a free file descriptor
LIFE: dict[str, Any] = {"busy": True}


def call(name: str, token: str, request: bytes) -> list[bytes] | None:
    """Return the answer of the peer that has offered something in a version; None where none answers."""
    try:
        with open(os.path.join(_folder(), name)) as file:
            offer = json.load(file)
        if offer["token"] != token:
            return None
        with _connected(offer["address"]) as wire:
            wire.send_bytes(name.encode())
            wire.send_bytes(request)
            answer = LIFE
            while answer == LIFE:
                answer = json.loads(wire.recv_bytes())
            return [wire.recv_bytes() for _ in range(answer["parts"])] if "parts" in answer else None
    except (OSError, EOFError, ValueError, KeyError):
        return None


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Connection[Any, Any]]:
    """Connect to a peer; no call on the connection takes longer than ``SILENCE``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(SILENCE)
        line.connect(address)
        line.settimeout(None)
        limit = struct.pack("ll", int(SILENCE), int(SILENCE % 1 * 1e6))
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        with Connection(line.detach()) as wire:
            yield wire


class Server:
    """Where the peers of this process call it; an error where it cannot have a socket."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        _sweep()
        self._address = os.path.join(_folder(), f"{os.urandom(8).hex()}.sock")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(self._address)
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise

    def offer(self, name: str, token: str) -> None:
        """Let peers know that this process has something in a version."""
        with whole_file(os.path.join(_folder(), name), sync=False) as file:
            file.write(json.dumps({"address": self._address, "token": token}).encode())

    def calls(self) -> Iterator[Call]:
        """Yield each call of a peer; one after the other, without end."""
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                time.sleep(PAUSE)
                continue
            yield Call(Connection(line.detach()))


class Call:
    """A peer's call: a context in which the peer gets signs of life until it is answered.

    Where the task fails here there is no answer: the peer tries it itself, and meets the error.
    """

    def __init__(self, wire: Connection[Any, Any]) -> None:
        self._wire = wire
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)

    def read(self) -> tuple[str, bytes]:
        """Return what is called by its name, and the request."""
        return self._wire.recv_bytes().decode(), self._wire.recv_bytes()

    def __enter__(self) -> Call:
        self._beating.start()
        return self

    def answer(self, parts: Sequence[Any] | None) -> None:
        """Send the parts of an answer; None where this process cannot serve the request."""
        self._end()
        self._wire.send_bytes(json.dumps({"parts": len(parts)} if parts is not None else {}).encode())
        for part in parts or ():
            self._wire.send_bytes(part)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        self._end()
        self._wire.close()
        return isinstance(error, DataError | OSError | EOFError)  # the task failed, or the peer listens no longer

    def _beat(self) -> None:
        with contextlib.suppress(OSError):  # the peer listens no longer
            while not self._ended.wait(BEAT):
                self._wire.send_bytes(json.dumps(LIFE).encode())

    def _end(self) -> None:
        self._ended.set()
        self._beating.join()


def _folder() -> str:
    """Return the folder where workers of this user meet; an error where it is not this user's alone."""
    path = os.path.join(tempfile.gettempdir(), f"topwatch-peers-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    node.check_own(path)
    return path


def _sweep() -> None:
    """Remove the sockets of workers that are gone, and old offers."""
    folder = _folder()
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if not name.endswith(".sock"):
                if time.time() - os.stat(path).st_mtime > OLD:
                    os.unlink(path)
                continue
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(SILENCE)
                try:
                    line.connect(path)
                except ConnectionRefusedError:
                    os.unlink(path)
