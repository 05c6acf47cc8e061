"""Segments that were written on this machine a moment ago are read in its memory and not from the disk.

A worker builds a segment in a shared-memory buffer, a file in the memory of this machine, and writes it to the disk
from there. A buffer gets the name of its segment when the segment is closed, and another name before it is reused;
buffers are reused, since fresh memory is expensive. A task that takes in a micro-batch's rows looks here first, and
reads the buffer itself: nothing is copied. Nothing depends on the buffers, since the disk has all segments.

Locks show which processes use a buffer, and end with their owner: the process that owns the buffer locks one byte, and
all that read it lock another one, for as long as an array refers to it. A buffer that is read is not reused. Where
there is no such memory or no such lock, segments go to the disk directly.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import threading

import numpy as np
import pyarrow as pa

from topwatch.spark.node import direct_io

SHARED = "/dev/shm"
SHEETS = 2  # of a worker: one is written while another, of a second stream, is read
MOST = 192 << 20  # bytes of a buffer; what does not fit goes to the disk only
STEP = 4 << 20  # bytes that a buffer grows by
MAPPED = 16  # buffers that a process maps
_OWNER, _READERS = 0, 1  # bytes that are locked
_SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)  # locks of an open file, not of a process


class SharedBuffer:
    """A file in memory, which belongs to this process as long as it lives.

    Parameters
    ----------
    path : str
        Its first name.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        _lock(self._file, fcntl.F_WRLCK, _OWNER)
        os.ftruncate(self._file, MOST)
        self.memory = mmap.mmap(self._file, MOST)
        self._size = 0

    def rename(self, name: str) -> None:
        """Give it another name; an error where a process reads it, or another buffer has this name."""
        _lock(self._file, fcntl.F_WRLCK, _READERS)
        try:
            path = os.path.join(os.path.dirname(self._path), name)
            os.link(self._path, path)  # a rename would take the name from a buffer that has it
            os.unlink(self._path)
            self._path = path
        finally:
            _lock(self._file, fcntl.F_UNLCK, _READERS)

    def publish(self, name: str) -> None:
        """Give it the name of its segment. Another buffer may have that name already: then that one is read."""
        with contextlib.suppress(OSError):
            self.rename(name)

    def reserve(self, size: int) -> bool:
        """Reserve so many bytes; False where that fails: writing to memory that is not there ends the process."""
        if size > MOST:
            return False
        if size > self._size:
            more = min(MOST, direct_io.up(size, STEP))
            try:
                os.posix_fallocate(self._file, self._size, more - self._size)
            except OSError:
                return False
            self._size = more
        return True


_idle: list[SharedBuffer] = []
_made = 0
_swept = False
_maps: dict[int, mmap.mmap] = {}
_turn = threading.Lock()


def new_shared_buffer(name: str) -> SharedBuffer:
    """Make a buffer; an error where there is no such memory."""
    global _swept
    folder = _folder()
    if not _swept:
        _sweep(folder)
        _swept = True
    return SharedBuffer(os.path.join(folder, name))


def take() -> SharedBuffer | None:
    """Return a buffer that nobody reads before it is published; None where there is none."""
    global _made
    name = f"{os.urandom(16).hex()}.new"
    with _turn:
        try:
            if _made < SHEETS:
                shared = new_shared_buffer(name)
                _made += 1
                return shared
        except OSError:
            return None
        for shared in _idle:  # the one that was written longest ago comes first
            with contextlib.suppress(OSError):
                shared.rename(name)
                _idle.remove(shared)
                return shared
        return None


def give(shared: SharedBuffer) -> None:
    """Leave a buffer to its readers, until it is taken for another segment."""
    with _turn:
        _idle.append(shared)


def read(name: str, start: int, size: int, mark: bytes = b"") -> pa.Buffer | None:
    """Return what may be the bytes of a segment; None where no buffer has its name.

    ``mark``, written to its beginning, tells the owner that it is being read.
    """
    try:
        path = os.path.join(_folder(), name)
        file = os.open(path, (os.O_RDWR if mark else os.O_RDONLY) | os.O_CLOEXEC)
    except OSError:
        return None
    lease = _Lease(file)
    try:
        _lock(file, fcntl.F_RDLCK, _READERS)
        about = os.fstat(file)
        if os.stat(path).st_ino != about.st_ino or start + size > about.st_size:
            return None  # it got another name before it was locked
        lease.memory = _map(file, about.st_ino)
        if mark:
            os.pwrite(file, mark, 0)
    except OSError:
        return None
    address = np.frombuffer(lease.memory, np.uint8).ctypes.data
    return pa.foreign_buffer(address + start, size, lease)


class _Lease:
    """Keeps a buffer locked until the last array that refers to it is gone."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.memory: mmap.mmap | None = None

    def __del__(self) -> None:
        os.close(self._file)


def _map(file: int, number: int) -> mmap.mmap:
    """Return a buffer's memory; buffers that were read before are mapped already."""
    with _turn:
        if number not in _maps:
            while len(_maps) >= MAPPED:
                del _maps[next(iter(_maps))]
            # Opened once more: what is mapped stays open, and a lock would stay with it.
            other = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                _maps[number] = mmap.mmap(other, MOST, prot=mmap.PROT_READ)
            finally:
                os.close(other)
        return _maps[number]


def _lock(file: int, kind: int, byte: int) -> None:
    """Lock a byte of an open file or unlock it; an error where somebody else has it."""
    if _SET_LOCK is None:
        raise OSError("no locks of open files")
    fcntl.fcntl(file, _SET_LOCK, struct.pack("hhqqi", kind, os.SEEK_SET, byte, 1, 0))


def _folder() -> str:
    """Return the folder for buffers of this user."""
    path = os.path.join(SHARED, f"topwatch-{os.getuid()}")
    if not os.path.isdir(SHARED):
        raise FileNotFoundError(SHARED)
    os.makedirs(path, mode=0o700, exist_ok=True)
    about = os.lstat(path)
    if about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise PermissionError(path)
    return path


def _sweep(folder: str) -> None:
    """Remove the buffers of workers that are gone: nobody has their locks."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                _lock(file, fcntl.F_WRLCK, _OWNER)
                os.unlink(path)
            finally:
                os.close(file)
