"""What Spark calls where rows wait for the watermark, or segments lie in the state store: values, timers, a map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from topwatch.spark.spec import Spec
from topwatch.spark.turn import ROWS, take_turn, value_of

if TYPE_CHECKING:
    import pyarrow as pa


class Watching(StatefulProcessor):
    """The processor for ``transformWithStateInPandas``: one state group is one bucket."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def init(self, handle: Any) -> None:
        """Declare the state. The driver calls this too, and nothing else."""
        self._handle = handle
        self._manifest = handle.getValueState("manifest", value_of(self._spec))
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

        from topwatch.spark import handing

        watermark = timers.getCurrentWatermarkInMs() if self._spec.watermark else None
        held = self._manifest.get()
        done, value = take_turn(self._spec, int(key[0]), held, references, watermark, self._pieces)
        done.note()
        self._manifest.update(value)
        if self._spec.watermark:
            self._wake(done.next_time)
        found = handing.fetch(done.tray) if done.tray is not None else done.found
        for part in found.to_batches(ROWS):  # in pieces: Spark reads one while the next is made
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
