"""What Spark calls behind the shuffle: a bucket's manifest is a value in Spark's state store, which owns its versions.

Spark loads version n of every partition, calls this with what came, and commits version n + 1 of all of them or fails:
a micro-batch that is run again, a partition that was never computed, a second evaluation or another operator of the
same query are told apart by the plan that Spark executes, and not by anything that is read or guessed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from topwatch.spark.node.worker_tuning import hints, tune_worker
from topwatch.spark.stream_spec import Spec

if TYPE_CHECKING:
    import pyarrow as pa

    from topwatch.spark.operator.stateful import Done, Task

ROWS = 1 << 14  # rows of a result that are handed on at once: memory of this size is used again


class Watching(StatefulProcessor):
    """The processor for ``transformWithStateInPandas``: one state group is one bucket."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def init(self, handle: Any) -> None:
        """Declare the state. The driver calls this too, and nothing else."""
        self._handle = handle
        # One value: each more costs some milliseconds.
        self._manifest = handle.getValueState(
            "manifest", "manifest binary, kept binary" if self._spec.pruned else "manifest binary"
        )
        self._pieces = None
        if self._spec.segments is None:
            self._pieces = handle.getMapState("segments", "name string, number int", "bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Take the references of a micro-batch."""
        from topwatch.spark.state.manifest import CENSUS

        references = [line for frame in rows for line in frame.to_dict("records")]
        if int(key[0]) == CENSUS:
            self._count()
        else:
            yield from self._advance(int(key[0]), references, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802
        """Let rows go that the watermark has passed."""
        yield from self._advance(int(key[0]), [], timerValues)

    def close(self) -> None:
        """Nothing is open between calls."""

    def _count(self) -> None:
        """See that groups come to the buckets that have their windows.

        A bucket that has no state cannot know whether another one should have got its rows. This group gets a line
        in every micro-batch that has rows.
        """
        from topwatch.query.errors import DataError
        from topwatch.spark.state.manifest import OTHERS, check_partitions

        mine: dict[str, Any] = {"buckets": len(self._spec.buckets), "made_for": self._spec.fingerprint()}
        held = self._manifest.get()
        if held is None:
            value = json.dumps(mine).encode()
            self._manifest.update((value, None) if self._spec.pruned else (value,))
            return
        begun = json.loads(bytes(held[0]))
        check_partitions(begun["buckets"], mine["buckets"])
        if begun != mine:
            raise DataError(OTHERS)

    def _advance(self, bucket: int, references: list[dict[str, Any]], timers: Any) -> Iterator[Any]:
        import pyarrow as pa

        from topwatch.spark.node import shared_results
        from topwatch.spark.operator.stateful import Task

        tune_worker()
        watermark = timers.getCurrentWatermarkInMs() if self._spec.watermark else None
        state, kept = (*(self._manifest.get() or ()), None, None)[:2]
        task = Task(
            bytes(state) if state is not None else None,
            references,
            watermark,
            bytes(kept) if self._spec.pruned and kept is not None else None,
            hints(),
        )
        done = self._done(bucket, task)
        with ThreadPoolExecutor(1) as aside:
            safe = aside.submit(done.publish)  # while Spark reads what is emitted
            self._manifest.update((done.state, done.kept) if self._spec.pruned else (done.state,))
            if self._spec.watermark:
                self._wake(done.next_time)
            result = shared_results.fetch(done.result_buffer) if done.result_buffer is not None else done.result
            for part in result.to_batches(ROWS):  # in pieces: Spark reads one while the next is made
                yield in_pandas(pa.table(part))
            safe.result()  # Spark commits when all of this has ended well, and not before

    def _done(self, bucket: int, task: Task) -> Done:
        """Let the bucket take its references, here or where it is warm."""
        from topwatch.spark.node.peers import advance
        from topwatch.spark.operator.stateful import StatefulOperator
        from topwatch.spark.state.backends import FolderBackend, StoreBackend
        from topwatch.spark.state.segments import Folder

        if self._spec.segments is None:
            return StatefulOperator(self._spec, bucket, StoreBackend(self._pieces)).advance(task)
        operator = StatefulOperator(self._spec, bucket, FolderBackend(Folder(self._spec.segments), bucket))
        return operator.advance(task) if self._spec.pruned else advance(operator, task)

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
