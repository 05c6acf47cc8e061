"""Tasks that another Python worker of this machine does, which has the bucket in memory.

Rows do not travel: both see the same segments. The peer commits nothing: its answer counts only if the task that called
hands it to Spark's store, and what it may still compute later has a token that no version ever has.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from topwatch.monitor.snapshot_format import pack as pack_state
from topwatch.monitor.snapshot_format import unpack as unpack_state
from topwatch.spark import node
from topwatch.spark.node import peers
from topwatch.spark.operator.references import Reference
from topwatch.spark.operator.stateful import Hints, StatefulOperator, Task, TaskResult, holds
from topwatch.spark.state.manifest import Manifest
from topwatch.spark.state.segments import pack, unpack

RESULT_ROWS = 1 << 14  # rows of a result that travel at once

_server: peers.Server | None = None
_offered: dict[str, StatefulOperator] = {}


def advance(operator: StatefulOperator, task: Task) -> TaskResult:
    """Take a micro-batch where the bucket is in memory: here, in a peer, or nowhere, and then here."""
    if not node.enabled("peers") or not operator.shared:
        return operator.advance(task)
    manifest = operator.manifest(task)
    if manifest.token and not operator.warm(manifest):
        answer = peers.call(operator.name(manifest), manifest.token, _request(task))
        if answer is not None:
            return _done(answer)
    return _advanced(operator, task, manifest)


def _advanced(operator: StatefulOperator, task: Task, manifest: Manifest) -> TaskResult:
    """Take a micro-batch here, and offer the bucket to peers."""
    global _server
    done = operator.advance(task, manifest)  # which has made it the new version's
    name = operator.name(manifest)
    for other in list(_offered):  # threads for peers work here too
        if not holds(other):
            _offered.pop(other, None)
    _offered[name] = operator
    with contextlib.suppress(OSError):  # a full disk, or a path too long for a socket: peers read for themselves
        if _server is None or _server.pid != os.getpid():  # in a process that was forked the thread is gone
            _server = peers.Server()
            threading.Thread(target=_serve, args=(_server,), name="topwatch peers", daemon=True).start()
        _server.offer(name, manifest.token)
    return done


def _serve(server: peers.Server) -> None:
    """Serve the tasks that peers send, for as long as the worker lives."""
    for call in server.calls():
        threading.Thread(target=_serve_one, args=(call,), daemon=True).start()


def _serve_one(call: peers.Call) -> None:
    with call:
        name, request = call.read()
        operator = _offered.get(name)
        call.answer(_answer(operator, request) if operator is not None else None)


def _answer(operator: StatefulOperator, request: bytes) -> Sequence[Any] | None:
    """Do the task of a peer; None where the bucket is not here in its version."""
    header, arrays = unpack_state(request)
    lines = [Reference(**{**line, "data": _bytes(arrays, f"data {i}")}) for i, line in enumerate(header["references"])]
    task = Task(_bytes(arrays, "state"), lines, header["watermark"], Hints(*header["shown"]))
    manifest = operator.manifest(task)
    if not operator.warm(manifest):
        return None
    done = _advanced(operator, task, manifest)
    operator.publish(done)
    head = pack_state({"next_time": done.next_time}, _arrays({"state": done.state}))
    return [head, *(pack(pa.table(part)) for part in done.result.to_batches(RESULT_ROWS))]


def _request(task: Task) -> bytes:
    lines = [{**line._asdict(), "data": None} for line in task.references]
    carried = {f"data {i}": line.data for i, line in enumerate(task.references)}  # a few refused rows at most
    header = {"references": lines, "watermark": task.watermark, "shown": task.shown}
    return pack_state(header, _arrays({"state": task.state, **carried}))


def _done(answer: Sequence[bytes]) -> TaskResult:
    head, *parts = answer
    header, arrays = unpack_state(head)
    tables = [unpack(part) for part in parts]
    result = pa.concat_tables(tables) if tables else pa.table({})
    return TaskResult(arrays["state"].tobytes(), result, header["next_time"])


def _arrays(values: dict[str, bytes | None]) -> dict[str, np.ndarray]:
    return {name: np.frombuffer(value, np.uint8) for name, value in values.items() if value is not None}


def _bytes(arrays: dict[str, np.ndarray], name: str) -> bytes | None:
    return arrays[name].tobytes() if name in arrays else None
