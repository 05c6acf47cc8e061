"""Files past the page cache: what is written is read back, whatever its length, and memory is used again."""

from __future__ import annotations

import errno
import os

import numpy as np
import pyarrow as pa
import pytest

from topwatch.query.errors import DataError
from topwatch.spark.node import direct_io
from topwatch.spark.state import segments
from topwatch.spark.state.segments import CHUNK, Folder, Part, unpack

LENGTHS = (0, 1, direct_io.PAGE - segments.HEADER, direct_io.PAGE, CHUNK - segments.HEADER, CHUNK + 1)


def bytes_of(size: int) -> bytes:
    return np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()


def test_parts_of_any_length_come_back(tmp_path):
    folder = Folder(str(tmp_path))
    segment = folder.create("p0")
    parts = [segment.add(pa.py_buffer(bytes_of(size)), size) for size in LENGTHS]
    table = pa.table({"x": np.arange(70_000), "name": ["é"] * 70_000})
    rows = segment.add_table(table)
    name = segment.close()
    rows, *parts = (part._replace(segment=name) for part in (rows, *parts))
    for size, part in zip(LENGTHS, parts, strict=True):
        assert folder.read(part).to_pybytes() == bytes_of(size)
    assert unpack(folder.read(rows)).equals(table)


def test_a_cut_or_changed_file_is_refused(tmp_path):
    folder = Folder(str(tmp_path))
    segment = folder.create("p0")
    part = segment.add(pa.py_buffer(bytes_of(10_000)))
    part = part._replace(segment=segment.close())
    path = tmp_path / part.segment
    whole = path.read_bytes()
    for index in (segments.HEADER, segments.HEADER + 9_999, 8, 16):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :])
        with pytest.raises(DataError, match="damaged"):
            folder.read(part)
    path.write_bytes(b"x" + whole[1:])
    with pytest.raises(DataError, match="another version"):
        folder.read(part)
    for length in (0, 5, 70, 4096, 9_000):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="damaged"):
            folder.read(part)
    with pytest.raises(DataError, match="damaged"):
        folder.read(Part(part.segment, 1 << 20, 10, 0, 0))


def test_what_the_disk_did_not_take_is_an_error_when_the_segment_is_closed(tmp_path, monkeypatch):
    segment = Folder(str(tmp_path)).create("p0")
    written, calls = os.write, []

    def write(file, view):
        calls.append(len(view))
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(file, view)

    monkeypatch.setattr(direct_io.os, "write", write)
    for _ in range(4):
        segment.add_table(pa.table({"x": np.arange(1_000)}))
    with pytest.raises(OSError, match="No space left"):
        segment.close()
    assert len(calls) == 2, "nothing is written behind what is missing"


def test_a_file_system_without_it_is_used_as_it_is(tmp_path, monkeypatch):
    kind = direct_io._DIRECT
    opened = os.open

    def refusing(path, flags, mode=0o777):
        if kind and flags & kind:
            raise OSError(errno.EINVAL, "no")
        return opened(path, flags, mode)

    monkeypatch.setattr(direct_io.os, "open", refusing)
    folder = Folder(str(tmp_path))
    segment = folder.create("p0")
    part = segment.add(pa.py_buffer(bytes_of(5_000)))
    part = part._replace(segment=segment.close())
    assert folder.read(part).to_pybytes() == bytes_of(5_000)


def test_a_disk_that_refuses_the_first_page_is_used_through_the_cache(tmp_path, monkeypatch):
    wrote, refused = os.write, []

    def refusing(file, data):
        if not refused:
            refused.append(file)
            raise OSError(errno.EINVAL, "no")
        return wrote(file, data)

    monkeypatch.setattr(direct_io.os, "write", refusing)
    folder = Folder(str(tmp_path))
    segment = folder.create("p0")
    part = segment.add(pa.py_buffer(bytes_of(5_000)))
    part = part._replace(segment=segment.close())
    assert refused
    assert folder.read(part).to_pybytes() == bytes_of(5_000)


def test_memory_is_used_again_only_when_nobody_looks_at_it(tmp_path):
    folder = Folder(str(tmp_path))
    segment = folder.create("p0")
    parts = [segment.add(pa.py_buffer(bytes_of(200_000 + i))) for i in range(3)]
    name = segment.close()
    parts = [part._replace(segment=name) for part in parts]
    first = folder.read(parts[0])
    second = folder.read(parts[1])
    assert first.address != second.address
    assert first.to_pybytes() == bytes_of(200_000)
    index = first.slice(5)
    del first
    third = folder.read(parts[2])
    assert index.to_pybytes() == bytes_of(200_000)[5:]
    seen = {third.address, second.address}
    del second, third, index
    assert folder.read(parts[1]).address in seen or folder.read(parts[2]).address in seen


def test_idle_memory_is_bounded():
    blocks = direct_io.Blocks(most=1 << 20)
    held = [blocks.take(1 << 19) for _ in range(4)]
    for block in held:
        blocks.give(block)
    assert sum(map(len, blocks._idle)) <= 1 << 20
