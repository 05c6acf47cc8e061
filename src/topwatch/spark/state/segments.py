"""Segments: immutable files that rows travel in. Written once, synced, checksummed, named by nobody until then.

A segment is a row of *parts*, each an Arrow stream behind a short header, so that a reader touches what it needs only.
Its name is made of who wrote it, the task of a stage or a version of a state, and of what it holds: a task that is run
again writes the same bytes under the same name, and no name ever stands for two contents. A reference to a part also
has its length and checksum, so that a file that was cut off, damaged or replaced is an error and never taken for
another one. Which segments count is decided by the manifest of the version that Spark goes on from.

Any file system that Arrow knows will do. On a local one parts begin at pages, go straight to the disk and back
(:mod:`topwatch.spark.node.direct_io`), and are synced before the name is handed on; a task that takes in a micro-batch
on the machine that has written its rows finds them in memory (:mod:`topwatch.spark.node.shared_memory`).
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

from topwatch.query.errors import DataError
from topwatch.spark.node import direct_io, shared_memory
from topwatch.spark.state.file_writer import open_folder, put_in_place, scratch, write_whole

MAGIC = b"topseg\x05\x00"
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
        """Begin a segment; ``origin`` says who writes it: the task of a stage, or a version of a state."""
        return Segment(self, origin)

    def near(self, part: Part) -> pa.Buffer | None:
        """Return a part's bytes if this machine has written it a moment ago and has it in memory."""
        result = shared_memory.read(part.segment, part.start, HEADER + part.size)
        if result is None or result.size != HEADER + part.size or result.slice(0, HEADER).to_pybytes() != _header(part):
            return None
        return result.slice(HEADER)  # it is locked, and has not been anywhere else

    def read(self, part: Part) -> pa.Buffer:
        """Return a part's bytes; a missing, short or damaged one is an error that says which."""
        name = part.segment
        system, root = open_folder(self.uri)
        try:
            if isinstance(system, pafs.LocalFileSystem):
                result = direct_io.read(os.path.join(root, name), part.start, HEADER + part.size)
            else:
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
                " Put a good copy in its place, or start with a new checkpoint"
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
        self._writer: direct_io.Writer | None = None
        self._shared: shared_memory.SharedBuffer | None = None
        self._done: weakref.finalize[Any, Any] | None = None
        self._spool: Any = None
        if isinstance(system, pafs.LocalFileSystem):
            os.makedirs(self._root, exist_ok=True)
            self._scratch = os.path.join(self._root, scratch(stem))
            self._writer = direct_io.Writer(self._scratch)
            self._shared = shared_memory.take()
            if self._shared is not None:  # it comes back, whether or not the segment is ever closed
                self._done = weakref.finalize(self, shared_memory.give, self._shared)
        else:
            self._spool = tempfile.SpooledTemporaryFile(SPOOLED)  # noqa: SIM115 - closed with the segment

    def add(self, data: pa.Buffer, rows: int = 0) -> Part:
        """Write bytes behind the others; return where they are, in a segment without a name yet."""
        part = self._part(data, rows)
        if self._writer is None:
            self._spool.write(_header(part))
            self._spool.write(data)
            return self._added(part, HEADER + data.size)
        block = direct_io.BLOCKS.take(min(CHUNK, HEADER + data.size + direct_io.PAGE))
        block.memory[:HEADER] = _header(part)
        view, done, index = memoryview(data), 0, HEADER
        while True:
            some = min(data.size - done, CHUNK - index)
            block.memory[index : index + some] = view[done : done + some]
            self._writer.write(block.memory, index + some).result()
            done, index = done + some, 0
            if done == data.size:
                break
        direct_io.BLOCKS.give(block)
        return self._added(part)

    def add_table(self, table: pa.Table) -> Part:
        """Write rows behind the others; return where they are, in a segment without a name yet."""
        if self._writer is None:
            return self.add(pack(table), table.num_rows)
        size = packed_size(table)
        whole = direct_io.up(HEADER + size, direct_io.PAGE)
        if self._shared is not None and self._shared.reserve(self._end + whole):
            part = self._lay_out(self._shared.memory, self._end, size, table)
            self._writer.write(self._shared.memory, HEADER + size, self._end)
        else:
            block = direct_io.BLOCKS.take(whole)
            part = self._lay_out(block.memory, 0, size, table)
            self._writer.write(block.memory, HEADER + size).result()
            direct_io.BLOCKS.give(block)
        return self._added(part)

    def _lay_out(self, memory: Any, start: int, size: int, table: pa.Table) -> Part:
        """Write a part into memory."""
        with memoryview(memory) as view:
            buffer = pa.py_buffer(view[start + HEADER : start + HEADER + size])
            pack_into(buffer, table)
            part = self._part(buffer, table.num_rows)
            memory[start : start + HEADER] = _header(part)
            del buffer
        return part

    def _part(self, data: pa.Buffer, rows: int) -> Part:
        return Part("", self._end, data.size, rows, checksum(data))

    def _added(self, part: Part, taken: int | None = None) -> Part:
        self._digest.update(_header(part))
        self._end += taken if taken is not None else direct_io.up(HEADER + part.size, direct_io.PAGE)
        return part

    def close(self) -> str:
        """Make the bytes safe; return the segment's name."""
        name = f"{self._stem}-{self._digest.hexdigest()[:32]}{SUFFIX}"
        if self._writer is None:
            self._spool.seek(0)
            write_whole(self._uri, name, iter(lambda: self._spool.read(CHUNK), b""))
            self._spool.close()
            return name
        try:
            self._writer.close()
            put_in_place(self._scratch, os.path.join(self._root, name))
        except BaseException:
            with suppress(OSError):
                os.unlink(self._scratch)
            raise
        if self._shared is not None and self._done is not None:
            self._shared.publish(name)
            self._done()
        return name


def _header(part: Part) -> bytes:
    return (MAGIC + _CHECK.pack(part.check, part.size, part.start)).ljust(HEADER, b"\0")


def checksum(data: Any) -> int:
    """Return 63 bits that differ where bytes do; one bit less than there are, since Java's numbers have a sign."""
    return xxhash.xxh3_64_intdigest(data) >> 1


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
