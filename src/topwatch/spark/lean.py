"""What Spark calls where a bucket's state is one small value and no row waits for the watermark.

Of Spark's two stateful operators for Python this one costs less: the value comes and goes with the rows, without a
connection of its own, and nothing need be asked of Python before a stream begins (decision 14). What it takes back are
pandas frames, padded and converted column by column; so changes leave it packed, a line for each piece, and are
unfolded by a step behind it in the same task, or only told where they lie (:mod:`topwatch.spark.handing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topwatch.spark.turn import ROWS, take_turn
from topwatch.spark.worker import settle

if TYPE_CHECKING:
    from topwatch.spark.spec import Spec

PACKED = "tray string, found binary"  # where changes lie, or they themselves


class Lean:
    """The function for ``applyInPandasWithState``: one state group is one bucket."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def __call__(self, key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        """Take the references of a micro-batch."""
        import pandas as pd

        from topwatch.spark import handing
        from topwatch.spark.segments import pack

        references = [line for frame in frames for line in frame.to_dict("records")]
        done, value = take_turn(self._spec, int(key[0]), state.getOption, references)
        state.update(value)
        tray = done.tray or (handing.lay(done.found) if done.found.num_rows else None)
        if tray is not None:
            yield pd.DataFrame({"tray": [tray], "found": [None]})
        elif done.found.num_rows:
            parts = done.found.to_batches(ROWS)
            yield pd.DataFrame({"tray": None, "found": [pack(pa.table(part)).to_pybytes() for part in parts]})


class Unfolding:
    """The function for ``mapInArrow`` that makes rows of what :class:`Lean` has packed."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the changes."""
        from topwatch.spark import handing
        from topwatch.spark.segments import unpack

        settle()
        for batch in batches:
            for tray, found in zip(*batch.columns, strict=True):
                table = handing.fetch(tray.as_py()) if tray.is_valid else unpack(found.as_buffer())
                yield from table.to_batches(ROWS)


def serves(packed: Any) -> bool:
    """Tell whether Spark lets this operator follow what the frame is made of: not all others may come before it."""
    from pyspark.errors import AnalysisException

    java = packed.sparkSession._jvm.org.apache.spark.sql
    plan = packed._jdf.queryExecution().analyzed()
    try:  # Spark's own check, which it makes again when a stream is started
        java.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, java.streaming.OutputMode.Append())
    except AnalysisException:
        return False
    return True
