"""Segments: immutable files that rows travel in. Written once, synced, checksummed, named by nobody until then.

A segment is a row of *parts*, each an Arrow stream behind a short header, so that a reader touches what it needs only.
Its name is new for every attempt, so that a task that is tried again never writes over what another one reads; which
segments count is decided by the manifest of the version that Spark goes on from.

Any file system that Arrow knows will do. On a local one parts begin at pages, go straight to the disk and back
(:mod:`topwatch.spark.direct`), and are synced before the name is handed on; who takes in a micro-batch on the machine
that has written its rows finds them in memory (:mod:`topwatch.spark.nearby`).
"""

from __future__ import annotations

import os
import struct
import uuid
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import xxhash

from topwatch.errors import DataError
from topwatch.spark import direct, nearby

MAGIC = b"topseg\x04\x00"
HEADER = 64  # magic, checksum, length, whose it is, and nothing: bytes behind it begin where Arrow likes them to
CHUNK = 8 << 20  # bytes that are written at once
SUFFIX = ".seg"
_CHECK = struct.Struct("<QQ32sQ")  # checksum, length, the segment's own number, where in it the part begins


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

    def near(self, part: Part) -> pa.Buffer | None:
        """Return a part's bytes if this machine has written it a moment ago and has it in memory."""
        found = nearby.read(part.segment, part.start, HEADER + part.size)
        if found is None or not _is_of(found, part):
            return None
        return found.slice(HEADER)  # it is locked, and has not been anywhere else

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
        if not _is_sound(found, part):
            raise DataError(
                f"segments: {name} in {self.uri} is damaged: its checksum does not match."
                " Put a good copy in its place, or start with a new checkpoint"
            )
        return found.slice(HEADER)

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
        self._sheet: nearby.Sheet | None = None
        self._done: weakref.finalize[Any, Any] | None = None
        self._stream: Any = None
        if isinstance(system, pafs.LocalFileSystem):
            os.makedirs(self._root, exist_ok=True)
            self._writer = direct.Writer(os.path.join(self._root, name))
            self._sheet = nearby.take(name)
            if self._sheet is not None:  # it comes back, whether or not the segment is ever closed
                self._done = weakref.finalize(self, nearby.give, self._sheet)
        else:
            system.create_dir(self._root, recursive=True)
            self._stream = system.open_output_stream(f"{self._root}/{name}")

    def add(self, data: pa.Buffer, rows: int = 0) -> Part:
        """Write bytes behind the others; return where they are."""
        header = self._header(data)
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
            self._writer.write(block.memory, place + some).result()
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
        whole = direct.up(HEADER + size, direct.PAGE)
        if self._sheet is not None and self._sheet.reserve(self._end + whole):
            self._lay_out(self._sheet.memory, self._end, size, table)
            self._writer.write(self._sheet.memory, HEADER + size, self._end)
        else:
            block = direct.BLOCKS.take(whole)
            self._lay_out(block.memory, 0, size, table)
            self._writer.write(block.memory, HEADER + size).result()
            direct.BLOCKS.give(block)
        return self._part(size, table.num_rows)

    def _lay_out(self, memory: Any, start: int, size: int, table: pa.Table) -> None:
        """Write a part into memory."""
        with memoryview(memory) as view:
            buffer = pa.py_buffer(view[start + HEADER : start + HEADER + size])
            pack_into(buffer, table)
            memory[start : start + HEADER] = self._header(buffer)
            del buffer

    def _header(self, data: pa.Buffer) -> bytes:
        check = _CHECK.pack(xxhash.xxh3_64_intdigest(data), data.size, _number(self._name), self._end)
        return (MAGIC + check).ljust(HEADER, b"\0")

    def _part(self, size: int, rows: int, taken: int | None = None) -> Part:
        part = Part(self._name, self._end, size, rows)
        self._end += taken if taken is not None else direct.up(HEADER + size, direct.PAGE)
        return part

    def close(self) -> None:
        """Make the bytes safe."""
        if self._writer is None:
            self._stream.close()
            return
        self._writer.close()
        sync_folder(self._root)
        if self._done is not None:
            self._done()


def _is_of(found: pa.Buffer, part: Part) -> bool:
    """Tell whether bytes say that they are those of a part."""
    if found.size != HEADER + part.size:
        return False
    head = found.slice(0, HEADER).to_pybytes()
    told = _CHECK.unpack_from(head, len(MAGIC))
    return head.startswith(MAGIC) and told[1:] == (part.size, _number(part.segment), part.start)


def _is_sound(found: pa.Buffer, part: Part) -> bool:
    """Tell whether bytes are those of a part, and as they were written."""
    if not _is_of(found, part):
        return False
    told = _CHECK.unpack(found.slice(len(MAGIC), _CHECK.size))[0]
    return bool(told == xxhash.xxh3_64_intdigest(found.slice(HEADER)))


def _number(name: str) -> bytes:
    """Return a segment's own number, which no other has."""
    return name.removesuffix(SUFFIX).partition("-")[2].encode()[:32].ljust(32, b"\0")


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


def sync_folder(path: str) -> None:
    """Make a new file's name as safe as its bytes."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
