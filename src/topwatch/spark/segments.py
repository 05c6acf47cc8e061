"""Segments: immutable files that rows travel in. Written once, synced, checksummed, named by nobody until then.

A segment is a row of *parts*, each an Arrow stream behind a short header, so that a reader touches what it needs only.
Its name is new for every attempt, so that a task that is tried again never writes over what another one reads; which
segments count is decided by the manifest in Spark's state store alone.

Any file system that Arrow knows will do. On a local one the bytes are synced to disk before the name is handed on, and
read by mapping the file into memory.
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from topwatch.errors import DataError

MAGIC = b"topseg\x02\x00"
HEADER = len(MAGIC) + 12  # magic, checksum, length
SUFFIX = ".seg"


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
                whole = pa.memory_map(os.path.join(root, name)).read_buffer()
                found = whole.slice(part.start, HEADER + part.size) if whole.size >= part.start else whole.slice(0, 0)
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
        if data.size != part.size or _checked(data) != struct.unpack("<IQ", found.slice(len(MAGIC), 12)):
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
        self._local = isinstance(system, pafs.LocalFileSystem)
        self._file: Any
        if self._local:
            os.makedirs(self._root, exist_ok=True)
            self._file = open(os.path.join(self._root, name), "xb", buffering=0)  # noqa: SIM115 - closed by close
        else:
            system.create_dir(self._root, recursive=True)
            self._file = system.open_output_stream(f"{self._root}/{name}")

    def add(self, data: Any, rows: int = 0) -> Part:
        """Write bytes behind the others; return where they are."""
        buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        self._file.write(MAGIC + struct.pack("<IQ", *_checked(buffer)))
        view = memoryview(buffer)
        while view:  # a raw file may take less than it is given
            view = view[self._file.write(view) or len(view) :]
        part = Part(self._name, self._end, buffer.size, rows)
        self._end += HEADER + buffer.size
        return part

    def close(self) -> None:
        """Make the bytes safe."""
        if self._local:
            os.fsync(self._file.fileno())
        self._file.close()
        if self._local:
            _sync_folder(self._root)


def _checked(data: Any) -> tuple[int, int]:
    return zlib.crc32(data), data.size


def batch_of(name: str) -> int:
    """Return the micro-batch in which a segment was written."""
    return int(name.partition("-")[0])


def pack(table: pa.Table) -> pa.Buffer:
    """Write a table as an Arrow stream."""
    measure = pa.MockOutputStream()
    with pa.ipc.new_stream(measure, table.schema) as writer:
        writer.write_table(table)
    # Of the right size at once: a buffer that grows is copied again and again.
    buffer = pa.allocate_buffer(measure.size())
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), table.schema) as writer:
        writer.write_table(table)
    return buffer


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
