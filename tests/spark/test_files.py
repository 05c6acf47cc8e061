"""Files are written whole, under names that no other writer uses: here, and on file systems that are not local."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from topwatch.query.errors import DataError
from topwatch.spark.state import file_writer, segments
from topwatch.spark.state.file_writer import scratch, write_whole
from topwatch.spark.state.segments import Folder


def _write(folder: str, letter: str, times: int) -> None:
    os.getpid = lambda: 7  # as in two containers
    for _ in range(times):
        write_whole(folder, "note.json", [json.dumps({"letter": letter * 5000}).encode()])


def test_writers_of_one_name_do_not_meet(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(str(tmp_path), letter, 100)) for letter in "ab"]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        if (tmp_path / "note.json").exists():
            seen.add(json.loads((tmp_path / "note.json").read_text())["letter"])
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen <= {"a" * 5000, "b" * 5000}
    assert [path.name for path in tmp_path.iterdir()] == ["note.json"]


def test_a_writer_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    write_whole(str(tmp_path), "note", [b"old"])

    def broken():
        yield b"ne"
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_whole(str(tmp_path), "note", broken())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"note": b"old"}


def test_scratch_names_are_hidden_and_random() -> None:
    names = {scratch("a.seg") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(".a.seg.") for name in names)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder on a file system that is not local: one that can rename, but whose streams show what they have."""
    system = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    for module in (file_writer, segments):
        monkeypatch.setattr(module, "open_folder", lambda uri: (system, "deep/segments"))
    return Folder("far://deep/segments")


def test_segments_lie_there_as_they_do_here(elsewhere: Folder, tmp_path: Path) -> None:
    def written() -> list[segments.Part]:
        segment = elsewhere.create("0000005-p00000")
        parts = [segment.add_table(pa.table({"x": list(range(n))})) for n in (0, 10, 1000)]
        name = segment.close()
        return [part._replace(segment=name) for part in parts]

    parts = written()
    assert [path.name for path in tmp_path.rglob("*.seg")] == [parts[0].segment]
    assert written() == parts, "run again, it is the same file"
    for part, rows in zip(parts, (0, 10, 1000), strict=True):
        assert segments.unpack(elsewhere.read(part)).num_rows == rows
    elsewhere.check(parts)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=f"{path.name} in far://.* is damaged or too short"):
            elsewhere.read(parts[2])
        with pytest.raises(DataError, match=f"{path.name}.*bytes of at least"):
            elsewhere.check(parts)
