"""Trays: changes that one Python worker of a task lays down and another one fetches."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from topwatch.errors import DataError
from topwatch.spark import handing, nearby

pytestmark = pytest.mark.skipif(
    not os.path.isdir("/dev/shm") or nearby._SET_LOCK is None, reason="this system has no shared memory of this kind"
)


@pytest.fixture(autouse=True)
def _trays_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(nearby, "SHARED", str(tmp_path))
    monkeypatch.setattr(nearby, "_maps", {})
    monkeypatch.setattr(nearby, "_swept", False)
    monkeypatch.setattr(handing, "_trays", [])


def changes(start: int) -> pa.Table:
    return pa.table({"at": np.arange(start, start + 5000), "op": ["enter", "leave"] * 2500})


def test_what_is_laid_down_is_fetched():
    called = handing.lay(changes(3))
    assert called is not None
    assert handing.fetch(called) == changes(3)


def test_trays_are_used_again_once_they_are_fetched_and_read():
    for start in range(10):
        called = handing.lay(changes(start))
        assert called is not None
        assert handing.fetch(called) == changes(start)
    assert len(handing._trays) == 1
    called = handing.lay(changes(0))
    assert called is not None
    held = handing.fetch(called)
    other = handing.lay(changes(7))
    assert other is not None
    assert len(handing._trays) == 2
    assert held == changes(0), "what is looked at is not written over"
    assert handing.fetch(other) == changes(7)


def test_a_tray_waits_for_who_is_to_come(monkeypatch):
    names = [handing.lay(changes(start)) for start in range(handing.TRAYS)]
    assert handing.lay(changes(99)) is None, "all of them wait"
    for start, name in enumerate(names):
        assert name is not None
        assert handing.fetch(name) == changes(start)
    late = handing.lay(changes(5))
    assert late is not None
    monkeypatch.setattr(handing, "PATIENCE", -1.0)
    for start in range(handing.TRAYS):
        assert handing.lay(changes(start)) is not None, "nobody has come for them"
    with pytest.raises(DataError, match="has to be tried again"):
        handing.fetch(late)


def test_what_another_tray_holds_is_not_taken():
    one, other = handing.lay(changes(1)), handing.lay(changes(2))
    assert one is not None
    assert other is not None
    folder = nearby._folder()
    names = [os.path.join(folder, called.split(" ")[0] + handing.SUFFIX) for called in (one, other)]
    os.replace(names[1], names[0])
    with pytest.raises(DataError, match="has to be tried again"):
        handing.fetch(one)


def test_another_process_fetches():
    called = handing.lay(changes(11))
    assert called is not None
    script = (
        "import sys\n"
        "from topwatch.spark import handing, nearby\n"
        "nearby.SHARED = sys.argv[1]\n"
        "print(handing.fetch(sys.argv[2]).column('at')[0])\n"
    )
    command = [sys.executable, "-c", script, nearby.SHARED, called]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "11\n"
    assert handing._trays[0].idle


@pytest.mark.parametrize("broken", ["nobody", "elsewhere", "full", "large"])
def test_where_there_is_no_such_memory_changes_travel_themselves(tmp_path, monkeypatch, broken):
    if broken == "nobody":
        monkeypatch.setattr(nearby, "SHARED", str(tmp_path / "nowhere"))
    elif broken == "elsewhere":
        monkeypatch.setattr(nearby, "_SET_LOCK", None)
    elif broken == "large":
        monkeypatch.setattr(nearby, "MOST", 4096)
    else:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
    assert handing.lay(changes(1)) is None
