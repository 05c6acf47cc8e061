"""The one place that writes files: under a random name first, whole and synced before the real name is there.

Nobody ever sees a file that is half written, and two writers never share a scratch file: its name is random, since
process ids are the same in two containers. On object stores a file appears when its stream is closed, so that it is
written under its own name; on all other file systems it is renamed. A writer that is killed leaves at most a scratch
file, which begins with a dot.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

import pyarrow.fs as pafs

_OBJECT_STORES = ("s3", "gcs", "abfs")  # a file is there when its stream is closed, and not before


def open_folder(uri: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it."""
    if "://" not in uri and not uri.startswith("file:"):
        return pafs.LocalFileSystem(), os.path.abspath(uri)
    system, root = pafs.FileSystem.from_uri(uri)
    return system, root


def scratch(name: str) -> str:
    """Return a name that no other writer uses.

    >>> scratch("a.json") != scratch("a.json")
    True
    """
    return f".{name}.{os.urandom(8).hex()}"


def write_whole(uri: str, name: str, chunks: Iterable[bytes], sync: bool = True) -> None:
    """Write a file, in place of the one that was there.

    Parameters
    ----------
    uri, name : str
        Folder and name.
    chunks : iterable of bytes
        What it holds, one after the other.
    sync : bool
        Whether it has to outlive a power failure once this returns.
    """
    system, root = open_folder(uri)
    system.create_dir(root, recursive=True)
    target, other = f"{root}/{name}", f"{root}/{scratch(name)}"
    if isinstance(system, pafs.LocalFileSystem):
        try:
            with open(other, "xb") as file:
                file.writelines(chunks)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            put_in_place(other, target, sync)
        except BaseException:
            with suppress(OSError):
                os.unlink(other)
            raise
    elif system.type_name in _OBJECT_STORES:
        with system.open_output_stream(target) as stream:
            for chunk in chunks:
                stream.write(chunk)
    else:
        with system.open_output_stream(other) as stream:
            for chunk in chunks:
                stream.write(chunk)
        system.move(other, target)


def put_in_place(path: str, target: str, sync: bool = True) -> None:
    """Give a local file that is written its real name."""
    os.replace(path, target)
    if sync:
        _sync_folder(os.path.dirname(target))


def _sync_folder(path: str) -> None:
    """Make a new file's name as safe as its bytes."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
