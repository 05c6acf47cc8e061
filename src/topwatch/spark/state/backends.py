"""State backends: where segments live, in a folder that all executors reach or in Spark's state store itself.

Which segments count is never decided here: that is in the manifest, and the manifest in Spark's store.
"""

from __future__ import annotations

import json
import logging
from itertools import count
from typing import Any, Protocol

import pyarrow as pa

from topwatch.query.errors import DataError
from topwatch.spark.state.folder import files_in, open_folder, write_whole
from topwatch.spark.state.manifest import NEEDS, Manifest
from topwatch.spark.state.segments import SUFFIX, Folder, Part, checksum

PIECE_BYTES = 1 << 20  # of a value in the state store
CLEANING = 8  # micro-batches of a bucket from one clean-up to the next
UNCLAIMED = 24 * 3600.0  # seconds after which a file that no version has named is removed
TRIES = 5

log = logging.getLogger(__name__)


class StateBackend(Protocol):
    """Keeps the segments of one bucket."""

    shared: bool  # whether other threads and processes reach it too

    def put(self, manifest: Manifest, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes for a version that is being made; return where they are."""

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""

    def release(self, manifest: Manifest, lost: list[Part], retain: int) -> list[str]:
        """Release what neither a version nor one of so many before it needs.

        Parameters
        ----------
        manifest : Manifest
            The version that is being made.
        lost : list of Part
            Parts that it no longer names.
        retain : int
            How many versions before it can come back.

        Returns
        -------
        list of str
            Segments that can be removed, once it is published, unless others need them.
        """

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
            Segments that can be removed unless other versions need them.
        """


class FolderBackend:
    """Segments in a folder, shared by all buckets, all watched streams and all queries that were given the same one.

    A segment has rows of several buckets, so that no bucket alone can know when to remove it. Every version of a bucket
    lists in a metadata file of its own, before it is committed, the segments that it and the versions that can still
    come back need. Such a file is never changed; it is removed when the version after the next is made, since only then
    the next one is known to be committed. In every eighth micro-batch a bucket removes those of its own segments that
    it has dropped longer ago than any version that can come back, unless another metadata file names them: the last one
    to need a segment removes it. What no version has named, as after a crash, is removed after a day.
    """

    shared = True

    def __init__(self, folder: Folder, bucket: int, every: int = CLEANING) -> None:
        self._folder = folder
        self._bucket = bucket
        self._every = every

    def put(self, manifest: Manifest, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes for a version that is being made; return where they are."""
        segment = self._folder.create(f"{manifest.state}-{manifest.number:010d}-b{self._bucket}")
        part = segment.add(data, rows)
        return part._replace(segment=segment.close())

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""
        return self._folder.read(part)

    def release(self, manifest: Manifest, lost: list[Part], retain: int) -> list[str]:
        """Release segments now and then: removing them means listing the whole folder.

        An earlier version may come back: the manifest keeps the names of what it has lost until none can.
        """
        return manifest.release(retain) if manifest.number % self._every == 0 else []

    def publish(self, manifest: Manifest, new: list[Part], gone: str, released: list[str]) -> None:
        """List what the version needs, then remove what no version needs any longer."""
        # Nothing is named that the folder does not have.
        self._folder.check(new)
        names = sorted(manifest.needed())
        if names:  # a pruned stream has none
            content = {"number": manifest.number, "names": names}
            write_whole(self._folder.uri, manifest.metadata, [json.dumps(content).encode()])
        if gone:
            self._folder.drop([gone])
        if names and manifest.number % self._every == 0:
            self.clean(manifest, released)

    def clean(self, manifest: Manifest, released: list[str]) -> None:
        """Remove what was released and no other version needs, and what none has named for a day."""
        for _ in range(TRIES):
            files = files_in(self._folder.uri)
            needs, unread = self._needs([name for name in files if name.startswith(NEEDS)])
            if not unread and manifest.metadata in files:
                break
        else:
            if unread:  # the next to clean does what is left, unless it stays like that: it may name any segment
                log.warning("segments: nothing is removed from %s while %s cannot be read", self._folder.uri, unread)
            return
        # What this version releases its own earlier ones do not need either.
        mine = f"{NEEDS}{manifest.state}-"
        earlier = [name for name in needs if mine <= name < f"{mine}{manifest.number:010d}"]
        others = set().union(*(names for name, names in needs.items() if name not in earlier))
        now = files[manifest.metadata]  # by the folder's own clock
        old = {name for name, time in files.items() if now - time > UNCLAIMED}
        unclaimed = {name for name in old if name.endswith(SUFFIX) or name.startswith(".")}
        self._folder.drop(sorted({name for name in released if name in files} - others))
        self._folder.drop(sorted(unclaimed.difference(*needs.values())))
        # Of attempts that were not committed. The version that this one follows may be needed once more.
        self._folder.drop([name for name in earlier if name < f"{mine}{manifest.number - 1:010d}"])

    def _needs(self, files: list[str]) -> tuple[dict[str, set[str]], str]:
        """Return what each metadata file names; and one that cannot be read, which may have been removed."""
        system, root = open_folder(self._folder.uri)
        needs: dict[str, set[str]] = {}
        for name in files:
            try:
                with system.open_input_file(f"{root}/{name}") as file:
                    needs[name] = set(json.loads(file.read())["names"])
            except (OSError, ValueError, KeyError, TypeError):
                return needs, name
        return needs, ""


class StoreBackend:
    """Segments as values in the state store, in pieces. Slower than a folder, and as safe.

    Attempts at one version name equal segments equally. Where a micro-batch is evaluated twice, as by ``foreachBatch``
    with two sinks, Spark may keep the snapshot of one attempt and the changes that follow from the other.
    """

    shared = False

    def __init__(self, pieces: Any) -> None:
        self._pieces = pieces  # a map state: (name, piece number) to bytes
        self._made = 0  # segments

    def put(self, manifest: Manifest, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes for a version that is being made; return where they are."""
        known = manifest.names()  # some may have this number: it does not rise where a timer has fired without a row
        name = next(name for n in count(self._made) if (name := f"{manifest.number:010d}-{n}") not in known)
        self._made = int(name.rpartition("-")[2]) + 1
        for number, start in enumerate(range(0, max(data.size, 1), PIECE_BYTES)):
            piece = data.slice(start, min(PIECE_BYTES, data.size - start))
            self._pieces.updateValue((name, number), (piece.to_pybytes(),))
        return Part(name, 0, data.size, rows, checksum(data))

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""
        result = [self._pieces.getValue((part.segment, number)) for number in _numbers(part)]
        if any(piece is None for piece in result):
            raise DataError(f"state: segment {part.segment} is missing from the state store")
        data = pa.py_buffer(b"".join(bytes(piece[0]) for piece in result))
        if data.size != part.size or checksum(data) != part.check:
            raise DataError(f"state: segment {part.segment} in the state store is damaged: its checksum does not match")
        return data

    def release(self, manifest: Manifest, lost: list[Part], retain: int) -> list[str]:
        """Remove what is lost: the store itself keeps its earlier versions."""
        for part in lost:
            for number in _numbers(part):
                self._pieces.removeKey((part.segment, number))
        manifest.dropped.clear()
        return []

    def publish(self, manifest: Manifest, new: list[Part], gone: str, released: list[str]) -> None:
        """Do nothing: the store commits segments and manifest together."""


def _numbers(part: Part) -> range:
    """Return the numbers of a part's pieces."""
    return range(max(1, -(-part.size // PIECE_BYTES)))
