"""The stateful processor that Spark calls after the shuffle: keeps each bucket's manifest in Spark's state store.

Spark loads version n of every partition, calls this with what came, and commits version n + 1 of all of them or fails:
a micro-batch that is run again, a partition that was never computed, a second evaluation or another operator of the
same query are distinguished by the plan that Spark executes, and not by anything that is read or guessed here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from topwatch.spark.planner import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from topwatch.spark.operator.references import Reference
    from topwatch.spark.operator.stateful import StatefulOperator

RESULT_ROWS = 1 << 14  # rows of a result that are handed on at once: memory of this size is used again


class Processor(StatefulProcessor):
    """The processor for ``transformWithStateInPandas``: one state group is one bucket."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def init(self, handle: Any) -> None:
        """Declare the state. The driver calls this too, and nothing else."""
        self._handle = handle
        # One value: each more costs some milliseconds.
        self._manifest = handle.getValueState("manifest", "manifest binary")
        self._pieces = None
        if self._spec.plan.backend == "state store":
            self._pieces = handle.getMapState("segments", "name string, number int", "bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Take the references of a micro-batch."""
        from topwatch.spark.operator.references import Reference
        from topwatch.spark.state.manifest import CENSUS

        references = [Reference(**line) for frame in rows for line in frame.to_dict("records")]
        if int(key[0]) == CENSUS:
            self._count()
        else:
            yield from self._advance(int(key[0]), references, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802
        """Release the rows that the watermark has passed."""
        yield from self._advance(int(key[0]), [], timerValues)

    def close(self) -> None:
        """Nothing is open between calls."""

    def _count(self) -> None:
        """Check that groups come to the buckets that have their windows.

        A bucket that has no state cannot know whether another one should have got its rows. This group gets a line
        in every micro-batch that has rows.
        """
        from topwatch.spark.state.manifest import Manifest

        held = self._held()
        manifest = Manifest.of(held, self._spec.fingerprint(), len(self._spec.buckets))
        if held is None:
            self._manifest.update((manifest.to_bytes(),))

    def _advance(self, bucket: int, references: list[Reference], timers: Any) -> Iterator[Any]:
        import pyarrow as pa

        from topwatch.spark.operator.peer_tasks import advance
        from topwatch.spark.operator.stateful import Task, hints

        # PySpark's own doing, in each task of a stream with state.
        warnings.filterwarnings("ignore", "The behavior of DataFrame concatenation", FutureWarning, "pyspark.worker")
        watermark = timers.getCurrentWatermarkInMs() if self._spec.watermark else None
        task = Task(self._held(), references, watermark, hints())
        operator = self._operator(bucket)
        done = advance(operator, task)
        with ThreadPoolExecutor(1) as publisher:
            published = publisher.submit(operator.publish, done)  # while Spark reads what is emitted
            self._manifest.update((done.state,))
            if self._spec.watermark:
                self._wake(done.next_time)
            for part in done.result.to_batches(RESULT_ROWS):  # in pieces: Spark reads one while the next is made
                yield in_pandas(pa.table(part))
            published.result()  # Spark commits when all of this has ended well, and not before

    def _held(self) -> bytes | None:
        held = self._manifest.get()
        return bytes(held[0]) if held is not None else None

    def _operator(self, bucket: int) -> StatefulOperator:
        """Return the operator of a bucket, with the backend that the plan names."""
        from topwatch.spark.operator.stateful import StatefulOperator
        from topwatch.spark.state.backends import FolderBackend, StoreBackend

        folder = self._spec.folder
        backend = StoreBackend(self._pieces) if folder is None else FolderBackend(folder, bucket)
        return StatefulOperator(self._spec, bucket, backend)

    def _wake(self, time: int | None) -> None:
        """Be called again when the watermark has passed the first buffered row."""
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if time is not None:
            self._handle.registerTimer(time)


def in_pandas(table: pa.Table) -> Any:
    """Return a table as Spark takes it; nulls stay nulls and whole numbers whole."""
    import pandas as pd

    return table.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)
