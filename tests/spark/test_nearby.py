"""Sheets: segments in the memory of this machine, read where they were written."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from topwatch.query.errors import DataError
from topwatch.spark.node import shared_memory
from topwatch.spark.state.segments import Folder, Part, Segment, unpack

pytestmark = pytest.mark.skipif(
    not os.path.isdir("/dev/shm") or shared_memory._SET_LOCK is None,
    reason="this system has no shared memory of this kind",
)


@pytest.fixture(autouse=True)
def _sheets_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_memory, "SHARED", str(tmp_path))
    for name in ("_idle", "_maps"):
        monkeypatch.setattr(shared_memory, name, type(getattr(shared_memory, name))())
    monkeypatch.setattr(shared_memory, "_made", 0)
    monkeypatch.setattr(shared_memory, "_swept", False)


def rows(start: int) -> pa.Table:
    return pa.table({"x": np.arange(start, start + 5000.0)})


def look(folder: Folder, part: Part) -> pa.Table:
    """Read a part as a bucket does: in memory where it is, else from the disk."""
    result = folder.near(part)
    return unpack(result if result is not None else folder.read(part))


def write(folder: Folder, batch: int, tables: list[pa.Table]) -> tuple[Segment, list[Part]]:
    segment = folder.create(f"{batch:07d}-p00000")
    parts = [segment.add_table(table) for table in tables]
    name = segment.close()
    return segment, [part._replace(segment=name) for part in parts]


def test_recent_parts_are_read_without_the_disk(tmp_path):
    folder = Folder(str(tmp_path / "segments"))
    _, parts = write(folder, 1, [rows(0), rows(7)])
    folder.drop([parts[0].segment])
    assert [look(folder, part) for part in parts] == [rows(0), rows(7)]
    with pytest.raises(DataError, match="is missing"):
        folder.read(parts[0])


def test_a_sheet_that_is_read_is_not_used_anew(tmp_path):
    folder = Folder(str(tmp_path / "segments"))
    _, (part,) = write(folder, 1, [rows(0)])
    held = look(folder, part)
    for batch in range(2, 8):
        write(folder, batch, [rows(100 * batch)])
    assert held == rows(0)
    assert shared_memory.read(part.segment, part.start, 8) is not None
    del held
    for batch in range(8, 11):
        write(folder, batch, [rows(100 * batch)])
    assert shared_memory.read(part.segment, part.start, 8) is None
    assert look(folder, part) == rows(0), "the disk has it"


def test_what_a_sheet_holds_of_another_segment_is_not_taken(tmp_path):
    folder = Folder(str(tmp_path / "segments"))
    _, parts = write(folder, 1, [rows(0), rows(7)])
    _, others = write(folder, 2, [rows(50), rows(57)])
    sheets = os.path.join(shared_memory._folder(), "")
    os.replace(sheets + others[0].segment, sheets + parts[0].segment)
    assert [look(folder, part) for part in parts] == [rows(0), rows(7)]


def test_without_room_segments_go_to_the_disk_alone(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    folder = Folder(str(tmp_path / "segments"))
    _, (part,) = write(folder, 1, [rows(3)])
    assert look(folder, part) == rows(3)


@pytest.mark.parametrize("broken", ["nobody", "elsewhere"])
def test_without_shared_memory_segments_go_to_the_disk_alone(tmp_path, monkeypatch, broken):
    if broken == "nobody":
        monkeypatch.setattr(shared_memory, "SHARED", str(tmp_path / "nowhere"))
    else:
        monkeypatch.setattr(shared_memory, "_SET_LOCK", None)
    folder = Folder(str(tmp_path / "segments"))
    segment, (part,) = write(folder, 1, [rows(3)])
    assert segment._shared is None
    assert look(folder, part) == rows(3)


def test_a_segment_that_is_never_closed_gives_its_sheet_back(tmp_path):
    folder = Folder(str(tmp_path / "segments"))
    for batch in range(5):
        segment = folder.create(f"{batch:07d}-p00000")
        assert segment._shared is not None
        segment.add_table(rows(batch))
        del segment


def test_sheets_of_workers_that_are_gone_are_removed(tmp_path):
    script = (
        "import os, sys\n"
        "from topwatch.spark.node import shared_memory\n"
        "shared_memory.SHARED = sys.argv[1]\n"
        "shared_memory.take().publish('0000000001-dead.seg')\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    mine = shared_memory.take()
    assert mine is not None
    mine.publish("0000000002-mine.seg")
    assert os.listdir(shared_memory._folder()) == ["0000000002-mine.seg"]
    shared_memory._sweep(shared_memory._folder())
    assert os.listdir(shared_memory._folder()) == ["0000000002-mine.seg"], "its owner lives"


def test_a_segment_that_is_written_twice_is_found_once(tmp_path):
    folder = Folder(str(tmp_path / "segments"))
    _, first = write(folder, 1, [rows(0)])
    _, again = write(folder, 1, [rows(0)])
    assert first == again
    assert look(folder, first[0]) == rows(0)
    for batch in range(2, 6):
        _, (part,) = write(folder, batch, [rows(100 * batch)])
        assert look(folder, part) == rows(100 * batch)
    assert look(folder, first[0]) == rows(0), "the disk has it"
