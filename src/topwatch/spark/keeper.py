"""A bucket from micro-batch to micro-batch: rows by reference into its monitors, and its manifest onwards.

Buckets stay warm in the Python worker between micro-batches. A warm one is taken out before it changes and put back
with the new version's token afterwards: a task that is tried again finds either the version that the store names, or
none and reads it from its segments. So Spark's own commit decides what counts.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from topwatch.spark.bucket import Bucket
from topwatch.spark.bulk import BAD
from topwatch.spark.homes import Home
from topwatch.spark.manifest import Manifest, Turn
from topwatch.spark.quarantine import write_refused
from topwatch.spark.segments import unpack
from topwatch.spark.spec import Spec

REPLAY = 4  # how many times as many rows as the state has may be replayed at a restart
LEAST_REPLAY = 1 << 20

_warm: dict[tuple[str, int], tuple[str, Bucket]] = {}


class Keeper:
    """Keeps one bucket from micro-batch to micro-batch.

    Parameters
    ----------
    spec : Spec
        What is watched.
    query : str
        Id of the streaming query.
    bucket : int
        Which bucket.
    home : Home
        Where its segments are.
    """

    def __init__(self, spec: Spec, query: str, bucket: int, home: Home) -> None:
        self._spec = spec
        self._query = query
        self._bucket = bucket
        self._home = home

    def advance(
        self, state: bytes | None, references: list[dict[str, Any]], batch: int, watermark: int | None
    ) -> tuple[bytes, pa.Table, Bucket]:
        """Take a micro-batch: return the new manifest, what is emitted, and the bucket."""
        manifest = Manifest.from_bytes(state)
        bucket = self._open(manifest)
        slices = []
        refused = []
        for line in sorted(references, key=lambda line: (line["part"], line["chunk"], line["start"])):
            if line["kind"] == BAD:
                refused.append(unpack(self._bytes(line)).slice(line["start"], line["count"]))
            else:
                name = line["segment"]
                if name is None:
                    name = self._home.put(batch, pa.py_buffer(line["data"]))
                slices.append((name, int(line["start"]), int(line["count"])))
        found, late = bucket.take(self._read(slices), watermark)
        if self._spec.quarantine is not None:
            write_refused(self._spec.quarantine, batch, self._bucket, [*refused, late])
        manifest.log.append(Turn(slices, watermark))
        if manifest.rows > max(LEAST_REPLAY, REPLAY * bucket.live()):
            manifest.rebase(self._home.put(batch, pa.py_buffer(bucket.save())), batch)
        manifest.renew()
        self._home.tidy(batch, manifest, self._spec.retain)
        _warm[self._query, self._bucket] = (manifest.token, bucket)
        return manifest.to_bytes(), found, bucket

    def _open(self, manifest: Manifest) -> Bucket:
        """Return the bucket of a version: the warm one, or one read from its segments."""
        token, bucket = _warm.pop((self._query, self._bucket), ("", None))
        if bucket is not None and token == manifest.token:
            return bucket
        base = manifest.base
        bucket = Bucket.load(self._spec, self._home.get(base)) if base is not None else Bucket(self._spec)
        for turn in manifest.log:
            bucket.take(self._read(turn.slices), turn.watermark)
        return bucket

    def _read(self, slices: list[tuple[str, int, int]]) -> list[pa.Table]:
        tables: dict[str, pa.Table] = {}
        for name, _, _ in slices:
            if name not in tables:
                tables[name] = unpack(self._home.get(name))
        return [tables[name].slice(start, count) for name, start, count in slices]

    def _bytes(self, line: dict[str, Any]) -> Any:
        return line["data"] if line["segment"] is None else self._home.get(line["segment"])
