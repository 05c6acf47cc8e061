"""Trays: changes that one Python worker of a task lays down and another one fetches."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from topwatch.query.errors import DataError
from topwatch.spark.node import shared_memory, shared_results

pytestmark = pytest.mark.skipif(
    not os.path.isdir("/dev/shm") or shared_memory._SET_LOCK is None,
    reason="this system has no shared memory of this kind",
)


@pytest.fixture(autouse=True)
def _trays_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_memory, "SHARED", str(tmp_path))
    monkeypatch.setattr(shared_memory, "_maps", {})
    monkeypatch.setattr(shared_memory, "_swept", False)
    monkeypatch.setattr(shared_results, "_result_buffers", [])


def changes(start: int) -> pa.Table:
    return pa.table({"at": np.arange(start, start + 5000), "op": ["enter", "leave"] * 2500})


def test_what_is_laid_down_is_fetched():
    called = shared_results.lay(changes(3))
    assert called is not None
    assert shared_results.fetch(called) == changes(3)


def test_trays_are_used_again_once_they_are_fetched_and_read():
    for start in range(10):
        called = shared_results.lay(changes(start))
        assert called is not None
        assert shared_results.fetch(called) == changes(start)
    assert len(shared_results._result_buffers) == 1
    called = shared_results.lay(changes(0))
    assert called is not None
    held = shared_results.fetch(called)
    other = shared_results.lay(changes(7))
    assert other is not None
    assert len(shared_results._result_buffers) == 2
    assert held == changes(0), "what is looked at is not written over"
    assert shared_results.fetch(other) == changes(7)


def test_a_tray_waits_for_who_is_to_come(monkeypatch):
    names = [shared_results.lay(changes(start)) for start in range(shared_results.TRAYS)]
    assert shared_results.lay(changes(99)) is None, "all of them wait"
    for start, name in enumerate(names):
        assert name is not None
        assert shared_results.fetch(name) == changes(start)
    late = shared_results.lay(changes(5))
    assert late is not None
    monkeypatch.setattr(shared_results, "PATIENCE", -1.0)
    for start in range(shared_results.TRAYS):
        assert shared_results.lay(changes(start)) is not None, "nobody has come for them"
    with pytest.raises(DataError, match="has to be tried again"):
        shared_results.fetch(late)


def test_what_another_tray_holds_is_not_taken():
    one, other = shared_results.lay(changes(1)), shared_results.lay(changes(2))
    assert one is not None
    assert other is not None
    folder = shared_memory._folder()
    names = [os.path.join(folder, called.split(" ")[0] + shared_results.SUFFIX) for called in (one, other)]
    os.replace(names[1], names[0])
    with pytest.raises(DataError, match="has to be tried again"):
        shared_results.fetch(one)


def test_another_process_fetches():
    called = shared_results.lay(changes(11))
    assert called is not None
    script = (
        "import sys\n"
        "from topwatch.spark.node import shared_memory, shared_results\n"
        "shared_memory.SHARED = sys.argv[1]\n"
        "print(shared_results.fetch(sys.argv[2]).column('at')[0])\n"
    )
    command = [sys.executable, "-c", script, shared_memory.SHARED, called]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "11\n"
    assert shared_results._result_buffers[0].idle


@pytest.mark.parametrize("broken", ["nobody", "elsewhere", "full", "large"])
def test_where_there_is_no_such_memory_changes_travel_themselves(tmp_path, monkeypatch, broken):
    if broken == "nobody":
        monkeypatch.setattr(shared_memory, "SHARED", str(tmp_path / "nowhere"))
    elif broken == "elsewhere":
        monkeypatch.setattr(shared_memory, "_SET_LOCK", None)
    elif broken == "large":
        monkeypatch.setattr(shared_memory, "MOST", 4096)
    else:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
    assert shared_results.lay(changes(1)) is None
