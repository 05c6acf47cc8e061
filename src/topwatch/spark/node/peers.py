"""Peer workers: a bucket stays in the Python worker of this machine where it is warm, and tasks come to it.

Spark gives a bucket's task to any of its Python workers, and a worker that does not have the bucket would have to read
it again from its segments. Instead it looks up who has it, in a folder of this machine, and sends the references there:
a thread of that worker takes them in and answers with the new state and what changed. Rows do not travel; both see the
same segments. The peer commits nothing: its answer counts only if the task that asked hands it to Spark's store. A peer
that is gone, has another version or is silent for some seconds costs the reading, and what it may still compute later
has a token that no version ever has.

The folder belongs to the user alone; what is sent is JSON and Arrow, nothing that is executed.
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
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

from topwatch.query.errors import DataError
from topwatch.spark.node import shared_results
from topwatch.spark.node.worker_tuning import Hints
from topwatch.spark.operator.stateful import Done, StatefulOperator, Task
from topwatch.spark.state.file_writer import write_whole
from topwatch.spark.state.manifest import Manifest
from topwatch.spark.state.segments import pack, unpack

BEAT = 0.5  # seconds between two signs of life of a peer that computes
SILENCE = 3.0  # seconds without one after which a task does without its peer
WAITING = 64  # tasks that may wait for a peer to accept them
ROWS = 1 << 14  # rows of a result that travel at once
OLD = 7 * 24 * 3600.0  # seconds after which a notice of nobody is removed
LIFE: dict[str, Any] = {"busy": True}

_keepers: dict[str, StatefulOperator] = {}
_server: _Door | None = None


def advance(keeper: StatefulOperator, task: Task) -> Done:
    """Take a micro-batch where the bucket is warm: here, in a peer, or nowhere, and then here.

    Parameters
    ----------
    keeper : StatefulOperator
        The operator of the bucket, in this worker.
    task : Task
        What is to be done.
    """
    manifest = keeper.manifest(task)
    if manifest.token and not keeper.warm(manifest):
        done = _ask(keeper.name(manifest), manifest.token, task)
        if done is not None:
            return done
    done = keeper.advance(task)
    _tell(keeper, Manifest.from_bytes(done.state))
    return done


def _ask(name: str, token: str, task: Task) -> Done | None:
    """Let the peer that has noted down a version take the micro-batch; None when there is none, or it is silent."""
    try:
        with open(os.path.join(_folder(), name)) as file:
            noted = json.load(file)
        if noted["token"] != token or (_server is not None and noted["address"] == _server.address):
            return None
        with _connected(noted["address"]) as wire:
            wire.send_bytes(json.dumps({"name": name, "token": token, **_reported(task)}).encode())
            answer = LIFE
            while answer == LIFE:
                answer = json.loads(wire.recv_bytes())
            if "error" in answer:
                raise DataError(answer["error"])
            if "state" not in answer:
                return None
            parts = [unpack(wire.recv_bytes()) for _ in range(answer["parts"])]
            result = pa.concat_tables(parts) if parts else pa.table({})
    except (OSError, EOFError, ValueError, KeyError):
        return None
    return Done(answer["state"].encode(), result, answer["next_time"], result_buffer=answer["tray"])


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Connection[Any, Any]]:
    """Connect to a peer; no call on the connection takes longer than the silence that is put up with."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(SILENCE)
        line.connect(address)
        line.settimeout(None)
        limit = struct.pack("ll", int(SILENCE), int(SILENCE % 1 * 1e6))
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        with Connection(line.detach()) as wire:
            yield wire


def _reported(task: Task) -> dict[str, Any]:
    state = task.state.decode() if task.state is not None else None
    lines = [{key: _text(value) for key, value in line.items()} for line in task.references]
    return {"state": state, "references": lines, "watermark": task.watermark, "shown": task.shown}


def _text(value: Any) -> Any:
    """Bytes travel as text: the few that lines carry are refused rows."""
    return {"bytes": bytes(value).hex()} if isinstance(value, bytes | bytearray | memoryview) else value


def _tell(keeper: StatefulOperator, manifest: Manifest) -> None:
    """Record that this worker has a bucket."""
    global _server
    name = keeper.name(manifest)
    _keepers[name] = keeper
    with contextlib.suppress(OSError):  # a full disk, or a path too long for a socket: peers read for themselves
        if _server is None or _server.pid != os.getpid():  # in a process that was forked the thread is gone
            _server = _Door()
            _server.start()
        notice = {"address": _server.address, "token": manifest.token}
        write_whole(_folder(), name, [json.dumps(notice).encode()], sync=False)


class _Door(threading.Thread):
    """Serves the tasks that peers send, for as long as the worker lives."""

    def __init__(self) -> None:
        super().__init__(name="topwatch peers", daemon=True)
        self.pid = os.getpid()
        _sweep()
        self.address = os.path.join(_folder(), f"{os.urandom(8).hex()}.sock")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(self.address)
            self._socket.listen(WAITING)
        except OSError:
            self._socket.close()
            raise

    def run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                line, _ = self._socket.accept()
                threading.Thread(target=_serve, args=(Connection(line.detach()),), daemon=True).start()


def _serve(wire: Connection[Any, Any]) -> None:
    with wire, contextlib.suppress(OSError, EOFError):
        request = json.loads(wire.recv_bytes())
        operator = _keepers.get(request["name"])
        state = request["state"].encode() if request["state"] is not None else None
        if operator is None or not operator.warm(Manifest.from_bytes(state)):
            wire.send_bytes(b"{}")
            return
        lines = [{key: _bytes(value) for key, value in line.items()} for line in request["references"]]
        task = Task(state, lines, request["watermark"], shown=Hints(*request["shown"]))
        try:
            with _alive(wire):
                done = operator.advance(task)
                done.publish()
        except DataError as error:
            wire.send_bytes(json.dumps({"error": str(error)}).encode())
            return
        _tell(operator, Manifest.from_bytes(done.state))
        result_buffer = shared_results.lay(done.result) if done.result.num_rows else None
        parts = done.result.to_batches(ROWS) if result_buffer is None else []
        answer = {"state": done.state.decode(), "next_time": done.next_time, "tray": result_buffer, "parts": len(parts)}
        wire.send_bytes(json.dumps(answer).encode())
        for part in parts:
            wire.send_bytes(pack(pa.table(part)))


def _bytes(value: Any) -> Any:
    return bytes.fromhex(value["bytes"]) if isinstance(value, dict) else value


@contextlib.contextmanager
def _alive(wire: Connection[Any, Any]) -> Iterator[None]:
    """Give signs of life while something is computed."""
    done = threading.Event()

    def beat() -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            while not done.wait(BEAT):
                wire.send_bytes(json.dumps(LIFE).encode())

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        done.set()
        beating.join()


def _folder() -> str:
    """Return the folder where workers of this user meet."""
    path = os.path.join(tempfile.gettempdir(), f"topwatch-neighbours-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.getuid() or os.stat(path).st_mode & 0o077:
        raise DataError(f"neighbours: {path} belongs to somebody else; remove it")
    return path


def _sweep() -> None:
    """Remove the sockets of workers that are gone, and old notices."""
    for name in os.listdir(_folder()):
        path = os.path.join(_folder(), name)
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
