"""``watch`` says on Spark what a monitor says: for any cut into micro-batches, after a restart, grouped or not."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import topwatch as tw
from tests.support.python_workers import kill_workers
from tests.support.watched_stream import BOTH, FILES, QUERIES, ROWS, Line, Stream, lines, wanted


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, rng: np.random.Generator, backend: str) -> Stream:
    return Stream(spark, tmp_path, rng, backend)


@pytest.fixture
def backend() -> str:
    """Where segments are, if a test does not say :data:`BOTH`."""
    return "folder"


@BOTH
@pytest.mark.parametrize(
    ("by", "options"),
    [
        (None, {"window": tw.last(100), "every": 1}),
        (None, {"window": tw.last(600), "every": 1}),  # large enough for pruning
        (None, {"window": tw.last(400), "every": 7}),
        (None, {"window": tw.last("3 minutes"), "every": 7, "time": "ts"}),
        (None, {"window": tw.latest(), "every": 10}),
        ("g", {"window": tw.last(40), "every": 1}),
        ("g", {"window": tw.last("3 minutes"), "every": 1, "time": "ts"}),
        ("g", {"window": tw.last("3 minutes"), "every": "1 minute", "time": "ts"}),
        (None, {"window": tw.last(600), "every": 1, "emit": "first"}),
        ("g", {"window": tw.last(40), "every": 1, "emit": "first"}),
    ],
    ids=str,
)
def test_streaming_and_static_say_what_monitors_say(stream: Stream, by: str | None, options: dict[str, Any]) -> None:
    stream.write()
    expected = wanted(stream.table, by, **options)
    watched = tw.spark.watch(stream.read(files=2), QUERIES, by=by, segments=stream.segments, **options)
    assert stream.run(watched) == expected
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    assert lines(tw.spark.watch(static, QUERIES, by=by, **options)) == expected


FRONT = tw.Skyline(prefer={"x": "min", "y": "max"}, name="front")
OFTEN = tw.FrequentSkyline(prefer={"x": "min", "y": "max"}, share=0.3, snapshots=20, name="often")


@BOTH
@pytest.mark.parametrize(
    ("by", "algorithm", "options"),
    [
        (None, "auto", {"window": tw.last(300), "every": 1}),
        ("g", "auto", {"window": tw.last("3 minutes"), "every": 1, "time": "ts"}),
        ("g", "auto", {"window": tw.latest(), "every": 10}),
        (None, "sampling", {"window": tw.latest(), "every": 5, "epsilon": 0.9, "delta": 0.9, "seed": 4}),
    ],
    ids=str,
)
def test_skylines(stream: Stream, by: str | None, algorithm: str, options: dict[str, Any]) -> None:
    """The skyline and how often ids are in it, on a stream whose ids come again."""
    moving = isinstance(options["window"], type(tw.latest()))
    queries = [OFTEN, FRONT] if moving and algorithm == "auto" else OFTEN if moving else FRONT
    if moving:
        ids = pa.array([f"r{i % 40}" for i in range(FILES * ROWS)])
        stream.table = stream.table.set_column(0, "id", ids)
    stream.write()
    expected = wanted(stream.table, by, queries, "auto" if algorithm == "auto" else algorithm, **options)
    assert len(expected) > 20
    given: dict[str, Any] = {"by": by, "algorithm": algorithm, **options}
    half = tw.spark.watch(stream.read(files=2), queries, segments=stream.segments, **given)
    assert stream.run(half) == expected
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    assert lines(tw.spark.watch(static, queries, **given)) == expected
    if moving:
        with pytest.raises(tw.QueryError, match="'answers' does not serve FrequentSkyline queries, whose scores move"):
            tw.spark.watch(static, queries, emit="answers", **given)


def test_explain_prints_the_plan_that_runs(stream: Stream) -> None:
    stream.write()
    rows = stream.read(files=2)

    def explained(**options: Any) -> list[str]:
        return tw.spark.explain(rows, QUERIES, **options).splitlines()

    pruned = explained(window=tw.last(600))
    assert pruned[0] == f"{len(QUERIES)} queries over the last 600 rows, evaluated after every row"
    assert [line.partition(":")[0] for line in pruned[1:-3]] == [query.name for query in QUERIES]
    assert [line.partition(" – ")[0] for line in pruned[-3:-1]] == [
        "operator: transformWithStateInPandas",
        "pruning: before the shuffle",
    ]
    grouped = explained(window=tw.last(40), by="g", segments="ckpt/segments")
    assert grouped[-4].startswith("groups: grouped engine – ")
    assert grouped[-1].endswith("for each g, in a folder – all executors share ckpt/segments")
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    assert "operator: sorted partitions" in tw.spark.explain(static, QUERIES, window=tw.last(40))


def test_columns_may_have_any_name(stream: Stream) -> None:
    names = {"id": "row.id", "ts": "ts", "g": "the group", "x": "net.x", "y": "y`z"}
    query = tw.TopK(3, tw.linear({"net.x": 1.0, "y`z": 0.1}), name="q")
    table = stream.table.rename_columns([names[name] for name in stream.table.column_names])
    stream.write(table=table)
    options: dict[str, Any] = {"id": "row.id", "window": tw.last(40)}
    for by in (None, "the group"):
        expected = lines(tw.spark.watch(stream.spark.read.parquet(f"{stream.folder}/in"), query, by=by, **options))
        watched = tw.spark.watch(stream.read(files=2), query, by=by, segments=stream.segments, **options)
        assert stream.run(watched, f"by {by}") == expected
        if by is None:
            assert expected == sorted(map(tuple, tw.Monitor(query, **options).push(table)), key=str)


@pytest.mark.parametrize(("emit", "third"), [("changes", "op"), ("first", "op"), ("answers", "rank")])
def test_only_groups_can_be_null_in_the_result(stream: Stream, emit: Any, third: str) -> None:
    """The schema has it so; what comes out of Spark's stateful operator is nullable all the same."""
    stream.write(last=1)
    query = tw.TopK(3, tw.linear({"x": 1.0}), name="q")
    for df in (stream.read(files=1), stream.spark.read.parquet(f"{stream.folder}/in")):
        schema = tw.spark.watch(df, query, tw.last(40), by="g", emit=emit, segments=stream.segments).schema
        can = {field.name: field.nullable for field in schema.fields}
        assert list(can) == ["g", "at", "query", third, "id", "score"]
        assert set(can.values()) == {True} if df.isStreaming else [name for name in can if can[name]] == ["g"]


