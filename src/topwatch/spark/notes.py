"""Small files beside the segments that are replaced as a whole, and safe before anybody acts on them."""

from __future__ import annotations

import json
import os
from typing import Any

import pyarrow.fs as pafs

from topwatch.spark.segments import open_folder, sync_folder


def publish(uri: str, name: str, content: dict[str, Any]) -> None:
    """Write a note, in place of the one that was there."""
    replace(uri, name, json.dumps(content).encode())


def replace(uri: str, name: str, data: bytes) -> None:
    """Write a file, in place of the one that was there."""
    system, root = open_folder(uri)
    system.create_dir(root, recursive=True)
    if isinstance(system, pafs.LocalFileSystem):
        scratch = os.path.join(root, f".{name}.{os.getpid()}")
        with open(scratch, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, os.path.join(root, name))
        sync_folder(root)
    else:
        with system.open_output_stream(f"{root}/{name}") as stream:
            stream.write(data)


def recall(uri: str, name: str) -> dict[str, Any] | None:
    """Undo :func:`publish`; None where nothing has been published."""
    system, root = open_folder(uri)
    try:
        with system.open_input_file(f"{root}/{name}") as file:
            found: dict[str, Any] = json.loads(file.read())
    except FileNotFoundError:
        return None
    return found


def names(uri: str, start: str) -> list[str]:
    """Return the names of all notes that begin alike."""
    system, root = open_folder(uri)
    found = system.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    return sorted(info.base_name for info in found if info.base_name.startswith(start))
