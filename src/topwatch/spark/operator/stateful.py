"""A bucket from micro-batch to micro-batch: rows by reference into its windows, and its manifest onwards.

Buckets stay warm in the Python worker between micro-batches. A warm one is taken out before it changes and put back
with the new version's token afterwards: a task that is tried again finds either the version that the store names, or
none and reads it from its segments. So Spark's own commit decides what counts. Nobody tells a worker that a query has
been stopped: buckets that nothing came for in a while are released when others work. A task that runs in another worker
of the same machine than the one before it sends its references there (:mod:`topwatch.spark.node.peers`).
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from topwatch.query.errors import DataError
from topwatch.spark.node.worker_tuning import UNSAID, Hints
from topwatch.spark.operator.bucket import Bucket, Slices
from topwatch.spark.operator.partition_writer import BAD
from topwatch.spark.operator.pruned_bucket import PrunedBucket
from topwatch.spark.operator.quarantine import write_refused
from topwatch.spark.state.backends import StateBackend
from topwatch.spark.state.manifest import OTHERS, Manifest, MicroBatch, check_partitions
from topwatch.spark.state.segments import Part, unpack
from topwatch.spark.stream_spec import Spec

REPLAY = 4  # how many times as many rows as the state has may be replayed at a restart
LEAST_REPLAY = 1 << 20
READERS = 4  # threads that read segments
IDLE = 60.0  # seconds after which a bucket is read again rather than kept in memory
MANY = 256  # micro-batches in the log; with more of them, a snapshot costs less than their names

Reference = dict[str, Any]
Taken = tuple[pa.Table, pa.Table, Bucket | PrunedBucket]  # what is emitted, what came too late, the bucket after it

_warm: dict[str, Warm] = {}


class Warm(NamedTuple):
    """A bucket that waits for its next micro-batch, in the version of a token."""

    token: str
    bucket: Bucket | PrunedBucket
    since: float  # seconds, of a clock that does not jump


@dataclass
class Task:
    """What a bucket is to do: the state that the store has, and what came."""

    state: bytes | None
    references: list[Reference]
    watermark: int | None = None
    kept: bytes | None = None  # pruned streams: what is kept lies in the store itself
    shown: Hints = UNSAID


@dataclass
class Done:
    """What came of it: the state for the store, what is emitted, and when to wake up without rows."""

    state: bytes
    result: pa.Table
    next_time: int | None
    kept: bytes | None = None
    result_buffer: str | None = None  # where what is emitted lies, if a peer worker has computed it
    publish: Callable[[], None] = lambda: None  # has to be called before the state may be committed


class StatefulOperator:
    """Keeps one bucket from micro-batch to micro-batch.

    Parameters
    ----------
    spec : Spec
        What is watched.
    bucket : int
        Which bucket.
    backend : StateBackend
        Where its segments are.
    """

    def __init__(self, spec: Spec, bucket: int, backend: StateBackend) -> None:
        self._spec = spec
        self._bucket = bucket
        self._backend = backend

    def advance(self, task: Task) -> Done:
        """Take a micro-batch."""
        manifest = self.manifest(task)
        manifest.begin(bool(task.references))
        known = manifest.names()
        lines = sorted(task.references, key=lambda line: (line["part"], line["piece"]))
        refused = [line for line in lines if line["kind"] == BAD]
        good = [line for line in lines if line["kind"] != BAD]
        take = self._take_kept if self._spec.pruned else self._take_rows
        result, late, bucket = take(manifest, task, good)
        manifest.refused += sum(int(line["rows"]) for line in refused)
        if self._spec.quarantine is not None:
            bad = [unpack(line["data"]) for line in refused]
            write_refused(self._spec, manifest.number, self._bucket, [*bad, late], task.shown.batch)
        gone = manifest.before
        manifest.renew()
        released = self._backend.release(manifest, self._spec.retain)
        new = [part for part in manifest.parts() if part.segment not in known]
        kept = bucket.save() if self._spec.pruned else None
        status = dataclasses.replace(bucket.status(), batch=manifest.number, refused=manifest.refused)

        def publish() -> None:
            self._backend.publish(manifest, new, gone, released)
            self._backend.show(task.shown.query, status)

        if isinstance(bucket, Bucket):
            bucket.prepare()
        _warm[self.name(manifest)] = Warm(manifest.token, bucket, time.monotonic())
        forget(IDLE)
        return Done(manifest.to_bytes(), result, bucket.next_time, kept, publish=publish)

    def manifest(self, task: Task) -> Manifest:
        """Return the manifest in the store; one that was made for other queries is refused."""
        manifest, mine = Manifest.from_bytes(task.state), self._spec.fingerprint()
        if task.state is not None and manifest.made_for != mine:
            raise DataError(OTHERS)
        if task.state is not None:
            check_partitions(manifest.buckets, len(self._spec.buckets))
        manifest.made_for, manifest.buckets = mine, len(self._spec.buckets)
        return manifest

    def name(self, manifest: Manifest) -> str:
        """Return what the bucket is called among peer workers; buckets of two calls of ``watch`` are never the same."""
        return f"{self._spec.run}-{manifest.state}"

    def warm(self, manifest: Manifest) -> bool:
        """Tell whether this process has the bucket in the version of a manifest."""
        result = _warm.get(self.name(manifest))
        return result is not None and result.token == manifest.token

    def _take_kept(self, manifest: Manifest, task: Task, lines: list[Reference]) -> Taken:
        bucket = self._taken_out(manifest)
        if not isinstance(bucket, PrunedBucket):
            bucket = PrunedBucket(self._spec) if task.kept is None else PrunedBucket.load(self._spec, task.kept)
        result = bucket.take([(int(line["rows"]), unpack(line["data"])) for line in lines])
        return result, pa.table({}), bucket

    def _take_rows(self, manifest: Manifest, task: Task, lines: list[Reference]) -> Taken:
        bucket = self._taken_out(manifest)
        if not isinstance(bucket, Bucket):
            bucket = self._rebuilt(manifest)
        parts = []
        for line in lines:
            if line["segment"] is None:
                parts.append(self._backend.put(manifest, pa.py_buffer(line["data"]), int(line["rows"])))
            else:
                parts.append(_part(line))
        twice = manifest.names().intersection(part.segment for part in parts)
        if twice:
            raise DataError(
                f"state: it has the rows of {min(twice)} already; the checkpoint's state is not that of the micro-batch"
                " before. Go back to a good copy, or start with a new checkpoint"
            )
        result, late = bucket.take(self._read(parts, recent=True), task.watermark, self._before(manifest.log))
        manifest.log.append(MicroBatch(parts, task.watermark))
        enough, few = self._spec.replayable, len(manifest.log) <= MANY
        if enough and few and manifest.rows >= enough:
            self._backend.drop(manifest.trim(enough, bucket.rows))
        elif not few or (not enough and manifest.rows > max(LEAST_REPLAY, REPLAY * bucket.live())):
            base = self._backend.put(manifest, pa.py_buffer(bucket.save(self._before(manifest.log))))
            self._backend.drop(manifest.rebase(base))
        return result, late, bucket

    def _rebuilt(self, manifest: Manifest) -> Bucket:
        base = manifest.base
        bucket = Bucket.load(self._spec, self._backend.get(base)) if base is not None else Bucket(self._spec)
        over = 0
        if manifest.skipped and isinstance(self._spec.every, int):
            # Evaluations fall on the same rows as before only from a multiple of their distance on.
            over = -manifest.skipped % self._spec.every
            bucket.begin(manifest.skipped + over)
        for index, batch in enumerate(manifest.log):
            leave = min(over, batch.rows)
            over -= leave
            bucket.take(self._read(batch.parts), batch.watermark, self._before(manifest.log[:index]), leave)
        return bucket

    def _before(self, batches: list[MicroBatch]) -> Slices:
        """Return what reads micro-batches again."""
        return lambda: (self._read(batch.parts) for batch in batches)

    def _taken_out(self, manifest: Manifest) -> Bucket | PrunedBucket | None:
        """Return the warm bucket if it is of the version that the store has. Nobody else finds it meanwhile."""
        result = _warm.pop(self.name(manifest), None)
        return result.bucket if result is not None and result.token == manifest.token else None

    def _read(self, parts: list[Part], recent: bool = False) -> list[pa.Table]:
        """Read rows: those of this micro-batch from memory where they are, others as the disk has kept them."""
        result = {part: self._backend.near(part) for part in parts} if recent else {}
        rest = [part for part in parts if result.get(part) is None]
        if len(rest) > 1 and self._backend.parallel:
            with ThreadPoolExecutor(READERS) as readers:
                result.update(zip(rest, readers.map(self._backend.get, rest), strict=True))
        else:
            result.update((part, self._backend.get(part)) for part in rest)
        return [unpack(result[part]) for part in parts]


def forget(idle: float) -> None:
    """Release buckets that no task has used for longer than some seconds."""
    oldest = time.monotonic() - idle
    gone = []
    for key, warm in list(_warm.items()):  # a thread for a peer worker may take one out meanwhile
        if warm.since < oldest:
            gone.append(_warm.pop(key, None))
    if gone:  # their memory goes back to the system elsewhere: nobody here should wait for it
        threading.Thread(target=gone.clear, name="topwatch forgets", daemon=True).start()


def _part(line: Reference) -> Part:
    return Part(line["segment"], *(int(line[name]) for name in ("start", "size", "rows", "check")))
