"""State backends: where segments live, in a folder that all executors reach or in Spark's state store itself.

Which segments count is never decided here: the manifest says so, and Spark's store has the manifest.
"""

from __future__ import annotations

import json
import os
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from topwatch.query.errors import DataError
from topwatch.spark.state.file_writer import open_folder, write_whole
from topwatch.spark.state.manifest import Manifest
from topwatch.spark.state.segments import SUFFIX, Folder, Part, checksum
from topwatch.spark.state.status import Status, write_status

PIECE = 1 << 20  # bytes of a value in the state store
CLEANING = 8  # micro-batches of a bucket from one clean-up to the next
UNCLAIMED = 24 * 3600.0  # seconds after which a file that nobody has ever named is removed
NEEDS = "needs-"  # how the names of metadata files begin that say which segments a version needs
TRIES = 5


class StateBackend(Protocol):
    """Keeps the segments of one bucket."""

    parallel: bool  # whether many can be read at once

    def put(self, manifest: Manifest, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes for a version that is being made; return where they are."""

    def near(self, part: Part) -> Any:
        """Return bytes that were kept a moment ago, if they are at hand; else None."""

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""

    def show(self, query: str | None, status: Status) -> None:
        """Say how the bucket stands, for people to look at."""

    def drop(self, parts: list[Part]) -> None:
        """Take note that the version that is being made no longer names some parts."""

    def release(self, manifest: Manifest, retain: int) -> list[str]:
        """Let a version forget segments that neither it nor one of so many before it needs; return them."""

    def publish(self, manifest: Manifest, new: list[Part], gone: str, released: list[str]) -> None:
        """Make a version safe before it is committed.

        Parameters
        ----------
        manifest : Manifest
            The version.
        new : list of Part
            Parts that no version before it has named.
        gone : str
            The metadata file of the version before the one that it follows.
        released : list of str
            Segments that can be removed if nobody else needs them.
        """


class FolderBackend:
    """Segments in a folder, shared by all buckets, all watched streams and all queries that were given the same one.

    A segment has rows of several buckets, so that one alone cannot know when it may go. Every version of a bucket says
    in a metadata file of its own, before it is committed, which segments it and the versions that can still come back
    need. Such a file is never changed; it goes when the version after the next is made, since only then the next one
    is known to be committed. In every eighth micro-batch a bucket removes those of its own segments that it has
    dropped longer ago than any version that can come back, unless another metadata file names them: the last one to
    need a segment removes it. What nobody has ever named, as after a crash, goes after a day.
    """

    parallel = True

    def __init__(self, folder: Folder, bucket: int, every: int = CLEANING) -> None:
        self._folder = folder
        self._bucket = bucket
        self._every = every

    def put(self, manifest: Manifest, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes for a version that is being made; return where they are."""
        segment = self._folder.create(f"{manifest.state}-{manifest.number:010d}-b{self._bucket}")
        part = segment.add(data, rows)
        return part._replace(segment=segment.close())

    def near(self, part: Part) -> Any:
        """Return bytes that this machine still has in memory, or None."""
        return self._folder.near(part)

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""
        return self._folder.read(part)

    def show(self, query: str | None, status: Status) -> None:
        """Say how the bucket stands, for people to look at."""
        write_status(self._folder.uri, query, self._bucket, status)

    def drop(self, parts: list[Part]) -> None:
        """Do nothing: an earlier version may come back; the manifest keeps their names until none can."""

    def release(self, manifest: Manifest, retain: int) -> list[str]:
        """Let a version forget segments, now and then: removing them means looking at the whole folder."""
        return manifest.release(retain) if manifest.number % self._every == 0 else []

    def publish(self, manifest: Manifest, new: list[Part], gone: str, released: list[str]) -> None:
        """Say what the version needs, then remove what no version needs any more."""
        # Rows may have come by this machine's memory: nothing is named that the folder does not have.
        self._folder.check(new)
        names = sorted(manifest.needed())
        if names:  # a pruned stream has none
            content = {"number": manifest.number, "names": names}
            write_whole(self._folder.uri, manifest.note, [json.dumps(content).encode()])
        if gone:
            self._folder.drop([gone])
        if names and manifest.number % self._every == 0:
            self.clean(manifest, released)

    def clean(self, manifest: Manifest, released: list[str]) -> None:
        """Remove what was released and is needed by nobody else, and what nobody has named for a day."""
        for _ in range(TRIES):
            files = self._files()
            needs = self._needs([name for name in files if name.startswith(NEEDS)])
            if needs is not None and manifest.note in files:
                break
        else:
            return  # others are busy; what is left is removed after a day
        # What this version releases its own earlier ones do not need either.
        mine = f"{NEEDS}{manifest.state}-"
        earlier = [note for note in needs if mine <= note < f"{mine}{manifest.number:010d}"]
        others = set().union(*(names for note, names in needs.items() if note not in earlier))
        now = files[manifest.note]  # by the folder's own clock
        old = {name for name, time in files.items() if now - time > UNCLAIMED}
        unclaimed = {name for name in old if name.endswith(SUFFIX) or name.startswith(".")}
        self._folder.drop(sorted({name for name in released if name in files} - others))
        self._folder.drop(sorted(unclaimed.difference(*needs.values())))
        # Of attempts that were not committed. The version that this one follows may be needed once more.
        self._folder.drop([note for note in earlier if note < f"{mine}{manifest.number - 1:010d}"])

    def _files(self) -> dict[str, float]:
        """Return all files and when they were written."""
        system, root = open_folder(self._folder.uri)
        result = system.get_file_info(pafs.FileSelector(root, allow_not_found=True))
        return {info.base_name: info.mtime.timestamp() for info in result if info.is_file}

    def _needs(self, notes: list[str]) -> dict[str, set[str]] | None:
        """Return what each metadata file names; None where one cannot be read: it may be gone in the meantime."""
        system, root = open_folder(self._folder.uri)
        needs: dict[str, set[str]] = {}
        for note in notes:
            try:
                with system.open_input_file(f"{root}/{note}") as file:
                    needs[note] = set(json.loads(file.read())["names"])
            except (OSError, ValueError, KeyError, TypeError):
                return None
        return needs


class StoreBackend:
    """Segments as values in the state store, in pieces. Slower than a folder, and as safe."""

    parallel = False

    def __init__(self, pieces: Any) -> None:
        self._pieces = pieces  # a map state: (name, piece number) to bytes

    def put(self, manifest: Manifest, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes for a version that is being made; return where they are."""
        name = f"{manifest.number:010d}-{os.urandom(16).hex()}"
        for number, start in enumerate(range(0, max(data.size, 1), PIECE)):
            self._pieces.updateValue((name, number), (data.slice(start, min(PIECE, data.size - start)).to_pybytes(),))
        return Part(name, 0, data.size, rows, checksum(data))

    def near(self, part: Part) -> Any:
        """Return None: all of it is in the store."""

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""
        result = [self._pieces.getValue((part.segment, number)) for number in _numbers(part)]
        if any(piece is None for piece in result):
            raise DataError(f"state: segment {part.segment} is missing from the state store")
        data = pa.py_buffer(b"".join(bytes(piece[0]) for piece in result))
        if data.size != part.size or checksum(data) != part.check:
            raise DataError(f"state: segment {part.segment} in the state store is damaged: its checksum does not match")
        return data

    def show(self, query: str | None, status: Status) -> None:
        """Do nothing: nobody sees into the store."""

    def drop(self, parts: list[Part]) -> None:
        """Remove them: the store itself keeps its earlier versions."""
        for part in parts:
            for number in _numbers(part):
                self._pieces.removeKey((part.segment, number))

    def release(self, manifest: Manifest, retain: int) -> list[str]:
        """Forget all that was dropped: it is removed already."""
        manifest.dropped.clear()
        return []

    def publish(self, manifest: Manifest, new: list[Part], gone: str, released: list[str]) -> None:
        """Do nothing: the store commits segments and manifest together."""


def _numbers(part: Part) -> range:
    """Return the numbers of a part's pieces."""
    return range(max(1, -(-part.size // PIECE)))
