"""Python workers of one machine help each other out: a bucket stays where it is warm, and tasks come to it.

Spark gives a bucket's task to any of its Python workers, and a worker that does not have the bucket would have to read
it again from its segments. Instead it looks up who has it, in a folder of this machine, and sends the references there:
a thread of that worker takes them in and answers with what changed. Rows do not travel; both see the same segments.
A worker that is gone, busy with an older version or silent costs nothing but the reading.

The folder belongs to the user alone; what is sent is JSON and Arrow, nothing that is executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import pyarrow as pa

from topwatch.errors import DataError
from topwatch.spark import handing
from topwatch.spark.keeper import Done, Keeper, Task
from topwatch.spark.manifest import Manifest
from topwatch.spark.segments import pack, unpack
from topwatch.spark.turn import ROWS

PATIENCE = 600.0  # seconds
OLD = 7 * 24 * 3600.0  # seconds after which a notice of nobody is removed

_keepers: dict[str, Keeper] = {}
_door: _Door | None = None


def advance(keeper: Keeper, name: str, task: Task) -> Done:
    """Take a micro-batch where the bucket is warm: here, in a neighbour, or nowhere, and then here.

    Parameters
    ----------
    keeper : Keeper
        Of the bucket, in this worker.
    name : str
        What the bucket is called among neighbours.
    task : Task
        What is to be done.
    """
    token = keeper.manifest(task).token
    if token and not keeper.warm(token):
        done = _ask(name, token, task)
        if done is not None:
            return done
    done = keeper.advance(task)
    _tell(name, keeper, Manifest.from_bytes(done.state).token)
    return done


def _ask(name: str, token: str, task: Task) -> Done | None:
    """Let the neighbour that has noted down a version take the micro-batch; None when there is none."""
    try:
        with open(os.path.join(_folder(), name)) as file:
            noted = json.load(file)
        if noted["token"] != token or noted["pid"] == os.getpid():
            return None
        with Client(noted["address"], "AF_UNIX") as wire:
            wire.send_bytes(json.dumps({"name": name, "token": token, **_told(task)}).encode())
            if not wire.poll(PATIENCE):
                return None
            answer = json.loads(wire.recv_bytes())
            if "error" in answer:
                raise DataError(answer["error"])
            if "state" not in answer:
                return None
            parts = [unpack(wire.recv_bytes()) for _ in range(answer["parts"])]
            found = pa.concat_tables(parts) if parts else pa.table({})
    except (OSError, EOFError, ValueError, KeyError):
        return None
    return Done(answer["state"].encode(), found, answer["next_time"], tray=answer["tray"])


def _told(task: Task) -> dict[str, Any]:
    state = task.state.decode() if task.state is not None else None
    lines = [{key: value for key, value in line.items() if key != "data"} for line in task.references]
    return {"state": state, "references": lines, "batch": task.batch, "watermark": task.watermark}


def _tell(name: str, keeper: Keeper, token: str) -> None:
    """Note down that this worker has a bucket."""
    global _door
    _keepers[name] = keeper
    with contextlib.suppress(OSError):  # a full disk, or a path too long for a socket: neighbours read for themselves
        if _door is None or _door.pid != os.getpid():
            _door = _Door()
            _door.start()
        notice = {"address": _door.address, "pid": os.getpid(), "token": token}
        scratch = os.path.join(_folder(), f".{name}.{os.getpid()}.{threading.get_ident()}")
        with open(scratch, "w") as file:
            json.dump(notice, file)
        os.replace(scratch, os.path.join(_folder(), name))


class _Door(threading.Thread):
    """Takes in what neighbours bring, for as long as the worker lives."""

    def __init__(self) -> None:
        super().__init__(name="topwatch neighbours", daemon=True)
        self.pid = os.getpid()
        _sweep()
        self.address = os.path.join(_folder(), f"{self.pid}-{os.urandom(4).hex()}.sock")
        self._listener = Listener(self.address, "AF_UNIX")

    def run(self) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                wire = self._listener.accept()
                threading.Thread(target=_serve, args=(wire,), daemon=True).start()


def _serve(wire: Connection[Any, Any]) -> None:
    with wire, contextlib.suppress(OSError, EOFError):
        asked = json.loads(wire.recv_bytes())
        keeper = _keepers.get(asked["name"])
        if keeper is None or not keeper.warm(asked["token"]):
            wire.send_bytes(b"{}")
            return
        state = asked["state"].encode() if asked["state"] is not None else None
        lines = [{**line, "data": None} for line in asked["references"]]
        try:
            done = keeper.advance(Task(state, lines, asked["batch"], asked["watermark"]))
        except DataError as error:
            wire.send_bytes(json.dumps({"error": str(error)}).encode())
            return
        done.note()
        _tell(asked["name"], keeper, Manifest.from_bytes(done.state).token)
        tray = handing.lay(done.found) if done.found.num_rows else None
        parts = done.found.to_batches(ROWS) if tray is None else []
        answer = {"state": done.state.decode(), "next_time": done.next_time, "tray": tray, "parts": len(parts)}
        wire.send_bytes(json.dumps(answer).encode())
        for part in parts:
            wire.send_bytes(pack(pa.table(part)))


def _folder() -> str:
    """Return the folder where workers of this user meet."""
    path = os.path.join(tempfile.gettempdir(), f"topwatch-neighbours-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.getuid() or os.stat(path).st_mode & 0o077:
        raise DataError(f"neighbours: {path} belongs to somebody else; remove it")
    return path


def _sweep(alive: Callable[[int], bool] = lambda pid: os.path.exists(f"/proc/{pid}")) -> None:
    """Remove the doors of workers that are gone, and old notices."""
    for name in os.listdir(_folder()):
        path = os.path.join(_folder(), name)
        with contextlib.suppress(OSError, ValueError):
            if name.endswith(".sock"):
                if not alive(int(name.partition("-")[0])):
                    os.unlink(path)
            elif time.time() - os.stat(path).st_mtime > OLD:
                os.unlink(path)
