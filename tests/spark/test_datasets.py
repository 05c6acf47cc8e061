"""Data sets as streams: every step and every set on made-up rows with known results, and one on real ones."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from real_data import real

import topwatch as tw
from topwatch.cli.main import cli
from topwatch.spark.datasets import DATASETS, prepare, steps
from topwatch.spark.datasets.about import About
from topwatch.spark.datasets.covtype import ATTRIBUTES
from topwatch.spark.datasets.luce import MEASUREMENTS
from topwatch.spark.pipeline import config
from topwatch.spark.pipeline.config import building

START = datetime(2007, 1, 1, tzinfo=UTC)


def stamps(*seconds: float | None) -> pa.Array:
    """Times as the files have them: nanoseconds without a zone."""
    naive = [None if s is None else (START + timedelta(seconds=s)).replace(tzinfo=None) for s in seconds]
    return pa.array(naive, pa.timestamp("ns"))


def put(folder: Path, name: str, table: pa.Table, rows: int = 4) -> Path:
    """Write a file with several row groups, so that Spark can cut it."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=rows)
    return folder


def got(folder: Path) -> dict[str, list[Any]]:
    """Read a stream file by file, in the order of names, which must be that of times."""
    files = sorted(folder.glob("*.parquet"))
    ages = [file.stat().st_mtime for file in files]
    assert ages == sorted(set(ages)), "times rise from file to file"
    result: dict[str, list[Any]] = pa.concat_tables([pq.read_table(file) for file in files]).to_pydict()
    assert result["position"] == list(range(len(result["position"])))
    return result


def seconds(times: list[datetime]) -> list[float]:
    return [(time - START).total_seconds() for time in times]


@pytest.fixture
def about() -> About:
    return About("test")


def column(frame: DataFrame, name: str, by: str = "n") -> list[Any]:
    return [row[0] for row in frame.orderBy(by).select(name).collect()]


class TestSteps:
    def test_numbers_and_what_is_none(self, spark: SparkSession, about: About) -> None:
        values = [1.0, math.nan, None, math.inf, -math.inf, -2.0]
        frame = spark.createDataFrame(list(enumerate(values)), "n int, x float")
        assert column(steps.numbers(frame, ["x"], about), "x") == [1.0, None, None, None, None, -2.0]
        assert about.nulls == {"x": 4}

    def test_missing_rows_count_once(self, spark: SparkSession, about: About) -> None:
        rows = [(0, "a", 1.0), (1, None, None), (2, "b", None), (3, None, 1.0)]
        frame = steps.drop_missing(spark.createDataFrame(rows, "n int, id string, x double"), ["id", "x"], about)
        assert column(frame, "n") == [0]
        assert about.dropped == {"id is null": 2, "x is null": 1}

    def test_clip_and_normalise(self, spark: SparkSession, about: About) -> None:
        rows = [(n, float(n), 5.0, None) for n in range(101)] + [(101, None, 5.0, None)]
        frame = spark.createDataFrame(rows, "n int, x double, same double, none double").repartition(3)
        names = ["x", "same", "none"]
        clipped = steps.clip(frame, names, 90.0, about)
        assert column(clipped, "x") == [*map(float, range(91)), *[90.0] * 10, None]
        assert about.clipped == {"x": {"above": 90.0, "values": 10}, "same": {"above": 5.0, "values": 0}}
        scaled = steps.normalise(clipped, names, about)
        assert column(scaled, "x") == [*(n / 90 for n in range(91)), *[1.0] * 10, None]
        assert set(column(scaled, "same")) == {0.0}
        assert set(column(scaled, "none")) == {None}
        assert about.ranges == {"x": [0.0, 90.0], "same": [5.0, 5.0]}

    def test_logarithm(self, spark: SparkSession, about: About) -> None:
        frame = spark.createDataFrame([(0, 0.0), (1, math.e - 1), (2, None)], "n int, x double")
        assert column(steps.logarithm(frame, ["x"], about), "x") == [0.0, 1.0, None]
        below = spark.createDataFrame([(0, -0.5)], "n int, x double")
        with pytest.raises(tw.DataError, match=r"column 'x' has -0\.5; log\(1 \+ x\) needs values of at least 0"):
            steps.logarithm(below, ["x"], about)

    @pytest.mark.parametrize("kind", ["ns", "us", "zone"])
    def test_times(self, spark: SparkSession, tmp_path: Path, kind: str) -> None:
        from topwatch.spark.datasets.writing import settings

        unit = "ns" if kind == "ns" else "us"
        micros = [1_167_609_600_000_001, -1]
        raw = pa.array(micros, pa.timestamp("us")).cast(pa.timestamp(unit, "UTC" if kind == "zone" else None))
        pq.write_table(pa.table({"n": [0, 1], "time": raw}), tmp_path / "t.parquet")
        with settings(spark):
            frame = steps.times(spark.read.parquet(str(tmp_path / "t.parquet")), "time")
            assert frame.schema["time"].dataType.simpleString() == "timestamp"
            assert column(frame.withColumn("us", sf.unix_micros("time")), "us") == micros

    def test_times_that_are_none(self, spark: SparkSession) -> None:
        with pytest.raises(tw.DataError, match="column 'time' is string; expected timestamps"):
            steps.times(spark.createDataFrame([("noon",)], "time string"), "time")

    def test_sums_do_not_depend_on_partitions(self, spark: SparkSession, about: About) -> None:
        # Added as they stand, these give 0.0 or 2.0 or 1.0; from the smallest to the largest they give one result.
        rows = [(START, "a", x) for x in (1e16, 1.0, -1e16, 1.0)]
        sums = []
        for partitions in (1, 2, 4):
            frame = spark.createDataFrame(rows, "time timestamp, id string, x double").repartition(partitions)
            sums.append(steps.chunks(frame, ["id"], "x", "1 min", "sum", about).first()["x"])  # type: ignore[index]
        assert sums == [((-1e16 + 1.0) + 1.0) + 1e16] * 3


