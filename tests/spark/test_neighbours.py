"""Peer workers: where they cannot help, a bucket is read again and nothing else happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import topwatch as tw
from topwatch.spark.node import peers, shared_memory, shared_results
from topwatch.spark.operator import stateful
from topwatch.spark.operator.partition_writer import BAD, ROWS
from topwatch.spark.operator.stateful import StatefulOperator, Task
from topwatch.spark.state.backends import FolderBackend
from topwatch.spark.state.manifest import Manifest
from topwatch.spark.state.segments import Folder
from topwatch.spark.stream_spec import Spec

# Another worker, which takes the first micro-batch and so has the bucket warm.
PEER = """
import os, pickle, sys, time
import topwatch.spark.node.peers as neighbours
from topwatch.spark.operator import stateful as keeper
keeper.IDLE = 600.0
keeping, task = pickle.load(open(sys.argv[1], "rb"))
done = neighbours.advance(keeping, task)
done.publish()
sys.stdout.buffer.write(done.state)
sys.stdout.flush()
os.close(1)
time.sleep(600)
"""


def keeper_in(folder: Path, **more: Any) -> StatefulOperator:
    given: dict[str, Any] = {"queries": (tw.TopK(k=1, score=tw.linear(x=1.0), name="hot"),), "columns": ("x",)}
    given |= {"window": tw.last(10), "every": 1, "algorithm": "sma", "options": {}, "id": "id", "time": None, "by": ()}
    given |= {"order": (), "emit": "changes", "watermark": False, "buckets": (0,), "segments": str(folder)}
    kinds = {"at": pa.int64(), "query": pa.string(), "op": pa.string(), "id": pa.int64(), "score": pa.float64()}
    spec = Spec(**given, schema=pa.schema(list(kinds.items())), run="run", **more)
    return StatefulOperator(spec, 0, FolderBackend(Folder(str(folder)), 0))


def lines(folder: Path, batch: int, score: float) -> list[dict[str, Any]]:
    segment = Folder(str(folder)).create(f"{batch:07d}-p00000")
    part = segment.add_table(pa.table({"id": [batch], "x": [score]}))
    where = {"bucket": 0, "kind": ROWS, "part": 0, "piece": 0, "data": None}
    return [{**where, **part._asdict(), "segment": segment.close()}]


@pytest.fixture
def _meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder of its own where workers meet, and nothing warm here."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's name must not be long
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.setattr(peers, "_server", None)
        monkeypatch.setattr(peers, "_keepers", {})
        monkeypatch.setattr(stateful, "_warm", {})
        monkeypatch.setattr(shared_memory, "_maps", {})
        yield


def peer_of(keeping: StatefulOperator, task: Task, folder: Path) -> tuple[subprocess.Popen[bytes], bytes]:
    import pickle

    (folder / "task").write_bytes(pickle.dumps((keeping, task)))
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    peer = subprocess.Popen([sys.executable, "-c", PEER, str(folder / "task")], stdout=subprocess.PIPE, env=environment)
    assert peer.stdout is not None
    with peer.stdout as said:
        return peer, said.read()


@pytest.mark.usefixtures("_meeting")
@pytest.mark.parametrize("how", ["alive", "stopped", "killed"])
def test_a_bucket_that_a_peer_has_warm(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that is silent is done without after some seconds, and what it still computes counts for nothing."""
    monkeypatch.setattr(peers, "SILENCE", 1.0)
    folder, bad = tmp_path / "segments", tmp_path / "bad"
    keeping = keeper_in(folder, quarantine=str(bad))
    refused = {"kind": BAD, "data": peers.pack(pa.table({"reason": ["no id"], "raw": ["{}"]})).to_pybytes()}
    peer, state = peer_of(keeping, Task(None, lines(folder, 1, 1.0)), tmp_path)
    try:
        if how == "stopped":
            os.kill(peer.pid, signal.SIGSTOP)
        elif how == "killed":
            peer.kill()
            peer.wait()
        second = lines(folder, 2, 2.0)
        task = Task(state, [*second, {**second[0], **refused, "segment": None, "piece": 1}])
        began = time.monotonic()
        done = peers.advance(keeping, task)
        assert time.monotonic() - began < 60.0, "not for as long as the peer pleases"
        done.publish()
        result = shared_results.fetch(done.result_buffer) if done.result_buffer is not None else done.result
        assert result.select(["op", "id"]).to_pylist() == [{"op": "leave", "id": 1}, {"op": "enter", "id": 2}]
        manifest = Manifest.from_bytes(done.state)
        assert keeping.warm(manifest) == (how != "alive"), "it stays where it was, or was read again here"
        assert (manifest.number, manifest.refused) == (2, 1)
        if how == "stopped":
            os.kill(peer.pid, signal.SIGCONT)
            deadline = time.monotonic() + 30
            while len(list(folder.glob("needs-*.json"))) < 3 and time.monotonic() < deadline:
                time.sleep(0.05)  # it has computed its version, which nobody asks for any more
            assert len(list(folder.glob("needs-*.json"))) == 3
        third = peers.advance(keeping, Task(done.state, lines(folder, 3, 1.5)))
        assert third.result.num_rows == 0
        assert Manifest.from_bytes(third.state).rows == 3
        assert len(list(bad.iterdir())) == 1, "the same rows under the same name, whoever wrote them"
    finally:
        peer.kill()
        peer.wait()


@pytest.mark.usefixtures("_meeting")
def test_buckets_of_two_calls_of_watch_are_never_the_same(tmp_path: Path) -> None:
    """Their folders and settings may differ, though they go on from one state."""
    one = keeper_in(tmp_path)
    done = peers.advance(one, Task(None, lines(tmp_path, 1, 1.0)))
    done.publish()
    other = keeper_in(tmp_path)
    object.__setattr__(other._spec, "run", "later")
    assert one.warm(Manifest.from_bytes(done.state))
    assert not other.warm(Manifest.from_bytes(done.state))


def test_a_folder_whose_name_is_too_long_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    monkeypatch.setattr(peers, "_server", None)
    keeping = keeper_in(tmp_path)
    state = None
    for _ in range(2):
        state = peers.advance(keeping, Task(state, [])).state


@pytest.mark.usefixtures("_meeting")
def test_sockets_of_workers_that_are_gone_are_removed() -> None:
    import socket

    folder = Path(peers._folder())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone, socket.socket(socket.AF_UNIX) as alive:
        gone.bind(str(folder / "gone.sock"))
        alive.bind(str(folder / "alive.sock"))
        alive.listen()
        peers._sweep()
        assert [path.name for path in folder.iterdir()] == ["alive.sock"]
