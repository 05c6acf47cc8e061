"""Times without a zone, as pandas writes them (TIMESTAMP_NTZ), are local times of the session's time zone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import topwatch as tw
from tests.support.watched_stream import QUERIES, Stream, lines, wanted
from topwatch.query.errors import PipelineError
from topwatch.spark.pipeline.config.reading import parse, read
from topwatch.spark.pipeline.runner import begin
from topwatch.spark.source_frames import reads_files, with_instants

KOLKATA = pa.scalar(5 * 3600 + 30 * 60, pa.duration("s"))
OPTIONS: dict[str, Any] = {"window": tw.last("3 minutes"), "time": "ts", "every": "20 minutes"}

PIPELINE = """
source: {{files: {folder}/in/*.parquet}}
time: ts
lateness: {lateness}
window: {{last: 3 minutes}}
every: 20 minutes
queries:
  - {{name: hot, top: 3, score: {{linear: {{x: 1, y: 0.01}}}}}}
sink: {{parquet: {folder}/out}}
checkpoint: {folder}/ckpt
"""


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, rng: np.random.Generator) -> Stream:
    return Stream(spark, tmp_path, rng)


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    yield
    spark.conf.set("spark.sql.session.timeZone", str(before))


def local_and_instants(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows with local times without a zone, and with the instants that these are in Kolkata."""
    index = table.column_names.index("ts")
    local = table.column("ts").cast(pa.timestamp("us"))
    instants = pc.subtract(table.column("ts"), KOLKATA)
    return table.set_column(index, "ts", local), table.set_column(index, "ts", instants)


@pytest.mark.usefixtures("zone")
def test_watched_streams_and_tables(stream: Stream) -> None:
    local, instants = local_and_instants(stream.table)
    stream.write(table=local)
    expected = wanted(instants, **OPTIONS)
    assert expected != wanted(stream.table, **OPTIONS)
    frame = stream.read()
    assert dict(frame.dtypes)["ts"] == "timestamp_ntz"
    assert reads_files(with_instants(frame, "ts"))  # rows are in the order of the files, as ever
    assert stream.run(tw.spark.watch(frame, QUERIES, segments=stream.segments, **OPTIONS)) == expected
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    assert lines(tw.spark.watch(static, QUERIES, **OPTIONS)) == expected


@pytest.mark.usefixtures("zone")
def test_a_pipeline_with_lateness(stream: Stream) -> None:
    local, instants = local_and_instants(stream.table)
    stream.write(table=local)
    written = parse(PIPELINE.format(folder=stream.folder, lateness="1 second"))
    query, _ = begin(stream.spark, written, once=True)
    query.awaitTermination()
    written_lines = lines(stream.spark.read.parquet(str(stream.folder / "out")))
    assert written_lines == wanted(instants, queries=QUERIES[:1], **OPTIONS)


def test_other_types_stay(spark: SparkSession) -> None:
    frame = spark.sql("select 1 id, timestamp '2024-01-01' ts, timestamp_ntz '2024-01-01' `a.b`, 2 n")
    for column in (None, "ts", "n", "missing"):
        assert with_instants(frame, column) is frame
    changed = with_instants(frame, "a.b")
    assert dict(changed.dtypes) == {"id": "int", "ts": "timestamp", "a.b": "timestamp", "n": "int"}
    assert changed.columns == frame.columns


def test_nanoseconds_in_parquet_are_refused_by_check(stream: Stream) -> None:
    """pandas writes them by default; Spark reads no file that has them."""
    index = stream.table.column_names.index("ts")
    stream.write(table=stream.table.set_column(index, "ts", stream.table.column("ts").cast(pa.timestamp("ns"))))
    path = stream.folder / "p.yml"
    path.write_text(PIPELINE.format(folder=stream.folder, lateness="1 second"))
    with pytest.raises(PipelineError) as caught:
        read(path, {})
    (line,) = caught.value.args
    assert line.startswith(f"{path}:2: source.files: column 'ts' has times in nanoseconds in ")
    assert line.endswith("which Spark does not read; write them in microseconds (in pandas coerce_timestamps='us')")
    assert read(path, {"spark.sql.legacy.parquet.nanosAsLong": "true"}).time == "ts"
