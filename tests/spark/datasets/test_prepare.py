"""Data sets as streams: every set on made-up rows with known results, and one on real ones."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import topwatch as tw
from tests.support.dataset_samples import COVTYPE, FLIGHTS, REQUESTS, got, luce, put, seconds, stamps
from tests.support.real_data import real
from topwatch.spark.datasets import prepare


def test_covtype(spark: SparkSession, tmp_path: Path) -> None:
    done = prepare(
        spark, "covtype", put(tmp_path / "from", "covtype", pa.table(COVTYPE)), tmp_path / "out", rows_per_file=4
    )
    result = got(tmp_path / "out")
    assert list(result) == ["position", *COVTYPE]
    assert result["id"] == [0, 1, 2, 3, 4, 5]
    for name in list(COVTYPE)[1:-1]:
        assert result[name] == [0.0, 1.0, 0.25, 0.5, 0.75, 0.0]
    assert result["cover"] == [5, 5, 2, 1, 7, 3]
    assert (done.rows_in, done.rows_out, done.files) == (6, 6, 2)
    assert done.ranges["h_dist_fire"] == [9.0, 13.0]
    assert json.loads((tmp_path / "out" / "_about.json").read_text()) == json.loads(done.to_json())


def test_luce(spark: SparkSession, tmp_path: Path) -> None:
    rise = pa.array([*range(1001)], pa.float32())
    table = pa.table(
        {
            "id": pa.array([*range(1001)], pa.int32()),
            "station": pa.array([3] * 1001, pa.int16()),
            "time": stamps(*([500.0] * 500), *range(499), None, 1000),
            "primary_voltage": rise,
            "secondary_voltage": pa.array([None, 7.0, *[5.0] * 999], pa.float32()),
            "solar_current": rise,
            "global_current": rise,
        }
    )
    done = prepare(spark, "luce", put(tmp_path / "from", "luce", table, 300), tmp_path / "out", percent=50)
    result = got(tmp_path / "out")
    assert result["id"] == [*range(500, 999), *range(500), 1000], "by time, then id; the row without a time is out"
    assert seconds(result["time"]) == [*range(499), *[500] * 500, 1000]
    middle = float(np.percentile([*range(999), 1000], 50))
    assert result["primary_voltage"] == [min(float(n), middle) / middle for n in result["id"]]
    assert result["secondary_voltage"] == [None if n == 0 else 0.0 for n in result["id"]]
    assert done.dropped == {"time is null": 1, "id is null": 0}
    assert done.nulls == {"primary_voltage": 0, "secondary_voltage": 1, "solar_current": 0, "global_current": 0}
    assert done.clipped["solar_current"] == {"above": middle, "values": 500}
    assert done.clipped["secondary_voltage"] == {"above": 5.0, "values": 1}


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_kddcup99(spark: SparkSession, tmp_path: Path, scale: str) -> None:
    numbers = [0, 0, 3, 0, 15]
    heavy, counts = (
        ["duration", "src_bytes", "dst_bytes"],
        ["count", "srv_count", "dst_host_count", "dst_host_srv_count"],
    )
    table = pa.table(
        {
            "id": pa.array(range(5), pa.int32()),
            "protocol": ["tcp", "tcp", "udp", "tcp", "icmp"],
            "service": ["http", "http", "dns", "http", "echo"],
            **{name: pa.array(numbers, pa.int64()) for name in (*heavy, *counts)},
            "label": ["normal.", "normal.", "normal.", "smurf.", "smurf."],
        }
    )
    source = put(tmp_path / "from", "kddcup99", table)
    done = prepare(spark, "kddcup99", source, tmp_path / "out", **({} if scale == "log" else {"scale": scale}))
    result = got(tmp_path / "out")
    for name in ("id", "protocol", "service", "label"):
        assert result[name] == table.column(name).to_pylist()
    straight = [0.0, 0.0, 0.2, 0.0, 1.0]
    for name in counts:
        assert result[name] == straight
    for name in heavy:
        assert result[name] == pytest.approx([0, 0, 0.5, 0, 1] if scale == "log" else straight, abs=1e-15)
    assert done.notes == (["log(1 + x) before scaling: duration, src_bytes, dst_bytes"] if scale == "log" else [])


def test_nycflights13(spark: SparkSession, tmp_path: Path) -> None:
    done = prepare(spark, "nycflights13", put(tmp_path / "from", "nycflights13", FLIGHTS), tmp_path / "out")
    result = got(tmp_path / "out")
    assert list(result) == ["position", "id", "time", "source", "value", "occurrence", "scaled"]
    assert result["id"] == ["N2", "N1", "N1", "N1", "N1", "N1"]
    assert result["source"] == ["EWR", "EWR", "EWR", "EWR", "JFK", "EWR"]
    assert result["value"] == [5.0, -2.0, 8.0, 7.0, 1.0, 18.0]
    assert result["occurrence"] == [1, 1, 2, 3, 1, 4]
    assert result["scaled"] == [0.35, 0.0, 0.5, 0.45, 0.15, 1.0]
    assert seconds(result["time"]) == [60, 60, 3540, 3600, 3660, 7200]
    assert done.dropped == {"tailnum is null": 1, "dep_delay is null": 1, "time is null": 0, "origin is null": 0}
    assert done.nulls == {}


@pytest.mark.parametrize(("combine", "first"), [("sum", 6.0), ("max", 8.0)])
def test_nycflights13_in_chunks(spark: SparkSession, tmp_path: Path, combine: str, first: float) -> None:
    source = put(tmp_path / "from", "nycflights13", FLIGHTS)
    done = prepare(spark, "nycflights13", source, tmp_path / "out", every="1 hour", combine=combine)
    result = got(tmp_path / "out")
    rows = zip(
        seconds(result["time"]), *(result[name] for name in ("id", "source", "value", "occurrence")), strict=True
    )
    assert list(rows) == [
        (3600, "N1", "EWR", first, 1),
        (3600, "N2", "EWR", 5.0, 1),
        (7200, "N1", "EWR", 7.0, 2),
        (7200, "N1", "JFK", 1.0, 1),
        (10800, "N1", "EWR", 18.0, 3),
    ]
    assert done.notes == [f"one row per id, source and 1 hour, at its end: the {combine} of value"]


def test_worldcup98_requests(spark: SparkSession, tmp_path: Path) -> None:
    done = prepare(spark, "worldcup98", put(tmp_path / "from", "worldcup98", REQUESTS), tmp_path / "out")
    result = got(tmp_path / "out")
    assert list(result) == ["position", "id", "time", "client", "class", "status", "size", "url"]
    assert result["id"] == [0, 1, 2, 3, 4, 5]
    assert result["class"] == ["pages", "images", "images", "programs", "others", "pages"]
    assert result["size"] == [10.0, 0.0, None, 5.0, None, 8.0]
    assert done.nulls == {"status": 1, "size": 2}


def test_worldcup98_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    source = put(tmp_path / "from", "worldcup98", REQUESTS)
    done = prepare(spark, "worldcup98", source, tmp_path / "out", shape="snapshots", over="60 s")
    result = got(tmp_path / "out")
    assert list(result) == ["position", "id", "time", "snapshot", "images", "pages", "programs", "others"]
    assert list(zip(seconds(result["time"]), *list(result.values())[3:], result["id"], strict=True)) == [
        (30, 0, 1.0, 0.0, 0.0, 0.0, 3),
        (30, 0, 1.0, 1.0, 0.0, 0.0, 7),
        (60, 1, 1.0, 0.0, 0.0, 1.0, 3),
        (60, 1, 1.0, 1.0, 1.0, 0.0, 7),
        (90, 2, 0.0, 0.0, 0.0, 1.0, 3),
        (90, 2, 0.0, 0.0, 1.0, 0.0, 7),
        (120, 3, 0.0, 1.0, 0.0, 0.0, 3),
        (120, 3, 0.0, 0.0, 0.0, 0.0, 7),  # silent by now
    ]
    assert (done.rows_in, done.rows_out) == (6, 8)


@pytest.mark.parametrize("name", ["luce", "worldcup98"])
def test_partitions_do_not_matter(spark: SparkSession, tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    if name == "luce":
        table, options = luce(300, rng), {}
    else:
        table, options = REQUESTS, {"shape": "snapshots"}
    source = put(tmp_path / "from", name, table, rows=40)
    kept = {"spark.sql.shuffle.partitions": "2", "spark.sql.files.maxPartitionBytes": "128MB"}
    results = []
    try:
        for partitions, size in ((1, "128MB"), (5, "1KB")):
            spark.conf.set("spark.sql.shuffle.partitions", partitions)
            spark.conf.set("spark.sql.files.maxPartitionBytes", size)
            out = tmp_path / f"out{partitions}"
            done = prepare(spark, name, source, out, rows_per_file=7, **options)
            results.append((done, {file.name: pq.read_table(file) for file in out.glob("*.parquet")}))
    finally:
        for setting, value in kept.items():
            spark.conf.set(setting, value)
    assert results[0] == results[1]
    assert results[0][0].files == math.ceil(results[0][0].rows_out / 7) > 1


def test_a_prepared_set_can_be_watched(spark: SparkSession, tmp_path: Path, rng: np.random.Generator) -> None:
    out = tmp_path / "luce"
    prepare(spark, "luce", put(tmp_path / "from", "luce", luce(600, rng), 100), out, rows_per_file=100)
    queries = [
        tw.TopK(k=3, score=tw.linear(primary_voltage=1.0, solar_current=0.5), name="hot"),
        tw.Nearest(k=2, point={"secondary_voltage": 0.5, "global_current": 0.5}, name="near"),
    ]
    files = sorted(out.glob("*.parquet"))
    assert len(files) == 6
    monitor = tw.Monitor(queries, tw.last("1 minute"), time="time", algorithm="brute")
    wanted = [tuple(change) for file in files for change in monitor.push(pq.read_table(file))]
    schema = spark.read.parquet(str(out)).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(out))
    watched = tw.spark.watch(
        frame, queries, tw.last("1 minute"), time="time", order="position", segments=str(tmp_path / "segments")
    )
    index = {name: str(tmp_path / name) for name in ("path", "checkpointLocation")}
    query = watched.writeStream.options(**index).trigger(availableNow=True).start()
    query.awaitTermination()
    assert len(query.recentProgress) == 6, "file by file"
    result = [tuple(row) for row in spark.read.parquet(index["path"]).collect()]
    assert sorted(result, key=str) == sorted(wanted, key=str)


def test_the_settings_of_a_session_come_back(spark: SparkSession, tmp_path: Path) -> None:
    names = ["spark.sql.session.timeZone", "spark.sql.parquet.outputTimestampType"]
    before = [spark.conf.get(name) for name in names]
    table = pa.table(COVTYPE).drop_columns(["slope"])
    with pytest.raises(tw.DataError, match=r"covtype\.parquet: column 'slope' is missing; columns are id, elevation"):
        prepare(spark, "covtype", put(tmp_path / "from", "covtype", table), tmp_path / "out")
    assert [spark.conf.get(name) for name in names] == before
    assert [path.name for path in tmp_path.iterdir()] == ["from"], "nothing half made is left"


def test_a_slice_of_the_real_luce(spark: SparkSession, tmp_path: Path) -> None:
    table = pq.read_table(real("luce")).slice(300_000, 20_000)
    done = prepare(spark, "luce", put(tmp_path / "from", "luce", table, 5_000), tmp_path / "out")
    result = got(tmp_path / "out")
    assert result["id"] == table.column("id").to_pylist()
    for name in ("primary_voltage", "solar_current"):
        values = table.column(name).to_numpy().astype(float)
        bound = np.percentile(values, 99.9)
        assert done.clipped[name]["above"] == pytest.approx(bound, rel=1e-12)
        wanted = (np.minimum(values, bound) - values.min()) / (bound - values.min())
        np.testing.assert_allclose(result[name], wanted, rtol=0, atol=1e-12)
    assert (done.rows_in, done.rows_out, done.files) == (20_000, 20_000, 2)
