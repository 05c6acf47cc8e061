"""Segments: immutable files of rows. Written once, synced and checksummed before any reference to them exists.

A segment is a row of *parts*, each an Arrow stream behind a short header, so that a reader touches what it needs only.
Its name is made of its writer, the task of a stage or a version of a state, and of what it holds: a task that is run
again writes the same bytes under the same name, and no two contents ever have one name. A reference to a part also
has its length and checksum, so that a file that was cut off, damaged or replaced is an error and never taken for
another one. Which segments count is decided by the manifest of the version from which Spark continues.

Any file system that Arrow knows will do. On a local one a segment is synced before the name is handed on.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import xxhash

from topwatch.core.file_writer import put_in_place, scratch
from topwatch.query.errors import DataError
from topwatch.spark.state.folder import open_folder, write_whole

MAGIC = b"topseg\x06\x00"
HEADER = 64  # magic, checksum, length, where it begins, and nothing: bytes behind it begin where Arrow likes them to
CHUNK = 8 << 20  # bytes that are written at once
SPOOLED = 64 << 20  # bytes of a segment that wait in memory where it cannot be renamed; more wait on the local disk
SUFFIX = ".seg"
_CHECK = struct.Struct("<QQQ")


class Part(NamedTuple):
    """Where bytes are: in which segment, from where on (the header), how many, how many rows, and their checksum."""

    segment: str
    start: int
    size: int
    rows: int
    check: int


@dataclass(frozen=True)
class Folder:
    """A folder for segments that all executors reach.

    Parameters
    ----------
    uri : str
        A path, or a URI of a file system that Arrow knows.
    """

    uri: str

    def create(self, origin: str) -> Segment:
        """Begin a segment; ``origin`` names its writer: the task of a stage, or a version of a state."""
        return Segment(self, origin)

    def read(self, part: Part) -> pa.Buffer:
        """Return a part's bytes; a missing, short or damaged one is an error that names it."""
        name = part.segment
        system, root = open_folder(self.uri)
        try:
            with system.open_input_file(f"{root}/{name}") as file:
                file.seek(part.start)
                result = file.read_buffer(HEADER + part.size)
        except FileNotFoundError:
            raise DataError(self._missing(name)) from None
        if result.size >= len(MAGIC) and result.slice(0, len(MAGIC)).to_pybytes() != MAGIC:
            raise DataError(f"segments: {name} in {self.uri} is no segment, or one of another version of topwatch")
        sound = result.size == HEADER + part.size and result.slice(0, HEADER).to_pybytes() == _header(part)
        if not sound or checksum(result.slice(HEADER)) != part.check:
            raise DataError(
                f"segments: {name} in {self.uri} is damaged or too short: its checksum does not match."
                " Replace it by a good copy, or start with a new checkpoint"
            )
        return result.slice(HEADER)

    def check(self, parts: Iterable[Part]) -> None:
        """See that the segments of some parts are there, and long enough, as this host sees them."""
        ends: dict[str, int] = {}
        for part in parts:
            ends[part.segment] = max(ends.get(part.segment, 0), part.start + HEADER + part.size)
        system, root = open_folder(self.uri)
        for (name, end), info in zip(
            ends.items(), system.get_file_info([f"{root}/{name}" for name in ends]) if ends else [], strict=True
        ):
            if info.type == pafs.FileType.NotFound:
                raise DataError(self._missing(name))
            if (info.size or 0) < end:
                raise DataError(f"segments: {name} in {self.uri} has {info.size} bytes of at least {end}")

    def _missing(self, name: str) -> str:
        return (
            f"segments: {name} is missing from {self.uri} as host {socket.gethostname()} sees it; the state names it,"
            " so the window cannot be read. Put it back, see that all hosts share this folder, or start with a new"
            " checkpoint"
        )

    def drop(self, names: Iterable[str]) -> None:
        """Remove files; one that is gone already is no error."""
        system, root = open_folder(self.uri)
        for name in names:
            with suppress(FileNotFoundError):
                system.delete_file(f"{root}/{name}")


class Segment:
    """A segment that is being written; it has a name, and may be named, once it is closed."""

    def __init__(self, folder: Folder, stem: str) -> None:
        self._stem = stem
        self._end = 0
        self._digest = hashlib.sha256()
        self._uri = folder.uri
        system, self._root = open_folder(folder.uri)
        self._file: Any = None
        self._scratch = ""
        if isinstance(system, pafs.LocalFileSystem):
            os.makedirs(self._root, exist_ok=True)
            self._scratch = os.path.join(self._root, scratch(stem))
            self._file = open(self._scratch, "xb")  # noqa: SIM115 - closed with the segment
        else:
            self._file = tempfile.SpooledTemporaryFile(SPOOLED)  # noqa: SIM115 - closed with the segment
        # Also where the segment is never closed, as in a task that fails.
        self._released = weakref.finalize(self, _release, self._file, self._scratch)

    def add(self, data: pa.Buffer, rows: int = 0) -> Part:
        """Write bytes behind the others; return where they are, in a segment without a name yet."""
        part = Part("", self._end, data.size, rows, checksum(data))
        header = _header(part)
        self._digest.update(header)
        self._file.write(header)
        self._file.write(data)
        size = HEADER + part.size
        self._file.write(bytes(_aligned(size) - size))
        self._end += _aligned(size)
        return part

    def add_table(self, table: pa.Table) -> Part:
        """Write rows behind the others; return where they are, in a segment without a name yet."""
        return self.add(pack(table), table.num_rows)

    def close(self) -> str:
        """Make the bytes safe; return the segment's name."""
        name = f"{self._stem}-{self._digest.hexdigest()[:32]}{SUFFIX}"
        try:
            if not self._scratch:
                self._file.seek(0)
                write_whole(self._uri, name, iter(lambda: self._file.read(CHUNK), b""))
                return name
            self._file.flush()
            os.fsync(self._file.fileno())
            put_in_place(self._scratch, os.path.join(self._root, name))
            return name
        finally:
            self._released()


def _release(file: Any, scratch: str) -> None:
    """Close a segment's file; the scratch file is gone when the segment has a name."""
    file.close()
    if scratch:
        with suppress(OSError):
            os.unlink(scratch)


def _header(part: Part) -> bytes:
    return (MAGIC + _CHECK.pack(part.check, part.size, part.start)).ljust(HEADER, b"\0")


def _aligned(size: int) -> int:
    """Round up to where Arrow likes bytes to begin."""
    return -(-size // HEADER) * HEADER


def checksum(data: Any) -> int:
    """Return 63 bits that differ where bytes do; one bit less than there are, since Java's numbers have a sign."""
    return xxhash.xxh3_64_intdigest(data) >> 1


def pack(table: pa.Table) -> pa.Buffer:
    """Write a table as an Arrow stream."""
    # Of the right size at once: a buffer that grows is copied again and again.
    measure = pa.MockOutputStream()
    with pa.ipc.new_stream(measure, table.schema) as writer:
        writer.write_table(table)
    buffer = pa.allocate_buffer(measure.size())
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), table.schema) as writer:
        writer.write_table(table)
    return buffer


def unpack(data: Any) -> pa.Table:
    """Read a table back, without copying its columns."""
    return pa.ipc.open_stream(pa.py_buffer(data) if isinstance(data, bytes | memoryview) else data).read_all()
