"""Several streams, one for each source, and rows gathered into chunks, on real Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

import topwatch as tw
from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config.reading import parse

SOURCES = ["north", "south"]
FILES, ROWS = 3, 80
QUERY = tw.IncompleteTopK(k=3, sources=SOURCES, bounds=(0, 9), occurrences="sum", name="q")


@pytest.fixture
def rows(rng: np.random.Generator) -> pd.DataFrame:
    """Whole seconds and quarters of one, values whose sums are exact; a third of a file's rows from each source."""
    count = FILES * ROWS
    ts = pd.to_datetime(np.sort(rng.integers(0, 400, count)) / 4, unit="s", utc=True)
    made = {"id": rng.integers(0, 20, count), "ts": ts, "value": rng.integers(0, 5, count) / 4.0}
    return pd.DataFrame({**made, "source": rng.choice(SOURCES, count)})


def stream(spark: SparkSession, folder: Path, rows: pd.DataFrame, size: int = ROWS) -> DataFrame:
    folder.mkdir()
    for number, part in rows.groupby(rows.index // size):
        path = folder / f"{number}.parquet"
        part.astype({"ts": "datetime64[us, UTC]"}).to_parquet(path, index=False)
        os.utime(path, (1_000_000_000 + number,) * 2)
    kind = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(kind).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(frame: DataFrame, folder: Path) -> list[tuple[Any, ...]]:
    name = folder.name.replace("-", "_")
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(folder / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return sorted(map(tuple, frame.sparkSession.table(name).collect()))


def reported(rows: pd.DataFrame) -> list[tuple[Any, ...]]:
    monitor = tw.Monitor(QUERY, tw.last("20 seconds"), time="ts")
    return sorted(tuple(change) for change in monitor.push(rows))


def test_a_stream_for_each_source(spark: SparkSession, rows: pd.DataFrame, tmp_path: Path) -> None:
    rows["ts"] += pd.to_timedelta(np.arange(len(rows)), unit="us")  # one order for all
    parts = {name: rows[rows.source == name].drop(columns="source") for name in SOURCES}
    frames = {name: stream(spark, tmp_path / name, part, len(rows) // 2) for name, part in parts.items()}
    out = tw.spark.watch(frames, QUERY, tw.last("20 seconds"), time="ts")
    assert run(out, tmp_path) == reported(rows)


def chunked(rows: pd.DataFrame) -> pd.DataFrame:
    made = rows.assign(ts=rows.ts.dt.floor("5s") + pd.Timedelta("5s"))
    return made.groupby(["ts", "id", "source"], as_index=False)["value"].sum().sort_values(["ts", "id", "source"])


def test_chunks(spark: SparkSession, rows: pd.DataFrame, tmp_path: Path) -> None:
    """A table whole; of a stream what the watermark has passed."""
    frame = stream(spark, tmp_path / "in", rows)
    table = spark.read.parquet(str(tmp_path / "in"))
    options: dict[str, Any] = {"time": "ts", "order": ["id", "source"]}
    static = tw.spark.watch(tw.spark.chunks(table, "5 seconds", "ts"), QUERY, tw.last("20 seconds"), **options)
    expected = reported(chunked(rows))
    assert sorted(map(tuple, static.collect())) == expected
    chunks = tw.spark.chunks(frame.withWatermark("ts", "1 second"), "5 seconds", "ts")
    assert chunks.columns == ["ts", "id", "source", "value"]
    result = run(tw.spark.watch(chunks, QUERY, tw.last("20 seconds"), **options), tmp_path)
    assert result == expected[: len(result)]
    assert len(result) > len(expected) / 2


def test_what_makes_no_sense(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 0.5)], "id long, value double")
    window = tw.last(5)
    for frames, message in (
        ({"nort": frame}, "df: 'nort' is no source; .*; did you mean 'north'?"),
        ({}, "df: expected a frame for each source"),
        (
            {"north": frame, "south": frame.drop("value")},
            "'south' has not the columns of the others: value",
        ),
        ({"north": frame.withColumn("source", frame.id)}, "the frame of 'north' has a column 'source'"),
    ):
        with pytest.raises(tw.TopwatchError, match=message):
            tw.spark.watch(frames, QUERY, window)
    with pytest.raises(tw.QueryError, match="several frames need IncompleteTopK queries"):
        tw.spark.watch({"north": frame}, tw.TopK(k=1, score=tw.linear(value=1.0)), window)
    with pytest.raises(tw.DataError, match="time: column 'id' is bigint; expected timestamps"):
        tw.spark.chunks(frame.withColumn("source", frame.id), "5 seconds", "id")
    whole = frame.selectExpr("id", "id source", "value", "current_timestamp() ts")
    with pytest.raises(tw.QueryError, match="combine: expected 'sum' or 'max', got 'mean'"):
        tw.spark.chunks(whole, "5 seconds", "ts", combine="mean")


def test_a_sum_does_not_depend_on_the_order_of_rows(spark: SparkSession) -> None:
    values = [1e16, 0.5, -1e16, 0.25, 3.0, 1e-3] * 7
    sums = set()
    for order in (values, sorted(values), values[::-1]):
        rows = [(1, "2024-01-01 00:00:01", "a", value) for value in order] + [(2, "2024-01-01 00:00:01", "a", None)]
        frame = spark.createDataFrame(rows, "id long, at string, source string, value double").coalesce(1)
        chunks = tw.spark.chunks(frame.withColumn("ts", frame["at"].cast("timestamp")), "5 seconds", "ts")
        one, two = sorted((row["id"], row["value"]) for row in chunks.collect())
        sums.add(one[1])
        assert two == (2, None)
    assert len(sums) == 1


PIPELINE = """\
source: {files: {path: in/*.json, schema: 'id LONG, ts TIMESTAMP, source STRING, value DOUBLE'}}
time: ts
lateness: 1 second
chunks: {every: 5 seconds}
window: {last: 20 seconds}
queries:
  - {incomplete: 3, sources: [north, south], bounds: learn, combine: {expr: north * south, increasing: [north, south]}}
sink: console
"""


def test_chunks_in_a_pipeline() -> None:
    pipeline = parse(PIPELINE, "p.yml")
    assert pipeline.chunks is not None
    assert (pipeline.chunks.every, pipeline.chunks.combine, pipeline.chunks.source) == ("5 seconds", "sum", "source")
    assert str(pipeline.queries[0].built.combine) == "north * south"
    for old, new, message in (
        ("lateness: 1 second\n", "", "p.yml:3: chunks: a chunk ends when no row can come any more: say lateness"),
        ("time: ts\nlateness: 1 second\n", "", "chunks.every: '5 seconds' of event time needs the field time"),
        ("5 seconds}", "5 seconds, combine: mean}", "p.yml:4: chunks.combine: "),
        ("5 seconds}", "5 seconds, value: worth}", "p.yml:4: chunks.value: no column 'worth' in the source"),
        ("north * south, increasing: [north, south]", "north * south", "queries[0].combine: a score must rise along"),
    ):
        with pytest.raises(PipelineError) as caught:
            parse(PIPELINE.replace(old, new), "p.yml")
        assert any(message in line for line in caught.value.args), caught.value.args
