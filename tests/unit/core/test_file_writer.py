"""Files are written whole, under names that no other writer uses."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from topwatch.core.file_writer import scratch, whole_file


def _write(folder: str, letter: str, times: int) -> None:
    os.getpid = lambda: 7  # as in two containers
    for _ in range(times):
        with whole_file(f"{folder}/note.json") as file:
            file.write(json.dumps({"letter": letter * 5000}).encode())


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
    with whole_file(str(tmp_path / "note")) as file:
        file.write(b"old")

    def fail() -> None:
        with whole_file(str(tmp_path / "note")) as file:
            file.write(b"ne")
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        fail()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"note": b"old"}


def test_scratch_names_are_hidden_and_random() -> None:
    names = {scratch("a.seg") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(".a.seg.") for name in names)