def test_values_that_are_no_numbers_are_a_group(stream: Stream) -> None:
    nothing = np.tile([np.nan, 0.0, -0.0, 1.5, 1.5], len(stream.table) // 5)
    table = stream.table.set_column(2, "g", pa.array(nothing))
    stream.write(table=table)
    options: dict[str, Any] = {"window": tw.last(40), "by": "g"}
    static = lines(tw.spark.watch(stream.spark.read.parquet(f"{stream.folder}/in"), QUERIES, **options))
    result = stream.run(tw.spark.watch(stream.read(files=2), QUERIES, segments=stream.segments, **options))
    assert list(map(str, result)) == list(map(str, static))  # NaN is not equal to itself
    rows = table.filter(pc.is_nan(table.column("g")))
    expected = tw.Monitor(QUERIES, window=tw.last(40), algorithm="brute").push(rows)
    without = [line[1:] for line in static if np.isnan(line[0])]
    assert sorted(without, key=str) == sorted(map(tuple, expected), key=str)


@BOTH
@pytest.mark.parametrize(
    ("by", "window", "emit"),
    [(None, 50, "changes"), (None, 500, "changes"), ("g", 50, "changes"), (None, 50, "first"), ("g", 50, "first")],
)
def test_a_restart_goes_on(stream: Stream, by: str | None, window: int, emit: Any) -> None:
    def watched(files: int) -> DataFrame:
        given: dict[str, Any] = {"by": by, "emit": emit, "segments": stream.segments}
        return tw.spark.watch(stream.read(files), QUERIES, tw.last(window), **given)

    stream.write(0, 2)
    stream.run(watched(1))
    stream.write(2, FILES)
    assert kill_workers(stream.spark), "windows are read from their segments"
    assert stream.run(watched(3)) == wanted(stream.table, by, window=tw.last(window), emit=emit)


@BOTH
def test_whole_answers(stream: Stream) -> None:
    stream.write()
    watched = tw.spark.watch(
        stream.read(), QUERIES, tw.last(100), every=150, by="g", emit="answers", segments=stream.segments
    )
    assert watched.columns == ["g", "at", "query", "rank", "id", "score"]
    result: dict[Line, list[Line]] = {}
    for group, at, query, rank, id, score in sorted(stream.run(watched), key=lambda line: (str(line[0]), *line[1:4])):
        result.setdefault((group, at, query), []).append((rank, id, score))
    assert result
    monitors: dict[Any, tw.Monitor] = {}
    for row in stream.table.to_pylist():
        monitor = monitors.setdefault(row["g"], tw.Monitor(QUERIES, tw.last(100), every=150, algorithm="brute"))
        monitor.push({name: [row[name]] for name in ("id", "x", "y")})
        for query in ("hot", "near"):
            key = (row["g"], monitor.stats()["rows"], query)
            if key in result:
                answer = monitor.answer(query)
                assert result.pop(key) == [(rank, *entry) for rank, entry in enumerate(answer, 1)]
    assert not result


@BOTH
def test_rows_out_of_order_within_the_watermark(stream: Stream, rng: np.random.Generator) -> None:
    order = np.argsort(np.arange(FILES * ROWS) + rng.uniform(0, 50, FILES * ROWS), kind="stable")
    stream.write(table=stream.table.take(pa.array(order)))
    frame = stream.read().withWatermark("ts", "60 seconds")
    options: dict[str, Any] = {"window": tw.last("3 minutes"), "time": "ts"}
    result = stream.run(tw.spark.watch(frame, QUERIES, segments=stream.segments, **options))
    expected = wanted(stream.table, **options)
    last = max(line[0] for line in result)
    assert last > FILES * ROWS - 150, "only rows of the last minute wait"
    assert result == [line for line in expected if line[0] <= last]


@BOTH
def test_rows_that_cannot_be_used(stream: Stream) -> None:
    holes = stream.table.column("id").to_pylist()
    holes[5] = holes[900] = None
    table = stream.table.set_column(0, "id", pa.array(holes, pa.string()))
    late = table.take(pa.array([*range(1, ROWS * 3), 0, *range(ROWS * 3, FILES * ROWS)]))
    stream.write(table=late)
    bad = str(stream.folder / "bad")
    watched = tw.spark.watch(stream.read(), QUERIES, tw.last(100), time="ts", segments=stream.segments, quarantine=bad)
    good = table.filter(pc.is_valid(table.column("id"))).slice(1)
    assert stream.run(watched) == wanted(good, window=tw.last(100), time="ts")
    refused = lines(stream.spark.read.parquet(bad).select("reason", "raw"))
    assert [reason for reason, _ in refused] == ["id is null", "id is null", "too late"]
    assert '"id": "r0"' in refused[2][1]


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_segment_that_cannot_be_read_is_an_error(stream: Stream, harm: str) -> None:
    def watched() -> DataFrame:
        return tw.spark.watch(stream.read(), QUERIES, tw.last(500), algorithm="sma", segments=stream.segments)

    stream.write(0, 3)
    before = stream.run(watched())
    segment = sorted((stream.folder / "segments").rglob("*.seg"))[-1]  # older ones may not be needed any more
    if harm == "missing":
        segment.unlink()
    else:
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
    stream.write(3, FILES)
    kill_workers(stream.spark)
    with pytest.raises(StreamingQueryException, match=f"{segment.name}.*{harm}"):
        stream.run(watched())
    assert lines(stream.spark.read.parquet(str(stream.folder / "one" / "out"))) == before, "nothing wrong was written"


def test_segments_that_nobody_needs_are_removed(stream: Stream, spark: SparkSession) -> None:
    stream.write()
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "1")
    try:
        stream.run(tw.spark.watch(stream.read(), QUERIES, tw.last(50), by="g", segments=stream.segments))
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    folder = stream.folder / "segments"
    left = {path.name for path in folder.glob("*.seg")}
    notes = [json.loads(path.read_text()) for path in folder.glob("needs-*.json")]
    assert len(notes) == 4, "the last two versions of each bucket"
    assert left == {name for note in notes for name in note["names"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"queries": tw.TopK(k=1, score=tw.linear(z=1.0))},
            "queries: column 'z' is missing; columns are id, ts, g, x, y",
        ),
        ({"queries": tw.TopK(k=1, score=tw.linear(g=1.0))}, "queries: column 'g' is string; expected numbers"),
        ({"id": "idd"}, "id: column 'idd' is missing; columns are id, ts, g, x, y; did you mean 'id'"),
        ({"by": "gg"}, "by: column 'gg' is missing"),
        ({"time": "g", "window": tw.last("1 minute")}, "time: column 'g' is string; expected timestamps or numbers"),
        ({"emit": "all"}, "emit: expected 'changes', 'answers' or 'first', got 'all'"),
        ({"lateness": "1 second", "time": "ts"}, "lateness: on Spark rows wait for the watermark"),
        (
            {"max_lag": "1 second", "time": "ts"},
            "max_lag: on Spark a micro-batch that is tried again must give the same",
        ),
        ({"window": 5}, "window: expected last"),
        ({"algorithm": "sma", "window": tw.latest()}, "algorithm: 'sma' cannot serve"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    stream: Stream, change: dict[str, Any], message: str
) -> None:
    stream.write(0, 1)
    options: dict[str, Any] = {"queries": QUERIES, "window": tw.last(10), **change}
    with pytest.raises(tw.TopwatchError) as raised:
        tw.spark.watch(stream.read(), **options)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "several"}, "id: column 'several' is array<bigint>; expected single values"),
        ({"by": "pairs"}, "by: column 'pairs' is map<bigint,bigint>; expected single values"),
        ({"by": ["k", "both"]}, "by: column 'both' is struct<a:bigint,b:bigint>; expected single values"),
        ({"order": "several"}, "order: column 'several' is array<bigint>; expected single values"),
        ({"time": "exact"}, "time: column 'exact' is decimal(10,2); expected timestamps or numbers"),
        ({"segments": "s3a://bucket/segments"}, "segments: Arrow cannot open s3a://bucket/segments: Unrecognized"),
        ({"quarantine": "s3a://bucket/bad"}, "quarantine: Arrow cannot open s3a://bucket/bad: Unrecognized"),
    ],
    ids=str,
)
def test_what_executors_could_not_do_is_refused(spark: SparkSession, change: dict[str, Any], message: str) -> None:
    frame = (
        spark.readStream.format("rate")
        .load()
        .selectExpr(
            "value as id",
            "value as k",
            "cast(value as double) as x",
            "array(value) as several",
            "map(value, value) as pairs",
            "struct(value as a, value as b) as both",
            "cast(value as decimal(10, 2)) as exact",
        )
    )
    with pytest.raises(tw.TopwatchError) as raised:
        tw.spark.watch(frame, tw.TopK(k=1, score=tw.linear(x=1.0)), tw.last(10), **change)
    assert str(raised.value).startswith(message)


