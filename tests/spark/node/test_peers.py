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
from tests.support.specs import references, spec_of
from topwatch.spark.node import peers
from topwatch.spark.operator import peer_tasks, stateful
from topwatch.spark.operator.references import BAD, Reference
from topwatch.spark.operator.stateful import StatefulOperator, Task
from topwatch.spark.state.backends import FolderBackend
from topwatch.spark.state.manifest import Manifest
from topwatch.spark.state.segments import Folder, pack

# Another worker, which takes the first micro-batch and so has the bucket warm.
PEER = """
import os, pickle, sys, time
from topwatch.spark.operator import peer_tasks
from topwatch.spark.operator import stateful
stateful.IDLE = 600.0
keeping, task = pickle.load(open(sys.argv[1], "rb"))
done = peer_tasks.advance(keeping, task)
keeping.publish(done)
sys.stdout.buffer.write(done.state)
sys.stdout.flush()
os.close(1)
time.sleep(600)
"""


def operator_in(folder: Path, **more: Any) -> StatefulOperator:
    query = tw.TopK(k=1, score=tw.linear(x=1.0), name="hot")
    spec = spec_of(query, algorithm="sma", segments=str(folder), run="run", **more)
    return StatefulOperator(spec, 0, FolderBackend(Folder(str(folder)), 0))


def lines(folder: Path, batch: int, score: float) -> list[Reference]:
    return references(Folder(str(folder)), batch, [pa.table({"id": [batch], "x": [score]})])


@pytest.fixture
def _meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder of its own where workers meet, and nothing warm here."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's name must not be long
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.setattr(peer_tasks, "_server", None)
        monkeypatch.setattr(peer_tasks, "_offered", {})
        monkeypatch.setattr(stateful, "_warm", {})
        yield


def peer_of(keeping: StatefulOperator, task: Task, folder: Path) -> tuple[subprocess.Popen[bytes], bytes]:
    import pickle

    (folder / "task").write_bytes(pickle.dumps((keeping, task)))
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    peer = subprocess.Popen([sys.executable, "-c", PEER, str(folder / "task")], stdout=subprocess.PIPE, env=environment)
    assert peer.stdout is not None
    with peer.stdout as output:
        return peer, output.read()


@pytest.mark.usefixtures("_meeting")
@pytest.mark.parametrize("how", ["alive", "stopped", "killed"])
def test_a_bucket_that_a_peer_has_warm(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that is silent is done without after some seconds, and what it still computes counts for nothing."""
    monkeypatch.setattr(peers, "SILENCE", 1.0)
    folder, bad = tmp_path / "segments", tmp_path / "bad"
    keeping = operator_in(folder, quarantine=str(bad))
    data = pack(pa.table({"reason": ["no id"], "raw": ["{}"]})).to_pybytes()
    peer, state = peer_of(keeping, Task(None, lines(folder, 1, 1.0)), tmp_path)
    try:
        if how == "stopped":
            os.kill(peer.pid, signal.SIGSTOP)
        elif how == "killed":
            peer.kill()
            peer.wait()
        task = Task(state, [*lines(folder, 2, 2.0), Reference(0, BAD, 0, 1, rows=1, data=data)])
        began = time.monotonic()
        done = peer_tasks.advance(keeping, task)
        assert time.monotonic() - began < 60.0, "not for as long as the peer pleases"
        keeping.publish(done)
        assert done.result.select(["op", "id"]).to_pylist() == [{"op": "leave", "id": 1}, {"op": "enter", "id": 2}]
        manifest = Manifest.from_bytes(done.state)
        assert keeping.warm(manifest) == (how != "alive"), "it stays where it was, or was read again here"
        assert (manifest.number, manifest.refused) == (2, 1)
        if how == "stopped":
            os.kill(peer.pid, signal.SIGCONT)
            deadline = time.monotonic() + 30
            while len(list(folder.glob("needs-*.json"))) < 3 and time.monotonic() < deadline:
                time.sleep(0.05)  # it has computed its version, which nobody asks for any more
            assert len(list(folder.glob("needs-*.json"))) == 3
        third = peer_tasks.advance(keeping, Task(done.state, lines(folder, 3, 1.5)))
        assert third.result.num_rows == 0
        assert Manifest.from_bytes(third.state).rows == 3
        assert len(list(bad.iterdir())) == 1, "the same rows under the same name, whoever wrote them"
    finally:
        peer.kill()
        peer.wait()


@pytest.mark.usefixtures("_meeting")
def test_buckets_of_two_calls_of_watch_are_never_the_same(tmp_path: Path) -> None:
    """Their folders and settings may differ, though they go on from one state."""
    one = operator_in(tmp_path)
    done = peer_tasks.advance(one, Task(None, lines(tmp_path, 1, 1.0)))
    one.publish(done)
    other = operator_in(tmp_path)
    object.__setattr__(other._spec, "run", "later")
    assert one.warm(Manifest.from_bytes(done.state))
    assert not other.warm(Manifest.from_bytes(done.state))


def test_a_folder_whose_name_is_too_long_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    monkeypatch.setattr(peer_tasks, "_server", None)
    keeping = operator_in(tmp_path)
    state = None
    for _ in range(2):
        state = peer_tasks.advance(keeping, Task(state, [])).state


@pytest.mark.usefixtures("_meeting")
@pytest.mark.parametrize("kind", ["open to others", "link"])
def test_a_folder_that_is_not_this_users_alone_is_not_used(tmp_path: Path, kind: str) -> None:
    path = Path(tempfile.gettempdir()) / f"topwatch-peers-{os.getuid()}"
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    (mine / "old").touch()
    os.utime(mine / "old", (0, 0))
    if kind == "link":
        path.symlink_to(mine)
    else:
        path.mkdir()
        path.chmod(0o755)
    operator, state = operator_in(tmp_path / "segments"), None
    for batch in range(2):
        stateful._warm.clear()
        state = peer_tasks.advance(operator, Task(state, lines(tmp_path / "segments", batch, 1.0))).state
    assert Manifest.from_bytes(state).rows == 2
    assert list(mine.iterdir()) == [mine / "old"], "and nothing is removed there"
    assert os.listdir(path) == (["old"] if kind == "link" else [])


@pytest.mark.usefixtures("_meeting")
def test_buckets_that_are_not_here_any_more_are_not_offered(tmp_path: Path) -> None:
    for number in range(5):
        stateful._warm.clear()
        operator = operator_in(tmp_path / "segments")
        peer_tasks.advance(operator, Task(None, lines(tmp_path / "segments", number, 1.0)))
        assert list(peer_tasks._offered.values()) == [operator]


@pytest.mark.usefixtures("_meeting")
def test_calls_that_cannot_be_accepted_are_tried_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    server, pauses = peers.Server(), []

    class Full:
        def accept(self) -> Any:
            if len(pauses) == 3:
                raise KeyboardInterrupt
            raise OSError(24, "Too many open files")

    server._socket.close()
    monkeypatch.setattr(server, "_socket", Full())
    monkeypatch.setattr(peers.time, "sleep", pauses.append)
    with pytest.raises(KeyboardInterrupt):
        next(server.calls())
    assert pauses == 3 * [peers.PAUSE]


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
