"""Where segments live: in a folder that all executors reach, or, where none is known, in Spark's state store itself."""

from __future__ import annotations

import os
from typing import Any, Protocol

import pyarrow as pa

from topwatch.errors import DataError
from topwatch.spark.manifest import Manifest
from topwatch.spark.notes import names, publish, recall
from topwatch.spark.segments import Folder, Part, batch_of
from topwatch.spark.status import Status, write_status
from topwatch.spark.versions import drop_old

PIECE = 1 << 20  # bytes of a value in the state store
CLEANED = "cleaned.json"  # which micro-batch has removed orphans last
NEEDS = "needs-"  # how the names of notes begin that say which segments a bucket needs


class Home(Protocol):
    """Keeps the segments of one bucket."""

    parallel: bool  # whether many can be read at once

    def put(self, batch: int, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes; return where they are."""

    def near(self, part: Part) -> Any:
        """Return bytes that were kept a moment ago, if they are at hand; else None."""

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""

    def tell(self, status: Status) -> None:
        """Say how the bucket stands, for those who look on."""

    def said(self) -> dict[str, Any] | None:
        """Return what the bucket has noted down last: its micro-batch, the one before, the segments it needs."""

    def tidy(self, manifest: Manifest, retain: int) -> None:
        """Remove segments that neither this version nor one that can still come back needs."""


class FolderHome:
    """Segments in a folder, shared by all buckets.

    Every bucket publishes the names it needs, beside the segments. What no bucket names and an earlier micro-batch
    wrote is an orphan: of an attempt that failed, or of a version that cannot come back. In every eighth micro-batch
    the first bucket to come to it removes them, and old versions.
    """

    parallel = True

    def __init__(self, folder: Folder, made_for: str, bucket: int, every: int = 8) -> None:
        self._folder = folder
        self._bucket = bucket
        self._note = f"{NEEDS}{made_for}-{bucket}.json"
        self._every = every

    def put(self, batch: int, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes; return where they are."""
        segment = self._folder.create(batch)
        part = segment.add(data, rows)
        segment.close()
        return part

    def near(self, part: Part) -> Any:
        """Return bytes that this machine still has in memory, or None."""
        return self._folder.near(part)

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""
        return self._folder.read(part)

    def tell(self, status: Status) -> None:
        """Say how the bucket stands, for those who look on."""
        write_status(self._folder.uri, self._bucket, status)

    def said(self) -> dict[str, Any] | None:
        """Return what the bucket has noted down last."""
        return recall(self._folder.uri, self._note)

    def tidy(self, manifest: Manifest, retain: int) -> None:
        """Publish what is needed; now and then also remove what no bucket needs, whichever comes first."""
        batch = manifest.batch
        needed = manifest.needed()
        note = {"batch": batch, "before": manifest.before}
        said = self.said()
        if said is not None and said["batch"] >= batch:
            # Another attempt at this micro-batch was here. Its version may be the one that counts, and not this one.
            needed, note = needed.union(said["names"]), {name: said[name] for name in note}
        publish(self._folder.uri, self._note, {**note, "names": sorted(needed)})
        if batch % self._every == 0 and recall(self._folder.uri, CLEANED) != {"batch": batch}:
            publish(self._folder.uri, CLEANED, {"batch": batch})
            self.clean(batch)
            drop_old(self._folder.uri, batch - retain)

    def clean(self, batch: int) -> None:
        """Remove the segments of earlier micro-batches that no bucket needs, of none of the query's streams."""
        needed: set[str] = set()
        for note in names(self._folder.uri, NEEDS):
            needed.update((recall(self._folder.uri, note) or {"names": []})["names"])
        self._folder.drop([name for name in self._folder.names() if batch_of(name) < batch and name not in needed])


class StoreHome:
    """Segments as values in the state store, in pieces. Slower than a folder, and as safe."""

    parallel = False

    def __init__(self, pieces: Any) -> None:
        self._pieces = pieces  # a map state: (name, piece number) to bytes

    def put(self, batch: int, data: pa.Buffer, rows: int = 0) -> Part:
        """Keep bytes; return where they are."""
        name = f"{batch:010d}-{os.urandom(16).hex()}"
        for number, start in enumerate(range(0, max(data.size, 1), PIECE)):
            self._pieces.updateValue((name, number), (data.slice(start, min(PIECE, data.size - start)).to_pybytes(),))
        return Part(name, 0, data.size, rows)

    def near(self, part: Part) -> Any:
        """Return None: all of it is in the store."""

    def get(self, part: Part) -> Any:
        """Return bytes that were kept."""
        name = part.segment
        parts: list[bytes] = []
        while self._pieces.containsKey((name, len(parts))):
            parts.append(self._pieces.getValue((name, len(parts)))[0])
        if not parts:
            raise DataError(f"state: segment {name} is missing from the state store")
        return pa.py_buffer(b"".join(bytes(part) for part in parts))

    def tell(self, status: Status) -> None:
        """Nobody sees into the store."""

    def said(self) -> dict[str, Any] | None:
        """Return nothing: the store has it all."""
        return None

    def tidy(self, manifest: Manifest, retain: int) -> None:
        """Remove what this version no longer names: the store itself keeps its earlier versions."""
        needed = manifest.names()
        for key in [key for key in self._pieces.keys() if key[0] not in needed]:  # noqa: SIM118 - not a dict
            self._pieces.removeKey(key)
