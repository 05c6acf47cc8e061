"""The stateful operator: takes a bucket from version to version of its state, one micro-batch each.

Buckets stay warm in the Python worker between micro-batches. A warm one is taken out before it changes and put back
with the new version's token afterwards: a task that is tried again finds either the version that the store names, or
none and reads it from its segments. So Spark's own commit decides what counts. A worker is not notified when a query
stops: buckets without a task for a while are released when others work. A task that runs in another worker
of the same machine than the one before it sends its references there (:mod:`topwatch.spark.operator.peer_tasks`).
"""

from __future__ import annotations

import dataclasses
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from topwatch.query.errors import DataError
from topwatch.spark.operator.bucket import Bucket
from topwatch.spark.operator.ordering import Piece
from topwatch.spark.operator.quarantine import write_refused
from topwatch.spark.operator.references import BAD, Reference
from topwatch.spark.planner import Spec
from topwatch.spark.state.backends import StateBackend
from topwatch.spark.state.manifest import Manifest, MicroBatch
from topwatch.spark.state.segments import Part, unpack
from topwatch.spark.state.status import Status, write_status

REPLAY = 4  # how many times as many rows as the state has may be replayed at a restart
LEAST_REPLAY = 1 << 20
READERS = 4  # threads that read segments
IDLE = 60.0  # seconds at least that a bucket stays in memory without a task
MANY = 256  # micro-batches in the log; with more of them, a snapshot costs less than their names

_warm: dict[str, Warm] = {}


class Hints(NamedTuple):
    """Names that Spark gives to a task where its query's own thread has started it; only for display.

    A job that a user's own thread starts, as in ``foreachBatch``, has none of it. State, segments and versions never
    depend on it.
    """

    query: str | None = None  # the streaming query's id, which a restart keeps
    batch: int | None = None  # the number of the micro-batch


NO_HINTS = Hints()


