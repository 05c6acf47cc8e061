"""Segments: immutable files that rows travel in. Written once, synced, checksummed, named by nobody until then.

A segment is a short header and an Arrow stream. Its name is new for every attempt, so that a task that is tried again
never writes over what another one reads; which segments count is decided by the manifest in Spark's state store alone.

Any file system that Arrow knows will do. On a local one the bytes are synced to disk before the name is handed on, and
read by mapping the file into memory.
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from topwatch.errors import DataError

MAGIC = b"topseg\x01\x00"
HEADER = len(MAGIC) + 12  # magic, checksum, length
SUFFIX = ".seg"


@dataclass(frozen=True)
class Folder:
    """A folder for segments that all executors reach.

    Parameters
    ----------
    uri : str
        A path, or a URI of a file system that Arrow knows.
    """

    uri: str

    def write(self, batch: int, data: pa.Buffer) -> str:
        """Write a segment made in a micro-batch; return its name once it is safe."""
        name = f"{batch:010d}-{uuid.uuid4().hex}{SUFFIX}"
        head = MAGIC + struct.pack("<IQ", zlib.crc32(data), data.size)
        system, root = open_folder(self.uri)
        if isinstance(system, pafs.LocalFileSystem):
            os.makedirs(root, exist_ok=True)
            with open(os.path.join(root, name), "xb", buffering=0) as file:
                file.write(head)
                file.write(data)
                os.fsync(file.fileno())
            _sync_folder(root)
        else:
            system.create_dir(root, recursive=True)
            with system.open_output_stream(f"{root}/{name}") as stream:
                stream.write(head)
                stream.write(data)
        return name

    def read(self, name: str) -> pa.Buffer:
        """Return a segment's bytes; a missing or damaged one is an error that says which."""
        system, root = open_folder(self.uri)
        try:
            if isinstance(system, pafs.LocalFileSystem):
                whole = pa.memory_map(os.path.join(root, name)).read_buffer()
            else:
                with system.open_input_file(f"{root}/{name}") as file:
                    whole = file.read_buffer()
        except FileNotFoundError:
            raise DataError(
                f"segments: {name} is missing from {self.uri}; the state names it, so the window cannot be read."
                " Put it back, or start with a new checkpoint"
            ) from None
        if whole.size < HEADER or whole.slice(0, len(MAGIC)).to_pybytes() != MAGIC:
            raise DataError(f"segments: {name} in {self.uri} is no segment, or one of another version of topwatch")
        check, size = struct.unpack("<IQ", whole.slice(len(MAGIC), 12))
        data = whole.slice(HEADER)
        if data.size != size or zlib.crc32(data) != check:
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


def batch_of(name: str) -> int:
    """Return the micro-batch in which a segment was written."""
    return int(name.partition("-")[0])


def pack(table: pa.Table) -> pa.Buffer:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


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
