"""Where segments live: in a folder that all executors reach, or, where none is known, in Spark's state store itself."""

from __future__ import annotations

import json
import os
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from topwatch.errors import DataError
from topwatch.spark.manifest import Manifest
from topwatch.spark.segments import Folder, Part, batch_of, open_folder
from topwatch.spark.status import Status, write_status

PIECE = 1 << 20  # bytes of a value in the state store
CLEANED = "cleaned.json"  # which micro-batch has removed orphans last


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

    def tidy(self, batch: int, manifest: Manifest, retain: int) -> None:
        """Remove segments that neither this version nor one that can still come back needs."""


class FolderHome:
    """Segments in a folder, shared by all buckets.

    Every bucket publishes the names it needs, beside the segments. What no bucket names and an earlier micro-batch
    wrote is an orphan: of an attempt that failed, or of a version that cannot come back. In every eighth micro-batch
    the first bucket to come to it removes them.
    """

    parallel = True

    def __init__(self, folder: Folder, bucket: int, buckets: tuple[int, ...], every: int = 8) -> None:
        self._folder = folder
        self._bucket = bucket
        self._buckets = buckets
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

    def tidy(self, batch: int, manifest: Manifest, retain: int) -> None:
        """Publish what is needed; now and then also remove what no bucket needs, whichever comes first."""
        needed, since = manifest.needed(batch, retain), batch
        said = _read(self._folder.uri, _needs(self._bucket))
        if said is not None and said["batch"] >= batch:
            # Another attempt at this micro-batch was here. Spark may have kept its version and not this one.
            needed, since = needed.union(said["names"]), said["batch"]
        _publish(self._folder.uri, _needs(self._bucket), {"batch": since, "names": sorted(needed)})
        if batch % self._every == 0 and _read(self._folder.uri, CLEANED) != {"batch": batch}:
            _publish(self._folder.uri, CLEANED, {"batch": batch})
            self.clean(batch)

    def clean(self, batch: int) -> None:
        """Remove the segments of earlier micro-batches that no bucket needs."""
        needed: set[str] = set()
        for bucket in self._buckets:
            needed.update(published(self._folder.uri, _needs(bucket)))
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

    def tidy(self, batch: int, manifest: Manifest, retain: int) -> None:
        """Remove what this version no longer names: the store itself keeps its earlier versions."""
        needed = manifest.needed(batch, -1)
        for key in [key for key in self._pieces.keys() if key[0] not in needed]:  # noqa: SIM118 - not a dict
            self._pieces.removeKey(key)


class Nowhere:
    """No segments: pruned streams that nobody looks on to have all they keep in their value."""

    parallel = False

    def put(self, batch: int, data: pa.Buffer, rows: int = 0) -> Part:
        """Never asked."""
        raise DataError("state: a stream without segments was asked to keep one")

    def near(self, part: Part) -> Any:
        """Return None: there is nothing."""

    def get(self, part: Part) -> Any:
        """Never asked either."""
        raise DataError(f"state: segment {part.segment} was asked of a stream without segments")

    def tell(self, status: Status) -> None:
        """Nobody looks on."""

    def tidy(self, batch: int, manifest: Manifest, retain: int) -> None:
        """There is nothing to remove."""


def _publish(uri: str, name: str, content: dict[str, Any]) -> None:
    system, root = open_folder(uri)
    data = json.dumps(content).encode()
    system.create_dir(root, recursive=True)
    if isinstance(system, pafs.LocalFileSystem):
        scratch = os.path.join(root, f".{name}.{os.getpid()}")
        with open(scratch, "wb") as file:
            file.write(data)
            os.fsync(file.fileno())
        os.replace(scratch, os.path.join(root, name))
    else:
        with system.open_output_stream(f"{root}/{name}") as stream:
            stream.write(data)


def published(uri: str, name: str) -> list[str]:
    """Return the names that a bucket has said it needs; none for a bucket that has had no row yet."""
    said = _read(uri, name)
    return list(said["names"]) if said is not None else []


def _read(uri: str, name: str) -> dict[str, Any] | None:
    """Undo :func:`_publish`; None where nothing has been published."""
    system, root = open_folder(uri)
    try:
        with system.open_input_file(f"{root}/{name}") as file:
            found: dict[str, Any] = json.loads(file.read())
    except FileNotFoundError:
        return None
    return found


def _needs(bucket: int) -> str:
    return f"needs-{bucket}.json"
