"""What Spark calls: a bucket's manifest out of the state store and back, timers, and a Keeper in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from topwatch.spark.bucket import Bucket
from topwatch.spark.homes import FolderHome, Home, StoreHome
from topwatch.spark.keeper import Keeper
from topwatch.spark.segments import Folder
from topwatch.spark.spec import Spec


class Watching(StatefulProcessor):
    """The processor for ``transformWithStateInPandas``: one state group is one bucket."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self._handle = handle
        self._manifest = handle.getValueState("manifest", "manifest binary")
        self._pieces = None
        if self._spec.segments is None:
            self._pieces = handle.getMapState("segments", "name string, number int", "bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Take the references of a micro-batch."""
        references = [line for frame in rows for line in frame.to_dict("records")]
        yield from self._advance(key, references, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802
        """Let rows go that the watermark has passed."""
        yield from self._advance(key, [], timerValues)

    def close(self) -> None:
        """Nothing is open between calls."""

    def _advance(self, key: Any, references: list[dict[str, Any]], timers: Any) -> Iterator[Any]:
        query, batch = here()
        number = int(key[0])
        home: Home = (
            FolderHome(Folder(f"{self._spec.segments}/{query}"), number, self._spec.buckets)
            if self._spec.segments is not None
            else StoreHome(self._pieces)
        )
        watermark = timers.getCurrentWatermarkInMs() if self._spec.watermark else None
        state = self._manifest.get() if self._manifest.exists() else None
        keeper = Keeper(self._spec, query, number, home)
        after, found, bucket = keeper.advance(bytes(state[0]) if state else None, references, batch, watermark)
        self._manifest.update((after,))
        if self._spec.watermark:
            self._wake(bucket)
        if found.num_rows:
            yield in_pandas(found)

    def _wake(self, bucket: Bucket) -> None:
        """Be called again when the watermark has passed the first row that waits."""
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if bucket.next_time is not None:
            self._handle.registerTimer(bucket.next_time)


def here() -> tuple[str, int]:
    """Return the streaming query's id, which a restart keeps, and the micro-batch."""
    task = TaskContext.get()
    assert task is not None, "not inside a task"
    query = task.getLocalProperty("sql.streaming.queryId") or "static"
    return query, int(task.getLocalProperty("streaming.sql.batchId") or 0)


def in_pandas(table: pa.Table) -> Any:
    """Return a table as Spark takes it; nulls stay nulls and whole numbers whole."""
    import pandas as pd

    return table.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)
