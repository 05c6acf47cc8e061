"""``watch`` on incomplete objects: what a monitor reports, sources that are missing, and no whole answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import topwatch as tw
from tests.support.python_workers import kill_workers
from tests.support.watched_stream import BOTH, FILES, ROWS, Stream, lines

SOURCES = ["north", "south", "west"]
GATHERED = [
    tw.IncompleteTopK(k=3, sources=SOURCES, source="seen at", bounds=(0, 1), name="once"),
    tw.IncompleteTopK(k=2, sources=SOURCES[::-1], source="seen at", occurrences="sum", name="often"),
    tw.TopK(k=2, score=tw.linear(value=1.0), name="rows"),
]


@pytest.fixture
def backend() -> str:
    """Where segments are, if a test does not say :data:`BOTH`."""
    return "folder"


@pytest.fixture
def objects(spark: SparkSession, tmp_path: Path, rng: np.random.Generator, backend: str) -> Stream:
    made = Stream(spark, tmp_path, rng, backend)
    count = FILES * ROWS
    made.table = pa.table(
        {
            "id": [f"object {i}" for i in rng.integers(0, 60, count)],
            "seen at": pa.array(rng.choice(np.array([*SOURCES, "east", None]), count).tolist(), pa.string()),
            "value": rng.random(count).round(2) * 1.1,
        }
    )
    return made


@BOTH
def test_incomplete_objects(objects: Stream) -> None:
    every = 7

    def watched(files: int) -> DataFrame:
        return tw.spark.watch(objects.read(files), GATHERED, tw.last(150), every=every, segments=objects.segments)

    monitor = tw.Monitor(GATHERED, tw.last(150), every=every)
    expected = sorted((tuple(change) for change in monitor.push(objects.table)), key=str)
    objects.write(0, 2)
    objects.run(watched(1))
    objects.write(2, FILES)
    assert kill_workers(objects.spark), "the state is read again"
    assert objects.run(watched(3)) == expected
    static = objects.spark.read.parquet(str(objects.folder / "in"))
    assert lines(tw.spark.watch(static, GATHERED, tw.last(150), every=every)) == expected


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": "sen at"}, tw.DataError, "source: column 'sen at' is missing; .*did you mean 'seen at'"),
        ({"source": "value", "value": "seen at"}, tw.DataError, "source: column 'value' is double"),
    ],
)
def test_sources_that_are_not_there(
    objects: Stream, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    objects.write(0, 1)
    static = objects.spark.read.parquet(str(objects.folder / "in"))
    with pytest.raises(error, match=message):
        tw.spark.watch(static, tw.IncompleteTopK(k=1, sources=SOURCES, **options), tw.last(5))


def test_objects_have_no_whole_answers(objects: Stream) -> None:
    objects.write(0, 1)
    static = objects.spark.read.parquet(str(objects.folder / "in"))
    with pytest.raises(tw.QueryError, match="emit: 'answers' does not serve IncompleteTopK queries"):
        tw.spark.watch(static, GATHERED, tw.last(5), emit="answers")
