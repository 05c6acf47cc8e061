"""Files past the page cache: bytes that are written once, made safe at once and read once need not lie there.

A page of the cache is one more page to be found and filled, and then waits to be written; on a machine whose memory is
given to it as it asks, fresh pages cost more than the disk does. Here bytes go from memory that is used again and again
straight to the disk, and back. File systems that cannot do that are used as they are.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

PAGE = 4096  # where parts of a file begin, and what their lengths are multiples of
IDLE = 256 << 20  # bytes that wait for their next use
_DIRECT = getattr(os, "O_DIRECT", 0)


class Block:
    """Memory that begins at a page."""

    def __init__(self, size: int) -> None:
        self.memory = mmap.mmap(-1, size)
        self.address = np.frombuffer(self.memory, np.uint8).ctypes.data

    def __len__(self) -> int:
        return len(self.memory)


class Blocks:
    """Blocks that are used again.

    Parameters
    ----------
    most : int
        Bytes that are kept while nobody uses them.

    Examples
    --------
    >>> blocks = Blocks(1 << 20)
    >>> block = blocks.take(5000)
    >>> len(block)
    65536
    >>> blocks.give(block)
    >>> blocks.take(60_000) is block
    True
    """

    _STEP = 1 << 16

    def __init__(self, most: int = IDLE) -> None:
        self._most = most
        self._idle: list[Block] = []

    def take(self, size: int) -> Block:
        """Return a block of at least so many bytes: the smallest that is not far too large, or a new one."""
        fitting = [block for block in self._idle if size <= len(block) <= 4 * size + self._STEP]
        if fitting:
            block = min(fitting, key=len)
            self._idle.remove(block)
            return block
        return Block(up(max(1, size), self._STEP))

    def give(self, block: Block) -> None:
        """Take a block back."""
        if sum(map(len, self._idle)) + len(block) <= self._most:
            self._idle.append(block)


class _Lease:
    """Gives a block back when the last array that looks at it is gone."""

    def __init__(self, blocks: Blocks, block: Block) -> None:
        self._blocks = blocks
        self._block = block

    def __del__(self) -> None:
        self._blocks.give(self._block)


BLOCKS = Blocks()


def read(path: str, start: int, size: int) -> pa.Buffer:
    """Return bytes of a file, fewer where it ends; their memory is used again once nobody looks at it."""
    low, high = start - start % PAGE, up(start + size, PAGE)
    block = BLOCKS.take(high - low)
    lease = _Lease(BLOCKS, block)
    with memoryview(block.memory) as view:
        file = _open(path, os.O_RDONLY)
        try:
            got = 0
            while got < high - low:
                more = _direct(file, lambda: os.preadv(file, [view[got : high - low]], low + got))  # noqa: B023
                got += more
                if more % PAGE or not more:
                    break  # the end of the file
        finally:
            os.close(file)
    return pa.foreign_buffer(block.address + start - low, max(0, min(size, got - (start - low))), lease)


class Writer:
    """A new file that is written in whole pages, in a thread of its own: the disk takes its time.

    Parameters
    ----------
    path : str
        Its name; there must be none of it.
    """

    def __init__(self, path: str) -> None:
        self._file = _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._aside = ThreadPoolExecutor(1, "topwatch writes")
        self._last: Future[None] | None = None

    def write(self, memory: mmap.mmap, size: int, start: int = 0) -> Future[None]:
        """Write some bytes from a page's beginning on, filled up with zeros to a page's end.

        The memory may be used again once what is returned says that it is done.
        """
        stop = start + up(size, PAGE)
        memory[start + size : stop] = bytes(stop - start - size)
        self._last = self._aside.submit(self._write, self._last, memory, start, stop)
        return self._last

    def _write(self, before: Future[None] | None, memory: mmap.mmap, start: int, stop: int) -> None:
        if before is not None:
            before.result()  # nothing comes behind what is not there
        with memoryview(memory) as view:
            while start < stop:
                start += _direct(self._file, lambda: os.write(self._file, view[start:stop]))  # noqa: B023

    def close(self) -> None:
        """Make the bytes safe."""
        try:
            if self._last is not None:
                self._last.result()
            os.fsync(self._file)
        finally:
            self._aside.shutdown()
            os.close(self._file)


def up(size: int, unit: int) -> int:
    """Round up to a multiple."""
    return -(-size // unit) * unit


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | _DIRECT | getattr(os, "O_CLOEXEC", 0), 0o644)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Some file systems say no after they have made the file.
        return os.open(path, flags & ~os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)


def _direct(file: int, act: Any) -> int:
    """Read or write; where the disk cannot do it in such pieces, go through the cache after all."""
    try:
        return int(act())
    except OSError as error:
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        if error.errno != errno.EINVAL or not flags & _DIRECT:
            raise
        fcntl.fcntl(file, fcntl.F_SETFL, flags & ~_DIRECT)
        return int(act())