COVTYPE = {
    "id": pa.array([0, 1, 2, 3, 4, 5], pa.int32()),
    **{
        name: pa.array([base, base + 4, base + 1, base + 2, base + 3, base], pa.int32())
        for base, name in enumerate(ATTRIBUTES)
    },
    "cover": pa.array([5, 5, 2, 1, 7, 3], pa.int8()),
}


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


def luce(count: int, rng: np.random.Generator) -> pa.Table:
    """Rows by time, several of a moment, with a glitch and holes."""
    volts = rng.random((4, count)).astype(np.float32)
    volts[0, 7] = 87.0
    holes = rng.random((4, count)) < 0.02
    names = ["primary_voltage", "secondary_voltage", "solar_current", "global_current"]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int32()),
            "station": pa.array(rng.integers(0, 5, count), pa.int16()),
            "time": stamps(*(n // 2 for n in range(count))),
            **{name: pa.array(volts[i], pa.float32(), mask=holes[i]) for i, name in enumerate(names)},
        }
    )


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


FLIGHTS = pa.table(
    {
        "time": stamps(60, 60, 120, 3540, 3600, 3660, 3660, 7200),
        "carrier": ["UA"] * 8,
        "flight": pa.array(range(8), pa.int64()),
        "tailnum": ["N2", "N1", None, "N1", "N1", "N2", "N1", "N1"],
        "origin": ["EWR", "EWR", "LGA", "EWR", "EWR", "JFK", "JFK", "EWR"],
        "dest": ["IAH"] * 8,
        "dep_delay": pa.array([5, -2, None, 8, 7, None, 1, 18], pa.float32()),
        "arr_delay": pa.array([1, None, None, 1, 1, 1, 1, 1], pa.float32()),
        "air_time": pa.array([1.0] * 8, pa.float32()),
        "distance": pa.array([1.0] * 8, pa.float32()),
    }
)


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


REQUESTS = pa.table(
    {
        "time": stamps(0, 10, 29, 30, 45, 100),
        "client": pa.array([7, 7, 3, 7, 3, 3], pa.int64()),
        "url": ["/", "/a.GIF", "/b.jpg?x=1.html", "/cgi-bin/t.pl?ENG", "/film.mov", "/x/y.html"],
        "status": pa.array([200, 304, 200, None, 200, 200], pa.float64()),
        "size": pa.array([10, 0, None, 5, None, 8], pa.float64()),
    }
)


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


