"""What Spark calls: a bucket's manifest out of the state store and back, timers, and a Keeper in between."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from topwatch.spark.spec import Spec
from topwatch.spark.worker import here, settle

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1 << 16  # rows of a result that are handed on at once


class Watching(StatefulProcessor):
    """The processor for ``transformWithStateInPandas``: one state group is one bucket."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def init(self, handle: Any) -> None:
        """Declare the state. The driver calls this too, and nothing else."""
        self._handle = handle
        # One value: each one that is declared costs some milliseconds in every task.
        kept = ", kept binary" if self._spec.pruned else ""
        self._manifest = handle.getValueState("manifest", "manifest binary" + kept)
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
        import pyarrow as pa

        from topwatch.spark.homes import FolderHome, StoreHome
        from topwatch.spark.keeper import Keeper, Task
        from topwatch.spark.neighbours import advance
        from topwatch.spark.segments import Folder

        settle()
        query, batch = here()
        number = int(key[0])
        watermark = timers.getCurrentWatermarkInMs() if self._spec.watermark else None
        held = self._manifest.get() or (None, None)
        kept = bytes(held[1]) if self._spec.pruned and held[1] is not None else None
        task = Task(bytes(held[0]) if held[0] is not None else None, references, batch, watermark, kept=kept)
        if self._spec.segments is None:
            done = Keeper(self._spec, query, number, StoreHome(self._pieces)).advance(task)
        else:
            folder = f"{self._spec.segments}/{query}"
            keeper = Keeper(self._spec, query, number, FolderHome(Folder(folder), number, self._spec.buckets))
            # Two queries may have one id, if a checkpoint was copied; their folders differ.
            name = f"{query}-{number}-{zlib.crc32(folder.encode()):08x}"
            done = keeper.advance(task) if self._spec.pruned else advance(keeper, name, task)
        self._manifest.update((done.state, done.kept) if self._spec.pruned else (done.state,))
        if self._spec.watermark:
            self._wake(done.next_time)
        for part in done.found.to_batches(ROWS):  # in pieces: Spark reads one while the next is made
            yield in_pandas(pa.table(part))

    def _wake(self, time: int | None) -> None:
        """Be called again when the watermark has passed the first row that waits."""
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if time is not None:
            self._handle.registerTimer(time)


def in_pandas(table: pa.Table) -> Any:
    """Return a table as Spark takes it; nulls stay nulls and whole numbers whole."""
    import pandas as pd

    return table.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)
