"""A Spark session: the settings that serve ``watch``, names of columns in Spark's SQL, and what has been shuffled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# What `watch` needs of a session for streams, the first one, and what serves it well. docs/how-to/run-on-a-cluster.md
# has the reasons.
SETTINGS = {
    PROVIDER: ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Spark has one pool of Python processes for each environment, and sets this itself for a stream's first stage.
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Columns are chosen and rows counted: the size of a batch need not be worked out again for each of its rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # Spark would look at what came out of the first stage before it plans the second: there is nothing to choose.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}


def quoted(name: str) -> str:
    """Return a column's name in backticks.

    >>> quoted("net.bytes"), quoted("y`z")
    ('`net.bytes`', '`y``z`')
    """
    return f"`{name.replace('`', '``')}`"


def is_nested(kind: DataType) -> bool:
    """Return whether a column has no single values: rows are not grouped, ordered or called by those."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    return isinstance(kind, ArrayType | MapType | StructType | VariantType)


@dataclass
class Shuffled:
    """What was written for shuffles; of the whole application."""

    bytes: int = 0
    rows: int = 0


@contextmanager
def shuffled(spark: SparkSession) -> Iterator[Shuffled]:
    """Count what is shuffled while a block runs; the numbers are there after it.

    Examples
    --------
    ::

        with tw.spark.shuffled(spark) as moved:
            rows = tw.spark.skyline(df, {"price": "min", "stars": "max"}).collect()
        print(moved.bytes, moved.rows)

    Spark keeps the last 1,000 stages (``spark.ui.retainedStages``); of more than that, some are not counted. It is
    not there with Spark Connect, which has no status store.
    """
    before = {(stage.stageId(), stage.attemptId()) for stage in _stages(spark)}
    result = Shuffled()
    yield result
    for stage in _stages(spark):
        if (stage.stageId(), stage.attemptId()) not in before:
            result.bytes += stage.shuffleWriteBytes()
            result.rows += stage.shuffleWriteRecords()


def _stages(spark: SparkSession) -> list[Any]:
    context: Any = spark.sparkContext
    gateway, jvm = context._gateway, context._jvm
    scala = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    quantiles, states = gateway.new_array(jvm.double, 0), jvm.java.util.ArrayList()
    stages = scala.statusStore().stageList(None, False, False, quantiles, states)
    return [stages.apply(index) for index in range(stages.size())]