def hints() -> Hints:
    """Return the hints about this task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return Hints()
    batch = task.getLocalProperty("streaming.sql.batchId")
    return Hints(task.getLocalProperty("sql.streaming.queryId"), int(batch) if batch is not None else None)


class Warm(NamedTuple):
    """A bucket in memory between micro-batches, in the version of a token."""

    token: str
    bucket: Bucket
    since: float  # seconds, of a clock that does not jump


@dataclass
class Task:
    """The input of a micro-batch for one bucket: the state in the store, and references to rows."""

    state: bytes | None
    references: list[Reference]
    watermark: int | None = None
    shown: Hints = NO_HINTS


class Publication(NamedTuple):
    """What the backend has to know of a version before it may be committed."""

    manifest: Manifest
    new: list[Part]  # parts that no version before it has named
    gone: str  # the metadata file of the version before the one that it follows
    released: list[str]  # segments that can be removed unless other versions need them
    query: str | None
    status: Status


@dataclass
class TaskResult:
    """What came of a task: the state for the store, what is emitted, and when to wake up without rows."""

    state: bytes
    result: pa.Table
    next_time: int | None
    publication: Publication | None = None  # None where a peer worker has published already


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

    @property
    def shared(self) -> bool:
        """Whether other threads and processes reach the segments too."""
        return self._backend.shared

    def advance(self, task: Task, manifest: Manifest | None = None) -> TaskResult:
        """Take a micro-batch; ``manifest`` is the task's, where it has been read already."""
        manifest = self.manifest(task) if manifest is None else manifest
        manifest.begin(bool(task.references))
        known, base = manifest.names(), manifest.base
        lines = sorted(task.references, key=lambda line: (line.part, line.piece))
        refused = [line for line in lines if line.kind == BAD]
        good = [line for line in lines if line.kind != BAD]
        held = _warm.pop(self.name(manifest), None)  # no other task can take it
        warm = held is not None and held.token == manifest.token
        bucket = held.bucket if held is not None and warm else self._rebuilt(manifest)
        result, late, lost = self._take(bucket, manifest, task, good)
        if manifest.base not in (None, base) and not self._spec.derived:
            # Such an algorithm goes on from a snapshot in another way: so it does whether that is read again or not.
            bucket = self._rebuilt(manifest)
        manifest.refused += sum(int(line.rows) for line in refused)
        if self._spec.quarantine is not None:
            bad = [unpack(line.data) for line in refused]
            write_refused(self._spec, manifest.number, self._bucket, [*bad, late], task.shown.batch)
        gone = manifest.before
        manifest.renew()
        released = self._backend.release(manifest, lost, self._spec.retain)
        new = [part for part in manifest.parts() if part.segment not in known]
        status = dataclasses.replace(bucket.status(), batch=manifest.number, refused=manifest.refused)
        publication = Publication(manifest, new, gone, released, task.shown.query, status)
        now = time.monotonic()
        _warm[self.name(manifest)] = Warm(manifest.token, bucket, now)
        if held is not None:  # the others may not have had their tasks of this micro-batch yet
            forget(max(IDLE, 2 * (now - held.since)))
        return TaskResult(manifest.to_bytes(), result, bucket.next_time, publication)

    def publish(self, done: TaskResult) -> None:
        """Publish a new version and its status; to be called before its state is committed."""
        made = done.publication
        if made is not None:
            self._backend.publish(made.manifest, made.new, made.gone, made.released)
            if self._spec.segments is not None:
                write_status(self._spec.segments, made.query, self._bucket, made.status)

    def manifest(self, task: Task) -> Manifest:
        """Return the manifest in the store; one that was made for other queries is refused."""
        return Manifest.of(task.state, self._spec.fingerprint(), len(self._spec.buckets))

    def name(self, manifest: Manifest) -> str:
        """Return the bucket's name among peer workers; buckets of two calls of ``watch`` never share one."""
        return f"{self._spec.run}-{manifest.state}"

    def warm(self, manifest: Manifest) -> bool:
        """Return whether this process has the bucket in the version of a manifest."""
        warm = _warm.get(self.name(manifest))
        return warm is not None and warm.token == manifest.token

    def _take(
        self, bucket: Bucket, manifest: Manifest, task: Task, lines: list[Reference]
    ) -> tuple[pa.Table, pa.Table, list[Part]]:
        """Take in rows, and record in the manifest what the state is made of then; return what it no longer names."""
        if self._spec.plan.pruned:
            result, late = bucket.take([Piece(int(line.rows), unpack(line.data)) for line in lines], None)
            return result, late, self._rebase(bucket, manifest)
        parts = []
        for line in lines:
            there = line.in_folder()
            parts.append(there or self._backend.put(manifest, pa.py_buffer(line.data), int(line.rows)))
        known = manifest.names().intersection(part.segment for part in parts)
        if known:
            raise DataError(
                f"state: it has the rows of {min(known)} already; the checkpoint's state is not that of the micro-batch"
                " before. Go back to a good copy, or start with a new checkpoint"
            )
        result, late = bucket.take(self._read(parts), task.watermark)
        manifest.log.append(MicroBatch(parts, task.watermark))
        enough, few, lost = self._spec.replayable, len(manifest.log) <= MANY, []
        if enough and few and manifest.rows >= enough:
            lost = manifest.trim(enough)
        elif not few or (not enough and manifest.rows > max(LEAST_REPLAY, REPLAY * bucket.status().live)):
            lost = self._rebase(bucket, manifest)
        return result, late, lost

    def _rebase(self, bucket: Bucket, manifest: Manifest) -> list[Part]:
        """Begin the log again, behind a snapshot; return the parts that are no longer named."""
        return manifest.rebase(self._backend.put(manifest, pa.py_buffer(bucket.save())))

    def _rebuilt(self, manifest: Manifest) -> Bucket:
        """Make the bucket of a version: from its snapshot, and the rows that came since."""
        bucket = Bucket(self._spec)
        if manifest.base is not None:
            bucket.load(self._backend.get(manifest.base).to_pybytes())
        over, every = 0, self._spec.settings.every
        if manifest.base is None and manifest.skipped and isinstance(every, int):
            # Evaluations fall on the same rows as before only from a multiple of their distance on.
            over = -manifest.skipped % every
            bucket.begin(manifest.skipped + over)
        for batch in manifest.log:
            skip = min(over, batch.rows)
            over -= skip
            bucket.take(self._read(batch.parts), batch.watermark, skip)
        return bucket

    def _read(self, parts: list[Part]) -> list[Piece]:
        """Read rows."""
        if len(parts) > 1 and self.shared:
            with ThreadPoolExecutor(READERS) as readers:
                read = list(readers.map(self._backend.get, parts))
        else:
            read = [self._backend.get(part) for part in parts]
        return [Piece(part.rows, unpack(data)) for part, data in zip(parts, read, strict=True)]


def holds(name: str) -> bool:
    """Return whether this process has a bucket in some version."""
    return name in _warm


def forget(idle: float) -> None:
    """Release buckets that no task has used for longer than some seconds."""
    oldest = time.monotonic() - idle
    gone = []
    for key, warm in list(_warm.items()):  # a thread for a peer worker may take one out
        if warm.since < oldest:
            gone.append(_warm.pop(key, None))
    if gone:  # in a thread: releasing memory takes time
        threading.Thread(target=gone.clear, name="topwatch forgets", daemon=True).start()
