"""Segments: immutable files that rows travel in. Written once, synced, checksummed, named by nobody until then.

A segment is a row of *parts*, each an Arrow stream behind a short header, so that a reader touches what it needs only.
Its name is new for every attempt, so that a task that is tried again never writes over what another one reads; which
segments count is decided by the manifest in Spark's state store alone.

Any file system that Arrow knows will do. On a local one parts begin at pages, go straight to the disk and back
(:mod:`topwatch.spark.direct`), and are synced before the name is handed on.
"""

from __future__ import annotations

import os
import struct
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import xxhash

from topwatch.errors import DataError
from topwatch.spark import direct

MAGIC = b"topseg\x03\x00"
HEADER = 64  # magic, checksum, length, and nothing: the bytes behind it begin where Arrow likes them to
CHUNK = 8 << 20  # bytes that are written at once
SUFFIX = ".seg"
_CHECK = struct.Struct("<QQ")  # checksum, length


class Part(NamedTuple):
    """Where bytes are: in which segment, from where on (the header), how many, and how many rows they hold."""

    segment: str
    start: int
    size: int
    rows: int


@dataclass(frozen=True)
class Folder:
    """A folder for segments that all executors reach.

    Parameters
    ----------
    uri : str
        A path, or a URI of a file system that Arrow knows.
    """

    uri: str

    def create(self, batch: int) -> Segment:
        """Begin a segment in a micro-batch."""
        return Segment(self, f"{batch:010d}-{uuid.uuid4().hex}{SUFFIX}")

    def read(self, part: Part) -> pa.Buffer:
        """Return a part's bytes; a missing or damaged one is an error that says which."""
        name = part.segment
        system, root = open_folder(self.uri)
        try:
            if isinstance(system, pafs.LocalFileSystem):
                found = direct.read(os.path.join(root, name), part.start, HEADER + part.size)
            else:
                with system.open_input_file(f"{root}/{name}") as file:
                    file.seek(part.start)
                    found = file.read_buffer(HEADER + part.size)
        except FileNotFoundError:
            raise DataError(
                f"segments: {name} is missing from {self.uri}; the state names it, so the window cannot be read."
                " Put it back, or start with a new checkpoint"
            ) from None
        if found.size >= len(MAGIC) and found.slice(0, len(MAGIC)).to_pybytes() != MAGIC:
            raise DataError(f"segments: {name} in {self.uri} is no segment, or one of another version of topwatch")
        data = found.slice(min(HEADER, found.size))
        if data.size != part.size or _checked(data) != _CHECK.unpack(found.slice(len(MAGIC), _CHECK.size)):
            raise DataError(
                f"segments: {name} in {self.uri} is damaged: its checksum does not match."
                " Put a good copy in its place, or start with a new checkpoint"
            )
        return data

    def names(self) -> list[str]:
        """Return the names of all segments, oldest micro-batch first."""
        system, root = open_folder(self.uri)
        found = system.get_file_info(pafs.FileSelector(root, allow_not_found=True))
        return sorted(info.base_name for info in found if info.base_name.endswith(SUFFIX))

    def drop(self, names: list[str]) -> None:
        """Remove segments; one that is gone already is no error."""
        system, root = open_folder(self.uri)
        for name in names:
            try:
                system.delete_file(f"{root}/{name}")
            except FileNotFoundError:
                continue


class Segment:
    """A segment that is being written; it may be named once it is closed."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._name = name
        self._end = 0
        system, self._root = open_folder(folder.uri)
        self._writer: direct.Writer | None = None
        self._stream: Any = None
        if isinstance(system, pafs.LocalFileSystem):
            os.makedirs(self._root, exist_ok=True)
            self._writer = direct.Writer(os.path.join(self._root, name))
        else:
            system.create_dir(self._root, recursive=True)
            self._stream = system.open_output_stream(f"{self._root}/{name}")

    def add(self, data: pa.Buffer, rows: int = 0) -> Part:
        """Write bytes behind the others; return where they are."""
        header = _header(data)
        if self._writer is None:
            self._stream.write(header)
            self._stream.write(data)
            return self._part(data.size, rows, HEADER + data.size)
        block = direct.BLOCKS.take(min(CHUNK, HEADER + data.size + direct.PAGE))
        block.memory[:HEADER] = header
        view, done, place = memoryview(data), 0, HEADER
        while True:
            some = min(data.size - done, CHUNK - place)
            block.memory[place : place + some] = view[done : done + some]
            self._writer.write(block, place + some)
            done, place = done + some, 0
            if done == data.size:
                break
        direct.BLOCKS.give(block)
        return self._part(data.size, rows)

    def add_table(self, table: pa.Table) -> Part:
        """Write rows behind the others; return where they are."""
        if self._writer is None:
            return self.add(pack(table), table.num_rows)
        size = packed_size(table)
        block = direct.BLOCKS.take(HEADER + size + direct.PAGE)
        with memoryview(block.memory) as view:
            buffer = pa.py_buffer(view[HEADER : HEADER + size])
            pack_into(buffer, table)
            block.memory[:HEADER] = _header(buffer)
            del buffer
        self._writer.write(block, HEADER + size)
        direct.BLOCKS.give(block)
        return self._part(size, table.num_rows)

    def _part(self, size: int, rows: int, taken: int | None = None) -> Part:
        part = Part(self._name, self._end, size, rows)
        self._end += taken if taken is not None else -(-(HEADER + size) // direct.PAGE) * direct.PAGE
        return part

    def close(self) -> None:
        """Make the bytes safe."""
        if self._writer is None:
            self._stream.close()
            return
        self._writer.close()
        _sync_folder(self._root)


def _header(data: pa.Buffer) -> bytes:
    return (MAGIC + _CHECK.pack(*_checked(data))).ljust(HEADER, b"\0")


def _checked(data: Any) -> tuple[int, int]:
    return xxhash.xxh3_64_intdigest(data), data.size


def batch_of(name: str) -> int:
    """Return the micro-batch in which a segment was written."""
    return int(name.partition("-")[0])


def pack(table: pa.Table) -> pa.Buffer:
    """Write a table as an Arrow stream."""
    # Of the right size at once: a buffer that grows is copied again and again.
    buffer = pa.allocate_buffer(packed_size(table))
    pack_into(buffer, table)
    return buffer


def packed_size(table: pa.Table) -> int:
    """Return how many bytes a table has as an Arrow stream."""
    measure = pa.MockOutputStream()
    with pa.ipc.new_stream(measure, table.schema) as writer:
        writer.write_table(table)
    return int(measure.size())


def pack_into(buffer: pa.Buffer, table: pa.Table) -> None:
    """Write a table as an Arrow stream into memory of its size."""
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), table.schema) as writer:
        writer.write_table(table)


def unpack(data: Any) -> pa.Table:
    """Read a table back, without copying its columns."""
    return pa.ipc.open_stream(pa.py_buffer(data) if isinstance(data, bytes | memoryview) else data).read_all()


def open_folder(uri: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it."""
    if "://" not in uri and not uri.startswith("file:"):
        return pafs.LocalFileSystem(), os.path.abspath(uri)
    system, root = pafs.FileSystem.from_uri(uri)
    return system, root


def _sync_folder(path: str) -> None:
    """Make a new file's name as safe as its bytes."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
