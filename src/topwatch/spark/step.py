"""The step that keeps the windows, as a plain one: its state is a file for each bucket and micro-batch.

It runs inside ``mapInArrow`` behind the shuffle, so that references come and changes go as Arrow, without a detour by
pandas, another Python worker or Spark's state store (decision 17). A partition has the references of one bucket, as
the buckets' numbers are chosen; with more it does as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topwatch.spark.turn import ROWS, take_turn
from topwatch.spark.worker import here, settle

if TYPE_CHECKING:
    from topwatch.spark.spec import Spec


class Step:
    """The function for ``mapInArrow``."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take the references of a micro-batch; what comes of them may be used once the last of it is handed on."""
        from topwatch.spark.versions import begin

        settle()
        query, batch = here()
        # Also where nothing has come: the first micro-batch of a stream may be empty.
        begin(self._spec.folder(query), self._spec.fingerprint(), len(self._spec.buckets), batch)
        references: dict[int, list[dict[str, Any]]] = {}
        for part in batches:
            for line in part.to_pylist():
                references.setdefault(line["bucket"], []).append(line)
        with ThreadPoolExecutor(1) as aside:
            for bucket in sorted(references):
                found, safe = self._take(bucket, references[bucket], aside)
                parts = found.to_batches(ROWS)
                yield from parts[:-1]
                safe.result()  # while Spark reads; who has the last of it may rely on the state
                yield from parts[-1:]

    def _take(
        self, bucket: int, references: list[dict[str, Any]], aside: ThreadPoolExecutor
    ) -> tuple[pa.Table, Future[None]]:
        """Return what is emitted, and what tells when the state is safe."""
        from topwatch.spark import handing
        from topwatch.spark.homes import FolderHome
        from topwatch.spark.segments import Folder
        from topwatch.spark.versions import Versions

        query, batch = here()
        folder, made_for = self._spec.folder(query), self._spec.fingerprint()
        versions = Versions(folder, made_for, bucket)
        held = versions.before(batch, FolderHome(Folder(folder), made_for, bucket).said)
        done, _ = take_turn(self._spec, bucket, held, references)

        def save() -> None:
            done.note()
            versions.write(batch, (done.state, done.kept))

        safe = aside.submit(save)
        return handing.fetch(done.tray) if done.tray is not None else done.found, safe