def test_the_pipeline_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "data-sets-as-streams.md").read_text()
    (tmp_path / "luce.yml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    read = config.read(tmp_path / "luce.yml")
    assert {name for query in building.queries(read) for name in query.score.columns} <= set(MEASUREMENTS)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, ["dataset", *map(str, arguments)])


def test_the_list() -> None:
    lines = run("--list").output.splitlines()
    assert [line.split()[0] for line in lines] == list(DATASETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "luke --from from --out new",
            "dataset: accepted are covtype, kddcup99, luce, nycflights13, worldcup98, got",
        ),
        ("luke --from from --out new", "; did you mean 'luce'?"),
        ("covtype --from from --out new", "from: there is no file 'from/covtype.parquet'"),
        (
            "luce --from from --out new --set percnt=9",
            "luce: unknown option 'percnt'; accepted are percent",
        ),
        ("covtype --from from --out new --set percent=9", "covtype: unknown option 'percent'; it has none"),
        ("luce --from from --out a/b", "out: there is no folder"),
        ("luce --from from --out made", "exists already; --force replaces it"),
        ("luce --from from --out mine --force", "exists and is no data set of ours; accepted is a new or empty folder"),
        ("luce --from from", "needed are NAME, --from and --out"),
        ("luce --from from --out new --set percent", "--set: expected NAME=VALUE, got 'percent'"),
    ],
)
def test_what_makes_no_sense_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "from", "luce", luce(10, np.random.default_rng(0)))
    for name, content in (("mine", "letter.txt"), ("made", "_about.json")):
        Path(name).mkdir()
        Path(name, content).write_text("{}")
    done = run(*arguments.split())
    reported = str(done.exception) if isinstance(done.exception, tw.TopwatchError) else done.output
    assert message in reported
    assert sorted(os.listdir()) == ["from", "made", "mine"]
    assert Path("mine/letter.txt").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "worldcup98",
            {"shape": "snapshot"},
            "shape: expected 'requests' or 'snapshots', got 'snapshot'",
        ),
        (
            "worldcup98",
            {"shape": "snapshots", "over": "45 s"},
            "over: expected a multiple of every, '30 s', got",
        ),
        ("nycflights13", {"every": "1 hour", "combine": "mean"}, "combine: expected 'sum' or 'max', got 'mean'"),
        ("nycflights13", {"every": "1 huor"}, "every: unknown unit 'huor'"),
    ],
)
def test_options_that_make_no_sense(
    spark: SparkSession, tmp_path: Path, name: str, options: dict[str, str], message: str
) -> None:
    source = put(tmp_path / "from", name, FLIGHTS if name == "nycflights13" else REQUESTS)
    with pytest.raises(tw.QueryError) as raised:
        prepare(spark, name, source, tmp_path / "out", **options)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_the_command_under_spark_submit(tmp_path: Path) -> None:
    """The whole way once: Spark's own script starts the package, and what it was told about Spark holds."""
    import topwatch.__main__ as entry

    source = put(tmp_path / "from", "covtype", pa.table(COVTYPE))
    (tmp_path / "log").mkdir()
    logged = ["spark.eventLog.enabled=true", f"spark.eventLog.dir=file://{tmp_path / 'log'}"]
    plain = ["spark.eventLog.compress=false", "spark.eventLog.rolling.enabled=false"]
    settings = [*logged, *plain, "spark.sql.shuffle.partitions=3"]
    command = [Path(sys.executable).with_name("spark-submit"), "--master", "local[1]"]
    command += [part for setting in settings for part in ("--conf", setting)]
    command += [entry.__file__, "dataset", "covtype", "--from", source, "--out", tmp_path / "out"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "covtype: 6 rows in, 6 rows out in 1 file of up to 10,000 rows" in done.stdout
    assert len(got(tmp_path / "out")["id"]) == 6
    (log,) = (tmp_path / "log").iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (held,) = [event["Spark Properties"] for event in events if event["Event"] == "SparkListenerEnvironmentUpdate"]
    assert held["spark.master"] == "local[1]"
    assert held["spark.sql.shuffle.partitions"] == "3"
    assert held["spark.app.name"] == "topwatch"
