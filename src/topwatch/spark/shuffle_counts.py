"""How much Spark has shuffled: counted by Spark itself, stage by stage, in its status store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Shuffled:
    """What was written for shuffles; of the whole application, whoever asked for it."""

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
