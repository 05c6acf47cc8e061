"""Folders on any file system that Arrow knows: opened, listed, and written to whole."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pyarrow.fs as pafs

from topwatch.core.file_writer import scratch, whole_file

# They have no rename. A file is there once its stream is closed; on abfs it is there before, and empty.
_OBJECT_STORES = ("s3", "gcs", "abfs")


def open_folder(uri: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it."""
    if "://" not in uri and not uri.startswith("file:"):
        return pafs.LocalFileSystem(), os.path.abspath(uri)
    system, root = pafs.FileSystem.from_uri(uri)
    return system, root


def files_in(uri: str) -> dict[str, float]:
    """Return the names of all files, and when they were written; none where there is no such folder."""
    system, root = open_folder(uri)
    result = system.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    return {info.base_name: info.mtime.timestamp() for info in result if info.is_file}


def write_whole(uri: str, name: str, chunks: Iterable[bytes], sync: bool = True) -> None:
    """Write a file, instead of the one that was there, that is never seen in part.

    On object stores a file has its bytes once its stream is closed, so that it is written under its own name; on all
    other file systems it is renamed.

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
    target = f"{root}/{name}"
    if isinstance(system, pafs.LocalFileSystem):
        with whole_file(target, sync) as file:
            file.writelines(chunks)
        return
    renamed = system.type_name not in _OBJECT_STORES
    path = f"{root}/{scratch(name)}" if renamed else target
    with system.open_output_stream(path) as stream:
        for chunk in chunks:
            stream.write(chunk)
    if renamed:
        system.move(path, target)
