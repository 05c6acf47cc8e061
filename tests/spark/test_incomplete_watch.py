"""Incomplete objects on Spark: the same changes as a monitor, also where a row is refused for one that has gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from python_workers import kill_workers
from test_watch import FILES, ROWS, Stream, lines

import topwatch as tw

SOURCES = ["north", "south", "west"]
QUERIES = [
    tw.IncompleteTopK(k=3, sources=SOURCES, source="seen at", bounds=(0, 1), name="once"),
    tw.IncompleteTopK(k=2, sources=SOURCES[::-1], source="seen at", occurrences="sum", name="often"),
    tw.TopK(k=2, score=tw.linear(value=1.0), name="rows"),
]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, rng: np.random.Generator) -> Stream:
    made = Stream(spark, tmp_path, rng)
    count = FILES * ROWS
    made.table = pa.table(
        {
            "id": [f"object {i}" for i in rng.integers(0, 60, count)],
            "seen at": pa.array(rng.choice(np.array([*SOURCES, "east", None]), count).tolist(), pa.string()),
            "value": rng.random(count).round(2) * 1.1,
        }
    )
    return made


@pytest.mark.parametrize("every", [1, 7])
def test_as_monitors_say(stream: Stream, every: int) -> None:
    def watched(files: int) -> DataFrame:
        return tw.spark.watch(stream.read(files), QUERIES, tw.last(150), every=every, segments=stream.segments)

    monitor = tw.Monitor(QUERIES, tw.last(150), every=every)
    expected = sorted((tuple(change) for change in monitor.push(stream.table)), key=str)
    stream.write(0, 2)
    stream.run(watched(1))
    stream.write(2, FILES)
    assert kill_workers(stream.spark), "the state is read again"
    assert stream.run(watched(3)) == expected
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    assert lines(tw.spark.watch(static, QUERIES, tw.last(150), every=every)) == expected


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        ({"source": "sen at"}, tw.DataError, "source: column 'sen at' is missing; .*did you mean 'seen at'"),
        ({"source": "value", "value": "seen at"}, tw.DataError, "source: column 'value' is double"),
    ],
)
def test_refusals(stream: Stream, said: dict[str, Any], error: type[Exception], message: str) -> None:
    stream.write(0, 1)
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    with pytest.raises(error, match=message):
        tw.spark.watch(static, tw.IncompleteTopK(k=1, sources=SOURCES, **said), tw.last(5))


def test_moving_scores_make_no_answers(stream: Stream) -> None:
    stream.write(0, 1)
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    with pytest.raises(tw.QueryError, match="emit: 'answers' does not serve IncompleteTopK queries"):
        tw.spark.watch(static, QUERIES, tw.last(5), emit="answers")