def test_a_default_folder_that_cannot_be_opened_is_not_used(stream: Stream, spark: SparkSession) -> None:
    stream.write()
    spark.conf.set("spark.sql.streaming.checkpointLocation", "s3a://bucket/checkpoints")
    try:
        plan = tw.spark.explain(stream.read(), QUERIES, window=tw.last(100))
        assert "in Spark's state store – Arrow cannot open s3a://bucket/checkpoints/topwatch-segments: " in plan
        watched = tw.spark.watch(stream.read(files=2), QUERIES, window=tw.last(100))
        assert stream.run(watched) == wanted(stream.table, window=tw.last(100))
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_a_static_frame_has_no_quarantine(stream: Stream) -> None:
    stream.write(0, 1)
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    with pytest.raises(tw.QueryError, match="quarantine: rows of a stream are kept there"):
        tw.spark.watch(static, QUERIES, tw.last(10), quarantine="bad")


def test_times_that_cannot_be_used(stream: Stream) -> None:
    """One of them does not stop the stream; it is in the quarantine with the reason."""
    seconds = np.arange(FILES * ROWS, dtype=np.float64)
    times = seconds.copy()
    times[[7, 500]] = np.nan, np.inf
    stream.table = stream.table.drop_columns(["ts"]).append_column("t", pa.array(times))
    stream.write()
    bad = str(stream.folder / "bad")
    given: dict[str, Any] = {"window": tw.last("3 minutes"), "time": "t"}
    watched = tw.spark.watch(stream.read(), QUERIES, segments=stream.segments, quarantine=bad, **given)
    good = stream.table.filter(pc.is_finite(stream.table.column("t")))
    assert stream.run(watched) == wanted(good, **given)
    assert lines(stream.spark.read.parquet(bad).select("reason")) == 2 * [("time is not finite",)]
    static = stream.spark.read.parquet(str(stream.folder / "in"))
    assert lines(tw.spark.watch(static, QUERIES, **given)) == wanted(good, **given)


def test_explain_takes_what_watch_takes() -> None:
    assert inspect.signature(tw.spark.explain).parameters == inspect.signature(tw.spark.watch).parameters
